/* SPDX-License-Identifier: MIT */
/*
 * The restartable sections that only slow paths need. See include/pcpu_stat/arch/x86_64.h for how a section
 * works and for the one that updates use.
 */
#ifndef PCPU_LIB_ARCH_RSEQ_X86_64_H
#define PCPU_LIB_ARCH_RSEQ_X86_64_H

#include <stdbool.h>

#include "arch/area.h"

#define PCPU_X86_OFFSET pcpu_area_offset

#include <pcpu_stat/counter.h>
#include <pcpu_stat/limit.h>
#include <pcpu_stat/arch/x86_64.h>

/*
 * Report ahead on this CPU's slot: carried = total + n, in one commit. The caller owes *diff (what the slot
 * has now reported beyond what it had) to the next level, and then the add of n itself, which fits whatever
 * slot it lands on. Returns false, with nothing done, when aborted or when there is no CPU.
 */
static inline bool pcpu_x86_counter_carry(const struct pcpu_counter *c, int64_t n, int64_t *diff,
					  uint32_t *cpu)
{
	uint64_t old, reported, id;
	uint32_t failed = 1;

	__asm__ volatile(
		PCPU_X86_SECTION_BEGIN("5f") PCPU_X86_LOAD_CPU("%c[fast_slots](%[ctr])", "5f") /* */
		"movl %%eax, %k[id]\n\t"
		"imulq %c[stride](%[ctr]), %%rax\n\t"
		"addq %c[slots](%[ctr]), %%rax\n\t"
		"movq (%%rax), %[reported]\n\t"
		"addq %[amount], %[reported]\n\t"
		"movq 8(%%rax), %[old]\n\t" PCPU_X86_DELAY "movq %[reported], 8(%%rax)\n"
		"2:\n\t"
		"xorl %[failed], %[failed]\n"
		"5:\n\t"
		: [old] "=&r"(old), [reported] "=&r"(reported), [id] "=&r"(id), [failed] "+&r"(failed)
		: [ctr] "r"(c), [off] "r"(PCPU_X86_OFFSET), [amount] "er"(n),
		  [slots] "i"(offsetof(struct pcpu_counter, slots)),
		  [stride] "i"(offsetof(struct pcpu_counter, stride)),
		  [fast_slots] "i"(offsetof(struct pcpu_counter, fast_slots))
		: "rax", "rcx", "memory", "cc");
	if (failed)
		return false;
	*diff = (int64_t)(reported - old);
	*cpu = (uint32_t)id;
	return true;
}

/*
 * Close a limit's slot: no charge or uncharge uses it until it is opened again, and only with a generation
 * younger than @generation. Returns false, with the slot as it was, when aborted, not on @cpu, or when the slot
 * has seen a younger one; else *total is what the slot has charged, which stands still from here on.
 */
static inline bool pcpu_x86_limit_close(char *slot, uint32_t cpu, uint64_t generation, int64_t *total)
{
	uint64_t sum;
	uint32_t failed = 1;

	__asm__ volatile(PCPU_X86_SECTION_BEGIN("5f") /* */
			 "cmpl %%fs:" PCPU_X86_CPU_ID "(%[off]), %[cpu]\n\t"
			 "jne 5f\n\t"
			 "cmpq 8(%[slot]), %[generation]\n\t"
			 "jb 5f\n\t"
			 "movq (%[slot]), %[sum]\n\t"
			 "movq %[generation], 8(%[slot])\n\t" PCPU_X86_DELAY "movq $0, 24(%[slot])\n"
			 "2:\n\t"
			 "xorl %[failed], %[failed]\n"
			 "5:\n\t" PCPU_X86_DISARM
			 : [sum] "=&r"(sum), [failed] "+&r"(failed)
			 : [slot] "r"(slot), [off] "r"(PCPU_X86_OFFSET), [cpu] "r"(cpu), [generation] "r"(generation)
			 : "rax", "rcx", "memory", "cc");
	if (failed)
		return false;
	*total = (int64_t)sum;
	return true;
}

/*
 * Open a closed slot in @epoch with the ceiling that @generation granted, and add @n to its total at once. Returns
 * false when aborted, not on @cpu, when the limit has left that epoch or the slot has seen this generation.
 * The slot may be open then, or closed as if it had been, but nothing was added.
 */
