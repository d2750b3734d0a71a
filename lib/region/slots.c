/* SPDX-License-Identifier: MIT */
/* Granting slots: a bitmap, first fit, by compare-and-swap. */
#include "region/region.h"

#include <errno.h>

#define WORD_GRANULES 64u
#define WORD_BYTES    (WORD_GRANULES * PCPU_GRANULE)

static uint64_t run_mask(unsigned granules)
{
	return granules == WORD_GRANULES ? ~(uint64_t)0 : ((uint64_t)1 << granules) - 1;
}

/* Granules of @word for a run, at a multiple of @step: the position, or -1. */
static int find_run(uint64_t word, unsigned granules, unsigned step)
{
	uint64_t mask = run_mask(granules);

	for (unsigned at = 0; at + granules <= WORD_GRANULES; at += step)
		if (!(word & mask << at))
			return (int)at;
	return -1;
}

/* A run inside one word of the bitmap, from word @from on. */
static int64_t alloc_small_from(struct pcpu_zone *zone, uint32_t from, unsigned granules, unsigned step)
{
	uint32_t hint = from, full = from;

	for (size_t i = from; i < zone->words; i++) {
		uint64_t *word = &zone->granted[i];
		uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);
		int at;

		while ((at = find_run(old, granules, step)) >= 0) {
			/* Acquire pairs with release_bits: what was given back is seen cleared. */
			if (!__atomic_compare_exchange_n(word, &old, old | run_mask(granules) << at, false,
							 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				continue;
			if (full != from)
				__atomic_compare_exchange_n(&zone->first_free, &hint, full, false,
							    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
			return (int64_t)((i * WORD_GRANULES + (unsigned)at) * PCPU_GRANULE);
		}
		if (old == ~(uint64_t)0 && full == i)
			full = (uint32_t)i + 1;
	}
	return -ENOSPC;
}

static int64_t alloc_small(struct pcpu_zone *zone, unsigned granules, unsigned step)
{
	uint32_t hint = __atomic_load_n(&zone->first_free, __ATOMIC_RELAXED);
	int64_t offset = alloc_small_from(zone, hint, granules, step);

	/* The hint may have moved past room that was given back meanwhile. */
	return offset == -ENOSPC && hint ? alloc_small_from(zone, 0, granules, step) : offset;
}

/* Release pairs with the acquire of whoever is granted them next. */
static void release_bits(struct pcpu_zone *zone, size_t word, uint64_t bits)
{
	uint32_t hint = __atomic_load_n(&zone->first_free, __ATOMIC_RELAXED);

	__atomic_fetch_and(&zone->granted[word], ~bits, __ATOMIC_RELEASE);
	while (word < hint && !__atomic_compare_exchange_n(&zone->first_free, &hint, (uint32_t)word, true,
							   __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* Whole words of the bitmap in a row, starting at a multiple of @step words. */
static int64_t alloc_large(struct pcpu_zone *zone, size_t words, size_t step)
{
	for (size_t first = 0; first + words <= zone->words; first += step) {
		size_t got;

		for (got = 0; got < words; got++) {
			uint64_t free = 0;

			/* Acquire as above. */
			if (!__atomic_compare_exchange_n(&zone->granted[first + got], &free, ~(uint64_t)0,
							 false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				break;
		}
		if (got == words)
			return (int64_t)(first * WORD_BYTES);
		while (got-- > 0)
			release_bits(zone, first + got, ~(uint64_t)0);
	}
	return -ENOSPC;
}

/* What a slot occupies: whole granules, and a whole multiple of its alignment. */
static size_t granules_of(size_t bytes, size_t align)
{
	if (align < PCPU_GRANULE)
		align = PCPU_GRANULE;
	return (bytes + align - 1) / align * (align / PCPU_GRANULE);
}

int64_t pcpu_slots_alloc(struct pcpu_zone *zone, size_t bytes, size_t align)
{
	size_t granules;

	if (bytes == 0 || bytes > PCPU_SLOT_MAX || align == 0 || (align & (align - 1)) ||
	    align > PCPU_ALIGN_MAX)
		return -EINVAL;
	granules = granules_of(bytes, align);
	if (granules <= WORD_GRANULES)
		return alloc_small(zone, (unsigned)granules,
				   align < PCPU_GRANULE ? 1 : (unsigned)(align / PCPU_GRANULE));
	return alloc_large(zone, (granules + WORD_GRANULES - 1) / WORD_GRANULES,
			   align > WORD_BYTES ? align / WORD_BYTES : 1);
}

void pcpu_slots_free(struct pcpu_zone *zone, int64_t offset, size_t bytes, size_t align)
{
	size_t granules = granules_of(bytes, align);
	size_t first = (size_t)offset / PCPU_GRANULE;

	/* Only what is not zero is written: reading a page nobody used costs no memory. */
	for (unsigned chunk = 0; chunk < zone->chunks; chunk++) {
		uint64_t *words = (uint64_t *)pcpu_zone_at(zone, offset, chunk);

		for (size_t i = 0; i < granules * PCPU_GRANULE / sizeof(*words); i++)
			if (__atomic_load_n(&words[i], __ATOMIC_RELAXED))
				__atomic_store_n(&words[i], 0, __ATOMIC_RELAXED);
	}
	if (granules <= WORD_GRANULES) {
		release_bits(zone, first / WORD_GRANULES,
			     run_mask((unsigned)granules) << (first % WORD_GRANULES));
		return;
	}
	for (size_t done = 0; done < granules; done += WORD_GRANULES)
		release_bits(zone, (first + done) / WORD_GRANULES, ~(uint64_t)0);
}
