/* SPDX-License-Identifier: MIT */
/* tree: every call, every error, and what each read mode promises, on machines of our making. */
#define _GNU_SOURCE
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pcpu_stat/pcpu_stat.h>

#include "cpu/cpu.h"
#include "os_fake.h"
#include "tree/tree.h"

#define NR_STATS 4

static const struct pcpu_stat_desc stats[NR_STATS] = {
	{"reads", NULL, "How often.", PCPU_STAT_COUNTER},
	{"read", "bytes", NULL, PCPU_STAT_COUNTER},
	{"open", "", NULL, PCPU_STAT_GAUGE},
	{"_x9", NULL, NULL, PCPU_STAT_GAUGE},
};

static struct pcpu_tree_attr attributes(void)
{
	return (struct pcpu_tree_attr){
		.size = sizeof(struct pcpu_tree_attr), .stats = stats, .nr_stats = NR_STATS};
}

static struct pcpu_tree *tree;
static struct pcpu_node *root;

static void make_tree(const struct pcpu_tree_attr *attr)
{
	expect_eq(pcpu_tree_create(&tree, attr), 0);
	root = pcpu_tree_root(tree);
}

/* A tree on four CPUs. */
static void four_cpus(void)
{
	struct pcpu_tree_attr attr = attributes();

	fake_machine("0-3", "0-3");
	fake_start();
	fake_cpu(0);
	make_tree(&attr);
}

static struct pcpu_node *node(struct pcpu_node *parent, const char *name)
{
	struct pcpu_node *n = NULL;

	expect_eq(pcpu_node_create(&n, parent, name), 0);
	return n;
}

static int64_t exact(struct pcpu_node *n, uint32_t stat)
{
	return pcpu_node_read(n, stat, PCPU_READ_EXACT);
}

/* ---- making ---- */

Test(tree, create_and_destroy)
{
	struct pcpu_tree_attr attr = attributes();

	make_tree(&attr);
	expect(pcpu_node_parent(root) == NULL);
	expect(strcmp(pcpu_node_name(root), "") == 0);
	expect_eq(pcpu_node_destroy(root), -EPERM);
	pcpu_tree_destroy(tree);
	pcpu_tree_destroy(NULL);
	make_tree(&attr);
	pcpu_tree_close(tree);
}

#define REFUSED(wanted, change)                                                                              \
	do {                                                                                                 \
		struct pcpu_tree_attr attr = attributes();                                                   \
		struct pcpu_tree *none = (struct pcpu_tree *)&attr;                                          \
		change;                                                                                      \
		errno = 77;                                                                                  \
		expect_eq(pcpu_tree_create(&none, &attr), wanted);                                           \
		expect(none == (struct pcpu_tree *)&attr); /* out-parameters are untouched */                \
		expect_eq(errno, 77);                                                                        \
	} while (0)

Test(tree, attributes_refused)
{
	struct pcpu_tree *out;
	struct pcpu_tree_attr good = attributes();
	struct {
		struct pcpu_tree_attr attr;
		char more[8];
	} larger = {.attr = attributes()};

	REFUSED(-EINVAL, attr.size = 0);
	REFUSED(-EINVAL, attr.size--);
	REFUSED(-EINVAL, attr.stats = NULL);
	REFUSED(-EINVAL, attr.nr_stats = 0);
	REFUSED(-EINVAL, attr.nr_stats = PCPU_STATS_MAX + 1);
	REFUSED(-EINVAL, attr.batch = (uint32_t)INT32_MAX + 1);
	REFUSED(-EINVAL, attr.name = "");
	REFUSED(-EINVAL, attr.name = "9a");
	REFUSED(-EINVAL, attr.name = "a-b");
	expect_eq(pcpu_tree_create(&out, NULL), -EINVAL);
	expect_eq(pcpu_tree_create(NULL, &good), -EINVAL);
	larger.attr.size = sizeof(larger);
	expect_eq(pcpu_tree_create(&out, &larger.attr), 0);
	pcpu_tree_destroy(out);
	larger.more[7] = 1;
	expect_eq(pcpu_tree_create(&out, &larger.attr), -E2BIG);
}

static int with_stats(const struct pcpu_stat_desc *two, uint32_t n)
{
	struct pcpu_tree_attr attr = attributes();
	struct pcpu_tree *out;
	int r;

	attr.stats = two;
	attr.nr_stats = n;
	r = pcpu_tree_create(&out, &attr);
	if (r == 0)
		pcpu_tree_destroy(out);
	return r;
}

