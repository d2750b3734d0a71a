/* SPDX-License-Identifier: MIT */
/* The rseq area that updates use. */
#ifndef PCPU_LIB_ARCH_AREA_H
#define PCPU_LIB_ARCH_AREA_H

#include <pcpu_stat/common.h>

/* From now on updates use the area at @offset from the thread pointer; 0: none. */
void pcpu_area_use(ptrdiff_t offset);

/* What they use now. */
ptrdiff_t pcpu_area_offset(void);

#endif /* PCPU_LIB_ARCH_AREA_H */
