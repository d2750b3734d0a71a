/* SPDX-License-Identifier: MIT */
#define PCPU_STAT_INLINE
#include "counter_ops.h"

#define PROLOGUE                                                                                             \
	struct pcpu_counter *c = ((struct counter_case *)ctx)->counters;                                     \
	int64_t v = 1;                                                                                       \
	BENCH_OPAQUE(v)

BENCH_LOOPS(add_loops, PROLOGUE, pcpu_counter_add(c, v));

BENCH_LOOPS(add_four_loops, PROLOGUE, {
	pcpu_counter_add(&c[0], v);
	pcpu_counter_add(&c[1], v);
	pcpu_counter_add(&c[2], v);
	pcpu_counter_add(&c[3], v);
});

static struct counter_case plain = {.nr = 1, .attr = {.batch = COUNTER_BATCH}};
static struct counter_case wide = {.nr = 1, .attr = {.batch = 1 << 20}};
static struct counter_case automatic = {.nr = 1};
static struct counter_case node_level = {
	.nr = 1,
	.attr = {.batch = COUNTER_BATCH, .flags = PCPU_COUNTER_NODE_LEVEL},
};
static struct counter_case batch_1 = {.nr = 1, .attr = {.batch = 1}};
static struct counter_case four = {.nr = 4, .attr = {.batch = COUNTER_BATCH}};

#define ADD(case, loop, identifier, text, ...)                                                               \
	{                                                                                                    \
		.name = identifier, .label = text, .loops = loop, .nr_loops = BENCH_PLACEMENTS,              \
		.ctx = &case, .setup = counter_case_setup, .teardown = counter_case_teardown, __VA_ARGS__    \
	}

const struct bench_op counter_add_inline =
	ADD(plain, add_loops, "counter_add_inline", "counter add, inline", .items = 1);
const struct bench_op counter_add_automatic = ADD(automatic, add_loops, "counter_add_automatic",
						  "counter add, inline, automatic batch", .items = 1);
const struct bench_op counter_add_wide =
	ADD(wide, add_loops, "counter_add_batch_1M", "counter add, inline, batch 2^20", .items = 1);
const struct bench_op counter_add_node_level =
	ADD(node_level, add_loops, "counter_add_node_level", "counter add, inline, node level", .items = 1);
const struct bench_op counter_add_batch_1 =
	ADD(batch_1, add_loops, "counter_add_batch_1", "counter add, inline, batch 1", .items = 1);
const struct bench_op counter_add_four =
	ADD(four, add_four_loops, "counter_add_four", "four counters in a row, inline", .items = 4);
