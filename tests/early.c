/* SPDX-License-Identifier: MIT */
/*
 * I9: counting before main and after it. A constructor of priority 101 in another shared object, one in this
 * program (which, linked statically, runs before the library's own), and atexit handlers.
 */
#include <stdlib.h>
#include <unistd.h>

#include <pcpu_stat/pcpu_stat.h>

#include "tap.h"

#ifdef WITH_PLUGIN
extern struct pcpu_counter early_in_plugin;
#else
static struct pcpu_counter early_in_plugin = PCPU_COUNTER_INIT;
#endif

static struct pcpu_counter early = PCPU_COUNTER_INIT;
static struct pcpu_counter late = PCPU_COUNTER_INIT;
static int64_t sum_in_constructor;

__attribute__((constructor(101))) static void before_main(void)
{
#ifndef WITH_PLUGIN
	pcpu_counter_add(&early_in_plugin, 5);
#endif
	for (int i = 0; i < 1000; i++)
		pcpu_counter_add(&early, i);
	pcpu_counter_set_batch(&early, 3);
	pcpu_counter_add(&early, -500);
	sum_in_constructor = pcpu_counter_sum(&early);
}

static void count_late(void)
{
	for (int i = 0; i < 1000; i++)
		pcpu_counter_inc(&late);
}

static void look_last(void)
{
	int64_t sum = pcpu_counter_sum(&late);

	tap_ok(sum == 2001, "atexit: %lld", (long long)sum);
	if (tap_done())
		_exit(1);
}

int main(void)
{
	int64_t sum = pcpu_counter_sum(&early_in_plugin);

	atexit(look_last);
	atexit(count_late);
	atexit(count_late);
	tap_ok(sum == 5, "constructor of priority 101: %lld", (long long)sum);
	tap_ok(sum_in_constructor == 499000, "in the constructor: %lld", (long long)sum_in_constructor);
	pcpu_counter_add(&early, 1);
	sum = pcpu_counter_sum(&early);
	tap_ok(sum == 499001, "and after it: %lld", (long long)sum);
	pcpu_counter_add(&early_in_plugin, 37);
	tap_ok(pcpu_counter_drain(&early_in_plugin) == 42, "a counter from before main goes on");
	pcpu_counter_inc(&late);
	return 0;
}
