/* SPDX-License-Identifier: MIT */
/**
 * @file paired.h
 * Ratios of costs, by interleaved repetition.
 *
 * The question is "how does A compare with B", at a nanosecond or two each, on a machine whose clock rate,
 * whose neighbours and whose luck change from one tenth of a second to the next. Measuring A for a second and
 * then B for a second compares two weathers. So:
 *
 * - Time is cut into slices of some 100 microseconds: long against the clock read at either end (tens of
 *   nanoseconds), short against a scheduler's tick, so that most slices meet no interruption.
 * - A round measures every variant once at each of its placements (see op.h), in an order shuffled anew for
 *   each round, so that no variant always runs in the wake of the same other one. There are hundreds of
 *   rounds.
 * - A sixteenth of each slice is run before the clock starts, for caches and predictors.
 *
 * What comes out, per variant, in nanoseconds per turn of the loop:
 *
 *   min     the fastest slice of all: what the machine can do on its best day
 *   best    the median over the rounds at the placement where that is lowest
 *   median  the median over the placements of their medians: what to expect
 *
 * and as ratios against another variant of the same run (the unit, unless told otherwise):
 *
 *   min     min / min
 *   best    best / best
 *   paired  the median over the rounds of (median of the round's slices of this / the same of the other)
 *
 * All three are shown because they can differ, and the reason is worth knowing. Some recent cores forward a
 * store to the next load of the same address in the rename stage, at no cost; where they do not, the load
 * waits some five to eight cycles for the store buffer, and back-to-back adds to one word take that long
 * whatever else they hold. Measured on a Sapphire Rapids class core, on loops laid at every address of four
 * pages:
 *
 * - A read-modify-write instruction (`add %reg, mem`, what gcc makes of `thread_local += v`) is never
 *   forwarded.
 * - `mov (p), r; add v, r; mov r, (p)` is forwarded nowhere but where the load ends at a 64-byte boundary.
 * - With one instruction of any kind, a nop will do, between the load and the add it is forwarded everywhere.
 *
 * So it looks as if the core joined a load with an operation on its result that is right behind it, in the
 * same fetch line, into the form that is not forwarded. Longer sequences are forwarded most of the time when
 * written with that distance. A ratio of minima tells what a form allows, a paired ratio what a program
 * mostly gets, and the floor (one load, a nop, add, store, in the same run) what the core can do at all.
 *
 * With several threads a slice starts at a spinning barrier, each thread takes its own time, and the slice's
 * result is the mean of them. Threads are bound to different CPUs of the caller's affinity mask, as far as it
 * goes; the caller's binding is restored at the end.
 *
 * What this cannot tell: the data's placement is the same throughout a run (run again to vary it), loops with
 * nothing else in them overlap less than an operation amid other work would, and cache misses are absent.
 */
#ifndef PCPU_STAT_BENCH_PAIRED_H
#define PCPU_STAT_BENCH_PAIRED_H

#include "op.h"

#include <stdio.h>

/** A ratio of two variants of one run. */
struct paired_ratio {
	double min, best, paired;
};

/** An operation in a run. The caller fills in the first part and reads the second. */
struct paired_variant {
	const struct bench_op *op;
	unsigned threads;  /**< 0 means 1 */
	unsigned nr_loops; /**< use the first so many placements only; 0: all */
	const char *label; /**< NULL: the operation's */

	uint64_t turns;		  /**< per slice, as calibrated */
	double min, best, median; /**< nanoseconds per turn and thread */
	double *rounds;		  /**< the median over the placements, for each round */
};

/** How long to measure. Zero in any field means the default. */
struct paired_options {
	unsigned rounds; /**< at most; default 400 */
	double seconds;	 /**< at most; default 5 */
	double slice_us; /**< default 100 */
};

/** A finished run. */
struct paired_run {
	struct paired_variant *variants;
	unsigned nr_variants;
	unsigned rounds; /**< as many as there was time for, at least 3 */
	double seconds;	 /**< how long it took */
	double slice_us;
};

/**
 * Measure. Sets all variants up, runs the rounds, tears all down.
 *
 * @param run          out
 * @param variants     the variants; results are written into them
 * @param nr_variants  how many
 * @param options      or NULL
 * @return 0 or a negative errno value
 */
int paired_measure(struct paired_run *run, struct paired_variant *variants, unsigned nr_variants,
		   const struct paired_options *options);

/** Free what paired_measure allocated. */
void paired_free(struct paired_run *run);

/** The ratio of variant @p a to variant @p b. */
struct paired_ratio paired_compare(const struct paired_run *run, unsigned a, unsigned b);

/**
 * The share of the rounds in which variant @p v took less than @p limit nanoseconds: how often a core was in
 * its fast mode.
 */
double paired_share_below(const struct paired_run *run, unsigned v, double limit);

/** Print a table: all variants, ratios against variant @p unit, cost against variant @p floor. */
void paired_print(FILE *out, const struct paired_run *run, unsigned unit, unsigned floor);

/** The same as a JSON object, with a line end. */
void paired_print_json(FILE *out, const struct paired_run *run, unsigned unit, unsigned floor);

/** A bar of @p width characters at most for @p value out of @p max, in @p buf of 3 * width + 1 bytes. */
const char *paired_bar(char *buf, unsigned width, double value, double max);

#endif /* PCPU_STAT_BENCH_PAIRED_H */
