/* SPDX-License-Identifier: MIT */
/**
 * @file x86_64.h
 * The restartable sections of the update path on x86-64. All assembly that callers compile is here.
 *
 * A section in pseudocode (A is the thread's rseq area, C the counter):
 *
 *		A.rseq_cs = &descriptor				armed: an event now restarts at `abort`
 *	start:	cpu = A.cpu_id					unregistered threads read -1 or -2
 *		if (cpu >= C.fast_slots) goto no_cpu		unsigned: those, and ids never heard of
 *		slot = C.slots + cpu * C.stride
 *		new = slot.total + n
 *		if (new - slot.carried + C.bias > 2 * C.bias)	unsigned: |new - carried| > bias
 *			goto no_fit
 *		slot.total = new				the commit: one store, the last instruction
 *	end:
 *
 * Preemption, migration or a signal between start and end sends the thread to `abort` with nothing done, so
 * the load and the store of `total` are indivisible against everything else on this CPU, and nobody on
 * another CPU ever writes the slot.
 *
 * The order of the instructions is part of the speed. Recent cores forward a store to the next load of the
 * same address by register name, in no time, when both go through one plain base register (no index, and not
 * `add n, mem`) and something stands between the load and the add that uses it: next to each other, the two
 * are joined and wait for the store like everybody else (bench/paired.h, bench_counter --ratios).
 * Beyond that, an add takes as long as its loads take to issue, seven of them: so 2 * bias is computed.
 *
 * The area is found at thread pointer + pcpu_rseq_offset. That is 0 until the library has started, and stays
 * 0 where it decided against rseq: the section must not be entered then. It is declared const so that a
 * function with several adds loads and tests it once; the library's one write to it goes from 0 to the final
 * value, and code that still holds the 0 takes the slow path.
 *
 * A thread's rseq_cs goes on pointing at the last descriptor it armed; the kernel looks at it when it next
 * returns to this thread, and faults if it is gone. Code that may be unmapped while its threads live
 * (plug-ins) defines PCPU_STAT_UNLOADABLE and pays a store per add to take the pointer back. That does
 * nothing for the library's own sections: a plug-in that links it statically must be linked with
 * -Wl,-z,nodelete.
 */
#ifndef PCPU_STAT_ARCH_X86_64_H
#define PCPU_STAT_ARCH_X86_64_H

#include <pcpu_stat/common.h>

PCPU_BEGIN_DECLS
/** Distance from the thread pointer to the rseq area in use, in bytes; 0: none. */
extern PCPU_API const ptrdiff_t pcpu_rseq_offset;
PCPU_END_DECLS

/* The library itself reads a hidden copy: one load less than by way of the global offset table. */
#ifndef PCPU_X86_OFFSET
#define PCPU_X86_OFFSET pcpu_rseq_offset
#endif

/* struct rseq: the two fields that sections use. Part of the kernel's ABI. */
#define PCPU_X86_CPU_ID	 "4"
#define PCPU_X86_RSEQ_CS "8"

/* Tests compile the library with a delay here to widen the race, or leave out the arming to see it lost. */
#ifndef PCPU_X86_DELAY
#define PCPU_X86_DELAY ""
#endif
#ifndef PCPU_X86_ARM
#define PCPU_X86_ARM "movq %%rax, %%fs:" PCPU_X86_RSEQ_CS "(%[off])\n\t"
#endif

#ifdef PCPU_STAT_UNLOADABLE
#define PCPU_X86_DISARM "movq $0, %%fs:" PCPU_X86_RSEQ_CS "(%[off])\n\t"
#else
#define PCPU_X86_DISARM ""
#endif

/* Assembly is laid out by hand, an instruction a line. */
/* clang-format off */

/*
 * Descriptor (label 3: version, flags, start, length, abort address), the abort handler's landing (label 4,
 * right behind the signature that the kernel demands, made to disassemble as ud1); rax = the descriptor. "?"
 * puts both sections into the group of the function, so that a discarded COMDAT function takes them along.
 * `abort` is where the landing jumps to.
 */
