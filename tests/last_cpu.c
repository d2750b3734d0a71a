/* SPDX-License-Identifier: MIT */
/*
 * I9: the system lies about its CPUs. This program runs on the last CPU of the machine, and the library is told
 * that only one is possible and online; so the id it runs on is out of range (where there are two or more). Built
 * with AddressSanitizer, which sees writes outside what is mapped.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <unistd.h>

#include <pcpu_stat/pcpu_stat.h>

#include "os_fake.h"
#include "cpu/cpu.h"
#include "region/region.h"
#include "tap.h"
#include "tools.h"

static struct pcpu_counter c;

static void add(unsigned number, void *arg)
{
	(void)arg;
	for (int i = 0; i < 100000; i++)
		pcpu_counter_add(&c, number + i % 90);
}

static void run(const char *what)
{
	int64_t sum, wanted = 0;

	if (pcpu_counter_init(&c, NULL))
		abort();
	for (int number = 0; number < 4; number++)
		for (int i = 0; i < 100000; i++)
			wanted += number + i % 90;
	run_threads(4, add, NULL);
	sum = pcpu_counter_sum(&c);
	tap_ok(sum == wanted, "%s: %lld of %lld in %u slots", what, (long long)sum, (long long)wanted,
	       pcpu_cpu.topology.slots);
	pcpu_counter_destroy(&c);
}

int main(void)
{
	cpu_set_t set;
	int last = -1;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		for (int i = 0; i < CPU_SETSIZE; i++)
			if (CPU_ISSET(i, &set))
				last = i;
	CPU_ZERO(&set);
	if (last >= 0)
		CPU_SET(last, &set);
	tap_ok(last >= 0 && sched_setaffinity(0, sizeof(set), &set) == 0, "runs on CPU %d", last);

	fake_machine("0", "0");
	fake.no_area = true;
	fake_start();
	run("one CPU claimed");

	/* No /sys, and only this CPU in the mask and in the C library's count. */
	fake_machine(NULL, NULL);
	fake.no_area = true;
	fake.affinity = 1;
	fake_start();
	run("no list, one CPU in the mask");
	fake.affinity = 0;
	fake.configured = 1;
	fake_start();
	run("no list and no mask");
	return tap_done();
}
