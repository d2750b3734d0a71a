/* SPDX-License-Identifier: MIT */
/* region: making, placing, sharing out and giving up. I10: by mmap alone, see also alloc.c. */
#define _GNU_SOURCE
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <pcpu_stat/pcpu_stat.h>

#include "cpu/cpu.h"
#include "os_fake.h"
#include "region/region.h"

/* Is there anything mapped at @addr? */
static bool mapped(const void *addr)
{
	unsigned char vec;
	uintptr_t page = (uintptr_t)addr & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);

	return mincore((void *)page, 1, &vec) == 0;
}

Test(region, arguments)
{
	struct {
		struct pcpu_region_attr attr;
		uint64_t newer;
	} big = {.attr.size = sizeof(big), .newer = 1};
	struct pcpu_region_attr attr = {.size = sizeof(attr)};
	struct pcpu_region *region = (struct pcpu_region *)&attr;

	errno = 77;
	expect_eq(pcpu_region_create(NULL, NULL), -EINVAL);
	attr.size = 0;
	expect_eq(pcpu_region_create(&region, &attr), -EINVAL);
	attr.size = sizeof(attr) - 1;
	expect_eq(pcpu_region_create(&region, &attr), -EINVAL);
	expect_eq(pcpu_region_create(&region, &big.attr), -E2BIG);
	attr.size = sizeof(attr);
	attr.flags = 1u << 31;
	expect_eq(pcpu_region_create(&region, &attr), -EINVAL);
	attr.flags = 0;
	attr.bytes_per_cpu = SIZE_MAX;
	expect_eq(pcpu_region_create(&region, &attr), -EINVAL);
	attr.bytes_per_cpu = (size_t)1 << 46;
	expect(pcpu_region_create(&region, &attr) < 0);
	expect(region == (struct pcpu_region *)&attr); /* untouched on failure */
	expect_eq(errno, 77);
	pcpu_region_close(NULL);
}

Test(region, defaults)
{
	struct pcpu_region *region;
	struct pcpu_info info = {.size = sizeof(info)};

	expect_eq(pcpu_get_info(&info), 0);
	expect_eq(pcpu_region_create(&region, NULL), 0);
	expect_eq(region->cpu.bytes, 1 << 20);
	expect_eq(region->cpu.chunks, info.slots);
	pcpu_region_close(region);
}

Test(region, newer_and_rounded_sizes)
{
	struct {
		struct pcpu_region_attr attr;
		uint64_t newer;
	} big = {.attr = {.size = sizeof(big), .bytes_per_cpu = 5000}};
	struct pcpu_region *region;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	expect_eq(pcpu_region_create(&region, &big.attr), 0);
	expect_eq(region->cpu.bytes % page, 0);
	expect(region->cpu.bytes >= 5000);
	/* An odd number of pages: a slot's copies spread over a reader's cache sets. */
	expect_eq(region->cpu.stride / page % 2, 1);
	expect_eq((uintptr_t)region->cpu.base % page, 0);
	pcpu_region_close(region);
}

Test(region, one_chunk_per_possible_cpu)
{
	struct pcpu_region *region;

	fake_machine("0,2-3,7", "0");
	fake_start();
	expect_eq(pcpu_region_create(&region, NULL), 0);
	expect_eq(region->cpu.chunks, 8);
	memset(pcpu_zone_at(&region->cpu, 0, 7), 1, region->cpu.bytes); /* the last one is all there */
	expect_eq(*pcpu_zone_at(&region->node, 0, 0), 0);		/* and runs into nothing */
	pcpu_region_close(region);
}

Test(region, too_big_for_the_machine)
{
	struct pcpu_region_attr attr = {.size = sizeof(attr), .bytes_per_cpu = (size_t)1 << 33};
	struct pcpu_region *region;

	fake_machine("0-8191", "0");
	fake_start();
	expect(pcpu_region_create(&region, &attr) < 0);
}

/* Every chunk on its CPU's node, asked for before anything is touched; holes are nobody's. */
Test(region, placed_per_node)
{
	struct pcpu_region *region;
	unsigned covered[8] = {0};

	fake_machine("0-5,7", "0-5");
	fake_node(0, "0-1,4", "10 20");
	fake_node(1, "2-3,5,7", "20 10");
	fake_nodes("0-1", "0-1");
	fake_start();
	fake.asked_place = 0;
	expect_eq(pcpu_region_create(&region, NULL), 0);
	expect(fake.asked_place > 0 && fake.asked_place < 64);
	for (unsigned i = 0; i < fake.asked_place; i++) {
		for (unsigned cpu = 0; cpu < 8; cpu++) {
			char *chunk = pcpu_zone_at(&region->cpu, 0, cpu);

			if (chunk < fake.placed[i].addr ||
			    chunk >= fake.placed[i].addr + fake.placed[i].bytes)
				continue;
			expect(chunk + region->cpu.bytes <= fake.placed[i].addr + fake.placed[i].bytes);
			expect_eq(fake.placed[i].node, pcpu_slot_node(cpu));
			covered[cpu]++;
		}
	}
	for (unsigned cpu = 0; cpu < 8; cpu++)
		expect_eq(covered[cpu], cpu != 6);
	pcpu_region_close(region);
}

