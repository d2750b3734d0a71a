/* SPDX-License-Identifier: MIT */
/*
 * Which CPUs and NUMA nodes there are, from /sys.
 *
 * The number of slots follows the highest *possible* CPU id: sysconf and the affinity mask count something
 * else and are only the way out when /sys cannot be read. Possible lists have holes; a hole has a slot, which
 * costs address space alone.
 */
#ifndef PCPU_LIB_CPU_TOPOLOGY_H
#define PCPU_LIB_CPU_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/os.h"

/* Slots when nothing says how many CPUs there are: ids beyond it still count exactly, in shared words. */
#define PCPU_FALLBACK_SLOTS 64

struct pcpu_topology {
	unsigned slots;	   /* highest possible CPU id + 1 */
	unsigned possible; /* CPUs in the possible list */
	unsigned online;
	unsigned nodes_online; /* NUMA nodes of the system, those without CPUs included; at least 1 */
	unsigned nodes;	       /* nodes with possible CPUs = entries in node_id, at least 1 */
	int16_t slot_index[PCPU_MAX_SLOTS];  /* CPU -> index into node_id, -1 for a hole */
	int16_t node_id[PCPU_MAX_NODES];     /* index -> node id of the system */
	int16_t node_memory[PCPU_MAX_NODES]; /* index -> nearest node with memory for us, -1: none known */
	unsigned node_slots[PCPU_MAX_NODES]; /* index -> possible CPUs on the node */
	bool degraded;			     /* /sys could not be believed: slots is a guess */
};

/* The node that memory for a CPU should come from; -1: no reason to ask for one. */
static inline int pcpu_memory_of_cpu(const struct pcpu_topology *t, unsigned cpu)
{
	return t->slot_index[cpu] < 0 ? -1 : t->node_memory[t->slot_index[cpu]];
}

/*
 * Parse a list as the kernel prints it ("0,2-3,7\n") into a bitmap of @max bits (long words, cleared first).
 * Returns the number of bits set; -EINVAL for anything else, an empty list included; -ERANGE for an id >=
 * @max.
 */
int pcpu_list_parse(const char *text, unsigned long *bits, unsigned max);

/* Fill @t with what @os shows. Never fails: what cannot be read falls back. */
void pcpu_topology_read(struct pcpu_topology *t, const struct pcpu_os *os);

#endif /* PCPU_LIB_CPU_TOPOLOGY_H */