#define PCPU_X86_SECTION(abort)                                                                              \
	".pushsection __rseq_cs, \"aw?\"\n\t"                                                                \
	".balign 32\n"                                                                                       \
	"3:\t.long 0, 0\n\t"                                                                                 \
	".quad 1f, 2f - 1f, 4f\n\t"                                                                          \
	".popsection\n\t"                                                                                    \
	".pushsection __rseq_failure, \"ax?\"\n\t"                                                           \
	".byte 0x0f, 0xb9, 0x3d\n\t"                                                                         \
	".long 0x53053053\n"                                                                                 \
	"4:\tjmp " abort "\n\t"                                                                              \
	".popsection\n\t"                                                                                    \
	"leaq 3b(%%rip), %%rax\n\t"

/* The same, armed. Clobbers rax. */
#define PCPU_X86_SECTION_BEGIN(abort)                                                                        \
	PCPU_X86_SECTION(abort)                                                                              \
	PCPU_X86_ARM                                                                                         \
	"1:\n\t"

/* rax = cpu_id; leave for `no_cpu` unless it is below the 32-bit limit at `limit`. */
#define PCPU_X86_LOAD_CPU(limit, no_cpu)                                                                     \
	"movl %%fs:" PCPU_X86_CPU_ID "(%[off]), %%eax\n\t"                                                   \
	"cmpl " limit ", %%eax\n\t"                                                                          \
	"jae " no_cpu "\n\t"

/* rax = this CPU's slot, out of its CPU id in rax. `handle`: the register with what has slots. */
#define PCPU_X86_FIND_SLOT(handle)                                                                           \
	"imulq %c[stride](" handle "), %%rax\n\t"                                                            \
	"addq %c[slots](" handle "), %%rax\n\t"

/* The operands that sections on counters have in common. */
#define PCPU_X86_COUNTER_OPERANDS(c, n)                                                                      \
	[ctr] "r"(c), [off] "r"(PCPU_X86_OFFSET), [amount] "er"((int64_t)(n)),                               \
	[slots] "i"(offsetof(struct pcpu_counter, slots)),                                                   \
	[stride] "i"(offsetof(struct pcpu_counter, stride)),                                                 \
	[fast_slots] "i"(offsetof(struct pcpu_counter, fast_slots)),                                         \
	[bias] "i"(offsetof(struct pcpu_counter, bias))

/* From behind the section's start to its end: all that an add is. */
#define PCPU_X86_COUNTER_ADD_BODY(no_cpu, no_fit)                                                            \
	PCPU_X86_LOAD_CPU("%c[fast_slots](%[ctr])", no_cpu)                                                  \
	PCPU_X86_FIND_SLOT("%[ctr]")                                                                         \
	"movq %c[bias](%[ctr]), %%rcx\n\t"                                                                   \
	"movq (%%rax), %%rdx\n\t"                                                                            \
	"leaq (%%rcx, %%rcx), %%r8\n\t"                                                                      \
	"addq %[amount], %%rdx\n\t"                                                                          \
	"addq %%rdx, %%rcx\n\t"                                                                              \
	"subq 8(%%rax), %%rcx\n\t"                                                                           \
	"cmpq %%r8, %%rcx\n\t"                                                                               \
	"ja " no_fit "\n\t"                                                                                  \
	PCPU_X86_DELAY                                                                                       \
	"movq %%rdx, (%%rax)\n"                                                                              \
	"2:\n\t"

#define PCPU_X86_COUNTER_ADD_CLOBBERS "rax", "rcx", "rdx", "r8", "memory", "cc"

/*
 * Add n to the slot of this CPU. The caller has seen pcpu_rseq_offset not to be 0. Leaves for one of three
 * labels when that was not done; the rest of the arguments is the list of these labels, each once.
 */
