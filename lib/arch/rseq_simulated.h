/* SPDX-License-Identifier: MIT */
/*
 * Restartable sections in C, for simulated CPUs (bench/coherence). Compiled with -DPCPU_ARCH_SIMULATED only.
 *
 * It stands in for rseq_x86_64.h and x86_64.h: the same names, the same loads and stores. A machine of simulated
 * CPUs is what runs the threads here; it knows when one is preempted or moved, and says so at the next store:
 *
 *	begin	a section starts; what interrupted an earlier one is forgotten
 *	store	a store in a section: false, with nothing stored, if the thread was interrupted since begin
 *
 * Loads go on after an interruption where a real section would have been left at once. Their results are
 * dropped, as no store follows. Everything else about a thread (its area, its CPU) is real to the library: begin
 * arms the area's rseq_cs, with no more than a number, and an interruption takes it away.
 */
#ifndef PCPU_LIB_ARCH_RSEQ_SIMULATED_H
#define PCPU_LIB_ARCH_RSEQ_SIMULATED_H

#include <stdbool.h>

#include "arch/area.h"

#define PCPU_X86_OFFSET pcpu_area_offset

#include <pcpu_stat/counter.h>
#include <pcpu_stat/tree_layout.h>

/* What the simulated machine provides. */
char *pcpu_simulated_thread_pointer(void);
void pcpu_simulated_begin(void);
bool pcpu_simulated_store(void *word, uint64_t value);
bool pcpu_simulated_store_pair(void *words, uint64_t first, uint64_t second); /* 16 bytes at once, aligned */

/* What goes into rseq_cs: 0 is none. */
enum { PCPU_SIMULATED_ANY = 1, PCPU_SIMULATED_ADD };

static inline struct pcpu_rseq_area *pcpu_simulated_area(ptrdiff_t offset)
{
	return (struct pcpu_rseq_area *)(void *)(pcpu_simulated_thread_pointer() + offset);
}

static inline uint32_t pcpu_simulated_cpu(ptrdiff_t offset)
{
	return __atomic_load_n(&pcpu_simulated_area(offset)->cpu_id, __ATOMIC_RELAXED);
}

/* The interruption that comes between the two finds the section begun. */
static inline void pcpu_simulated_arm(ptrdiff_t offset, uint64_t descriptor)
{
	pcpu_simulated_begin();
	__atomic_store_n(&pcpu_simulated_area(offset)->rseq_cs, descriptor, __ATOMIC_RELAXED);
}

static inline uint64_t pcpu_simulated_load(const void *word)
{
	return __atomic_load_n((const uint64_t *)word, __ATOMIC_RELAXED);
}

/* ---- counters ---- */

enum pcpu_x86_outcome { PCPU_X86_DONE, PCPU_X86_ABORTED, PCPU_X86_NO_CPU, PCPU_X86_NO_FIT, PCPU_X86_UNARMED };

static inline void pcpu_x86_arm_add(void)
{
	pcpu_simulated_arm(PCPU_X86_OFFSET, PCPU_SIMULATED_ADD);
}

static inline enum pcpu_x86_outcome pcpu_simulated_counter_add(const struct pcpu_counter *c, int64_t n)
{
	uint64_t total, bias;
	uint32_t cpu = pcpu_simulated_cpu(PCPU_X86_OFFSET);
	char *slot;

	if (cpu >= __atomic_load_n(&c->fast_slots, __ATOMIC_RELAXED))
		return PCPU_X86_NO_CPU;
	slot = c->slots + cpu * c->stride;
	bias = pcpu_simulated_load(&c->bias);
	total = pcpu_simulated_load(slot) + (uint64_t)n;
	if (total + bias - pcpu_simulated_load(slot + 8) > 2 * bias)
		return PCPU_X86_NO_FIT;
	return pcpu_simulated_store(slot, total) ? PCPU_X86_DONE : PCPU_X86_ABORTED;
}

static inline enum pcpu_x86_outcome pcpu_simulated_counter_add_any(const struct pcpu_counter *c, int64_t n)
{
	pcpu_simulated_arm(PCPU_X86_OFFSET, PCPU_SIMULATED_ANY);
	return pcpu_simulated_counter_add(c, n);
}

static inline enum pcpu_x86_outcome pcpu_simulated_counter_add_armed(const struct pcpu_counter *c, int64_t n)
{
	const struct pcpu_rseq_area *area = pcpu_simulated_area(PCPU_X86_OFFSET);

	/* Whatever interrupts from here on aborts; what did before took it away. */
	if (__atomic_load_n(&area->rseq_cs, __ATOMIC_RELAXED) != PCPU_SIMULATED_ADD)
		return PCPU_X86_UNARMED;
	return pcpu_simulated_counter_add(c, n);
}

#define PCPU_SIMULATED_LEAVE(outcome, unarmed, abort, no_cpu, no_fit)                                        \
	do {                                                                                                 \
		switch (outcome) {                                                                           \
		case PCPU_X86_UNARMED:                                                                       \
			goto unarmed;                                                                        \
		case PCPU_X86_ABORTED:                                                                       \
			goto abort;                                                                          \
		case PCPU_X86_NO_CPU:                                                                        \
			goto no_cpu;                                                                         \
		case PCPU_X86_NO_FIT:                                                                        \
			goto no_fit;                                                                         \
		case PCPU_X86_DONE:                                                                          \
			break;                                                                               \
		}                                                                                            \
	} while (0)