#define TWO(name0, unit0, kind0, name1, unit1, kind1)                                                        \
	with_stats((struct pcpu_stat_desc[]){{name0, unit0, NULL, PCPU_STAT_##kind0},                        \
					     {name1, unit1, NULL, PCPU_STAT_##kind1}},                       \
		   2)

Test(tree, schema)
{
	char longest[65];

	memset(longest, 'a', sizeof(longest));
	longest[63] = 0;
	expect_eq(TWO(longest, longest, GAUGE, "b", NULL, GAUGE), 0);
	longest[63] = 'a';
	longest[64] = 0;
	expect_eq(TWO(longest, NULL, GAUGE, "b", NULL, GAUGE), -EINVAL);
	expect_eq(TWO("b", longest, GAUGE, "c", NULL, GAUGE), -EINVAL);
	expect_eq(TWO("", NULL, GAUGE, "b", NULL, GAUGE), -EINVAL);
	expect_eq(TWO(NULL, NULL, GAUGE, "b", NULL, GAUGE), -EINVAL);
	expect_eq(TWO("1a", NULL, GAUGE, "b", NULL, GAUGE), -EINVAL);
	expect_eq(TWO("a b", NULL, GAUGE, "b", NULL, GAUGE), -EINVAL);
	expect_eq(TWO("\303\244", NULL, GAUGE, "b", NULL, GAUGE), -EINVAL);
	expect_eq(TWO("a", "1", GAUGE, "b", NULL, GAUGE), -EINVAL);
	/* Names are unique whatever the unit; and what an exporter would call alike. */
	expect_eq(TWO("a", NULL, GAUGE, "a", NULL, GAUGE), -EINVAL);
	expect_eq(TWO("a", "s", GAUGE, "a", "bytes", GAUGE), -EINVAL);
	expect_eq(TWO("a", "b", GAUGE, "a_b", NULL, GAUGE), -EINVAL);
	expect_eq(TWO("a", NULL, COUNTER, "a_total", NULL, GAUGE), -EINVAL);
	expect_eq(TWO("a", NULL, GAUGE, "a_total", NULL, GAUGE), 0);
	expect_eq(TWO("a", NULL, COUNTER, "A", NULL, COUNTER), 0);
	expect_eq(with_stats((struct pcpu_stat_desc[]){{"a", NULL, NULL, (enum pcpu_stat_kind)2}}, 1),
		  -EINVAL);
}

Test(tree, as_many_statistics_as_allowed)
{
	static struct pcpu_stat_desc many[PCPU_STATS_MAX];
	static char names[PCPU_STATS_MAX][8];
	static int64_t values[PCPU_STATS_MAX];
	struct pcpu_tree_attr attr = attributes();
	struct pcpu_node *n[20];

	fake_machine("0-3", "0-3");
	fake_start();
	for (int i = 0; i < PCPU_STATS_MAX; i++) {
		snprintf(names[i], sizeof(names[i]), "s%d", i);
		many[i].name = names[i];
	}
	attr.stats = many;
	attr.nr_stats = PCPU_STATS_MAX;
	make_tree(&attr);
	for (int i = 0; i < 20; i++) {
		char name[8];

		snprintf(name, sizeof(name), "n%d", i);
		n[i] = node(root, name);
	}
	for (int i = 0; i < 20; i++)
		for (int s = 0; s < PCPU_STATS_MAX; s++) {
			fake_cpu(s % 5 - 1);
			pcpu_node_add(n[i], (uint32_t)s, s + 10000 * i);
		}
	for (int i = 0; i < 20; i++)
		for (int s = 0; s < PCPU_STATS_MAX; s++)
			expect_eq(exact(n[i], (uint32_t)s), s + 10000 * i);
	expect_eq(pcpu_node_snapshot(root, values, PCPU_STATS_MAX, PCPU_READ_EXACT), 0);
	for (int s = 0; s < PCPU_STATS_MAX; s++)
		expect_eq(values[s], 20 * s + 10000 * 190);
	pcpu_tree_destroy(tree);
}

Test(tree, open_finds_nothing_in_a_private_region)
{
	struct pcpu_region *region;
	struct pcpu_tree *out = (struct pcpu_tree *)&region;

	expect_eq(pcpu_region_create(&region, NULL), 0);
	expect_eq(pcpu_tree_open(&out, region, "tree"), -ENOENT);
	expect(out == (struct pcpu_tree *)&region);
	expect_eq(pcpu_tree_open(&out, NULL, "tree"), -EINVAL);
	expect_eq(pcpu_tree_open(&out, region, NULL), -EINVAL);
	pcpu_region_close(region);
}

Test(tree, in_a_region_of_the_caller)
{
	struct pcpu_region_attr small = {.size = sizeof(small), .bytes_per_cpu = 4096};
	struct pcpu_tree_attr attr = attributes();
	struct pcpu_region *region;
	struct pcpu_node *n[200];
	unsigned made;
	char name[8];
	int r = 0;

	expect_eq(pcpu_region_create(&region, &small), 0);
	attr.region = region;
	make_tree(&attr);
	pcpu_region_close(region); /* lives until the tree is gone */
	for (made = 0; made < 200 && r == 0; made += r == 0) {
		snprintf(name, sizeof(name), "%u", made);
		r = pcpu_node_create(&n[made], root, name);
	}
	expect_eq(r, -ENOSPC);
	expect(made > 10);
	for (unsigned i = 0; i < made; i++)
		pcpu_node_add(n[i], 3, 1);
	expect_eq(exact(root, 3), made);
	/* What is given back can be had again. */
	expect_eq(pcpu_node_destroy(n[5]), 0);
	n[5] = node(root, "again");
	expect_eq(exact(n[5], 3), 0);
	pcpu_tree_destroy(tree);
}

Test(tree, slots_given_back_to_a_region_hold_nothing)
{
	struct pcpu_tree_attr attr = attributes();
	struct pcpu_region *region;

	fake_machine("0-3", "0-3");
	fake_start();
	expect_eq(pcpu_region_create(&region, NULL), 0);
	attr.region = region;
	for (int i = 0; i < 3; i++) {
		make_tree(&attr);
		expect_eq(exact(root, 1), 0);
		for (int cpu = -1; cpu < 4; cpu++) {
			fake_cpu(cpu);
			pcpu_node_add(root, 1, 100 + i);
		}
		if (i % 2)
			expect_eq(exact(root, 1), 5 * (100 + i));
		pcpu_tree_destroy(tree);
	}
	pcpu_region_close(region);
}

/* ---- nodes ---- */

Test(tree, names)
{
	static const char *const bad[] = {"",
					  "/",
					  "a/b",
					  "\200",
					  "\303",
					  "\300\257",
					  "\355\240\200",
					  "\364\220\200\200",
					  "\340\200\200",
					  "a\377"};
	static const char *const good[] = {
		"a", ".", "..", " ", "\303\244", "\342\202\254", "\360\237\230\200"};
	char longest[65];
	struct pcpu_node *n = NULL;

	four_cpus();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		expect_eq(pcpu_node_create(&n, root, bad[i]), -EINVAL);
	expect_eq(pcpu_node_create(&n, root, NULL), -EINVAL);
	expect_eq(pcpu_node_create(&n, NULL, "a"), -EINVAL);
	expect_eq(pcpu_node_create(NULL, root, "a"), -EINVAL);
	memset(longest, 'n', sizeof(longest));
	longest[64] = 0;
	expect_eq(pcpu_node_create(&n, root, longest), -EINVAL);
	expect(n == NULL);
	longest[63] = 0;
	n = node(root, longest);
	expect(strcmp(pcpu_node_name(n), longest) == 0);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct pcpu_node *found = NULL;

		n = node(root, good[i]);
		expect(pcpu_node_parent(n) == root);
		expect_eq(pcpu_node_create(&found, root, good[i]), -EEXIST);
		expect(found == NULL);
		expect_eq(pcpu_node_find(&found, tree, good[i]), 0);
		expect(found == n);
		pcpu_node_put(found);
	}
	/* Unique among siblings alone. */
	node(n, "a");
	pcpu_tree_destroy(tree);
}

Test(tree, find)
{
	struct pcpu_node *a, *b, *c, *found = NULL;
	char path[200];

	four_cpus();
	a = node(root, "a");
	b = node(a, "b");
	expect_eq(pcpu_node_create_owned(&c, b, "c"), 0);
	expect_eq(pcpu_node_find(&found, tree, ""), 0);
	expect(found == root);
	pcpu_node_put(found);
	expect_eq(pcpu_node_find(&found, tree, "a/b/c"), 0);
	expect(found == c);
	pcpu_node_put(found);
	found = NULL;
	expect_eq(pcpu_node_find(&found, tree, "/a"), -EINVAL);
	expect_eq(pcpu_node_find(&found, tree, "a/"), -EINVAL);
	expect_eq(pcpu_node_find(&found, tree, "/"), -EINVAL);
	expect_eq(pcpu_node_find(&found, tree, "a//b"), -EINVAL);
	expect_eq(pcpu_node_find(&found, tree, "x//b"), -EINVAL);
	expect_eq(pcpu_node_find(&found, tree, "a/\377"), -EINVAL);
	memset(path, 'p', 64);
	path[64] = 0;
	expect_eq(pcpu_node_find(&found, tree, path), -EINVAL);
	path[63] = 0;
	expect_eq(pcpu_node_find(&found, tree, path), -ENOENT);
	expect_eq(pcpu_node_find(&found, tree, "b"), -ENOENT);
	expect_eq(pcpu_node_find(&found, tree, "a/b/c/d"), -ENOENT);
	expect_eq(pcpu_node_find(&found, tree, NULL), -EINVAL);
	expect_eq(pcpu_node_find(&found, NULL, ""), -EINVAL);
	expect_eq(pcpu_node_find(NULL, tree, ""), -EINVAL);
	expect(found == NULL);
	pcpu_node_put(NULL);
	pcpu_tree_destroy(tree);
}

Test(tree, max_nodes)
{
	struct pcpu_tree_attr attr = attributes();
	struct pcpu_node *a, *b, *c = NULL;

	attr.max_nodes = 3; /* the root counts */
	make_tree(&attr);
	a = node(root, "a");
	b = node(a, "b");
	expect_eq(pcpu_node_create(&c, b, "c"), -ENOSPC);
	expect(c == NULL);
	expect_eq(pcpu_node_destroy(b), 0);
	c = node(a, "c");
	expect_eq(pcpu_node_create(&b, root, "d"), -ENOSPC);
	pcpu_tree_destroy(tree);
}

Test(tree, depth_256)
{
	struct pcpu_node *n[257];

	four_cpus();
	n[0] = root;
	for (int i = 1; i <= 256; i++) {
		n[i] = node(n[i - 1], "below");
		fake_cpu(i % 4);
		pcpu_node_add(n[i], 0, i);
	}
	expect_eq(exact(n[100], 0), (100 + 256) * 157 / 2);
	expect_eq(exact(root, 0), 256 * 257 / 2);
	pcpu_node_add(n[256], 0, 1);
	expect_eq(exact(n[255], 0), 255 + 256 + 1);
	expect_eq(exact(root, 0), 256 * 257 / 2 + 1);
	for (int i = 256; i > 0; i--)
		expect_eq(pcpu_node_destroy(n[i]), 0);
	expect_eq(exact(root, 0), 256 * 257 / 2 + 1);
	pcpu_tree_destroy(tree);
}

/* ---- destroying ---- */

Test(tree, destroy_errors)
{
	struct pcpu_node *a, *b, *again, *never = NULL;

	four_cpus();
	a = node(root, "a");
	b = node(a, "b");
	expect_eq(pcpu_node_destroy(a), -EBUSY);
	expect_eq(pcpu_node_destroy(NULL), -EINVAL);
	expect_eq(pcpu_node_find(&again, tree, "a/b"), 0);
	errno = 77;
	expect_eq(pcpu_node_destroy(b), 0);
	expect_eq(errno, 77);
	expect_eq(pcpu_node_destroy(again), -ENOENT); /* and the reference stays ours */
	expect_eq(pcpu_node_create(&never, again, "c"), -ENOENT);
	expect(strcmp(pcpu_node_name(again), "b") == 0);
	expect(pcpu_node_parent(again) == a);
	expect_eq(pcpu_node_find(&never, tree, "a/b"), -ENOENT);
	/* A destroyed node that is still referenced keeps its parent from nothing. */
	expect_eq(pcpu_node_destroy(a), 0);
	pcpu_node_add(again, 0, 7);
	expect_eq(exact(root, 0), 7);
	errno = 77;
	pcpu_node_put(again);
	expect_eq(errno, 77);
	expect_eq(exact(root, 0), 7);
	pcpu_tree_destroy(tree);
}

/* I1: issue's first case. */
Test(tree, destroyed_child_leaves_its_counts)
{
	struct pcpu_node *a, *b;

	four_cpus();
	a = node(root, "a");
	b = node(a, "b");
	pcpu_node_add(b, 0, 1234);
	expect_eq(pcpu_node_destroy(b), 0);
	expect_eq(pcpu_node_read(a, 0, PCPU_READ_CACHED), 1234); /* destroy flushed it */
	expect_eq(exact(root, 0), 1234);
	b = node(a, "b");
	expect_eq(exact(b, 0), 0);
	expect_eq(pcpu_node_read_local(b, 0, PCPU_READ_EXACT), 0);
	expect_eq(exact(root, 0), 1234);
	/* What destroyed children left is in the subtree value alone. */
	expect_eq(pcpu_node_read_local(a, 0, PCPU_READ_EXACT), 0);
	pcpu_node_add(b, 0, 1);
	expect_eq(exact(root, 0), 1235);
	expect_eq(exact(b, 0), 1);
	pcpu_tree_destroy(tree);
}

/* Slots and nodes are used again without a trace, whatever state they were in. */
Test(tree, used_again_without_a_trace)
{
	int64_t sum = 0;

	four_cpus();
	for (int i = 0; i < 100; i++) {
		struct pcpu_node *a = node(root, "a"), *b = node(a, "b");

		for (int cpu = -1; cpu < i % 5; cpu++) {
			fake_cpu(cpu);
			expect_eq(exact(b, 1), 3 * (cpu + 1));
			pcpu_node_add(b, 1, 3);
			pcpu_node_add(a, 2, i);
			sum += 3;
			if (i % 3)
				expect_eq(exact(a, 1), 3 * (cpu + 2));
			if (i % 2)
				expect_eq(exact(root, 1), sum);
		}
		expect_eq(pcpu_node_destroy(b), 0);
		expect_eq(pcpu_node_destroy(a), 0);
		expect_eq(exact(root, 1), sum);
	}
	expect_eq(tree->nr_nodes, 3);
	pcpu_tree_destroy(tree);
}

/* A straggler with a reference of its own, before, between and after. */
Test(tree, adds_to_a_destroyed_node_go_to_its_parent)
{
	struct pcpu_node *a, *b, *held;
	struct pcpu_delta deltas[2] = {{0, 10}, {1, 20}};

	four_cpus();
	a = node(root, "a");
	b = node(a, "b");
	expect_eq(pcpu_node_find(&held, tree, "a/b"), 0);
	pcpu_node_add(held, 0, 1);
	expect_eq(pcpu_node_destroy(b), 0);
	pcpu_node_add(held, 0, 2);
	pcpu_node_add_many(held, deltas, 2);
	fake_cpu(-1);
	pcpu_node_add(held, 0, 4);
	expect_eq(exact(a, 0), 17);
	expect_eq(pcpu_node_read_local(a, 0, PCPU_READ_EXACT), 16);
	expect_eq(exact(a, 1), 20);
	expect_eq(exact(held, 0), 1);
	b = node(a, "b"); /* the name is free */
	pcpu_node_add(held, 0, 8);
	expect_eq(exact(b, 0), 0);
	pcpu_node_put(held);
	expect_eq(exact(root, 0), 25);
	pcpu_tree_destroy(tree);
}

/* ---- adding ---- */

Test(tree, an_add_counts_in_the_node_and_all_above)
{
	struct pcpu_node *a, *b, *c;

	four_cpus();
	a = node(root, "a");
	b = node(a, "b");
	c = node(root, "c");
	for (int cpu = -2; cpu < 6; cpu++) { /* unregistered, and CPUs never heard of */
		fake_cpu(cpu);
		pcpu_node_add(b, 2, 5);
		pcpu_node_add(c, 2, -1);
	}
	expect_eq(exact(root, 2), 32);
	expect_eq(exact(a, 2), 40);
	expect_eq(exact(b, 2), 40);
	expect_eq(exact(c, 2), -8);
	expect_eq(pcpu_node_read_local(a, 2, PCPU_READ_EXACT), 0);
	expect_eq(pcpu_node_read_local(b, 2, PCPU_READ_EXACT), 40);
	expect_eq(pcpu_node_read_local(root, 2, PCPU_READ_EXACT), 0);
	expect_eq(exact(root, 0), 0);
	pcpu_tree_destroy(tree);
}

Test(tree, add_many)
{
	struct pcpu_delta deltas[] = {{0, 1}, {3, 2},		{1, 4},	 {NR_STATS, 99},
				      {0, 8}, {UINT32_MAX, 99}, {2, -16}};
	struct pcpu_info info = {.size = sizeof(info)};
	uint64_t bad;

	four_cpus();
	pcpu_get_info(&info);
	bad = info.bad_stats;
	for (int cpu = -1; cpu < 5; cpu++) {
		fake_cpu(cpu);
		pcpu_node_add_many(root, deltas, 7);
		pcpu_node_add_many(root, deltas + 3, 1);
		pcpu_node_add_many(root, NULL, 0);
	}
	expect_eq(exact(root, 0), 54);
	expect_eq(exact(root, 1), 24);
	expect_eq(exact(root, 2), -96);
	expect_eq(exact(root, 3), 12);
	pcpu_get_info(&info);
	expect_eq(info.bad_stats - bad, 18);
	pcpu_tree_destroy(tree);
}

Test(tree, statistic_out_of_range)
{
	struct pcpu_info info = {.size = sizeof(info)};
	struct pcpu_node *a, *b;
	int64_t values[NR_STATS];
	uint64_t bad;

	four_cpus();
	a = node(root, "a");
	b = node(root, "b"); /* its slot lies behind */
	pcpu_get_info(&info);
	bad = info.bad_stats;
	for (int cpu = -1; cpu < 4; cpu++) {
		fake_cpu(cpu);
		for (uint32_t s = NR_STATS; s < NR_STATS + 10; s++)
			pcpu_node_add(a, s, 1000);
		pcpu_node_add(a, UINT32_MAX, 1);
	}
	pcpu_get_info(&info);
	expect_eq(info.bad_stats - bad, 55);
	expect_eq(exact(a, NR_STATS), 0);
	expect_eq(pcpu_node_read_local(a, UINT32_MAX, PCPU_READ_EXACT), 0);
	expect_eq(pcpu_node_read_within(a, NR_STATS, 1), 0);
	for (uint32_t s = 0; s < NR_STATS; s++) {
		expect_eq(exact(a, s), 0);
		expect_eq(exact(b, s), 0);
	}
	expect_eq(pcpu_node_snapshot(b, values, NR_STATS, PCPU_READ_EXACT), 0);
	expect_eq(values[0] | values[1] | values[2] | values[3], 0);
	pcpu_tree_destroy(tree);
}

/* Two's complement, wrapping: differences modulo 2^64. */
Test(tree, values_wrap)
{
	struct pcpu_node *a;

	four_cpus();
	a = node(root, "a");
	for (int cpu = -1; cpu < 3; cpu++) {
		fake_cpu(cpu);
		pcpu_node_add(a, 0, INT64_MAX);
		if (cpu == 0)
			expect_eq(exact(a, 0), -2);
	}
	expect_eq(exact(root, 0), -4);
	pcpu_node_add(a, 0, INT64_MIN);
	expect_eq(exact(root, 0), INT64_MAX - 3);
	pcpu_node_add(a, 0, INT64_MIN);
	expect_eq(exact(root, 0), -4);
	pcpu_tree_destroy(tree);
}

/* The issue's: +4096 on one CPU and -4096 on another, then -1. */
Test(tree, negative_is_negative)
{
	struct pcpu_node *a;
	int64_t values[1];

	four_cpus();
	a = node(root, "a");
	fake_cpu(1);
	pcpu_node_add(a, 2, 4096);
	fake_cpu(2);
	pcpu_node_add(a, 2, -4096);
	expect_eq(exact(root, 2), 0);
	pcpu_node_add(a, 2, -1);
	expect_eq(pcpu_node_read(a, 2, PCPU_READ_BOUNDED), 0); /* 1 is below the threshold */
	expect_eq(exact(a, 2), -1);
	expect_eq(exact(root, 2), -1);
	expect_eq(pcpu_node_read_local(a, 2, PCPU_READ_EXACT), -1);
	expect_eq(pcpu_node_read_within(root, 2, 0), -1);
	pcpu_node_add(a, 0, -1);
	expect_eq(pcpu_node_snapshot(root, values, 1, PCPU_READ_EXACT), 0);
	expect_eq(values[0], -1);
	pcpu_tree_destroy(tree);
}

/* The issue's: only CPUs 0 and 3 of four. */
Test(tree, holes)
{
	struct pcpu_tree_attr attr = attributes();

	fake_machine("0,3", "0,3");
	fake_start();
	make_tree(&attr);
	fake_cpu(0);
	pcpu_node_add(root, 0, 10);
	fake_cpu(3);
	pcpu_node_add(root, 0, 20);
	expect_eq(exact(root, 0), 30);
	expect_eq(tree->visits, 2);
	pcpu_tree_destroy(tree);
}

/* Bitmaps of several words, the last slot, and the direct one behind it, which may begin a word. */
Test(tree, machines_of_many_cpus)
{
	static const int machines[] = {1, 2, 62, 63, 64, 65, 127, 128, 1000, 8191, 8192};

	for (size_t m = 0; m < sizeof(machines) / sizeof(machines[0]); m++) {
		struct pcpu_tree_attr attr = attributes();
		int last = machines[m] - 1, cpus[] = {0, last / 2, last, last + 1, -1};
		struct pcpu_node *a;
		char list[16];

		snprintf(list, sizeof(list), "0-%d", last);
		fake_machine(list, list);
		fake_start();
		attr.max_nodes = 100;
		make_tree(&attr);
		a = node(root, "a");
		for (int round = 1; round < 4; round++) {
			for (int i = 0; i < 5; i++) {
				fake_cpu(cpus[i]);
				pcpu_node_add(a, 1, 1);
				pcpu_node_add(root, 1, 10);
			}
			expect_eq(exact(a, 1), 5 * round);
			expect_eq(exact(root, 1), 55 * round);
		}
		expect_eq(pcpu_node_destroy(a), 0);
		a = node(root, "b");
		expect_eq(exact(a, 1), 0);
		expect_eq(pcpu_node_threshold(a), 64 * (uint64_t)(last + 1));
		pcpu_tree_destroy(tree);
	}
}

/* ---- reading ---- */

Test(tree, read_modes)
{
	struct pcpu_node *a;
	int64_t t;

	four_cpus();
	t = (int64_t)pcpu_node_threshold(root);
	expect_eq(t, 64 * 4);
	a = node(root, "a");
	pcpu_node_add(a, 0, t);
	expect_eq(pcpu_node_read(root, 0, PCPU_READ_CACHED), 0);
	expect_eq(pcpu_node_read(root, 0, PCPU_READ_BOUNDED), 0);
	pcpu_node_add(root, 1, -1); /* over all statistics together, by magnitude */
	expect_eq(pcpu_node_read(a, 0, PCPU_READ_BOUNDED), 0);
	expect_eq(pcpu_node_read(root, 0, PCPU_READ_BOUNDED), t);
	expect_eq(pcpu_node_read(a, 0, PCPU_READ_CACHED), t);
	pcpu_node_add(a, 0, 1);
	expect_eq(pcpu_node_read(root, 0, PCPU_READ_CACHED), t);
	expect_eq(pcpu_node_read_local(a, 0, PCPU_READ_CACHED), t);
	expect_eq(exact(root, 0), t + 1);
	pcpu_node_add(a, 0, 1);
	expect_eq(pcpu_node_flush(root), 0);
	expect_eq(pcpu_node_read(a, 0, PCPU_READ_CACHED), t + 2);
	pcpu_node_add(a, 0, 1);
	expect_eq(pcpu_node_read_local(a, 0, PCPU_READ_EXACT), t + 3);
	pcpu_tree_destroy(tree);
}

/* What a flush further down left is missing above as well. */
Test(tree, bounded_counts_what_waits_on_the_way_up)
{
	struct pcpu_tree_attr attr = attributes();
	struct pcpu_node *a, *b;

	fake_machine("0-3", "0-3");
	fake_start();
	fake_cpu(0);
	attr.batch = 1;
	make_tree(&attr);
	a = node(root, "a");
	b = node(a, "b");
	pcpu_node_add(b, 0, 3);
	expect_eq(exact(b, 0), 3);
	fake_cpu(1);
	pcpu_node_add(b, 1, -1);
	expect_eq(pcpu_node_read(root, 0, PCPU_READ_BOUNDED), 0); /* 4 is the threshold */
	expect_eq(exact(b, 1), -1);
	expect_eq(pcpu_node_read(root, 0, PCPU_READ_BOUNDED), 0);
	pcpu_node_add(root, 2, 1);
	expect_eq(pcpu_node_read(root, 0, PCPU_READ_BOUNDED), 3);
	pcpu_tree_destroy(tree);
}

/* Magnitudes of 2^63 each must not add up to little. */
Test(tree, bounded_does_not_wrap)
{
	four_cpus();
	pcpu_node_add(root, 0, INT64_MIN);
	pcpu_node_add(root, 1, INT64_MIN);
	expect_eq(pcpu_node_read(root, 0, PCPU_READ_BOUNDED), INT64_MIN);
	pcpu_node_add(root, 2, INT64_MIN);
	fake_cpu(1);
	pcpu_node_add(root, 2, INT64_MIN);
	pcpu_node_add(root, 2, 5);
	expect_eq(pcpu_node_read(root, 2, PCPU_READ_BOUNDED), 5);
	pcpu_tree_destroy(tree);
}

/* Bar of the issue: a +1/-1 loop causes no flush. */
Test(tree, up_and_down_causes_no_flush)
{
	struct pcpu_node *a;
	uint64_t begun;

	four_cpus();
	a = node(root, "a");
	begun = tree->begun;
	for (int i = 0; i < 100000; i++) {
		pcpu_node_add(a, 0, i % 2 ? -1 : 1);
		pcpu_node_read(root, 0, PCPU_READ_BOUNDED);
	}
	expect_eq(tree->begun - begun, 0);
	pcpu_tree_destroy(tree);
}

/* A look does not hold the lock for longer than a flush would: it turns into one. */
Test(tree, bounded_look_is_bounded)
{
	struct pcpu_node *n[3000];
	uint64_t begun;
	char name[8];

	four_cpus();
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "%d", i);
		n[i] = node(root, name);
		pcpu_node_add(n[i], 0, 1);
		pcpu_node_add(n[i], 0, -1);
	}
	begun = tree->begun;
	expect_eq(pcpu_node_read(root, 0, PCPU_READ_BOUNDED), 0);
	expect_eq(tree->begun - begun, 1);
	expect_eq(pcpu_node_read(root, 0, PCPU_READ_BOUNDED), 0);
	expect_eq(tree->begun - begun, 1);
	pcpu_tree_destroy(tree);
}

