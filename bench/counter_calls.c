/* SPDX-License-Identifier: MIT */
#include "counter_ops.h"

#include <stdio.h>
#include <stdlib.h>

void counter_case_setup(void *ctx, unsigned threads)
{
	struct counter_case *cc = ctx;

	(void)threads;
	cc->attr.size = sizeof(cc->attr);
	for (unsigned i = 0; i < cc->nr; i++) {
		if (pcpu_counter_init(&cc->counters[i], &cc->attr)) {
			fputs("pcpu_counter_init failed\n", stderr);
			exit(1);
		}
	}
}

void counter_case_teardown(void *ctx, unsigned threads)
{
	struct counter_case *cc = ctx;

	(void)threads;
	for (unsigned i = 0; i < cc->nr; i++)
		pcpu_counter_destroy(&cc->counters[i]);
}

#define COUNTER struct pcpu_counter *c = ((struct counter_case *)ctx)->counters

/* Far beyond the error of a counter that holds nothing. */
#define FAR_AWAY (INT64_C(1) << 60)

BENCH_LOOPS(add_loops, COUNTER; int64_t v = 1; BENCH_OPAQUE(v), pcpu_counter_add(c, v));
BENCH_LOOPS(read_loops, COUNTER, int64_t value = pcpu_counter_read(c); BENCH_USE(value));
BENCH_LOOPS(compare_bounds_loops, COUNTER, int order = pcpu_counter_compare(c, FAR_AWAY); BENCH_USE(order));
BENCH_LOOP(sum_loops, COUNTER, int64_t value = pcpu_counter_sum(c); BENCH_USE(value));
BENCH_LOOP(compare_sum_loops, COUNTER, int order = pcpu_counter_compare(c, 0); BENCH_USE(order));
BENCH_LOOP(drain_loops, COUNTER, int64_t value = pcpu_counter_drain(c); BENCH_USE(value));
BENCH_LOOP(error_loops, COUNTER; int64_t below; int64_t above, {
	pcpu_counter_error(c, &below, &above);
	BENCH_USE(below);
	BENCH_USE(above);
});
BENCH_LOOP(init_destroy_loops, COUNTER;
	   const struct pcpu_counter_attr *attr = &((struct counter_case *)ctx)->attr, {
		   int ret = pcpu_counter_init(c, attr);
		   BENCH_USE(ret);
		   pcpu_counter_destroy(c);
	   });

/* One for each: they are used in the same run. */
#define PLAIN                                                                                                \
	{                                                                                                    \
		.nr = 1, .attr = {.batch = COUNTER_BATCH }                                                   \
	}
static struct counter_case added = PLAIN, read = PLAIN, summed = PLAIN, far_away = PLAIN, near = PLAIN,
			   erring = PLAIN, drained = PLAIN;
static struct counter_case automatic = {.nr = 1};
/* The loop itself makes this one. */
static struct counter_case unmade = {.attr = {.size = sizeof(struct pcpu_counter_attr)}};

#define CALL(case, loop, identifier, text)                                                                   \
	{                                                                                                    \
		.name = identifier, .label = text, .loops = loop,                                            \
		.nr_loops = sizeof(loop) / sizeof((loop)[0]), .ctx = &case, .setup = counter_case_setup,     \
		.teardown = counter_case_teardown,                                                           \
	}

const struct bench_op counter_add_function =
	CALL(added, add_loops, "counter_add_function", "counter add, function");
const struct bench_op counter_add_function_automatic = CALL(
	automatic, add_loops, "counter_add_function_automatic", "counter add, function, automatic batch");
const struct bench_op counter_read = CALL(read, read_loops, "counter_read", "read");
const struct bench_op counter_sum = CALL(summed, sum_loops, "counter_sum", "sum");
const struct bench_op counter_compare_bounds =
	CALL(far_away, compare_bounds_loops, "counter_compare_bounds", "compare, decided by the bounds");
const struct bench_op counter_compare_sum =
	CALL(near, compare_sum_loops, "counter_compare_sum", "compare, decided by the sum");
const struct bench_op counter_error = CALL(erring, error_loops, "counter_error", "error");
const struct bench_op counter_drain = CALL(drained, drain_loops, "counter_drain", "drain");
const struct bench_op counter_init_destroy =
	CALL(unmade, init_destroy_loops, "counter_init_destroy", "init and destroy");
