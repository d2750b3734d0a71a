/* SPDX-License-Identifier: MIT */
/**
 * @file tree_inline.h
 * The bodies of the tree's update calls. Compiled into callers that define PCPU_STAT_INLINE, and once into
 * the library, where PCPU_NODE_UPDATE makes them the exported functions. Included by tree.h alone.
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

PCPU_NODE_UPDATE void pcpu_node_add_many(struct pcpu_node *node, const struct pcpu_delta *deltas, unsigned nr)
{
#ifdef PCPU_X86_NODE_ADD
	const struct pcpu_node_fast *fast = (const struct pcpu_node_fast *)(const void *)node;
	unsigned i = 0;

	while (i < nr) {
		struct pcpu_node_slot *slot = NULL;
		uint32_t cpu;
		int moved;

		/* The first one finds the slot; the others are made there as long as this is the same CPU. */
		if (pcpu_likely(PCPU_X86_OFFSET && deltas[i].stat < fast->nr_stats))
			PCPU_X86_NODE_FIRST(fast, deltas[i].stat, deltas[i].n, slot, cpu);
		if (pcpu_unlikely(!slot)) {
			pcpu_node_add_slow(node, deltas[i].stat, deltas[i].n, NULL);
			i++;
			continue;
		}
		for (i++; i < nr && pcpu_likely(deltas[i].stat < fast->nr_stats); i++) {
			PCPU_X86_NODE_NEXT(slot, cpu, deltas[i].stat, deltas[i].n, moved);
			if (pcpu_unlikely(moved))
				break;
		}
		/* After the stores of the adds, see lib/tree/flush.c. */
		if (pcpu_unlikely(__atomic_load_n(&slot->epoch, __ATOMIC_RELAXED) !=
				  __atomic_load_n(&fast->epoch, __ATOMIC_RELAXED)))
			pcpu_node_add_slow(node, 0, 0, slot);
	}
#else
	for (unsigned i = 0; i < nr; i++)
		pcpu_node_add_slow(node, deltas[i].stat, deltas[i].n, NULL);
#endif
}

#endif /* PCPU_STAT_TREE_INLINE_H */
