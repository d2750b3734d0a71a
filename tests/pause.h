/* SPDX-License-Identifier: MIT */
/*
 * Forced into the library's files by variants that widen its races (-include): now and then, something takes
 * long. A yield lets another thread run in between, a short wait lets another CPU come in.
 */
#ifndef PCPU_TESTS_PAUSE_H
#define PCPU_TESTS_PAUSE_H

#define _GNU_SOURCE /* before the first header, whatever the file is */
#include <sched.h>

__attribute__((unused)) static inline void pcpu_test_pause(void)
{
	static _Thread_local unsigned n;

	n = n * 1664525 + 1013904223;
	if (n >> 28 == 0)
		sched_yield();
	else if (n >> 28 < 4)
		for (unsigned i = n >> 20 & 255; i; i--)
			__asm__ volatile("" ::: "memory");
}

#define PCPU_TREE_PAUSE pcpu_test_pause

/* In the sections, before the commit; no register is free in all of them. */
#define PCPU_X86_DELAY ".rept 20\n\tpause\n\t.endr\n\t"

#endif /* PCPU_TESTS_PAUSE_H */
