/* SPDX-License-Identifier: MIT */
/*
 * Random sequences of everything that a tree can do, against a plain model of one thread: arrays and sums.
 *
 * I1: nothing is lost or counted twice, whatever the order of adds, flushes, reads, creations and
 * destructions. I2: EXACT is exact. CACHED is never ahead of the truth of some moment: it is what the last
 * flush left, which the model follows where it is fixed. BOUNDED is off by no more than the threshold. And
 * walks as the kernel's percpu_counter tests make them: +- up to 10^4 over batches of 2 to 512.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <pcpu_stat/pcpu_stat.h>

#include "os_fake.h"
#include "tap.h"
#include "tools.h"
#include "tree/tree.h"

#define CPUS	  4
#define NR_STATS  3
#define MAX_NODES 40

static const struct pcpu_stat_desc stats[NR_STATS] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};

/* A node as it should be. */
struct model {
	struct pcpu_node *node;
	int parent; /* index; -1: the root, or the slot is free */
	bool used, dead;
	unsigned references; /* beside the tree's */
	int children;	     /* used ones, dead ones included */
	char name[8];
	uint64_t local[NR_STATS];     /* added to it */
	uint64_t inherited[NR_STATS]; /* what those left that are gone */
};

static struct pcpu_tree *tree;
static struct model models[MAX_NODES];
static uint64_t state;
static unsigned mistakes;

static unsigned below(unsigned n)
{
	return (unsigned)(next_random(&state) % n);
}

static void mistake(const char *what, int i, int64_t got, int64_t wanted)
{
	if (mistakes++ < 5)
		printf("# %s of node %d: %lld, not %lld\n", what, i, (long long)got, (long long)wanted);
}

static uint64_t subtree(int top, unsigned stat)
{
	uint64_t sum = models[top].local[stat] + models[top].inherited[stat];

	for (int i = 0; i < MAX_NODES; i++)
		if (models[i].used && models[i].parent == top)
			sum += subtree(i, stat);
	return sum;
}

/* A random node; living if asked for. */
static int pick(bool living)
{
	for (;;) {
		int i = (int)below(MAX_NODES);

		if (models[i].used && !(living && models[i].dead))
			return i;
	}
}

static int64_t amount(void)
{
	switch (below(8)) {
	case 0:
		return (int64_t)next_random(&state); /* wraps now and then */
	case 1:
		return INT64_MIN;
	case 2:
		return 0;
	default:
		return (int64_t)below(20001) - 10000;
	}
}

/* Adds to a dead node go to the nearest living one above. */
static int credited(int i)
{
	while (models[i].dead)
		i = models[i].parent;
	return i;
}

static void add(int i)
{
	struct pcpu_delta deltas[5];
	int to = credited(i);

	if (below(3)) {
		unsigned stat = below(NR_STATS + 1); /* sometimes there is none */
		int64_t n = amount();

		pcpu_node_add(models[i].node, stat, n);
		if (stat < NR_STATS)
			models[to].local[stat] += (uint64_t)n;
		return;
	}
	for (int d = 0; d < 5; d++) {
		deltas[d].stat = below(NR_STATS + 1);
		deltas[d].n = amount();
		if (deltas[d].stat < NR_STATS)
			models[to].local[deltas[d].stat] += (uint64_t)deltas[d].n;
	}
	pcpu_node_add_many(models[i].node, deltas, 5);
}

static void create(void)
{
	int parent = pick(true), i;
	struct pcpu_node *node;

	for (i = 1; i < MAX_NODES && models[i].used; i++)
		;
	if (i == MAX_NODES)
		return;
	memset(&models[i], 0, sizeof(models[i]));
	snprintf(models[i].name, sizeof(models[i].name), "n%u", below(20));
	for (int j = 1; j < MAX_NODES; j++)
		if (models[j].used && !models[j].dead && models[j].parent == parent &&
		    strcmp(models[j].name, models[i].name) == 0) {
			if (pcpu_node_create(&node, models[parent].node, models[i].name) != -EEXIST)
				mistake("-EEXIST", j, 0, 0);
			return;
		}
	if (pcpu_node_create(&models[i].node, models[parent].node, models[i].name)) {
		mistake("creation", i, 0, 0);
		return;
	}
	models[i].used = true;
	models[i].parent = parent;
	models[i].references = 1;
	models[parent].children++;
}

/* Nobody holds it: its counts are the parent's. */
static void let_go(int i)
{
	while (models[i].dead && models[i].references == 0 && models[i].children == 0) {
		int parent = models[i].parent;

		for (unsigned s = 0; s < NR_STATS; s++)
			models[parent].inherited[s] += models[i].local[s] + models[i].inherited[s];
		models[i].used = false;
		models[parent].children--;
		i = parent;
	}
}

