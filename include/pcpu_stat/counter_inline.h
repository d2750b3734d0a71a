/* SPDX-License-Identifier: MIT */
/**
 * @file counter_inline.h
 * The bodies of the counter's update calls. Compiled into callers that define PCPU_STAT_INLINE, and once into
 * the library, where PCPU_COUNTER_UPDATE makes them the exported functions. Included by counter.h
 * and lib/counter/counter.c alone.
 */
#ifndef PCPU_STAT_COUNTER_INLINE_H
#define PCPU_STAT_COUNTER_INLINE_H

PCPU_COUNTER_UPDATE void pcpu_counter_add(struct pcpu_counter *c, int64_t n)
{
#ifdef PCPU_X86_COUNTER_ADD
#ifdef PCPU_X86_COUNTER_ADD_ARMED
	/* Needs no look at the offset: with 0 it compares a word of the thread's that is no descriptor. */
	PCPU_X86_COUNTER_ADD_ARMED(c, n, unarmed, slow, slow, slow, unarmed, slow);
	return;
unarmed:
#endif
	if (pcpu_unlikely(!PCPU_X86_OFFSET))
		goto slow;
	PCPU_X86_COUNTER_ADD(c, n, slow, slow, slow, slow);
#ifdef PCPU_X86_COUNTER_ADD_ARMED
	pcpu_x86_arm_add();
#endif
	return;
slow:
#endif
	pcpu_counter_add_slow(c, n);
}

PCPU_COUNTER_UPDATE void pcpu_counter_sub(struct pcpu_counter *c, int64_t n)
{
	pcpu_counter_add(c, (int64_t)(0 - (uint64_t)n));
}

PCPU_COUNTER_UPDATE void pcpu_counter_inc(struct pcpu_counter *c)
{
	pcpu_counter_add(c, 1);
}

PCPU_COUNTER_UPDATE void pcpu_counter_dec(struct pcpu_counter *c)
{
	pcpu_counter_add(c, -1);
}

#endif /* PCPU_STAT_COUNTER_INLINE_H */
