/* SPDX-License-Identifier: MIT */
/* The rseq area that updates use. */
#ifndef PCPU_LIB_ARCH_AREA_H
#define PCPU_LIB_ARCH_AREA_H

#include <pcpu_stat/common.h>

/* From now on updates use the area at @offset from the thread pointer; 0: none. */
void pcpu_area_use(ptrdiff_t offset);

/* What the library's own updates use: pcpu_rseq_offset, hidden. Const to all but area.c, like that one. */
#ifndef PCPU_AREA_C
extern const ptrdiff_t pcpu_area_offset __attribute__((visibility("hidden")));
#endif

#endif /* PCPU_LIB_ARCH_AREA_H */