static int living_children(int i)
{
	int n = 0;

	for (int j = 1; j < MAX_NODES; j++)
		n += models[j].used && !models[j].dead && models[j].parent == i;
	return n;
}

static void destroy(void)
{
	int i = pick(false), wanted = 0;

	if (i && models[i].references == 0)
		return;
	wanted = i == 0 ? -EPERM : models[i].dead ? -ENOENT : living_children(i) ? -EBUSY : 0;
	if (pcpu_node_destroy(models[i].node) != wanted)
		mistake("destruction", i, 0, wanted);
	if (wanted)
		return;
	models[i].dead = true;
	models[i].references--;
	let_go(i);
}

static void find_or_put(void)
{
	int i = pick(false);
	struct pcpu_node *node = NULL;
	char path[512] = "", *at = path + sizeof(path) - 1;

	if (i == 0)
		return;
	if (models[i].dead || below(2)) {
		if (models[i].references > 1 || (models[i].dead && models[i].references)) {
			models[i].references--;
			pcpu_node_put(models[i].node);
			let_go(i);
		}
		return;
	}
	*at = 0;
	for (int j = i; j; j = models[j].parent) {
		at -= strlen(models[j].name) + (j != i);
		memcpy(at, models[j].name, strlen(models[j].name));
		if (j != i)
			at[strlen(models[j].name)] = '/';
	}
	if (pcpu_node_find(&node, tree, at) || node != models[i].node)
		mistake("find", i, 0, 0);
	models[i].references++;
}

/* Of the threshold over all statistics: for each of them no more than that. */
static void check_bounded(int i, unsigned stat, int64_t got)
{
	int64_t off = (int64_t)((uint64_t)got - subtree(i, stat));

	if ((off < 0 ? 0 - (uint64_t)off : (uint64_t)off) > pcpu_node_threshold(models[i].node))
		mistake("BOUNDED", i, got, (int64_t)subtree(i, stat));
}

static void check_exact(const char *what, int i, unsigned stat, int64_t got)
{
	if ((uint64_t)got != subtree(i, stat))
		mistake(what, i, got, (int64_t)subtree(i, stat));
}

static void read_one(int i)
{
	struct pcpu_node *node = models[i].node;
	unsigned stat = below(NR_STATS);
	int64_t values[NR_STATS];

	switch (below(10)) {
	case 0:
		check_exact("EXACT", i, stat, pcpu_node_read(node, stat, PCPU_READ_EXACT));
		check_exact("CACHED after EXACT", i, stat, pcpu_node_read(node, stat, PCPU_READ_CACHED));
		break;
	case 1:
		check_exact("read_within(0)", i, stat, pcpu_node_read_within(node, stat, 0));
		break;
	case 2:
		pcpu_node_flush(node);
		check_exact("after flush", i, stat, pcpu_node_read(node, stat, PCPU_READ_CACHED));
		check_exact("within an hour", i, stat, pcpu_node_read_within(node, stat, 3600000000000u));
		break;
	case 3:
		pcpu_node_snapshot(node, values, NR_STATS, PCPU_READ_EXACT);
		for (unsigned s = 0; s < NR_STATS; s++)
			check_exact("snapshot", i, s, values[s]);
		break;
	case 4:
		pcpu_node_snapshot_local(node, values, NR_STATS, PCPU_READ_EXACT);
		for (unsigned s = 0; s < NR_STATS; s++)
			if ((uint64_t)values[s] != models[i].local[s])
				mistake("local", i, values[s], (int64_t)models[i].local[s]);
		break;
	case 5:
		pcpu_node_snapshot(node, values, NR_STATS, PCPU_READ_BOUNDED);
		for (unsigned s = 0; s < NR_STATS; s++)
			check_bounded(i, s, values[s]);
		break;
	case 6:
		check_exact("flusher's", 0, stat, pcpu_node_read(models[0].node, stat, PCPU_READ_EXACT));
		break;
	default:
		check_bounded(i, stat, pcpu_node_read(node, stat, PCPU_READ_BOUNDED));
	}
}

static void step(void)
{
	/* Some of the time on a CPU that is not there, or by a thread that the library does not know. */
	fake_cpu((int)below(CPUS + 2) - 1);
	switch (below(16)) {
	case 0:
		create();
		break;
	case 1:
		destroy();
		break;
	case 2:
		find_or_put();
		break;
	case 3:
	case 4:
	case 5:
		read_one(pick(false));
		break;
	default:
		add(pick(false));
	}
}

