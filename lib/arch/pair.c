/* SPDX-License-Identifier: MIT */
#include "arch/pair.h"

#include <string.h>

#if PCPU_ARCH_PAIR

__extension__ typedef unsigned __int128 both;

static both as_both(struct pcpu_pair pair)
{
	both b;

	memcpy(&b, &pair, sizeof(b));
	return b;
}

#ifdef __x86_64__
__attribute__((noinline, target("cx16")))
#endif
bool pcpu_pair_replace(struct pcpu_pair *pair, struct pcpu_pair old, struct pcpu_pair new)
{
	return __sync_bool_compare_and_swap((both *)(void *)pair, as_both(old), as_both(new));
}

#else

/* Never called: nothing that needs it is made on such a machine. */
bool pcpu_pair_replace(struct pcpu_pair *pair, struct pcpu_pair old, struct pcpu_pair new)
{
	(void)pair;
	(void)old;
	(void)new;
	return false;
}

#endif