Test(region, refused_placement_loses_nothing)
{
	struct pcpu_info info = {.size = sizeof(info)};
	struct pcpu_region *region;

	fake_machine("0-3", "0-3");
	fake_node(0, "0-1", "10 20");
	fake_node(1, "2-3", "20 10");
	fake_nodes("0-1", "0-1");
	fake_start();
	fake.placing = -EPERM; /* granted at the start, refused now */
	expect_eq(pcpu_region_create(&region, NULL), 0);
	expect_eq(pcpu_get_info(&info), 0);
	expect_eq(info.numa, PCPU_NUMA_REFUSED);
	memset(pcpu_zone_at(&region->cpu, 0, 3), 1, region->cpu.bytes);
	pcpu_region_close(region);
}

Test(region, one_node_asks_nothing)
{
	struct pcpu_region *region;

	fake_machine("0-3", "0-3");
	fake_start();
	expect_eq(pcpu_region_create(&region, NULL), 0);
	expect_eq(fake.asked_place, 0);
	pcpu_region_close(region);
}

/* No huge page spans two chunks: the kernel says so in smaps. */
Test(region, no_huge_pages)
{
	struct pcpu_region *region;
	bool inside = false, found = false;
	char line[512];
	FILE *smaps = fopen("/proc/self/smaps", "r");

	if (getenv("PCPU_TEST_EMULATED") || access("/sys/kernel/mm/transparent_hugepage", F_OK))
		return; /* advice about them is ignored */
	expect_eq(pcpu_region_create(&region, NULL), 0);
	while (smaps && fgets(line, sizeof(line), smaps)) {
		unsigned long from, to;

		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = (uintptr_t)region->cpu.base >= from && (uintptr_t)region->cpu.base < to;
		else if (inside && strncmp(line, "VmFlags:", 8) == 0 && (found = true))
			expect(strstr(line, " nh"));
	}
	if (smaps) {
		fclose(smaps);
		expect(found);
	}
	pcpu_region_close(region);
}

/* A region lives until the last counter in it is gone. */
Test(region, lives_as_long_as_its_counters)
{
	struct pcpu_counter_attr attr = {.size = sizeof(attr)};
	struct pcpu_counter a, b;
	const void *base;

	expect_eq(pcpu_region_create(&attr.region, NULL), 0);
	base = attr.region;
	expect_eq(pcpu_counter_init(&a, &attr), 0);
	expect_eq(pcpu_counter_init(&b, &attr), 0);
	pcpu_region_close(attr.region);
	pcpu_counter_add(&a, 5);
	pcpu_counter_destroy(&b);
	expect_eq(pcpu_counter_sum(&a), 5);
	expect(mapped(base));
	pcpu_counter_destroy(&a);
	expect(!mapped(base));
}

Test(region, full)
{
	struct pcpu_region_attr small = {.size = sizeof(small), .bytes_per_cpu = 1};
	struct pcpu_counter_attr attr = {.size = sizeof(attr), .initial = 3};
	static struct pcpu_counter c[1024], one, untouched;
	unsigned n = 0;

	expect_eq(pcpu_region_create(&attr.region, &small), 0);
	while (n < 1024 && pcpu_counter_init(&c[n], &attr) == 0)
		n++;
	expect_eq(n, (unsigned)sysconf(_SC_PAGESIZE) / 16);
	memset(&one, 0x3c, sizeof(one));
	untouched = one;
	errno = 77;
	expect_eq(pcpu_counter_init(&one, &attr), -ENOSPC);
	expect_eq(errno, 77);
	expect_eq(memcmp(&one, &untouched, sizeof(one)), 0);
	pcpu_counter_destroy(&c[7]);
	expect_eq(pcpu_counter_init(&one, &attr), 0);
	for (unsigned i = 0; i < n; i++)
		pcpu_counter_add(&c[i], i); /* c[7] is gone: all zero, so it counts as a static one would */
	for (unsigned i = 0; i < n; i++)
		expect_eq(pcpu_counter_sum(&c[i]), i == 7 ? 7 : 3 + (int64_t)i);
	for (unsigned i = 0; i < n; i++)
		pcpu_counter_destroy(&c[i]);
	pcpu_counter_destroy(&one);
	pcpu_region_close(attr.region);
}

/* A default region that is full is followed by another. */
Test(region, default_grows)
{
	enum { N = 40000 };
	static struct pcpu_counter c[N];
	unsigned regions = 0;

	for (unsigned i = 0; i < N; i++) {
		expect_eq(pcpu_counter_init(&c[i], NULL), 0);
		pcpu_counter_add(&c[i], i);
		regions += i == 0 || c[i].region != c[i - 1].region;
	}
	expect(regions > 1);
	for (unsigned i = 0; i < N; i++) {
		expect_eq(pcpu_counter_sum(&c[i]), i);
		pcpu_counter_destroy(&c[i]);
	}
}

Test(region, chunks_do_not_overlap)
{
	struct pcpu_region *region;

	fake_machine("0-15", "0-15");
	fake_start();
	expect_eq(pcpu_region_create(&region, NULL), 0);
	expect(region->cpu.stride >= region->cpu.bytes);
	expect((char *)region + sizeof(*region) <= region->cpu.base);
	expect((char *)(region->node.granted + region->node.words) <= region->cpu.base);
	expect(pcpu_zone_at(&region->cpu, 0, 15) + region->cpu.bytes <= region->node.base);
	expect(region->node.base + region->node.chunks * region->node.stride <=
	       (char *)region + region->map_bytes);
	pcpu_region_close(region);
}
