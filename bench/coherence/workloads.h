/* SPDX-License-Identifier: MIT */
/**
 * @file workloads.h
 * What simulated CPUs do to the library and its rivals, and what it cost.
 */
#ifndef PCPU_BENCH_COHERENCE_WORKLOADS_H
#define PCPU_BENCH_COHERENCE_WORKLOADS_H

#include <stdbool.h>
#include <stdint.h>

#include "machine.h"

enum workload_id {
	COUNTER_64,
	COUNTER_AUTO,
	COUNTER_64_ATOMIC, /* without restartable sections */
	COUNTER_64_NODES_OFF,
	COUNTER_64_SUM, /* CPU 0 reads the exact sum every READ_EVERY adds */
	TREE_1,
	TREE_4,
	TREE_1_BOUNDED,
	TREE_4_BOUNDED,
	TREE_4_EXACT,
	TREE_4_CLEAN, /* every operation is an exact read; nothing changes */
	SHARED,
	SHARDED,
	UNPADDED,
	PADDED,
	CARRY_1,
	CARRY_64,
	NR_WORKLOADS,
};

enum { READ_EVERY = 10000 };

struct workload {
	const char *name;
	const char *what;
	bool library; /* or a rival */
};

extern const struct workload workloads[NR_WORKLOADS];

struct outcome {
	uint64_t operations;
	uint64_t reads;
	struct model_count count;
	struct model_count handle; /**< fields that updates only read: transfers alone */
	double ns;		   /* simulated, from one operation of a CPU to its next */
	bool exact;		   /* everything that was added is there */
};

/** Run it on a machine of its own. @p fields: print counts by field as well. */
struct outcome workload_run(enum workload_id id, unsigned cpus, unsigned nodes, bool pairs, uint64_t seed,
			    bool fields);

/** Nodes of the machines that stand for a number of CPUs when nothing else is asked for: 64 CPUs each. */
unsigned default_nodes(unsigned cpus);

static inline double per(uint64_t n, uint64_t operations)
{
	return operations ? (double)n / (double)operations : 0;
}

#endif /* PCPU_BENCH_COHERENCE_WORKLOADS_H */
