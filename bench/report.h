/* SPDX-License-Identifier: MIT */
/**
 * @file report.h
 * What the benchmark programs of counters and trees have in common beside how they measure: their options,
 * the first line of every report, ratios held against bars, and pictures in files.
 */
#ifndef PCPU_STAT_BENCH_REPORT_H
#define PCPU_STAT_BENCH_REPORT_H

#include "paired.h"
#include "svg.h"

#include <stdbool.h>
#include <stdio.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/** An option of a program: one of the two is set, to what it switches on or to where its value goes. */
struct report_option {
	const char *name;
	bool *flag;
	const char **text;
};

/**
 * Take a program's own options out of its arguments: those given, --rounds and --seconds, which go to
 * @p paired, and --help. What is left is for google-benchmark. Ends the program for --help and bad numbers.
 */
void report_parse(const struct report_option *options, unsigned nr, struct paired_options *paired,
		  const char *usage, int *argc, char **argv);

/**
 * Run variants, the unit first, the floor second, and write the figures to the file @p json (NULL: do not;
 * "-" is standard output). Returns 0 or a negative errno value, and has said what it was.
 */
int report_measure(struct paired_run *run, struct paired_variant *variants, unsigned nr,
		   const struct paired_options *paired, const char *json);

/** Which library, and where. */
void report_machine(void);

/** The heading of ratios and bars. */
void report_heading(const struct paired_run *run);
/** Ratios and their bar, with a verdict: missed is what exceeds it by all three. */
void report_bar(const char *what, struct paired_ratio ratio, double bar);
/** Ratios that help to understand the bar above. */
void report_context(const char *what, struct paired_ratio ratio);
/** A number and its bar. */
void report_number(const char *what, double value, double bar);
/** Something that must hold: 1 it does, 0 it does not, -1 it could not be told. */
void report_fact(const char *what, int holds);
/** Whether a verdict so far was that a bar is missed. */
bool report_missed(void);

/** What ratios do not tell: nanoseconds of unit and floor (the first two of the run) and one more variant. */
void report_costs(const struct paired_run *run, unsigned variant, const char *name);

/** Draw to a file, and say so. Returns 0, or 1 and has said what was wrong. */
int report_picture(const char *path, int (*draw)(FILE *, const struct svg_chart *),
		   const struct svg_chart *chart);

#endif /* PCPU_STAT_BENCH_REPORT_H */
