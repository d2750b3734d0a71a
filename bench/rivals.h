/* SPDX-License-Identifier: MIT */
/**
 * @file rivals.h
 * What programs count with when they have no per-CPU counters, each as good as it gets.
 *
 * Every one is a struct bench_op whose turn adds an amount that the compiler does not know.
 */
#ifndef PCPU_STAT_BENCH_RIVALS_H
#define PCPU_STAT_BENCH_RIVALS_H

#include "op.h"

#include <stdbool.h>

/** More threads than any benchmark starts; those beyond share a line, which would show. */
enum { RIVAL_MAX_THREADS = 1024 };

/** `thread_local += v` as the compiler makes it, a compiler barrier after each: the unit of all ratios. */
extern const struct bench_op rival_thread_local;

/** Four of them in a row, on four words. */
extern const struct bench_op rival_thread_local_four;

/**
 * The floor: one load, one add, one store on a word, in assembly, through one plain base register, with a nop
 * after the load (paired.h says what for). Nothing that counts in memory can be faster back to back. (In C
 * elsewhere than on x86-64.)
 */
extern const struct bench_op rival_floor;

/** The same without the nop: the add directly behind the load, as compilers place it. */
extern const struct bench_op rival_adjacent;

/** An atomic add (LOCK on x86) to a word on a line that only this thread uses. */
extern const struct bench_op rival_lock_own_line;

/** An atomic add to the line of the CPU, its number taken from the rseq area. Needs rival_has_rseq(). */
extern const struct bench_op rival_percpu_rseq;

/** The same, its number taken from sched_getcpu(). */
extern const struct bench_op rival_percpu_getcpu;

/** An atomic add to one word that all threads share. */
extern const struct bench_op rival_shared;

/** An add under one pthread mutex. */
extern const struct bench_op rival_mutex;

/**
 * The statistical counter of perfbook's chapter on counting (count_end.c): each thread registers a word of
 * its own under a lock and adds to it alone; a reader takes the lock and sums all words.
 */
extern const struct bench_op rival_per_thread;

/** Its reader, with RIVAL_REGISTERED threads registered. */
extern const struct bench_op rival_per_thread_sum;
enum { RIVAL_REGISTERED = 64 };

/** A load of one word in a function of its own: what a call that reads a number must cost. */
extern const struct bench_op rival_called_load;

/** Whether this thread has a registered rseq area. */
bool rival_has_rseq(void);

#endif /* PCPU_STAT_BENCH_RIVALS_H */
