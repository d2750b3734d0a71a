/* SPDX-License-Identifier: MIT */
/* Where pages really are. The one file that knows libnuma. */
#include <pcpu_stat/placement.h>

#include <errno.h>
#include <numa.h>
#include <numaif.h>
#include <unistd.h>

#include "cpu/cpu.h"
#include "region/region.h"

/* What a call asks about: 6 KiB of stack, and few calls. */
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
	struct pcpu_placement found = {0};
	int saved = errno, r = 0;

	if (!region || !placement || placement->size < sizeof(found))
		return -EINVAL;
	for (unsigned cpu = 0; cpu < region->cpu.chunks && r == 0; cpu++) {
		char *chunk = pcpu_zone_at(&region->cpu, 0, cpu);

		r = count_pages(chunk, region->cpu.bytes, pcpu_memory_of_cpu(t, cpu), &found);
	}
	errno = saved;
	if (r == 0)
		pcpu_copy_facts(placement, placement->size, &found, sizeof(found));
	return r;
}
