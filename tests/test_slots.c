/* SPDX-License-Identifier: MIT */
/* region/slots: granting and giving back, against a map of what is granted. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "cpu/cpu.h"
#include "os_fake.h"
#include "region/region.h"
#include "tools.h"

#define CHUNK 65536u

static struct pcpu_region *make(size_t bytes)
{
	struct pcpu_region_attr attr = {.size = sizeof(attr), .bytes_per_cpu = bytes};
	struct pcpu_region *region;

	fake_machine("0-2", "0-2");
	fake_start();
	expect_eq(pcpu_region_create(&region, &attr), 0);
	return region;
}

Test(slots, arguments)
{
	struct pcpu_zone *zone = &make(CHUNK)->cpu;

	expect_eq(pcpu_slots_alloc(zone, 0, 16), -EINVAL);
	expect_eq(pcpu_slots_alloc(zone, PCPU_SLOT_MAX + 1, 16), -EINVAL);
	expect_eq(pcpu_slots_alloc(zone, 16, 0), -EINVAL);
	expect_eq(pcpu_slots_alloc(zone, 16, 24), -EINVAL);
	expect_eq(pcpu_slots_alloc(zone, 16, 2 * PCPU_ALIGN_MAX), -EINVAL);
	expect_eq(pcpu_slots_alloc(zone, SIZE_MAX, 16), -EINVAL);
}

/* Every size of 8 to 4096 bytes at every alignment: aligned, apart, zero, and given back. */
Test(slots, sizes_and_alignments)
{
	struct pcpu_zone *zone = &make(CHUNK)->cpu;

	for (size_t align = 1; align <= PCPU_ALIGN_MAX; align *= 2) {
		for (size_t bytes = 8; bytes <= 4096; bytes += bytes < 64 ? 1 : 61) {
			int64_t a = pcpu_slots_alloc(zone, bytes, align);
			int64_t b = pcpu_slots_alloc(zone, bytes, align);

			expect(a >= 0 && b >= 0);
			expect_eq((uintptr_t)pcpu_zone_at(zone, a, 1) % align, 0);
			expect_eq((uintptr_t)pcpu_zone_at(zone, b, 2) % align, 0);
			expect(a + (int64_t)bytes <= b || b + (int64_t)bytes <= a);
			for (size_t i = 0; i < bytes; i++)
				expect_eq(pcpu_zone_at(zone, a, 1)[i], 0);
			memset(pcpu_zone_at(zone, a, 1), 0xff, bytes);
			memset(pcpu_zone_at(zone, b, 2), 0xff, bytes);
			pcpu_slots_free(zone, a, bytes, align);
			pcpu_slots_free(zone, b, bytes, align);
		}
	}
	for (size_t i = 0; i < zone->words; i++)
		expect_eq(zone->granted[i], 0);
}

Test(slots, full_and_again)
{
	struct pcpu_zone *zone = &make(CHUNK)->cpu;
	unsigned n = 0;

	while (pcpu_slots_alloc(zone, 16, 16) >= 0)
		n++;
	expect_eq(n, CHUNK / 16); /* not a granule is lost to book-keeping: that lies elsewhere */
	expect_eq(pcpu_slots_alloc(zone, 16, 16), -ENOSPC);
	expect_eq(pcpu_slots_alloc(zone, 4096, 16), -ENOSPC);
	pcpu_slots_free(zone, 160, 16, 16);
	expect_eq(pcpu_slots_alloc(zone, 32, 16), -ENOSPC);
	expect_eq(pcpu_slots_alloc(zone, 16, 16), 160);
	expect_eq(pcpu_slots_alloc(zone, 16, 16), -ENOSPC);
}

Test(slots, large)
{
	struct pcpu_zone *zone = &make(2 * PCPU_SLOT_MAX)->cpu;
	int64_t a = pcpu_slots_alloc(zone, PCPU_SLOT_MAX, 4096),
		b = pcpu_slots_alloc(zone, PCPU_SLOT_MAX, 4096);

	expect(a >= 0 && b >= 0 && a != b);
	expect_eq(pcpu_slots_alloc(zone, 2048, 16), -ENOSPC);
	pcpu_slots_free(zone, a, PCPU_SLOT_MAX, 4096);
	expect(pcpu_slots_alloc(zone, 2048, 16) >= 0);
	expect_eq(pcpu_slots_alloc(zone, PCPU_SLOT_MAX, 4096), -ENOSPC);
}

/* Random grants against a byte map: nothing overlaps, what comes back is zero in every chunk. */
Test(slots, random_against_map)
{
	static unsigned char map[CHUNK];
	static struct {
		int64_t at;
		size_t bytes, align;
	} held[256];
	struct pcpu_zone *zone = &make(CHUNK)->cpu;
	uint64_t random = 20260101;

	for (unsigned round = 0; round < 20000; round++) {
		unsigned i = next_random(&random) % 256;

		if (held[i].bytes) {
			for (size_t k = 0; k < held[i].bytes; k++)
				map[(size_t)held[i].at + k] = 0;
			pcpu_slots_free(zone, held[i].at, held[i].bytes, held[i].align);
			held[i].bytes = 0;
			continue;
		}
		held[i].bytes = 8 + next_random(&random) % (round % 50 ? 200 : 4089);
		held[i].align = (size_t)1 << next_random(&random) % 9;
		held[i].at = pcpu_slots_alloc(zone, held[i].bytes, held[i].align);
		if (held[i].at < 0) {
			expect_eq(held[i].at, -ENOSPC);
			held[i].bytes = 0;
			continue;
		}
		expect((size_t)held[i].at + held[i].bytes <= CHUNK);
		for (size_t k = 0; k < held[i].bytes; k++) {
			expect_eq(map[(size_t)held[i].at + k], 0);
			map[(size_t)held[i].at + k] = 1;
			for (unsigned chunk = 0; chunk < zone->chunks; chunk++)
				expect_eq(pcpu_zone_at(zone, held[i].at, chunk)[k], 0);
		}
		memset(pcpu_zone_at(zone, held[i].at, round % 3), 0x77, held[i].bytes);
	}
}

/* Eight threads grant, mark, check and give back: no slot has two owners. */
static void grant_loop(unsigned number, void *arg)
{
	struct pcpu_zone *zone = arg;
	uint64_t random = number;

	for (unsigned i = 0; i < 20000; i++) {
		size_t bytes = 8 + next_random(&random) % (i % 20 ? 120 : 3000);
		int64_t at = pcpu_slots_alloc(zone, bytes, 16);
		uint64_t *words;

		if (at < 0)
			continue;
		words = (uint64_t *)pcpu_zone_at(zone, at, number % 3);
		for (size_t k = 0; k < bytes / 8; k++) {
			if (words[k])
				abort();
			words[k] = number + 1;
		}
		for (size_t k = 0; k < bytes / 8; k++)
			if (words[k] != number + 1)
				abort();
		pcpu_slots_free(zone, at, bytes, 16);
	}
}

Test(slots, threads)
{
	struct pcpu_zone *zone = &make(CHUNK)->cpu;

	run_threads(8, grant_loop, zone);
	for (size_t i = 0; i < zone->words; i++)
		expect_eq(zone->granted[i], 0);
}
