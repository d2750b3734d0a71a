/* SPDX-License-Identifier: MIT */
/*
 * What a machine can do with restartable sequences. An architecture file defines PCPU_ARCH_SECTIONS and the
 * sections; where there is none, updates take the CPU id alone from the area, or nothing (PCPU_ARCH_CPU_ID).
 * PCPU_ARCH_SIMULATED puts CPUs made of software in place of the machine's.
 *
 * aarch64 has no sections on purpose: since kernel 6.19 preemption by another thread of the same CPU does not
 * abort a section there, which the load/add/store form depends on. Its adds are relaxed atomics (one LSE
 * instruction), safe whatever the kernel does, on the slot that cpu_id names.
 */
#ifndef PCPU_LIB_ARCH_RSEQ_H
#define PCPU_LIB_ARCH_RSEQ_H

#include <pcpu_stat/common.h>

/* The kernel's struct rseq as far as everybody has it (uapi/linux/rseq.h, original 32 bytes). */
struct pcpu_rseq_area {
	uint32_t cpu_id_start;
	uint32_t cpu_id; /* negative when not registered */
	uint64_t rseq_cs;
	uint32_t flags;
	uint32_t node_id;
	uint32_t mm_cid;
	uint32_t padding;
} __attribute__((aligned(32)));

#if defined(PCPU_ARCH_SIMULATED)
#define PCPU_ARCH_SECTIONS 1
#include "arch/rseq_simulated.h"
#elif defined(__x86_64__) && !defined(__ILP32__) && !PCPU_SANITIZED
#define PCPU_ARCH_SECTIONS 1
#include "arch/rseq_x86_64.h"
#else
#define PCPU_ARCH_SECTIONS 0
#endif

#if defined(__x86_64__) || defined(__aarch64__) || defined(PCPU_ARCH_SIMULATED)
#define PCPU_ARCH_CPU_ID 1
#else
#define PCPU_ARCH_CPU_ID 0
#endif

/* The thread pointer: what a rseq offset is relative to. */
static inline char *pcpu_thread_pointer(void)
{
#if defined(PCPU_ARCH_SIMULATED)
	return pcpu_simulated_thread_pointer();
#elif defined(__x86_64__) && !defined(__ILP32__)
	char *tp;

	__asm__("movq %%fs:0, %0" : "=r"(tp)); /* the TCB begins with its own address */
	return tp;
#else
	return (char *)__builtin_thread_pointer();
#endif
}

#endif /* PCPU_LIB_ARCH_RSEQ_H */