#define PCPU_X86_COUNTER_ADD(c, n, abort, no_cpu, no_fit, ...)                                               \
	__asm__ goto(                                                                                        \
		PCPU_X86_SECTION_BEGIN("%l[" #abort "]")                                                     \
		PCPU_X86_COUNTER_ADD_BODY("%l[" #no_cpu "]", "%l[" #no_fit "]")                              \
		PCPU_X86_DISARM                                                                              \
		: /* no outputs: compilers before gcc 11 have none here */                                   \
		: PCPU_X86_COUNTER_OPERANDS(c, n)                                                            \
		: PCPU_X86_COUNTER_ADD_CLOBBERS                                                              \
		: __VA_ARGS__)

/*
 * The tree's sections. `node` is a struct pcpu_node_fast: what it means is in tree_inline.h.
 *
 *		A.rseq_cs = &descriptor
 *	start:	cpu = A.cpu_id
 *		if (cpu >= node.fast_slots) goto failed
 *		slot = node.slots + cpu * node.stride
 *		slot.values[stat] += n				the commit
 *	end:	unnoticed = slot.epoch != node.epoch
 *
 * The epochs are compared after the commit: a flusher that moved the node's on before it saw the new value is
 * noticed here (lib/tree/flush.c).
 *
 * The comparison's result leaves in the flags. Failure leaves as unnoticed with slot NULL: nothing was added.
 */
#define PCPU_X86_NODE_FAILED                                                                                 \
	".pushsection __rseq_failure, \"ax?\"\n"                                                             \
	"5:\txorl %%eax, %%eax\n\t"                                                                          \
	"cmpl $1, %%eax\n\t"                                                                                 \
	"jmp 6f\n\t"                                                                                         \
	".popsection\n"

/*
 * rax = slot. The compiler picks the other registers, so that the function form need not move its arguments
 * out of the way. The nop keeps the load and the add apart (see above).
 */
#define PCPU_X86_NODE_ADD(fast, index, n, slot, unnoticed)                                                   \
	do {                                                                                                 \
		uint64_t pcpu_sum, pcpu_at;                                                                  \
                                                                                                             \
		__asm__ volatile(                                                                            \
			PCPU_X86_SECTION_BEGIN("5f")                                                         \
			PCPU_X86_LOAD_CPU("%c[fast_slots](%[node])", "5f")                                   \
			PCPU_X86_FIND_SLOT("%[node]")                                                        \
			"leaq 8(%%rax, %[stat], 8), %[at]\n\t"                                               \
			"movq (%[at]), %[sum]\n\t"                                                           \
			"nop\n\t"                                                                            \
			"addq %[amount], %[sum]\n\t"                                                         \
			PCPU_X86_DELAY                                                                       \
			"movq %[sum], (%[at])\n"                                                             \
			"2:\n\t"                                                                             \
			PCPU_X86_DISARM                                                                      \
			"movq %c[epoch](%[node]), %[sum]\n\t"                                                \
			"cmpq (%%rax), %[sum]\n"                                                             \
			PCPU_X86_NODE_FAILED                                                                 \
			"6:\n\t"                                                                             \
			: "=@ccne"(unnoticed), "=&a"(slot), [sum] "=&r"(pcpu_sum), [at] "=&r"(pcpu_at)       \
			: [node] "r"(fast), [off] "r"(PCPU_X86_OFFSET), [stat] "r"((uint64_t)(index)),       \
			  [amount] "er"((int64_t)(n)),                                                       \
			  [slots] "i"(offsetof(struct pcpu_node_fast, slots)),                               \
			  [stride] "i"(offsetof(struct pcpu_node_fast, stride)),                             \
			  [fast_slots] "i"(offsetof(struct pcpu_node_fast, fast_slots)),                     \
			  [epoch] "i"(offsetof(struct pcpu_node_fast, epoch))                                \
			: "memory");                                                                         \
	} while (0)

/* The CPU that this thread runs on, at some moment: to compute the address of a slot from. */
#define PCPU_X86_CURRENT_CPU(cpu)                                                                            \
	__asm__ volatile("movl %%fs:" PCPU_X86_CPU_ID "(%[off]), %[id]"                                      \
			 : [id] "=r"(cpu)                                                                    \
			 : [off] "r"(PCPU_X86_OFFSET))

/*
 * Add n to `value`, a word in a slot of `cpu`, without a look at the epoch:
 *
 *		A.rseq_cs = &descriptor
 *	start:	if (A.cpu_id != cpu) goto moved
 *		value += n					the commit
 *	end:
 *
 * Leaves for `moved` with nothing done when this thread runs elsewhere by now, or was interrupted. The word's
 * address must be one plain register (see above).
 */
#define PCPU_X86_NODE_ADD_AT(value, cpu, n, moved)                                                           \
	__asm__ goto(                                                                                        \
		PCPU_X86_SECTION_BEGIN("%l[" #moved "]")                                                     \
		"cmpl %%fs:" PCPU_X86_CPU_ID "(%[off]), %[id]\n\t"                                           \
		"jne %l[" #moved "]\n\t"                                                                     \
		"movq %[word], %%rdx\n\t"                                                                    \
		"nop\n\t"                                                                                    \
		"addq %[amount], %%rdx\n\t"                                                                  \
		PCPU_X86_DELAY                                                                               \
		"movq %%rdx, %[word]\n"                                                                      \
		"2:\n\t"                                                                                     \
		PCPU_X86_DISARM                                                                              \
		: /* no outputs: compilers before gcc 11 have none here; "memory" says that it is written */ \
		: [word] "m"(value), [id] "r"(cpu), [off] "r"(PCPU_X86_OFFSET), [amount] "er"((int64_t)(n))  \
		: "rax", "rdx", "memory", "cc"                                                               \
		: moved)

/*
 * A limit's section (L the limit). A slot is {total, generation, ceiling, epoch}; ceiling - total is the stock:
 *
 *	     slot = L + L.slots + cpu * L.stride
 *	     if (slot.epoch != L.epoch) goto slow	the stock was taken back, or there is none
 *	     if (slot.ceiling - slot.total < n) goto slow	unsigned: also n < 0
 *	     slot.total += n				the commit
 *
 * and to uncharge, with L.batch - stock in place of the stock, slot.total -= n. Leaves for `slow` when nothing
 * was done, for whatever reason. (r8 and not rdx: the third argument of the calls stays where it is.)
 */
#define PCPU_X86_LIMIT_SECTION(l, n, compare, change, slow)                                                  \
	__asm__ goto(PCPU_X86_SECTION_BEGIN("%l[" #slow "]")                                                 \
			     PCPU_X86_LOAD_CPU("%c[fast_slots](%[lim])", "%l[" #slow "]") /* */              \
		     "imulq %c[stride](%[lim]), %%rax\n\t"                                                   \
		     "addq %c[slots](%[lim]), %%rax\n\t"                                                     \
		     "addq %[lim], %%rax\n\t"                                                                \
		     "movq (%%rax), %%r8\n\t"                                                                \
		     "movq %c[epoch](%[lim]), %%rcx\n\t"                                                     \
		     "cmpq 24(%%rax), %%rcx\n\t"                                                             \
		     "jne %l[" #slow "]\n\t" compare "cmpq %[amount], %%rcx\n\t"                             \
		     "jb %l[" #slow "]\n\t" change PCPU_X86_DELAY "movq %%r8, (%%rax)\n"                     \
		     "2:\n\t" PCPU_X86_DISARM                                                                \
		     :                                                                                       \
		     : [lim] "r"(l), [off] "r"(PCPU_X86_OFFSET), [amount] "er"((int64_t)(n)),                \
		       [slots] "i"(offsetof(struct pcpu_limit, slots)),                                      \
		       [stride] "i"(offsetof(struct pcpu_limit, stride)),                                    \
		       [fast_slots] "i"(offsetof(struct pcpu_limit, fast_slots)),                            \
		       [batch] "i"(offsetof(struct pcpu_limit, batch)),                                      \
		       [epoch] "i"(offsetof(struct pcpu_limit, epoch))                                       \
		     : "rax", "rcx", "r8", "memory", "cc"                                                    \
		     : slow)

/* Charge n from this CPU's stock. The caller has seen pcpu_rseq_offset not to be 0. */
#define PCPU_X86_LIMIT_CHARGE(l, n, slow)                                                                    \
	PCPU_X86_LIMIT_SECTION(l, n,                                                                         \
			       "movq 16(%%rax), %%rcx\n\t"                                                   \
			       "subq %%r8, %%rcx\n\t",                                                       \
			       "addq %[amount], %%r8\n\t", slow)

/* Uncharge n into this CPU's stock. */
#define PCPU_X86_LIMIT_UNCHARGE(l, n, slow)                                                                  \
	PCPU_X86_LIMIT_SECTION(l, n,                                                                         \
			       "movq %%r8, %%rcx\n\t"                                                        \
			       "subq 16(%%rax), %%rcx\n\t"                                                   \
			       "addq %c[batch](%[lim]), %%rcx\n\t",                                          \
			       "subq %[amount], %%r8\n\t", slow)

#endif /* PCPU_STAT_ARCH_X86_64_H */
