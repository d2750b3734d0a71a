/* SPDX-License-Identifier: MIT */
/**
 * @file simulated_rivals.h
 * What programs count with in place of per-CPU counters, for simulated CPUs. Each adds 1.
 */
#ifndef PCPU_BENCH_COHERENCE_SIMULATED_RIVALS_H
#define PCPU_BENCH_COHERENCE_SIMULATED_RIVALS_H

#include <stdint.h>

enum { RIVAL_SHARDS = 64, RIVAL_CPUS = 512, RIVAL_LEVELS = 9 };

/** A line of its own, and the one beside it. */
struct rival_line {
	_Alignas(128) int64_t value;
};

/** One word, for everybody. */
extern struct rival_line rival_shared;
void rival_add_shared(unsigned cpu);

/** A fixed number of padded words; threads are dealt out to them. */
extern struct rival_line rival_shards[RIVAL_SHARDS];
void rival_add_sharded(unsigned cpu);

/** A word per CPU, side by side, in plain stores (which a thread that migrates would lose). */
extern _Alignas(128) int64_t rival_unpadded[RIVAL_CPUS];
void rival_add_unpadded(unsigned cpu);

/** A padded word per CPU, atomically. */
extern struct rival_line rival_padded[RIVAL_CPUS];
void rival_add_padded(unsigned cpu);

/**
 * A binary tree of words: what a CPU has gathered beyond a multiple of the batch goes to a word that two CPUs
 * share, from there beyond a multiple of twice the batch to one that four share, and so on to the root (the
 * shape of the kernel's percpu_counter_tree). With a batch of 1 every unit takes at least one step.
 */
extern struct rival_line rival_carry[RIVAL_LEVELS + 1][RIVAL_CPUS];
void rival_carry_start(unsigned cpus, unsigned batch);
void rival_add_carry(unsigned cpu);

#endif /* PCPU_BENCH_COHERENCE_SIMULATED_RIVALS_H */
