/* SPDX-License-Identifier: MIT */
/*
 * The C library's rseq area: glibc >= 2.35 registers one for every thread, and a second registration is
 * refused by the kernel, so it is found, never made.
 */
#ifndef PCPU_LIB_CPU_RSEQ_H
#define PCPU_LIB_CPU_RSEQ_H

#include <stddef.h>

#include "cpu/os.h"

/*
 * Find the area and see whether it works in this thread. Returns an enum pcpu_rseq; for PCPU_RSEQ_USED and
 * PCPU_RSEQ_UNSUPPORTED (the area is there, but this machine has no sections) the area's offset is stored.
 */
int pcpu_rseq_find(const struct pcpu_os *os, ptrdiff_t *offset);

#endif /* PCPU_LIB_CPU_RSEQ_H */
