/* SPDX-License-Identifier: MIT */
#define PCPU_STAT_INLINE
#include "tree_ops.h"

#include "tree_flush.h"

#define PROLOGUE                                                                                             \
	struct pcpu_node *node = ((struct tree_case *)ctx)->node;                                            \
	int64_t v = 1;                                                                                       \
	BENCH_OPAQUE(v)

BENCH_LOOPS(add_loops, PROLOGUE, pcpu_node_add(node, 0, v));
BENCH_LOOPS(add_second_loops, PROLOGUE, pcpu_node_add(node, 1, v));
BENCH_LOOPS(add_eighth_loops, PROLOGUE, pcpu_node_add(node, 7, v));
BENCH_LOOPS(add_variable_loops, PROLOGUE; uint32_t stat = 0, {
	BENCH_OPAQUE(stat);
	pcpu_node_add(node, stat, v);
});

#define ADD_1 pcpu_node_add(node, 0, v)
#define ADD_2 ADD_1, pcpu_node_add(node, 1, v)
#define ADD_3 ADD_2, pcpu_node_add(node, 2, v)
#define ADD_4 ADD_3, pcpu_node_add(node, 3, v)
#define ADD_5 ADD_4, pcpu_node_add(node, 4, v)
#define ADD_6 ADD_5, pcpu_node_add(node, 5, v)
#define ADD_7 ADD_6, pcpu_node_add(node, 6, v)
#define ADD_8 ADD_7, pcpu_node_add(node, 7, v)

#define DELTAS_1                                                                                             \
	{                                                                                                    \
		0, v                                                                                         \
	}
#define DELTAS_2                                                                                             \
	DELTAS_1,                                                                                            \
	{                                                                                                    \
		1, v                                                                                         \
	}
#define DELTAS_3                                                                                             \
	DELTAS_2,                                                                                            \
	{                                                                                                    \
		2, v                                                                                         \
	}
#define DELTAS_4                                                                                             \
	DELTAS_3,                                                                                            \
	{                                                                                                    \
		3, v                                                                                         \
	}
#define DELTAS_5                                                                                             \
	DELTAS_4,                                                                                            \
	{                                                                                                    \
		4, v                                                                                         \
	}
#define DELTAS_6                                                                                             \
	DELTAS_5,                                                                                            \
	{                                                                                                    \
		5, v                                                                                         \
	}
#define DELTAS_7                                                                                             \
	DELTAS_6,                                                                                            \
	{                                                                                                    \
		6, v                                                                                         \
	}
#define DELTAS_8                                                                                             \
	DELTAS_7,                                                                                            \
	{                                                                                                    \
		7, v                                                                                         \
	}

#define OP(case, loop, identifier, text, nr)                                                                 \
	{                                                                                                    \
		.name = identifier, .label = text, .loops = loop, .nr_loops = BENCH_PLACEMENTS, .items = nr, \
		.ctx = &case, .setup = tree_case_setup, .teardown = tree_case_teardown,                      \
	}

static struct tree_case plain, variable, second, eighth;

const struct bench_op tree_add_inline = OP(plain, add_loops, "tree_add_inline", "tree add, inline", 1);
const struct bench_op tree_add_variable =
	OP(variable, add_variable_loops, "tree_add_variable", "tree add, inline, any statistic", 1);
const struct bench_op tree_add_second =
	OP(second, add_second_loops, "tree_add_second", "tree add, inline, the 2nd statistic", 1);
const struct bench_op tree_add_eighth =
	OP(eighth, add_eighth_loops, "tree_add_eighth", "tree add, inline, the 8th statistic", 1);

static struct tree_case flushed;

const struct bench_op tree_add_flushed = {
	.name = "tree_add_flushed",
	.label = "tree add, inline, amid endless flushes",
	.loops = add_loops,
	.nr_loops = BENCH_PLACEMENTS,
	.ctx = &flushed,
	.setup = tree_flushed_setup,
	.teardown = tree_flushed_teardown,
	.enter = tree_flushed_enter,
	.leave = tree_flushed_leave,
};

#define DEPTH(at)                                                                                            \
	static struct tree_case deep_##at = {.depth = at};                                                   \
	static const struct bench_op depth_##at =                                                            \
		OP(deep_##at, add_loops, "tree_add_depth_" #at, "tree add, inline, depth " #at, 1)

DEPTH(1);
DEPTH(2);
DEPTH(3);
DEPTH(4);
DEPTH(5);
DEPTH(6);
DEPTH(7);
DEPTH(8);

const struct bench_op *const tree_add_depth[TREE_DEPTHS] = {
	&depth_1, &depth_2, &depth_3, &depth_4, &depth_5, &depth_6, &depth_7, &depth_8,
};

/* add_many as a program writes it: the amounts are known only there, the statistics are constants. */
#define STATISTICS(nr)                                                                                       \
	static inline void add_many_##nr(struct pcpu_node *node, int64_t v)                                  \
	{                                                                                                    \
		const struct pcpu_delta deltas[nr] = {DELTAS_##nr};                                          \
                                                                                                             \
		pcpu_node_add_many(node, deltas, nr);                                                        \
	}                                                                                                    \
	BENCH_LOOPS(singly_##nr##_loops, PROLOGUE, (ADD_##nr));                                              \
	BENCH_LOOPS(many_##nr##_loops, PROLOGUE, add_many_##nr(node, v));                                    \
	static struct tree_case singly_case_##nr, many_case_##nr;                                            \
	static const struct bench_op singly_##nr =                                                           \
		OP(singly_case_##nr, singly_##nr##_loops, "tree_add_singly_" #nr,                            \
		   "adds to " #nr " statistics, inline", nr);                                                \
	static const struct bench_op many_##nr = OP(many_case_##nr, many_##nr##_loops, "tree_add_many_" #nr, \
						    "add_many of " #nr ", inline", nr)

STATISTICS(1);
STATISTICS(2);
STATISTICS(3);
STATISTICS(4);
STATISTICS(5);
STATISTICS(6);
STATISTICS(7);
STATISTICS(8);

const struct bench_op *const tree_add_singly[TREE_STATS] = {
	&singly_1, &singly_2, &singly_3, &singly_4, &singly_5, &singly_6, &singly_7, &singly_8,
};
const struct bench_op *const tree_add_many[TREE_STATS] = {
	&many_1, &many_2, &many_3, &many_4, &many_5, &many_6, &many_7, &many_8,
};
