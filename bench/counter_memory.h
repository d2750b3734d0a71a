/* SPDX-License-Identifier: MIT */
/**
 * @file counter_memory.h
 * What 1000 counters on a machine with 512 possible CPUs cost in memory, measured by the program
 * bench_counter_memory: it shows the library such a machine and therefore needs its internals, which the
 * other benchmarks, linked like any program, do not see.
 */
#ifndef PCPU_STAT_BENCH_COUNTER_MEMORY_H
#define PCPU_STAT_BENCH_COUNTER_MEMORY_H

enum { MEMORY_COUNTERS = 1000, MEMORY_POSSIBLE = 512, MEMORY_USED = 2 };

#define MEMORY_PROGRAM "bench_counter_memory" /* in the directory of bench_counter */

/* Its only output: "resident BYTES slots N used M". */
#define MEMORY_FORMAT "resident %ld slots %u used %u"

#endif /* PCPU_STAT_BENCH_COUNTER_MEMORY_H */
