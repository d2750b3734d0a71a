/* SPDX-License-Identifier: MIT */
/**
 * @file pcpu_stat.h
 * Everything: per-CPU counting without contention. Each header below also stands alone.
 *
 * Define PCPU_STAT_INLINE before the first include to get the update path as static inline functions
 * of the same names. Code compiled that way and later removed by dlclose() defines
 * PCPU_STAT_UNLOADABLE as well (see arch/x86_64.h).
 */
#ifndef PCPU_STAT_PCPU_STAT_H
#define PCPU_STAT_PCPU_STAT_H

#include <pcpu_stat/counter.h>
#include <pcpu_stat/cpu.h>
#include <pcpu_stat/export.h>
#include <pcpu_stat/limit.h>
#include <pcpu_stat/placement.h>
#include <pcpu_stat/region.h>
#include <pcpu_stat/tree.h>

#endif /* PCPU_STAT_PCPU_STAT_H */