/* The issue's: two readers of cumulative values take nothing from each other. */
Test(tree, two_readers)
{
	struct pcpu_node *a, *one, *other;

	four_cpus();
	a = node(root, "a");
	expect_eq(pcpu_node_find(&one, tree, "a"), 0);
	expect_eq(pcpu_node_find(&other, tree, "a"), 0);
	pcpu_node_add(a, 0, 10);
	expect_eq(exact(one, 0), 10);
	expect_eq(exact(other, 0), 10);
	pcpu_node_add(a, 0, 3);
	expect_eq(exact(other, 0), 13);
	expect_eq(exact(one, 0), 13);
	pcpu_node_put(one);
	pcpu_node_put(other);
	pcpu_tree_destroy(tree);
}

Test(tree, read_within)
{
	struct pcpu_node *a, *b;
	const uint64_t hour = 3600000000000u;

	four_cpus();
	a = node(root, "a");
	b = node(a, "b");
	pcpu_node_add(b, 0, 1);
	expect_eq(pcpu_node_read_within(b, 0, hour), 1); /* never flushed: flushed now */
	pcpu_node_add(b, 0, 1);
	expect_eq(pcpu_node_read_within(b, 0, hour), 1);
	expect_eq(pcpu_node_read_within(a, 0, hour), 2); /* the flush of b did not cover a */
	pcpu_node_add(b, 0, 1);
	expect_eq(pcpu_node_read_within(b, 0, hour), 2); /* that of a did cover b */
	expect_eq(pcpu_node_read_within(b, 0, UINT64_MAX), 2);
	expect_eq(pcpu_node_read_within(b, 0, 0), 3);
	pcpu_node_add(b, 0, 1);
	expect_eq(pcpu_node_read_within(b, 0, 1), 4); /* a nanosecond is over by now */
	pcpu_tree_destroy(tree);
}

