/* SPDX-License-Identifier: MIT */
/*
 * The offset by which updates find the rseq area in use; 0 while there is none.
 *
 * Callers see it as const, so that a function with several adds loads it once. It changes once, when the
 * library starts; code that still holds the 0 from before takes the slow path a little longer. This file
 * alone knows the truth, so it must not include what declares it const.
 */
#define PCPU_AREA_C
#include "arch/area.h"

PCPU_API extern ptrdiff_t pcpu_rseq_offset;
extern ptrdiff_t pcpu_area_offset __attribute__((visibility("hidden")));

/* Two words, since a program may have taken its own copy of the exported one (a copy relocation). */
ptrdiff_t pcpu_rseq_offset;
ptrdiff_t pcpu_area_offset;

void pcpu_area_use(ptrdiff_t offset)
{
	__atomic_store_n(&pcpu_area_offset, offset, __ATOMIC_RELEASE);
	__atomic_store_n(&pcpu_rseq_offset, offset, __ATOMIC_RELEASE);
}
