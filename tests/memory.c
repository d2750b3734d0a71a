/* SPDX-License-Identifier: MIT */
/*
 * Memory: 1000 counters on a machine of 512 possible CPUs of which two are used take 1 MiB at most, counted as
 * the growth of what is resident; and regions and counters that come and go leave nothing behind.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include <pcpu_stat/pcpu_stat.h>

#include "os_fake.h"
#include "region/region.h"
#include "tap.h"
#include "tools.h"

#define COUNTERS 1000

static long resident(void)
{
	long size, pages = -1;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f || fscanf(f, "%ld %ld", &size, &pages) != 2)
		abort();
	fclose(f);
	return pages * sysconf(_SC_PAGESIZE);
}

static int mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	int lines = 0;

	for (int ch; (ch = fgetc(f)) != EOF;)
		lines += ch == '\n';
	fclose(f);
	return lines;
}

static void many_cpus(unsigned nodes)
{
	/* Zeroed pages take no memory before they are written, so the counters themselves count as well. */
	struct pcpu_counter *counters = mmap(NULL, COUNTERS * sizeof(*counters), PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long before, after;
	int64_t sum = 0;

	if (counters == MAP_FAILED)
		abort();
	fake_machine("0-511", "0-1");
	if (nodes > 1) {
		fake_node(0, "0-255", "10 20");
		fake_node(1, "256-511", "20 10");
		fake_nodes("0-1", "0-1");
	}
	fake_start();
	before = resident();
	for (int i = 0; i < COUNTERS; i++)
		if (pcpu_counter_init(&counters[i], NULL))
			abort();
	for (int i = 0; i < COUNTERS; i++) {
		fake_cpu(0);
		pcpu_counter_add(&counters[i], i);
		fake_cpu(nodes > 1 ? 300 : 1);
		pcpu_counter_add(&counters[i], 10);
		fake_cpu(0);
		pcpu_counter_add(&counters[i], 63);
	}
	for (int i = 0; i < COUNTERS; i++) {
		int64_t below, above;

		sum += pcpu_counter_sum(&counters[i]);
		pcpu_counter_error(&counters[i], &below, &above);
	}
	after = resident();
	tap_ok(sum == 999 * 1000 / 2 + 73 * COUNTERS, "%u nodes: sum %lld", nodes, (long long)sum);
	tap_ok(after - before <= 1 << 20, "%u nodes: %ld KiB for %d counters on 512 possible CPUs", nodes,
	       (after - before) >> 10, COUNTERS);
	for (int i = 0; i < COUNTERS; i++)
		pcpu_counter_destroy(&counters[i]);
	munmap(counters, COUNTERS * sizeof(*counters));
}

static void round_trip(void)
{
	struct pcpu_counter_attr attr = {.size = sizeof(attr)};
	struct pcpu_counter c[10];

	if (pcpu_region_create(&attr.region, NULL))
		abort();
	for (int i = 0; i < 10; i++)
		if (pcpu_counter_init(&c[i], &attr))
			abort();
	pcpu_region_close(attr.region);
	for (int i = 0; i < 10; i++) {
		pcpu_counter_add(&c[i], i);
		pcpu_counter_destroy(&c[i]);
	}
	for (int i = 0; i < 10; i++)
		if (pcpu_counter_init(&c[i], NULL))
			abort();
	for (int i = 0; i < 10; i++) {
		pcpu_counter_add(&c[i], i);
		pcpu_counter_destroy(&c[i]);
	}
}

int main(void)
{
	int maps;
	long before, after, rounds = scaled(2000);

	if (getenv("PCPU_TEST_EMULATED")) {
		tap_skip("memory", "what is resident is the emulator's");
		return tap_done();
	}
	/* Read once, so that stdio and the page tables of this code are not counted. */
	resident();
	many_cpus(1);
	many_cpus(2);

	fake_machine("0-7", "0-7");
	fake_start();
	fake_cpu(3);
	round_trip();
	maps = mappings();
	before = resident();
	for (long i = 0; i < rounds; i++)
		round_trip();
	after = resident();
	tap_ok(mappings() <= maps, "no mapping stays behind: %d, then %d", maps, mappings());
	tap_ok(after - before < 256 << 10, "nor memory: %ld KiB more after %ld rounds",
	       (after - before) >> 10, rounds);
	return tap_done();
}
