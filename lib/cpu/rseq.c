/* SPDX-License-Identifier: MIT */
/* Finding the area, and the self-test. */
#include "cpu/rseq.h"

#include <stdint.h>

#include <pcpu_stat/cpu.h>

#include "arch/rseq.h"
#include "cpu/topology.h"

/*
 * glibc's names for it. Weak, and defined by the dynamic loader rather than libc.so, so that no symbol
 * version is recorded: a C library without them loads us all the same.
 */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

#if PCPU_ARCH_SECTIONS
/* Enough tries that being interrupted in all of them means something else is wrong. */
#define TRIES 100

/* Do sections commit what they should, on the CPU that the system says we run on? */
static bool self_test(const struct pcpu_os *os, ptrdiff_t offset)
{
	static uint64_t words[PCPU_MAX_SLOTS];
	unsigned committed = 0, agreed = 0;
	uint64_t total = 0;

	for (unsigned i = 0; i < TRIES; i++) {
		int before = os->current_cpu();
		int cpu = pcpu_x86_probe(offset, words, PCPU_MAX_SLOTS);
		int after = os->current_cpu();

		if (cpu < 0)
			continue;
		committed++;
		total += words[cpu];
		words[cpu] = 0;
		/* Migrated in between, or the system does not say: no witness either way. */
		if (before < 0 || before != after || before == cpu)
			agreed++;
	}
	return committed > 0 && total == committed && agreed == committed;
}
#endif

int pcpu_rseq_find(const struct pcpu_os *os, ptrdiff_t *offset)
{
	const struct pcpu_rseq_area *area;

	if (!PCPU_ARCH_CPU_ID)
		return PCPU_RSEQ_UNSUPPORTED;
	/* With rseq switched off the size is 0 though the offset is not. */
	if (!os->use_rseq || !&__rseq_offset || !&__rseq_size || __rseq_size == 0)
		return PCPU_RSEQ_ABSENT;
	area = (const struct pcpu_rseq_area *)(pcpu_thread_pointer() + __rseq_offset);
	/* Registered, and on a CPU; -1 and -2 are "not yet" and "refused". */
	if ((int32_t)__atomic_load_n(&area->cpu_id, __ATOMIC_RELAXED) < 0)
		return PCPU_RSEQ_ABSENT;
#if PCPU_ARCH_SECTIONS
	if (!self_test(os, __rseq_offset))
		return PCPU_RSEQ_BROKEN;
	*offset = __rseq_offset;
	return PCPU_RSEQ_USED;
#else
	*offset = __rseq_offset;
	return PCPU_RSEQ_UNSUPPORTED;
#endif
}