static int count_node(struct pcpu_node *node, unsigned depth, void *ctx)
{
	int *left = ctx;
	unsigned found = 0;

	(void)depth;
	for (int i = 0; i < MAX_NODES; i++)
		found += models[i].used && !models[i].dead && models[i].node == node;
	if (found != 1)
		mistake("walk", -1, found, 1);
	(*left)--;
	return 0;
}

static void sequence(uint32_t batch, bool fenced)
{
	struct pcpu_tree_attr attr = {
		.size = sizeof(attr), .stats = stats, .nr_stats = NR_STATS, .batch = batch};
	int left = 0;

	fake_machine("0-3", "0-3");
	if (!fenced)
		fake.membarriers = -EPERM;
	fake_start();
	if (pcpu_tree_create(&tree, &attr))
		abort();
	memset(models, 0, sizeof(models));
	models[0] = (struct model){.node = pcpu_tree_root(tree), .parent = -1, .used = true, .references = 1};
	for (int i = 0; i < 2000; i++)
		step();
	for (int i = 0; i < MAX_NODES; i++)
		left += models[i].used && !models[i].dead;
	pcpu_tree_walk(tree, count_node, &left);
	if (left)
		mistake("walk", -1, left, 0);
	for (unsigned s = 0; s < NR_STATS; s++)
		check_exact("total at the end", 0, s, pcpu_node_read(models[0].node, s, PCPU_READ_EXACT));
	pcpu_tree_destroy(tree);
}

static void sequences(bool fenced)
{
	long n = scaled(200);

	mistakes = 0;
	for (long i = 0; i < n; i++)
		sequence(1u << below(14), fenced);
	tap_ok(mistakes == 0, "%ld random sequences of 2000 steps%s: %u mistakes", n,
	       fenced ? "" : " without membarrier", mistakes);
}

/* One node in two levels; amounts up to @most either way; all read modes after each step. */
static void walk(uint32_t batch, int64_t most)
{
	struct pcpu_tree_attr attr = {
		.size = sizeof(attr), .stats = stats, .nr_stats = NR_STATS, .batch = batch};
	struct pcpu_node *root, *node[2];
	int64_t sum = 0, sums[2] = {0, 0}, cached = 0;

	fake_machine("0-3", "0-3");
	fake_start();
	if (pcpu_tree_create(&tree, &attr))
		abort();
	root = pcpu_tree_root(tree);
	if (pcpu_node_create(&node[0], root, "0") || pcpu_node_create(&node[1], root, "1"))
		abort();
	for (int i = 0; i < 5000; i++) {
		int64_t n = (int64_t)below((unsigned)(2 * most + 1)) - most, got, off;
		unsigned which = below(2);

		fake_cpu((int)below(CPUS + 1) - 1);
		pcpu_node_add(node[which], 1, n);
		sum += n;
		sums[which] += n;
		/* CACHED moves with a flush alone, and then to the truth. */
		if (pcpu_node_read(root, 1, PCPU_READ_CACHED) != cached)
			mistake("CACHED", 0, pcpu_node_read(root, 1, PCPU_READ_CACHED), cached);
		got = pcpu_node_read(root, 1, PCPU_READ_BOUNDED);
		if (got != cached && got != sum)
			mistake("BOUNDED that flushed", 0, got, sum);
		cached = got;
		off = got > sum ? got - sum : sum - got;
		if (off > (int64_t)pcpu_node_threshold(root))
			mistake("BOUNDED", 0, got, sum);
		if (below(16) == 0 && pcpu_node_read(node[which], 1, PCPU_READ_EXACT) != sums[which])
			mistake("EXACT", (int)which, 0, sums[which]);
		if (below(64) == 0) {
			cached = pcpu_node_read(root, 1, PCPU_READ_EXACT);
			if (cached != sum)
				mistake("EXACT", 0, cached, sum);
		}
	}
	pcpu_tree_destroy(tree);
}

static void walks(void)
{
	static const int64_t most[] = {1, 10, 100, 1000, 10000};

	for (uint32_t batch = 2; batch <= 512; batch *= 2) {
		mistakes = 0;
		for (int i = 0; i < 5; i++)
			walk(batch, most[i]);
		tap_ok(mistakes == 0, "random walks with batch %u: %u mistakes", batch, mistakes);
	}
}

int main(void)
{
	state = seed(20240531);
	sequences(true);
	sequences(false);
	walks();
	return tap_done();
}
