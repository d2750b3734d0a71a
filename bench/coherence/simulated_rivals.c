/* SPDX-License-Identifier: MIT */
/* Compiled like the library: every access is seen by the model. */
#include "simulated_rivals.h"

#include <string.h>

struct rival_line rival_shared;
struct rival_line rival_shards[RIVAL_SHARDS];
_Alignas(128) int64_t rival_unpadded[RIVAL_CPUS];
struct rival_line rival_padded[RIVAL_CPUS];
struct rival_line rival_carry[RIVAL_LEVELS + 1][RIVAL_CPUS];
static unsigned carry_levels;
static int64_t carry_batch;

void rival_add_shared(unsigned cpu)
{
	(void)cpu;
	__atomic_fetch_add(&rival_shared.value, 1, __ATOMIC_RELAXED);
}

void rival_add_sharded(unsigned cpu)
{
	__atomic_fetch_add(&rival_shards[cpu % RIVAL_SHARDS].value, 1, __ATOMIC_RELAXED);
}

void rival_add_unpadded(unsigned cpu)
{
	int64_t *word = &rival_unpadded[cpu];

	__atomic_store_n(word, __atomic_load_n(word, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

void rival_add_padded(unsigned cpu)
{
	__atomic_fetch_add(&rival_padded[cpu].value, 1, __ATOMIC_RELAXED);
}

void rival_carry_start(unsigned cpus, unsigned batch)
{
	memset(rival_carry, 0, sizeof(rival_carry));
	carry_batch = batch;
	for (carry_levels = 0; 1u << carry_levels < cpus; carry_levels++)
		;
}

void rival_add_carry(unsigned cpu)
{
	int64_t n = 1, batch = carry_batch, *word = &rival_carry[0][cpu].value, old = *word;

	*word = old + n;
	for (unsigned level = 1;; level++, batch *= 2) {
		/* What a word holds below a multiple of its batch stays there. */
		n = ((old + n) & ~(batch - 1)) - (old & ~(batch - 1));
		if (n == 0 || level > carry_levels)
			return;
		word = &rival_carry[level][cpu >> level].value;
		old = __atomic_fetch_add(word, n, __ATOMIC_RELAXED);
	}
}