static inline bool pcpu_x86_limit_open(const struct pcpu_limit *l, char *slot, uint32_t cpu, uint64_t epoch,
				       int64_t ceiling, uint64_t generation, int64_t n)
{
	uint32_t failed = 1;

	__asm__ volatile(PCPU_X86_SECTION_BEGIN("5f") /* */
			 "cmpl %%fs:" PCPU_X86_CPU_ID "(%[off]), %[cpu]\n\t"
			 "jne 5f\n\t"
			 "cmpq %c[at_epoch](%[lim]), %[epoch]\n\t"
			 "jne 5f\n\t"
			 "cmpq 8(%[slot]), %[generation]\n\t"
			 "jbe 5f\n\t"
			 "movq (%[slot]), %%rax\n\t"
			 "addq %[amount], %%rax\n\t"
			 "movq %[ceiling], 16(%[slot])\n\t"
			 "movq %[generation], 8(%[slot])\n\t"
			 "movq %[epoch], 24(%[slot])\n\t" PCPU_X86_DELAY "movq %%rax, (%[slot])\n"
			 "2:\n\t"
			 "xorl %[failed], %[failed]\n"
			 "5:\n\t" PCPU_X86_DISARM
			 : [failed] "+&r"(failed)
			 : [lim] "r"(l), [slot] "r"(slot), [off] "r"(PCPU_X86_OFFSET), [cpu] "r"(cpu),
			   [epoch] "r"(epoch), [ceiling] "r"(ceiling), [generation] "r"(generation),
			   [amount] "er"(n), [at_epoch] "i"(offsetof(struct pcpu_limit, epoch))
			 : "rax", "rcx", "memory", "cc");
	return !failed;
}

/*
 * Note @epoch in the slot of @cpu (of a tree's node), if this thread runs there: slot.epoch = epoch.
 * Elsewhere, or when aborted, nothing happens.
 */
static inline void pcpu_x86_node_note(uint64_t *slot_epoch, uint32_t cpu, uint64_t epoch)
{
	__asm__ volatile(PCPU_X86_SECTION_BEGIN("5f") /* */
			 "cmpl %%fs:" PCPU_X86_CPU_ID "(%[off]), %[id]\n\t"
			 "jne 5f\n\t" PCPU_X86_DELAY "movq %[epoch], (%[at])\n"
			 "2:\n"
			 "5:\n\t"
			 :
			 : [at] "r"(slot_epoch), [id] "r"(cpu), [epoch] "r"(epoch), [off] "r"(PCPU_X86_OFFSET)
			 : "rax", "rcx", "memory", "cc");
}

/*
 * The start-up self-test's section: like an add, on a slot of one word per CPU id. Returns the CPU id that
 * committed, or -1 when aborted or out of range.
 */
static inline int pcpu_x86_probe(ptrdiff_t offset, uint64_t *words, uint32_t nr_words)
{
	uint64_t id;
	uint32_t failed = 1;

	__asm__ volatile(PCPU_X86_SECTION_BEGIN("5f") PCPU_X86_LOAD_CPU("%[limit]", "5f") /* */
			 "movl %%eax, %k[id]\n\t"
			 "leaq (%[words], %%rax, 8), %%rax\n\t"
			 "movq (%%rax), %%rcx\n\t"
			 "incq %%rcx\n\t"
			 "movq %%rcx, (%%rax)\n"
			 "2:\n\t"
			 "xorl %[failed], %[failed]\n"
			 "5:\n\t"
			 : [id] "=&r"(id), [failed] "+&r"(failed)
			 : [off] "r"(offset), [words] "r"(words), [limit] "r"(nr_words)
			 : "rax", "rcx", "memory", "cc");
	return failed ? -1 : (int)id;
}

/* Let go of the last armed descriptor: it may lie in code that is about to be unmapped. */
static inline void pcpu_x86_disarm(void)
{
	if (PCPU_X86_OFFSET)
		__asm__ volatile("movq $0, %%fs:" PCPU_X86_RSEQ_CS "(%0)"
				 :
				 : "r"(PCPU_X86_OFFSET)
				 : "memory");
}

#endif /* PCPU_LIB_ARCH_RSEQ_X86_64_H */
