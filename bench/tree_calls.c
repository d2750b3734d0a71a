/* SPDX-License-Identifier: MIT */
#include "tree_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(int ret, const char *what)
{
	if (ret) {
		fprintf(stderr, "%s: %s\n", what, strerror(-ret));
		exit(1);
	}
}

struct pcpu_tree *tree_make(uint32_t max_nodes)
{
	static const struct pcpu_stat_desc stats[TREE_STATS] = {
		{.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"},
		{.name = "e"}, {.name = "f"}, {.name = "g"}, {.name = "h"},
	};
	struct pcpu_tree_attr attr = {
		.size = sizeof(attr), .stats = stats, .nr_stats = TREE_STATS, .max_nodes = max_nodes};
	struct pcpu_tree *tree;

	must(pcpu_tree_create(&tree, &attr), "pcpu_tree_create");
	return tree;
}

void tree_case_setup(void *ctx, unsigned threads)
{
	struct tree_case *tc = ctx;
	unsigned depth = tc->depth ? tc->depth : TREE_DEPTH;

	(void)threads;
	tc->tree = tree_make(0);
	tc->node = pcpu_tree_root(tc->tree);
	/* References to the nodes on the way are not given back: they go with the tree. */
	for (unsigned i = 0; i < depth; i++)
		must(pcpu_node_create(&tc->node, tc->node, "below"), "pcpu_node_create");
}

void tree_case_teardown(void *ctx, unsigned threads)
{
	struct tree_case *tc = ctx;

	(void)threads;
	pcpu_tree_destroy(tc->tree);
}

#define NODE struct pcpu_node *node = ((struct tree_case *)ctx)->node
#define AMOUNT                                                                                               \
	int64_t v = 1;                                                                                       \
	BENCH_OPAQUE(v)
#define READ(how) ((int64_t)pcpu_node_read(node, 0, how))

BENCH_LOOPS(add_loops, NODE; AMOUNT, pcpu_node_add(node, 0, v));

static inline void add_four(struct pcpu_node *node, int64_t v)
{
	const struct pcpu_delta deltas[4] = {{0, v}, {1, v}, {2, v}, {3, v}};

	pcpu_node_add_many(node, deltas, 4);
}

BENCH_LOOPS(add_many_loops, NODE; AMOUNT, add_four(node, v));
BENCH_LOOPS(cached_loops, NODE, int64_t value = READ(PCPU_READ_CACHED); BENCH_USE(value));
BENCH_LOOPS(bounded_loops, NODE, int64_t value = READ(PCPU_READ_BOUNDED); BENCH_USE(value));
BENCH_LOOPS(exact_loops, NODE, int64_t value = READ(PCPU_READ_EXACT); BENCH_USE(value));
BENCH_LOOPS(within_loops, NODE, int64_t value = pcpu_node_read_within(node, 0, UINT64_C(1) << 62);
	    BENCH_USE(value));
BENCH_LOOPS(snapshot_loops, NODE; int64_t values[TREE_STATS], {
	pcpu_node_snapshot(node, values, TREE_STATS, PCPU_READ_EXACT);
	BENCH_BARRIER();
	BENCH_USE(values[0]);
});

/* The root is read: the change has gone all the way up. */
#define ROOT struct pcpu_node *root = pcpu_tree_root(((struct tree_case *)ctx)->tree)
#define DIRTY(amount, how)                                                                                   \
	{                                                                                                    \
		int64_t value;                                                                               \
                                                                                                             \
		pcpu_node_add(node, 0, amount);                                                              \
		value = pcpu_node_read(root, 0, how);                                                        \
		BENCH_USE(value);                                                                            \
	}

BENCH_LOOPS(dirty_cached_loops, NODE; ROOT; AMOUNT, DIRTY(v, PCPU_READ_CACHED));
/* To and fro, or it would not stay below. */
BENCH_LOOP(dirty_bounded_loops, NODE; ROOT; AMOUNT, DIRTY(v, PCPU_READ_BOUNDED); v = -v);
BENCH_LOOP(dirty_beyond_loops, NODE; ROOT;
	   int64_t v = (int64_t)pcpu_node_threshold(root) + 1, DIRTY(v, PCPU_READ_BOUNDED));
BENCH_LOOP(dirty_exact_loops, NODE; ROOT; AMOUNT, DIRTY(v, PCPU_READ_EXACT));

BENCH_LOOP(create_destroy_loops, NODE; struct pcpu_node * child, {
	must(pcpu_node_create(&child, node, "child"), "pcpu_node_create");
	must(pcpu_node_destroy(child), "pcpu_node_destroy");
});

/* Without a tree: a word per level, each on a line of its own, one thread after the other through all. */
struct level {
	_Alignas(128) int64_t value;
};
struct path {
	unsigned depth;
	struct level levels[TREE_DEPTHS + 1];
};

BENCH_LOOPS(path_loops, struct path *path = ctx; AMOUNT, {
	for (unsigned i = 0; i <= path->depth; i++)
		__atomic_fetch_add(&path->levels[i].value, v, __ATOMIC_RELAXED);
});

#define PATH(at)                                                                                             \
	static struct path path_##at = {.depth = at};                                                        \
	static const struct bench_op rival_path_##at = {                                                     \
		.name = "atomic_path_" #at,                                                                  \
		.label = "an atomic add per level, depth " #at,                                              \
		.loops = path_loops,                                                                         \
		.nr_loops = BENCH_PLACEMENTS,                                                                \
		.ctx = &path_##at,                                                                           \
	}

