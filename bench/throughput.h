/* SPDX-License-Identifier: MIT */
/**
 * @file throughput.h
 * Operations per second against the number of threads, also with more threads than CPUs.
 *
 * Every point is a window of some tens of milliseconds in which all threads run the loop in short stretches,
 * until one of them sees that the time is up. Windows of different operations alternate, and the whole is
 * repeated; the result is the median over the repetitions. Threads are not bound to CPUs.
 */
#ifndef PCPU_STAT_BENCH_THROUGHPUT_H
#define PCPU_STAT_BENCH_THROUGHPUT_H

#include "op.h"

/** An operation and what came out. */
struct throughput_series {
	const struct bench_op *op;
	double *rates; /**< out: operations per second of all threads together, for each thread count */
};

struct throughput_options {
	unsigned repetitions; /**< 0: 3 */
	double window_ms;     /**< 0: 40 */
};

/**
 * Measure.
 *
 * @param series      operations; series[i].rates has room for @p nr_counts results
 * @param nr_series   how many
 * @param counts      numbers of threads
 * @param nr_counts   how many
 * @param options     or NULL
 * @return 0 or a negative errno value
 */
int throughput_measure(struct throughput_series *series, unsigned nr_series, const unsigned *counts,
		       unsigned nr_counts, const struct throughput_options *options);

/** Fill @p counts with 1, 2, 4, ... up to @p max, and @p max itself; returns how many (16 at most). */
unsigned throughput_counts(unsigned counts[16], unsigned max);

#endif /* PCPU_STAT_BENCH_THROUGHPUT_H */
