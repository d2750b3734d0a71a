/* SPDX-License-Identifier: MIT */
/*
 * Restartable sections in C, for simulated CPUs (bench/coherence). Compiled with -DPCPU_ARCH_SIMULATED only.
 *
 * It stands in for rseq_x86_64.h: the same names, the same order of loads and stores. A machine of simulated
 * CPUs is what runs the threads here; it knows when one is preempted or moved, and says so at the next store:
 *
 *	begin	a section starts; what interrupted an earlier one is forgotten
 *	store	a store in a section: false, with nothing stored, if the thread was interrupted since begin
 *
 * Loads go on after an interruption where a real section would have been left at once. Their results are
 * dropped, as no store follows. Everything else about a thread (its area, its CPU) is real to the library.
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

enum pcpu_simulated_result {
	PCPU_SIMULATED_DONE,
	PCPU_SIMULATED_ABORT,
	PCPU_SIMULATED_NO_CPU,
	PCPU_SIMULATED_NO_FIT
};

static inline uint32_t pcpu_simulated_cpu(ptrdiff_t offset)
{
	const struct pcpu_rseq_area *area =
		(const struct pcpu_rseq_area *)(void *)(pcpu_simulated_thread_pointer() + offset);

	return __atomic_load_n(&area->cpu_id, __ATOMIC_RELAXED);
}

static inline uint64_t pcpu_simulated_load(const void *word)
{
	return __atomic_load_n((const uint64_t *)word, __ATOMIC_RELAXED);
}

/* ---- counters ---- */

static inline enum pcpu_simulated_result pcpu_simulated_counter_add(const struct pcpu_counter *c, int64_t n)
{
	uint64_t total, room;
	uint32_t cpu;
	char *slot;

	pcpu_simulated_begin();
	cpu = pcpu_simulated_cpu(PCPU_X86_OFFSET);
	if (cpu >= __atomic_load_n(&c->fast_slots, __ATOMIC_RELAXED))
		return PCPU_SIMULATED_NO_CPU;
	slot = c->slots + cpu * c->stride;
	total = pcpu_simulated_load(slot) + (uint64_t)n;
	room = pcpu_simulated_load(&c->bias) - pcpu_simulated_load(slot + 8);
	if (total + room > pcpu_simulated_load(&c->span))
		return PCPU_SIMULATED_NO_FIT;
	return pcpu_simulated_store(slot, total) ? PCPU_SIMULATED_DONE : PCPU_SIMULATED_ABORT;
}

#define PCPU_X86_COUNTER_ADD(c, n, abort, no_cpu, no_fit, ...)                                               \
	do {                                                                                                 \
		switch (pcpu_simulated_counter_add(c, n)) {                                                  \
		case PCPU_SIMULATED_ABORT:                                                                   \
			goto abort;                                                                          \
		case PCPU_SIMULATED_NO_CPU:                                                                  \
			goto no_cpu;                                                                         \
		case PCPU_SIMULATED_NO_FIT:                                                                  \
			goto no_fit;                                                                         \
		case PCPU_SIMULATED_DONE:                                                                    \
			break;                                                                               \
		}                                                                                            \
	} while (0)

static inline bool pcpu_x86_counter_carry(const struct pcpu_counter *c, int64_t n, int64_t *diff,
					  uint32_t *cpu)
{
	uint64_t old, reported;
	uint32_t id;
	char *slot;

	pcpu_simulated_begin();
	id = pcpu_simulated_cpu(PCPU_X86_OFFSET);
	if (id >= __atomic_load_n(&c->fast_slots, __ATOMIC_RELAXED))
		return false;
	slot = c->slots + id * c->stride;
	reported = pcpu_simulated_load(slot) + (uint64_t)n;
	old = pcpu_simulated_load(slot + 8);
	if (!pcpu_simulated_store(slot + 8, reported))
		return false;
	*diff = (int64_t)(reported - old);
	*cpu = id;
	return true;
}

/* ---- trees ---- */

/* Where the add was made, or NULL. */
static inline void *pcpu_simulated_node_add(const struct pcpu_node_fast *fast, uint64_t stat, int64_t n,
					    uint32_t *cpu)
{
	char *slot, *value;

	pcpu_simulated_begin();
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

#define PCPU_X86_NODE_FIRST(fast, index, n, slot, cpu)                                                       \
	((slot) = (struct pcpu_node_slot *)pcpu_simulated_node_add(fast, index, n, &(cpu)))

/* False when this thread has moved. */
static inline bool pcpu_simulated_node_next(struct pcpu_node_slot *slot, uint32_t cpu, uint64_t stat,
					    int64_t n)
{
	pcpu_simulated_begin();
	return pcpu_simulated_cpu(PCPU_X86_OFFSET) == cpu &&
	       pcpu_simulated_store(&slot->values[stat],
				    pcpu_simulated_load(&slot->values[stat]) + (uint64_t)n);
}

#define PCPU_X86_NODE_NEXT(slot, cpu, index, n, moved)                                                       \
	((moved) = !pcpu_simulated_node_next(slot, cpu, index, n))

static inline void pcpu_x86_node_note(uint64_t *slot_epoch, uint32_t cpu, uint64_t epoch)
{
	pcpu_simulated_begin();
	if (pcpu_simulated_cpu(PCPU_X86_OFFSET) == cpu)
		pcpu_simulated_store(slot_epoch, epoch);
}

/* ---- the rest ---- */

static inline int pcpu_x86_probe(ptrdiff_t offset, uint64_t *words, uint32_t nr_words)
{
	uint32_t cpu;

	pcpu_simulated_begin();
	cpu = pcpu_simulated_cpu(offset);
	if (cpu >= nr_words || !pcpu_simulated_store(&words[cpu], pcpu_simulated_load(&words[cpu]) + 1))
		return -1;
	return (int)cpu;
}

static inline void pcpu_x86_disarm(void)
{
}

#endif /* PCPU_LIB_ARCH_RSEQ_SIMULATED_H */