Test(tree, snapshots)
{
	struct pcpu_node *a;
	int64_t values[NR_STATS + 1] = {7, 7, 7, 7, 7};

	four_cpus();
	a = node(root, "a");
	for (uint32_t s = 0; s < NR_STATS; s++) {
		pcpu_node_add(a, s, s + 1);
		pcpu_node_add(root, s, 10);
	}
	expect_eq(pcpu_node_snapshot(root, values, NR_STATS + 1, PCPU_READ_EXACT), -EINVAL);
	expect_eq(pcpu_node_snapshot_local(root, values, NR_STATS + 1, PCPU_READ_EXACT), -EINVAL);
	expect_eq(pcpu_node_snapshot(root, NULL, 1, PCPU_READ_EXACT), -EINVAL);
	expect_eq(values[0], 7);
	expect_eq(pcpu_node_snapshot(root, NULL, 0, PCPU_READ_CACHED), 0);
	expect_eq(pcpu_node_snapshot(root, values, 2, PCPU_READ_CACHED), 0);
	expect_eq(values[0] | values[1], 0);
	expect_eq(values[2], 7);
	expect_eq(pcpu_node_snapshot(root, values, NR_STATS, PCPU_READ_EXACT), 0);
	for (uint32_t s = 0; s < NR_STATS; s++)
		expect_eq(values[s], 11 + s);
	expect_eq(values[NR_STATS], 7);
	expect_eq(pcpu_node_snapshot_local(root, values, NR_STATS, PCPU_READ_EXACT), 0);
	expect_eq(values[3], 10);
	pcpu_node_add(a, 3, 1);
	expect_eq(pcpu_node_snapshot(a, values, NR_STATS, PCPU_READ_BOUNDED), 0);
	expect_eq(values[3], 4);
	pcpu_tree_destroy(tree);
}

