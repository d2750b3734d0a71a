/* SPDX-License-Identifier: MIT */
/*
 * The region floor: memory per CPU, and slots in it.
 *
 * A region is one mapping: a head (this struct and the bitmaps), then a chunk per CPU, then a chunk per NUMA
 * node. Chunk i of a zone lies i * stride bytes behind chunk 0, so that a slot is one offset and its copies
 * are an addition and a multiplication away. The stride is an odd number of pages: with an even one, the
 * copies of a slot would compete for few sets of a reader's cache.
 *
 * Behind those lies a shadow of the CPU chunks, for what readers must remember of each slot: same offsets,
 * same chunks, other lines, and no memory until it is written. pcpu_shadow_of() leads from a slot to its
 * shadow.
 *
 * Slots are granted by a bitmap of 16-byte granules in the head, by compare-and-swap: no lock, so nothing to
 * hold across a fork, a signal or a kill; at worst a grant that nobody took. What is free is zero: whoever
 * gives a slot back clears it first, touching no page that holds zeros anyway.
 */
#ifndef PCPU_LIB_REGION_REGION_H
#define PCPU_LIB_REGION_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pcpu_stat/region.h>

#define PCPU_GRANULE 16u /* bytes; a counter's slot */
/* Apart from what another CPU writes: two lines, since adjacent-line prefetch fetches pairs. */
#define PCPU_LINE_PAIR 128u

/* Chunks of equal size at a fixed distance, and which granules of them are granted. */
struct pcpu_zone {
	char *base;
	size_t stride;
	size_t bytes; /* of each chunk */
	unsigned chunks;
	uint32_t first_free; /* no word of the bitmap below this one has room; a hint */
	uint64_t *granted;   /* a bit per granule */
	size_t words;
};

struct pcpu_region {
	struct pcpu_zone cpu;
	struct pcpu_zone node;
	size_t shadow; /* distance from a slot to its shadow, bytes */
	size_t map_bytes;
	uint32_t users;		  /* the creator, and everything with slots here */
	bool sections;		  /* slots are written by restartable sections; else by atomic adds */
	struct pcpu_region *next; /* of the default regions */
};

/* Largest slot: 1024 statistics of a tree, with their head. */
#define PCPU_SLOT_MAX  65536u
#define PCPU_ALIGN_MAX 4096u /* chunks begin at pages */

/*
 * Grant @bytes (up to PCPU_SLOT_MAX) at a multiple of @align (a power of two up to PCPU_ALIGN_MAX) in every
 * chunk of @zone. Returns the offset; -ENOSPC when there is no room, -EINVAL for arguments out of range.
 * Any thread, signal handlers included.
 */
int64_t pcpu_slots_alloc(struct pcpu_zone *zone, size_t bytes, size_t align);

/* Give back what alloc granted for the same sizes; clears it in every chunk. Nobody may write it any more. */
void pcpu_slots_free(struct pcpu_zone *zone, int64_t offset, size_t bytes, size_t align);

static inline char *pcpu_zone_at(const struct pcpu_zone *zone, int64_t offset, unsigned chunk)
{
	return zone->base + offset + (size_t)chunk * zone->stride;
}

/* The shadow of a slot: as large, at the same place in every chunk, zero until written. Callers clear it. */
static inline char *pcpu_shadow_of(const struct pcpu_region *region, const char *slot)
{
	return (char *)(uintptr_t)slot + region->shadow;
}

/* Use the region; pcpu_region_close gives it up. */
void pcpu_region_hold(struct pcpu_region *region);

/*
 * Slots in a default region, made if need be; stores the region, held. Any thread, signal handlers included.
 * Returns the offset in its cpu zone, or a negative errno.
 */
int64_t pcpu_region_default_slots(struct pcpu_region **region, size_t bytes, size_t align);

/*
 * Make the first default region now if its chunks have to be placed: once the program has shut itself into a
 * sandbox, the call that places them may be its end. The constructor does this; tests that restart the cpu
 * floor do.
 */
void pcpu_region_start(void);

/* Forget the default regions, so that the next use makes new ones. For tests that restart the cpu floor. */
void pcpu_region_forget_defaults(void);

#endif /* PCPU_LIB_REGION_REGION_H */
