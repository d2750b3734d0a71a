/* SPDX-License-Identifier: MIT */
/**
 * @file counter_ops.h
 * The counter's calls as operations to measure. A file either has the update path inline or calls it, so
 * there are two: counter_inline.c and counter_calls.c.
 */
#ifndef PCPU_STAT_BENCH_COUNTER_OPS_H
#define PCPU_STAT_BENCH_COUNTER_OPS_H

#include "op.h"

#include <pcpu_stat/pcpu_stat.h>

/** Context of all of them: counters made alike. */
struct counter_case {
	_Alignas(128) struct pcpu_counter counters[4];
	unsigned nr;
	struct pcpu_counter_attr attr;
};

void counter_case_setup(void *ctx, unsigned threads);
void counter_case_teardown(void *ctx, unsigned threads);

/** The batch of all counters here that name no other. */
enum { COUNTER_BATCH = 64 };

/* Adds of an amount that the compiler does not know. */
extern const struct bench_op counter_add_inline;    /**< compiled into the loop */
extern const struct bench_op counter_add_function;  /**< the exported function */
extern const struct bench_op counter_add_automatic; /**< inline, with the batch that the library chooses */
extern const struct bench_op counter_add_function_automatic; /**< the exported function, the same batch */
extern const struct bench_op counter_add_wide;	     /**< inline, with a batch that is hardly ever reached */
extern const struct bench_op counter_add_node_level; /**< inline, carrying by way of the NUMA node */
extern const struct bench_op counter_add_batch_1;    /**< inline, carrying every time */
extern const struct bench_op counter_add_four;	     /**< four counters in a row, inline */

/* Everything else is called. */
extern const struct bench_op counter_read;
extern const struct bench_op counter_sum;
extern const struct bench_op counter_compare_bounds; /**< the value is far away */
extern const struct bench_op counter_compare_sum;    /**< the value is near: the slots must be summed */
extern const struct bench_op counter_error;
extern const struct bench_op counter_drain;
extern const struct bench_op counter_init_destroy; /**< a pair of calls */

#endif /* PCPU_STAT_BENCH_COUNTER_OPS_H */
