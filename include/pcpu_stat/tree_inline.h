/* SPDX-License-Identifier: MIT */
/**
 * @file tree_inline.h
 * The bodies of the tree's update calls. Compiled into callers that define PCPU_STAT_INLINE, and once into
 * the library, where PCPU_NODE_UPDATE makes them the exported functions. Included by tree.h and
 * lib/tree/mark.c alone.
 */
#ifndef PCPU_STAT_TREE_INLINE_H
#define PCPU_STAT_TREE_INLINE_H

#include <pcpu_stat/tree_layout.h>

PCPU_NODE_UPDATE void pcpu_node_add(struct pcpu_node *node, uint32_t stat, int64_t n)
{
#ifdef PCPU_X86_NODE_ADD
	const struct pcpu_node_fast *fast = (const struct pcpu_node_fast *)(const void *)node;
	void *slot = 0;
	int unnoticed = 1;

	if (pcpu_likely(PCPU_X86_OFFSET && stat < fast->nr_stats))
		PCPU_X86_NODE_ADD(fast, stat, n, slot, unnoticed);
	if (pcpu_likely(!unnoticed))
		return;
	pcpu_node_add_slow(node, stat, n, slot);
#else
	pcpu_node_add_slow(node, stat, n, NULL);
#endif
}

/* With a constant number of constant statistics only adds are left of the loop. clang does it unasked. */
#if defined(__GNUC__) && !defined(__clang__)
#define PCPU_UNROLL _Pragma("GCC unroll 16")
#else
#define PCPU_UNROLL
#endif

PCPU_NODE_UPDATE void pcpu_node_add_many(struct pcpu_node *node, const struct pcpu_delta *deltas, unsigned nr)
{
	unsigned i;
#ifdef PCPU_X86_NODE_ADD_AT
	const struct pcpu_node_fast *fast = (const struct pcpu_node_fast *)(const void *)node;
	const uint32_t nr_stats = fast->nr_stats;
	struct pcpu_node_slot *slot;
	uint32_t cpu;

	if (pcpu_unlikely(!PCPU_X86_OFFSET))
		goto slow;
	PCPU_X86_CURRENT_CPU(cpu);
	if (pcpu_unlikely(cpu >= fast->fast_slots))
		goto slow;
	slot = (struct pcpu_node_slot *)(void *)(fast->slots + cpu * fast->stride);
	PCPU_UNROLL
	for (i = 0; i < nr; i++) {
		int64_t *value = &slot->values[deltas[i].stat];

		/* The address in one plain register, not an indexed one: see arch/x86_64.h. */
		__asm__("" : "+r"(value));
		if (pcpu_unlikely(deltas[i].stat >= nr_stats))
			goto moved;
		PCPU_X86_NODE_ADD_AT(*value, cpu, deltas[i].n, moved);
		continue;
	moved:
		/* This one alone. After an interruption the next goes on here, after a migration none. */
		pcpu_node_add_slow(node, deltas[i].stat, deltas[i].n, NULL);
	}
	/* After the stores of the adds, see lib/tree/flush.c. */
	if (pcpu_unlikely(__atomic_load_n(&slot->epoch, __ATOMIC_RELAXED) !=
			  __atomic_load_n(&fast->epoch, __ATOMIC_RELAXED)))
		pcpu_node_add_slow(node, 0, 0, slot);
	return;
slow:
#endif
	/* Unrolled as well: an index that is not constant would keep the changes in memory, above too. */
	PCPU_UNROLL
	for (i = 0; i < nr; i++)
		pcpu_node_add_slow(node, deltas[i].stat, deltas[i].n, NULL);
}

#endif /* PCPU_STAT_TREE_INLINE_H */
