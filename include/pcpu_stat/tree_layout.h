/* SPDX-License-Identifier: MIT */
/**
 * @file tree_layout.h
 * What the update path sees of a node and of a slot. Inline code has the offsets compiled in: part of the
 * ABI.
 */
#ifndef PCPU_STAT_TREE_LAYOUT_H
#define PCPU_STAT_TREE_LAYOUT_H

#include <pcpu_stat/common.h>

/** The beginning of every node: all that an add reads. */
struct pcpu_node_fast {
	char *slots;	     /**< slot of CPU 0 */
	uint64_t stride;     /**< from slot to slot, bytes */
	uint32_t fast_slots; /**< CPU ids below this may use the fast path */
	uint32_t nr_stats;
	uint64_t epoch; /**< a slot that notes another one has changed unnoticed */
};

/** A slot. */
struct pcpu_node_slot {
	uint64_t epoch;	   /**< of the node, when a change here was last made known */
	int64_t values[1]; /**< nr_stats of them */
};

#endif /* PCPU_STAT_TREE_LAYOUT_H */
