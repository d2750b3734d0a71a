/* SPDX-License-Identifier: MIT */
/**
 * @file placement.h
 * Where a region's memory really is. In libpcpu_stat only: the question is asked through libnuma.
 */
#ifndef PCPU_STAT_PLACEMENT_H
#define PCPU_STAT_PLACEMENT_H

#include <pcpu_stat/common.h>

PCPU_BEGIN_DECLS

struct pcpu_region;

/** What pcpu_region_placement found, in pages of touched memory. */
struct pcpu_placement {
	size_t size;	    /**< sizeof(struct pcpu_placement), set by the caller */
	uint64_t local;	    /**< on the node of the chunk's CPU, or the one that stands in for it */
	uint64_t elsewhere; /**< on another node */
	uint64_t untouched; /**< no memory yet */
};

/**
 * Look up on which NUMA node each page of a region's CPU chunks lies.
 *
 * @param region     the region
 * @param placement  out; placement->size set by the caller
 * @return 0; -EINVAL (no @p region or @p placement, or a size that is too small); -ENOSYS or -EPERM where the
 *         system does not say
 *
 * Context: any thread; not a signal handler. Cost: a system call (move_pages) per 512 pages of reserved
 * memory.
 */
PCPU_API int pcpu_region_placement(struct pcpu_region *region, struct pcpu_placement *placement);

PCPU_END_DECLS

#endif /* PCPU_STAT_PLACEMENT_H */