/* ---- what a flush costs ---- */

/* I7, the issue's: 10 000 leaves, one touched. */
Test(tree, flush_visits_what_changed)
{
	struct pcpu_node *middle[100], *leaf[100][100];
	struct pcpu_node *hot;
	uint64_t visits;
	char name[8];

	four_cpus();
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "%d", i);
		middle[i] = node(root, name);
		for (int j = 0; j < 100; j++) {
			snprintf(name, sizeof(name), "%d", j);
			leaf[i][j] = node(middle[i], name);
			pcpu_node_add(leaf[i][j], 0, 1);
		}
	}
	expect_eq(exact(root, 0), 10000);
	hot = leaf[33][44];
	for (int cpu = -1; cpu < 4; cpu++) {
		fake_cpu(cpu);
		pcpu_node_add(hot, 0, 1);
		pcpu_node_add(hot, 1, 1);
	}
	visits = tree->visits;
	expect_eq(exact(root, 0), 10005);
	expect_eq(tree->visits - visits,
		  tree->atomic ? 4 : 5); /* atomic adds need no slot beside the real ones */
	visits = tree->visits;
	expect_eq(exact(root, 0), 10005);
	expect_eq(pcpu_node_flush(root), 0);
	expect_eq(tree->visits - visits, 0);
	/* One CPU, one pair; a flush further down leaves nothing to visit above. */
	pcpu_node_add(hot, 0, 1);
	expect_eq(exact(middle[33], 0), 106);
	expect_eq(tree->visits - visits, 1);
	expect_eq(exact(root, 0), 10006);
	expect_eq(tree->visits - visits, 1);
	expect(pcpu_node_is_clean(root));
	pcpu_tree_destroy(tree);
}