PATH(1);
PATH(2);
PATH(3);
PATH(4);
PATH(5);
PATH(6);
PATH(7);
PATH(8);

const struct bench_op *const tree_rival_path[TREE_DEPTHS] = {
	&rival_path_1, &rival_path_2, &rival_path_3, &rival_path_4,
	&rival_path_5, &rival_path_6, &rival_path_7, &rival_path_8,
};

static struct tree_case added, many, cached, bounded, exact, within, copied, dirty_cached, dirty_bounded,
	dirty_beyond, dirty_exact, parent;

#define CALL(case, loop, identifier, text, nr)                                                               \
	{                                                                                                    \
		.name = identifier, .label = text, .loops = loop,                                            \
		.nr_loops = sizeof(loop) / sizeof((loop)[0]), .items = nr, .ctx = &case,                     \
		.setup = tree_case_setup, .teardown = tree_case_teardown,                                    \
	}

const struct bench_op tree_add_function =
	CALL(added, add_loops, "tree_add_function", "tree add, function", 1);
const struct bench_op tree_add_many_function =
	CALL(many, add_many_loops, "tree_add_many_function", "add_many of 4, function", 4);
const struct bench_op tree_read_cached = CALL(cached, cached_loops, "tree_read_cached", "read CACHED", 1);
const struct bench_op tree_read_bounded =
	CALL(bounded, bounded_loops, "tree_read_bounded", "read BOUNDED, clean", 1);
const struct bench_op tree_read_exact = CALL(exact, exact_loops, "tree_read_exact", "read EXACT, clean", 1);
const struct bench_op tree_read_within =
	CALL(within, within_loops, "tree_read_within", "read within an age, clean", 1);
const struct bench_op tree_snapshot =
	CALL(copied, snapshot_loops, "tree_snapshot", "snapshot EXACT of 8, clean", 1);
const struct bench_op tree_dirty_cached =
	CALL(dirty_cached, dirty_cached_loops, "tree_dirty_cached", "add, read CACHED", 1);
const struct bench_op tree_dirty_bounded =
	CALL(dirty_bounded, dirty_bounded_loops, "tree_dirty_bounded", "add, read BOUNDED: no flush", 1);
const struct bench_op tree_dirty_beyond =
	CALL(dirty_beyond, dirty_beyond_loops, "tree_dirty_beyond", "add, read BOUNDED: flushes", 1);
const struct bench_op tree_dirty_exact =
	CALL(dirty_exact, dirty_exact_loops, "tree_dirty_exact", "add, read EXACT: flushes", 1);
const struct bench_op tree_node_create_destroy =
	CALL(parent, create_destroy_loops, "tree_node_create_destroy", "node made and destroyed", 1);
