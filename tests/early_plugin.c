/* SPDX-License-Identifier: MIT */
/* A shared object that counts before main: see early.c. */
#include <pcpu_stat/pcpu_stat.h>

extern struct pcpu_counter early_in_plugin;
struct pcpu_counter early_in_plugin = PCPU_COUNTER_INIT;

__attribute__((constructor(101))) static void count_early(void)
{
	pcpu_counter_add(&early_in_plugin, 5);
}