/* More than a hold of the lock takes: everything comes in, on whatever level the flush begins. */
Test(tree, flush_in_several_holds)
{
	static struct pcpu_node *middle[50], *leaf[50][120];
	char name[8];

	four_cpus();
	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "%d", i);
		middle[i] = node(root, name);
		for (int j = 0; j < 120; j++) {
			snprintf(name, sizeof(name), "%d", j);
			leaf[i][j] = node(middle[i], name);
		}
	}
	for (int round = 1; round < 4; round++) {
		for (int i = 0; i < 50; i++) {
			fake_cpu(i % 4);
			pcpu_node_add(middle[i], 0, 1);
			for (int j = 0; j < 120; j++)
				pcpu_node_add(leaf[i][j], 0, 1);
			pcpu_node_add(middle[i], 0, 1);
		}
		if (round == 2)
			expect_eq(exact(middle[7], 0), 122 * 2);
		expect_eq(exact(root, 0), 50 * 122 * round);
		expect(pcpu_node_is_clean(root));
		for (int i = 0; i < 50; i++)
			expect(pcpu_node_is_clean(middle[i]));
	}
	pcpu_tree_destroy(tree);
}

/*
 * I6: a clean EXACT read writes nothing. The memory of node, tree, slots and shadows is made read-only: a store,
 * an atomic operation or a lock would fault.
 */
