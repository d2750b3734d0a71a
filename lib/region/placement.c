/* SPDX-License-Identifier: MIT */
/* The one file that knows libnuma. */
#include <pcpu_stat/placement.h>

#include <errno.h>
#include <numa.h>
#include <numaif.h>
#include <string.h>
#include <unistd.h>

#include "cpu/cpu.h"
#include "region/region.h"

#define PAGES_PER_CALL 512

static int count_pages(char *from, size_t bytes, int node, struct pcpu_placement *found)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *pages[PAGES_PER_CALL];
	int status[PAGES_PER_CALL];

	while (bytes) {
		unsigned long n = 0;

		for (; bytes && n < PAGES_PER_CALL; n++, from += page, bytes -= page)
			pages[n] = from;
		/* No target nodes: tell, do not move. */
		if (numa_move_pages(0, n, pages, NULL, status, 0) < 0)
			return -errno;
		for (unsigned long i = 0; i < n; i++) {
			if (status[i] < 0)
				found->untouched++;
			else if (node < 0 || status[i] == node)
				found->local++;
			else
				found->elsewhere++;
		}
	}
	return 0;
}

int pcpu_region_placement(struct pcpu_region *region, struct pcpu_placement *placement)
{
	const struct pcpu_topology *t = &pcpu_cpu.topology;
	struct pcpu_placement found = {.size = sizeof(found)};
	int saved = errno, r = 0;

	if (!region || !placement || placement->size < sizeof(found))
		return -EINVAL;
	for (unsigned cpu = 0; cpu < region->cpu.chunks && r == 0; cpu++) {
		int node = t->slot_index[cpu] < 0 ? -1 : t->node_memory[t->slot_index[cpu]];

		r = count_pages(pcpu_zone_at(&region->cpu, 0, cpu), region->cpu.bytes, node, &found);
	}
	errno = saved;
	if (r)
		return r;
	found.size = placement->size;
	memset(placement, 0, placement->size);
	memcpy(placement, &found, sizeof(found));
	return 0;
}
