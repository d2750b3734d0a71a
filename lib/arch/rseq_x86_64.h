/* SPDX-License-Identifier: MIT */
/*
 * The restartable sections that only the library needs. See include/pcpu_stat/arch/x86_64.h for how a section
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

/* Assembly is laid out by hand, an instruction a line. */
/* clang-format off */

/*
 * The add of the exported function. There is one of it in a process, so a thread mostly comes here with its
 * descriptor still armed: look for that, as the first thing inside the section, in place of arming it. If it
 * is armed then, whatever interrupts from there on aborts; if something interrupted before, the kernel took
 * it away. A comparison costs less here than a store, since each call stores its return address as it is. In
 * code compiled into callers it is the other way round: each copy has a descriptor of its own.
 *
 * Leaves for `unarmed` when another descriptor is there, or none. There the add is made as callers make it,
 * and pcpu_x86_arm_add lets the next call find the right one. Slow paths do not do that: a store of it next
 * to the atomic add of a carry makes the carry more than twice as dear.
 */
#define PCPU_X86_COUNTER_ADD_ARMED(c, n, unarmed, abort, no_cpu, no_fit, ...)                                \
	__asm__ goto(                                                                                        \
		PCPU_X86_SECTION("%l[" #abort "]")                                                           \
		".globl pcpu_x86_add_section\n\t"                                                            \
		".hidden pcpu_x86_add_section\n\t"                                                           \
		".set pcpu_x86_add_section, 3b\n\t"                                                          \
		"1:\n\t"                                                                                     \
		"cmpq %%rax, %%fs:" PCPU_X86_RSEQ_CS "(%[off])\n\t"                                          \
		"jne %l[" #unarmed "]\n\t"                                                                   \
		PCPU_X86_COUNTER_ADD_BODY("%l[" #no_cpu "]", "%l[" #no_fit "]")                              \
		:                                                                                            \
		: PCPU_X86_COUNTER_OPERANDS(c, n)                                                            \
		: PCPU_X86_COUNTER_ADD_CLOBBERS                                                              \
		: __VA_ARGS__)

/* Outside of sections only: the kernel takes no notice of it there, or takes it away. */
static inline void pcpu_x86_arm_add(void)
{
	__asm__ volatile("leaq pcpu_x86_add_section(%%rip), %%rax\n\t" PCPU_X86_ARM
			 :
			 : [off] "r"(PCPU_X86_OFFSET)
			 : "rax", "memory");
}

/* What pcpu_x86_counter_settle did. */
enum pcpu_x86_outcome {
	PCPU_X86_DONE,
	PCPU_X86_ABORTED, /* nothing; the next try may do it */
	PCPU_X86_NO_CPU,  /* nothing: the counter has no slot for this thread */
};

/*
 * Add n to this CPU's slot, whether it fits or not: if not, all of the slot counts as carried from here on,
 * and the caller owes *carry to the next level (else 0, which no carry is). Both words of the slot change in
 * one commit, a 16-byte store: one instruction, which an interruption finds done or not done. To readers on
 * other CPUs it may be two stores: they may see either word first.
 *
 *		A.rseq_cs = &descriptor
 *	start:	cpu = A.cpu_id
 *		if (cpu >= C.fast_slots) goto no_cpu
 *		slot = C.slots + cpu * C.stride
 *		was = slot.carried
 *		new = slot.total + n
 *		settled = |new - was| > C.bias ? new : was
 *		slot.total, slot.carried = new, settled		the commit
 *	end:	carry = settled - was
 */
static inline enum pcpu_x86_outcome pcpu_x86_counter_settle(const struct pcpu_counter *c, int64_t n,
							    int64_t *carry, uint32_t *cpu)
{
	uint64_t was, settled, id;
	uint32_t outcome = PCPU_X86_NO_CPU;

	__asm__ volatile(
		PCPU_X86_SECTION_BEGIN("6f")
		PCPU_X86_LOAD_CPU("%c[fast_slots](%[ctr])", "5f")
		"movl %%eax, %k[id]\n\t"
		PCPU_X86_FIND_SLOT("%[ctr]")
		"movq (%%rax), %%rdx\n\t"
		"movq 8(%%rax), %[was]\n\t"
		"addq %[amount], %%rdx\n\t"
		"movq %%rdx, %%rcx\n\t"
		"subq %[was], %%rcx\n\t"
		"movq %c[bias](%[ctr]), %[settled]\n\t"
		"addq %[settled], %%rcx\n\t"
		"addq %[settled], %[settled]\n\t"
		"cmpq %[settled], %%rcx\n\t"
		"movq %[was], %[settled]\n\t"
		"cmovaq %%rdx, %[settled]\n\t"
		"movq %%rdx, %%xmm0\n\t"
		"movq %[settled], %%xmm1\n\t"
		"punpcklqdq %%xmm1, %%xmm0\n\t"
		PCPU_X86_DELAY
		"movaps %%xmm0, (%%rax)\n"
		"2:\n\t"
		"xorl %[outcome], %[outcome]\n"
		"5:\n\t"
		".pushsection __rseq_failure, \"ax?\"\n"
		"6:\tmovl %[aborted], %[outcome]\n\t"
		"jmp 5b\n\t"
		".popsection"
		: [was] "=&r"(was), [settled] "=&r"(settled), [id] "=&r"(id), [outcome] "+&r"(outcome)
		: PCPU_X86_COUNTER_OPERANDS(c, n), [aborted] "i"(PCPU_X86_ABORTED)
		: "rax", "rcx", "rdx", "xmm0", "xmm1", "memory", "cc");
	*carry = (int64_t)(settled - was);
	*cpu = (uint32_t)id;
	return (enum pcpu_x86_outcome)outcome;
}

/*
 * Close a limit's slot: no charge or uncharge uses it until it is opened again, and only with a generation
 * younger than @generation. Returns false, with the slot as it was, when aborted, not on @cpu, or when the
 * slot has seen a younger one; else *total is what the slot has charged, which stands still from here on.
 */
static inline bool pcpu_x86_limit_close(char *slot, uint32_t cpu, uint64_t generation, int64_t *total)
{
	uint64_t sum;
	uint32_t failed = 1;

	__asm__ volatile(
		PCPU_X86_SECTION_BEGIN("5f") /* */
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
 * Open a closed slot in @epoch with the ceiling that @generation granted, and add @n to its total at once.
 * Returns false when aborted, not on @cpu, when the limit has left that epoch or the slot has seen this
 * generation. The slot may be open then, or closed as if it had been, but nothing was added.
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
	__asm__ volatile(
		PCPU_X86_SECTION_BEGIN("5f")
		"cmpl %%fs:" PCPU_X86_CPU_ID "(%[off]), %[id]\n\t"
		"jne 5f\n\t"
		PCPU_X86_DELAY
		"movq %[epoch], (%[at])\n"
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

	__asm__ volatile(
		PCPU_X86_SECTION_BEGIN("5f")
		PCPU_X86_LOAD_CPU("%[limit]", "5f")
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
