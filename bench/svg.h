/* SPDX-License-Identifier: MIT */
/**
 * @file svg.h
 * Line and bar charts as self-contained SVG: no scripts, no style sheets, no fonts fetched from anywhere.
 *
 * Colours are those of Okabe and Ito, which people with any kind of colour vision can tell apart; lines also
 * differ in their markers. The background is white whatever the page's.
 */
#ifndef PCPU_STAT_BENCH_SVG_H
#define PCPU_STAT_BENCH_SVG_H

#include <stdio.h>

/** One line, or one colour of bars. */
struct svg_series {
	const char *name;
	const double *values; /**< one for each place on the x axis; not above 0: left out */
};

/** What to draw. All texts are UTF-8 and may hold any character. */
struct svg_chart {
	const char *title;
	const char *subtitle;	   /**< machine, method; or NULL */
	const char *x_label;	   /**< or NULL */
	const char *y_label;	   /**< with the unit; or NULL */
	const char *const *places; /**< names on the category axis */
	unsigned nr_places;
	const struct svg_series *series;
	unsigned nr_series;
	int logarithmic; /**< of the value axis; line charts only: bars have no length without a zero */
};

/** Lines over evenly spaced places, a legend to the right, ordered as the lines end. Returns 0, or -EIO. */
int svg_lines(FILE *out, const struct svg_chart *chart);

/** Horizontal bars, a group per place, a bar per series, values at their ends. Returns 0, or -EIO. */
int svg_bars(FILE *out, const struct svg_chart *chart);

#endif /* PCPU_STAT_BENCH_SVG_H */
