/* SPDX-License-Identifier: MIT */
/*
 * The cpu floor: what is known of this machine and process, found once at start-up.
 *
 * The library starts in a constructor, or in the first call that makes something, whichever comes first. Adds
 * made before that count in shared words and do not start anything: they may run in a signal handler. After
 * the start nothing here changes (but numa, when placing is refused later), so readers need no lock; a forked
 * child inherits it all, its threads' registration with the kernel included.
 */
#ifndef PCPU_LIB_CPU_CPU_H
#define PCPU_LIB_CPU_CPU_H

#include <stdbool.h>
#include <stdint.h>

#include <pcpu_stat/cpu.h>

#include "cpu/os.h"
#include "cpu/topology.h"

/* Read-mostly: written by the start alone. */
struct pcpu_cpu {
	struct pcpu_topology topology;
	const struct pcpu_os *os;
	int backend;	     /* enum pcpu_backend */
	int rseq;	     /* enum pcpu_rseq */
	int numa;	     /* enum pcpu_numa; atomic */
	bool sections;	     /* updates run in restartable sections */
	bool area_has_cpu;   /* the area in use names the CPU, also where there are no sections */
	uint32_t auto_batch; /* see pcpu_counter_init */
	bool started;	     /* all of this is final */
};

extern struct pcpu_cpu pcpu_cpu;

/*
 * Start if that has not happened yet; waits if another thread is at it. False in a signal handler that interrupts
 * the start: there are no facts yet then.
 */
bool pcpu_cpu_start(void);

/* Has it happened? From anywhere. */
static inline bool pcpu_cpu_started(void)
{
	return __atomic_load_n(&pcpu_cpu.started, __ATOMIC_ACQUIRE);
}

/*
 * Start anew against another system and backend (-1: as if PCPU_STAT_BACKEND were unset). For tests and
 * benchmarks, while nothing else runs; what was made before keeps the slots it has.
 */
void pcpu_cpu_restart(const struct pcpu_os *os, int backend);

/* A slot for an atomic add, always in range: the CPU we run on if that is known without a system call. */
unsigned pcpu_current_slot(void);

/* An update named a statistic that its tree does not have. */
void pcpu_cpu_count_bad_stat(void);

/*
 * Structs that may grow begin with the size that the caller knows them by. Copy one that came in, attributes,
 * over defaults (NULL: nothing to copy): -EINVAL for a size of less than @oldest, -E2BIG for non-zero bytes
 * that we do not know.
 */
int pcpu_copy_attr(void *to, size_t size, size_t oldest, const void *from);

/* Copy one that goes out, facts, into the caller's @given bytes: what fits, and 0 behind what we know. */
void pcpu_copy_facts(void *to, size_t given, const void *from, size_t size);

#endif /* PCPU_LIB_CPU_CPU_H */