Test(tree, clean_read_stores_nothing)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct pcpu_node *a, *nodes[3];
	int64_t values[NR_STATS] = {0};
	uintptr_t from, to;
	int64_t sum = 0;

	four_cpus();
	a = node(root, "a");
	pcpu_node_add(a, 0, 5);
	exact(root, 0);
	nodes[0] = a;
	nodes[1] = root;
	for (int i = 0; i < 3; i++) {
		from = i < 2 ? (uintptr_t)nodes[i] : (uintptr_t)tree;
		to = from + (i < 2 ? tree->node_bytes : sizeof(*tree));
		from = from / page * page;
		to = (to + page - 1) / page * page;
		expect_eq(mprotect((void *)from, to - from, PROT_READ), 0);
	}
	expect_eq(mprotect(tree->region, tree->region->map_bytes, PROT_READ), 0);
	for (int i = 0; i < 1000; i++) {
		sum += pcpu_node_read(root, 0, PCPU_READ_EXACT) + pcpu_node_read_local(a, 0, PCPU_READ_EXACT);
		sum += pcpu_node_read_within(root, 0, 0) + pcpu_node_read(a, 0, PCPU_READ_BOUNDED);
		pcpu_node_snapshot(root, values, NR_STATS, PCPU_READ_EXACT);
		sum += values[0] + pcpu_node_flush(root);
	}
	for (int i = 0; i < 3; i++) {
		from = (i < 2 ? (uintptr_t)nodes[i] : (uintptr_t)tree) / page * page;
		to = (i < 2 ? (uintptr_t)nodes[i] + tree->node_bytes : (uintptr_t)(tree + 1));
		to = (to + page - 1) / page * page;
		mprotect((void *)from, to - from, PROT_READ | PROT_WRITE);
	}
	mprotect(tree->region, tree->region->map_bytes, PROT_READ | PROT_WRITE);
	expect_eq(sum, 25000);
	pcpu_tree_destroy(tree);
}

/* I4: flushing and reading leave the slots alone. */
Test(tree, flush_writes_no_slot)
{
	struct pcpu_node *a;

	four_cpus();
	a = node(root, "a");
	for (int cpu = 0; cpu < 4; cpu++) {
		fake_cpu(cpu);
		pcpu_node_add(a, 0, 5);
	}
	expect_eq(mprotect(tree->region->cpu.base, 4 * tree->region->cpu.stride, PROT_READ), 0);
	expect_eq(exact(root, 0), 20);
	mprotect(tree->region->cpu.base, 4 * tree->region->cpu.stride, PROT_READ | PROT_WRITE);
	pcpu_tree_destroy(tree);
}

/* ---- membarrier refused, at the start or later ---- */

static void without_fence(bool later)
{
	struct pcpu_tree_attr attr = attributes();
	struct pcpu_node *a, *b;

	fake_machine("0-3", "0-3");
	if (!later)
		fake.membarriers = -EPERM;
	fake_start();
	make_tree(&attr);
	fake.membarriers = -EPERM;
	a = node(root, "a");
	b = node(a, "b");
	for (int i = 1; i < 50; i++) {
		fake_cpu(i % 5 - 1);
		pcpu_node_add(b, 0, 1);
		if (i % 2)
			pcpu_node_add(a, 0, 1);
		if (i % 3 == 0)
			expect_eq(exact(b, 0), i);
		expect_eq(exact(root, 0), i + (i + 1) / 2);
	}
	if (pcpu_cpu.sections)
		expect(!tree->fenced);
	expect_eq(pcpu_node_destroy(b), 0);
	expect_eq(exact(root, 0), 49 + 25);
	b = node(a, "b");
	expect_eq(exact(b, 0), 0);
	pcpu_node_add(b, 0, 1);
	expect_eq(exact(a, 0), 49 + 26);
	expect_eq(exact(root, 0), 49 + 26);
	pcpu_tree_destroy(tree);
}

Test(tree, membarrier_refused)
{
	without_fence(false);
}

Test(tree, membarrier_refused_later)
{
	without_fence(true);
}

/* Without the fence nothing may be believed to be clean. */
Test(tree, nothing_is_forgotten_without_a_fence)
{
	struct pcpu_tree_attr attr = attributes();

	fake_machine("0-3", "0-3");
	fake.membarriers = -ENOSYS;
	fake_start();
	fake_cpu(0);
	make_tree(&attr);
	pcpu_node_add(root, 0, 1);
	expect_eq(exact(root, 0), 1);
	if (pcpu_cpu.sections)
		expect(!pcpu_node_is_clean(root));
	else
		expect(pcpu_node_is_clean(root));
	/* As if it had been in a store buffer all the while. */
	slot_of(root, 0)->values[0]++;
	expect_eq(exact(root, 0), pcpu_cpu.sections ? 2 : 1);
	pcpu_tree_destroy(tree);
}

/* ---- walking ---- */

static int walk_trace(struct pcpu_node *n, unsigned depth, void *ctx)
{
	char *trace = ctx;

	sprintf(trace + strlen(trace), "%u%s ", depth, pcpu_node_name(n));
	if (strcmp(pcpu_node_name(n), "add") == 0) {
		pcpu_node_add(n, 0, 1);
		expect_eq(exact(pcpu_tree_root(tree), 0), 1);
	}
	return strcmp(pcpu_node_name(n), "stop") == 0 ? -12345 : 0;
}

