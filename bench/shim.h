/* SPDX-License-Identifier: MIT */
/**
 * @file shim.h
 * google-benchmark for C.
 *
 * Its loop is a C++ template; a call per operation through an interface like this one would cost more than
 * what is measured here. So the loop stays in C: the shim asks for a batch of turns at a time, and the cost
 * of the call is spread over the batch.
 *
 * All standard flags work (--benchmark_filter, --benchmark_format=json, --benchmark_repetitions, ...).
 * With several threads google-benchmark's "Time" is wall time over the operations of all threads together: it
 * halves when two threads are twice as fast as one. The column per_thread is the time of one operation as a
 * thread sees it. Both, and items_per_second, count single operations where a turn holds several
 * (bench_op.items), except that Time is per turn.
 */
#ifndef PCPU_STAT_BENCH_SHIM_H
#define PCPU_STAT_BENCH_SHIM_H

#include "op.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Register a benchmark. It uses the operation's first placement.
 *
 * @param op       must stay valid
 * @param threads  how many threads run it at once
 * @param batch    turns per call of the loop; 0: 4096. Small for operations of a microsecond and more
 */
void shim_register(const struct bench_op *op, unsigned threads, uint64_t batch);

/**
 * Take google-benchmark's flags out of the arguments and run what is registered.
 *
 * @return 0; 2 if a flag is left over that nobody knows
 */
int shim_main(int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif /* PCPU_STAT_BENCH_SHIM_H */
