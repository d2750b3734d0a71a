/* SPDX-License-Identifier: MIT */
/**
 * @file region.h
 * Regions: one chunk of memory per possible CPU, each on the NUMA node of its CPU.
 *
 * Counters, trees and limits take their slots from a region. Most programs never make one: what is given
 * no region lives in a default region that appears on first use. A program makes its own to bound the
 * memory, or to free everything at once. The idea is the kernel's per-CPU allocator: one offset, one
 * address per CPU.
 */
#ifndef PCPU_STAT_REGION_H
#define PCPU_STAT_REGION_H

#include <pcpu_stat/common.h>

PCPU_BEGIN_DECLS

struct pcpu_region;

/** How to make a region. NULL in place of the struct, and zero in any field, mean the default. */
struct pcpu_region_attr {
	size_t size;	      /**< sizeof(struct pcpu_region_attr) */
	size_t bytes_per_cpu; /**< bytes in each CPU's chunk, rounded up to pages; 0: 1 MiB */
	const char *path;     /**< NULL: private to this process. Files: not in this version (-ENOTSUP) */
	unsigned mode;	      /**< access mode of the file; 0: 0640 */
	unsigned flags;	      /**< none in this version; anything else is -EINVAL */
};

/**
 * Make a region.
 *
 * Address space is reserved for every possible CPU; memory is taken page by page when it is first written.
 *
 * @param region  out: the region
 * @param attr    attributes, or NULL
 * @return 0; -EINVAL (no @p region, size, flags, or more bytes than an address space holds), -E2BIG (unknown
 *         trailing bytes), -ENOTSUP (a path), -ENOMEM
 *
 * Context: any thread; not a signal handler. Takes no lock and calls no malloc.
 * Cost: a few system calls; on machines with several nodes one more per run of CPUs on a node.
 */
PCPU_API int pcpu_region_create(struct pcpu_region **region, const struct pcpu_region_attr *attr);

/**
 * Give a region up. It lives on until the last counter and the last tree in it are gone.
 *
 * @param region  the region, or NULL
 *
 * Context: any thread; not a signal handler. Cost: a system call when it was the last user.
 */
PCPU_API void pcpu_region_close(struct pcpu_region *region);

PCPU_END_DECLS

#endif /* PCPU_STAT_REGION_H */
