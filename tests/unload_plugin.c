/* SPDX-License-Identifier: MIT */
/* Inline adds in a shared object that goes away: see unload.c. */
#define PCPU_STAT_INLINE
#include <pcpu_stat/pcpu_stat.h>

int64_t plugin_run(int64_t n);

int64_t plugin_run(int64_t n)
{
	struct pcpu_counter c;
	int64_t sum;

	if (pcpu_counter_init(&c, NULL))
		return -1;
	for (int64_t i = 0; i < n; i++)
		pcpu_counter_add(&c, i % 200);
	sum = pcpu_counter_sum(&c);
	pcpu_counter_destroy(&c);
	pcpu_counter_add(&c, 1); /* the last section to run is the plugin's */
	return sum;
}