Test(tree, walk)
{
	struct pcpu_node *a, *b, *held;
	char trace[200] = "";

	four_cpus();
	expect_eq(pcpu_tree_walk(tree, walk_trace, trace), 0);
	expect(strcmp(trace, "0 ") == 0);
	a = node(root, "a");
	node(a, "b");
	b = node(a, "gone");
	node(node(a, "c"), "d");
	node(root, "add");
	expect_eq(pcpu_node_find(&held, tree, "a/gone"), 0);
	expect_eq(pcpu_node_destroy(b), 0);
	*trace = 0;
	expect_eq(pcpu_tree_walk(tree, walk_trace, trace), 0);
	expect(strcmp(trace, "0 1a 2b 2c 3d 1add ") == 0);
	pcpu_node_put(held);
	node(a, "stop");
	node(a, "never");
	*trace = 0;
	expect_eq(pcpu_tree_walk(tree, walk_trace, trace), -12345);
	expect(strcmp(trace, "0 1a 2b 2c 3d 2stop ") == 0);
	pcpu_tree_destroy(tree);
}

/* ---- the flusher ---- */

static void *start_and_stop(void *arg)
{
	for (int i = 0; i < 300; i++) {
		pcpu_tree_flusher_start(tree, 1000000);
		pcpu_tree_flusher_stop(tree);
	}
	return arg;
}

Test(tree, flusher)
{
	struct pcpu_node *a;
	pid_t child;
	int status;

	four_cpus();
	a = node(root, "a");
	expect_eq(pcpu_tree_flusher_stop(tree), 0);
	expect_eq(pcpu_tree_flusher_start(tree, 0), -EINVAL);
	expect_eq(pcpu_tree_flusher_start(tree, 1), 0);
	expect_eq(pcpu_tree_flusher_start(tree, 1), -EALREADY);
	for (int i = 1; i < 20; i++) {
		pcpu_node_add(a, 0, 1);
		while (pcpu_node_read(root, 0, PCPU_READ_CACHED) != i)
			usleep(100);
	}
	/* It does not run in a forked child, which may start one. */
	child = fork();
	if (child == 0) {
		alarm(60);
		pcpu_node_add(a, 0, 1);
		if (pcpu_tree_flusher_stop(tree))
			_exit(1);
		if (PCPU_SANITIZED) /* ThreadSanitizer gives up on threads in a child of several */
			_exit(0);
		if (pcpu_tree_flusher_start(tree, 1))
			_exit(1);
		while (pcpu_node_read(root, 0, PCPU_READ_CACHED) != 20)
			usleep(100);
		pcpu_tree_destroy(tree); /* ends with the tree */
		_exit(0);
	}
	expect_eq(waitpid(child, &status, 0), child);
	expect_eq(status, 0);
	expect_eq(pcpu_tree_flusher_stop(tree), 0);
	expect_eq(pcpu_tree_flusher_stop(tree), 0);
	pcpu_tree_destroy(tree);
}

/* A stop of one thread and a start of another: each stop returns, though periods are long. */
Test(tree, flusher_started_and_stopped_by_many)
{
	pthread_t threads[3];

	four_cpus();
	alarm(100);
	for (int i = 0; i < 3; i++)
		expect_eq(pthread_create(&threads[i], NULL, start_and_stop, NULL), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	pcpu_tree_destroy(tree);
}

/* ---- forks ---- */

/* A thread is in the middle of an add when the process forks: no trace of it in the next node of the child. */
Test(tree, orphaned_add_is_not_the_next_nodes)
{
	struct pcpu_node *a;
	pid_t child;
	int status;

	four_cpus();
	a = node(root, "a");
	slot_of(a, 2)->values[1] += 77; /* stored, and not made known */
	child = fork();
	if (child == 0) {
		if (pcpu_node_destroy(a) || pcpu_node_create(&a, root, "b"))
			_exit(1);
		fake_cpu(2);
		pcpu_node_add(a, 1, 1);
		_exit(exact(a, 1) != 1 || (exact(root, 1) != 1 && exact(root, 1) != 78));
	}
	expect_eq(waitpid(child, &status, 0), child);
	expect_eq(status, 0);
	pcpu_tree_destroy(tree);
}

/* ---- half done marks, put there by hand: what another thread left where it was stopped ---- */

#define SOMEBODY 0x1230001u /* linking; the number of no thread */

/* Linking, and not pushed: the next adder leaves a note, and the flush looks. */
Test(tree, child_that_somebody_is_linking)
{
	struct pcpu_node *a, *b;

	four_cpus();
	a = node(root, "a");
	b = node(a, "b");
	b->queued = SOMEBODY;
	for (int i = 1; i < 4; i++) {
		pcpu_node_add(b, 0, 1);
		expect_eq(exact(root, 0), i);
		expect(pcpu_node_is_clean(root));
	}
	a->queued = SOMEBODY;
	pcpu_node_add(b, 0, 1);
	expect_eq(pcpu_node_read(root, 0, PCPU_READ_BOUNDED), 4); /* not looked through: flushed */
	pcpu_node_add(b, 0, 1);
	expect_eq(exact(a, 0), 5);
	expect_eq(exact(root, 0), 5);
	expect_eq(pcpu_node_destroy(b), 0);
	expect_eq(pcpu_node_destroy(a), 0);
	expect_eq(exact(root, 0), 5);
	pcpu_tree_destroy(tree);
}

/* A node is taken off its parent's list wherever it stands there. */
Test(tree, destroyed_while_listed)
{
	for (int gone = 0; gone < 4; gone++) {
		struct pcpu_node *n[4];
		char name[2] = "a";

		four_cpus();
		for (int i = 0; i < 4; i++, name[0]++) {
			n[i] = node(root, name);
			pcpu_node_add(n[i], 0, 1);
		}
		expect_eq(pcpu_node_destroy(n[gone]), 0);
		n[gone] = node(root, "new");
		pcpu_node_add(n[gone], 0, 10);
		expect_eq(exact(root, 0), 14);
		for (int i = 0; i < 4; i++)
			expect_eq(exact(n[i], 0), i == gone ? 10 : 1);
		pcpu_tree_destroy(tree);
	}
}
