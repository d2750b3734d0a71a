/* SPDX-License-Identifier: MIT */
/**
 * @file machine.h
 * A machine of simulated CPUs that run code compiled for it. See machine.c.
 */
#ifndef PCPU_BENCH_COHERENCE_MACHINE_H
#define PCPU_BENCH_COHERENCE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "model.h"

struct machine_options {
	unsigned cpus, nodes; /**< nodes divide the CPUs evenly */
	bool pairs;	      /**< the model's adjacent-line option */
	uint64_t seed;
	/**
	 * 0: a thread per CPU, and the next to run is the one with the smallest clock. Otherwise that many
	 * threads, the next is drawn by lot at every access, and one in preempt_one_in of these preempts.
	 */
	unsigned threads;
	unsigned preempt_one_in;
	bool unprotected; /**< sections commit even if they were interrupted */
	int backend;	  /**< enum pcpu_backend, or -1 */
};

struct machine_events {
	uint64_t aborts;
	uint64_t preemptions;
	uint64_t migrations;
	uint64_t fences;
};

/** Build it, and make the library believe in it. What was made before must be gone. */
void machine_start(const struct machine_options *options);

/** Run @p body once on every thread, until all have returned. Clocks go on from where they were. */
void machine_run(void (*body)(unsigned thread, void *ctx), void *ctx);

/** In a thread: its own work for @p ns nanoseconds. */
void machine_work(unsigned ns);
/** In a thread: the CPU it runs on. */
unsigned machine_cpu(void);
/** The clock of the CPU that runs; outside of machine_run, the latest of all. */
uint64_t machine_now(void);
/** A number that depends on the seed and on how many were drawn before. */
uint64_t machine_random(void);

struct machine_events machine_events(void);

/** For the run-time: an access by the running thread, which may let others run first. */
void machine_access(const void *address, unsigned bytes, enum model_kind kind);

#endif /* PCPU_BENCH_COHERENCE_MACHINE_H */