#define PCPU_X86_COUNTER_ADD(c, n, abort, no_cpu, no_fit, ...)                                               \
	PCPU_SIMULATED_LEAVE(pcpu_simulated_counter_add_any(c, n), abort, abort, no_cpu, no_fit)

#define PCPU_X86_COUNTER_ADD_ARMED(c, n, unarmed, abort, no_cpu, no_fit, ...)                                \
	PCPU_SIMULATED_LEAVE(pcpu_simulated_counter_add_armed(c, n), unarmed, abort, no_cpu, no_fit)

static inline enum pcpu_x86_outcome pcpu_x86_counter_settle(const struct pcpu_counter *c, int64_t n,
							    int64_t *carry, uint32_t *cpu)
{
	uint64_t total, was, settled, bias;
	char *slot;

	pcpu_simulated_arm(PCPU_X86_OFFSET, PCPU_SIMULATED_ANY);
	*cpu = pcpu_simulated_cpu(PCPU_X86_OFFSET);
	if (*cpu >= __atomic_load_n(&c->fast_slots, __ATOMIC_RELAXED))
		return PCPU_X86_NO_CPU;
	slot = c->slots + *cpu * c->stride;
	total = pcpu_simulated_load(slot) + (uint64_t)n;
	was = pcpu_simulated_load(slot + 8);
	bias = pcpu_simulated_load(&c->bias);
	settled = total - was + bias > 2 * bias ? total : was;
	*carry = (int64_t)(settled - was);
	return pcpu_simulated_store_pair(slot, total, settled) ? PCPU_X86_DONE : PCPU_X86_ABORTED;
}

/* ---- trees ---- */

/* Where the add was made, or NULL. */
static inline void *pcpu_simulated_node_add(const struct pcpu_node_fast *fast, uint64_t stat, int64_t n,
					    uint32_t *cpu)
{
	char *slot, *value;

	pcpu_simulated_arm(PCPU_X86_OFFSET, PCPU_SIMULATED_ANY);
	*cpu = pcpu_simulated_cpu(PCPU_X86_OFFSET);
	if (*cpu >= __atomic_load_n(&fast->fast_slots, __ATOMIC_RELAXED))
		return NULL;
	slot = fast->slots + *cpu * fast->stride;
	value = slot + offsetof(struct pcpu_node_slot, values) + 8 * stat;
	return pcpu_simulated_store(value, pcpu_simulated_load(value) + (uint64_t)n) ? slot : NULL;
}

#define PCPU_X86_NODE_ADD(fast, index, n, slot, unnoticed)                                                   \
	do {                                                                                                 \
		uint32_t node_add_cpu;                                                                       \
                                                                                                             \
		(slot) = pcpu_simulated_node_add(fast, index, n, &node_add_cpu);                             \
		(unnoticed) = !(slot) || pcpu_simulated_load(&(fast)->epoch) != pcpu_simulated_load(slot);   \
	} while (0)

#define PCPU_X86_CURRENT_CPU(cpu) ((cpu) = pcpu_simulated_cpu(PCPU_X86_OFFSET))

static inline bool pcpu_simulated_node_add_at(int64_t *value, uint32_t cpu, int64_t n)
{
	pcpu_simulated_arm(PCPU_X86_OFFSET, PCPU_SIMULATED_ANY);
	return pcpu_simulated_cpu(PCPU_X86_OFFSET) == cpu &&
	       pcpu_simulated_store(value, pcpu_simulated_load(value) + (uint64_t)n);
}

#define PCPU_X86_NODE_ADD_AT(value, cpu, n, moved)                                                           \
	do {                                                                                                 \
		if (!pcpu_simulated_node_add_at(&(value), cpu, n))                                           \
			goto moved;                                                                          \
	} while (0)

static inline void pcpu_x86_node_note(uint64_t *slot_epoch, uint32_t cpu, uint64_t epoch)
{
	pcpu_simulated_arm(PCPU_X86_OFFSET, PCPU_SIMULATED_ANY);
	if (pcpu_simulated_cpu(PCPU_X86_OFFSET) == cpu)
		pcpu_simulated_store(slot_epoch, epoch);
}

/* ---- the rest ---- */

static inline int pcpu_x86_probe(ptrdiff_t offset, uint64_t *words, uint32_t nr_words)
{
	uint32_t cpu;

	pcpu_simulated_arm(offset, PCPU_SIMULATED_ANY);
	cpu = pcpu_simulated_cpu(offset);
	if (cpu >= nr_words || !pcpu_simulated_store(&words[cpu], pcpu_simulated_load(&words[cpu]) + 1))
		return -1;
	return (int)cpu;
}

static inline void pcpu_x86_disarm(void)
{
	if (PCPU_X86_OFFSET)
		__atomic_store_n(&pcpu_simulated_area(PCPU_X86_OFFSET)->rseq_cs, 0, __ATOMIC_RELAXED);
}

#endif /* PCPU_LIB_ARCH_RSEQ_SIMULATED_H */
