/* SPDX-License-Identifier: MIT */
/*
 * Fences that act on other threads: membarrier. A flusher pays for both sides, updaters for none.
 */
#ifndef PCPU_LIB_CPU_FENCE_H
#define PCPU_LIB_CPU_FENCE_H

#include <stdbool.h>

#include "cpu/os.h"

#define PCPU_FENCE_PROCESS 1u /* pcpu_fence_process works */
#define PCPU_FENCE_GLOBAL  2u /* the kernel has the command that reaches other processes */
#define PCPU_FENCE_RSEQ	   4u /* pcpu_fence_sections works */

/* Ask and register, once at start-up: a filter that comes later finds nothing to refuse but the fences. */
void pcpu_fence_start(const struct pcpu_os *os);

/* What works: a set of PCPU_FENCE_*. */
unsigned pcpu_fence_kinds(void);

/*
 * Every thread of this process that runs now passes a full barrier between its accesses before and after this
 * call; one that does not run has passed one when it was switched out. False: refused, nothing is known.
 */
bool pcpu_fence_process(void);

/* The same, and restartable sections in flight are aborted. */
bool pcpu_fence_sections(void);

/*
 * The same again, without membarrier: the calling thread goes to each of the first @cpus CPUs and back, so
 * that whatever ran there was preempted. Milliseconds; for programs that were denied membarrier after they
 * started. CPUs that the system does not let this thread on count as not used by this process.
 */
bool pcpu_fence_sections_by_visit(unsigned cpus);

#endif /* PCPU_LIB_CPU_FENCE_H */
