/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* program_invocation_short_name */
#include "report.h"
#include "team.h"

#include <pcpu_stat/pcpu_stat.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- options ---- */

/* A number above 0 as an argument, or the end of the program. */
static double number(const char *option, const char *value)
{
	char *end;
	double n = strtod(value, &end);

	if (*end || end == value || !(n > 0) || n > 1e9) {
		fprintf(stderr, "%s: %s wants a number above 0, not \"%s\"\n", program_invocation_short_name,
			option, value);
		exit(2);
	}
	return n;
}

/* How many of the arguments at @argv an option of ours takes, itself included; 0: it is none of ours. */
static int take_option(const struct report_option *options, unsigned nr, struct paired_options *paired,
		       char **argv)
{
	const char *name = argv[0], *value = argv[1];

	for (unsigned i = 0; i < nr; i++) {
		if (strcmp(name, options[i].name))
			continue;
		if (options[i].flag) {
			*options[i].flag = true;
			return 1;
		}
		if (value)
			*options[i].text = value;
		return value ? 2 : 0;
	}
	if (value && !strcmp(name, "--rounds")) {
		paired->rounds = (unsigned)number(name, value);
		return 2;
	}
	if (value && !strcmp(name, "--seconds")) {
		paired->seconds = number(name, value);
		return 2;
	}
	return 0;
}

void report_parse(const struct report_option *options, unsigned nr, struct paired_options *paired,
		  const char *usage, int *argc, char **argv)
{
	int kept = 1;

	for (int i = 1, taken; i < *argc; i += taken) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			fputs(usage, stdout);
			exit(0);
		}
		taken = take_option(options, nr, paired, argv + i);
		if (taken)
			continue;
		argv[kept++] = argv[i];
		taken = 1;
	}
	argv[kept] = NULL;
	*argc = kept;
}

/* ---- measuring ---- */

int report_measure(struct paired_run *run, struct paired_variant *variants, unsigned nr,
		   const struct paired_options *paired, const char *json)
{
	int ret = paired_measure(run, variants, nr, paired);
	FILE *out;

	if (ret) {
		fprintf(stderr, "%s: %s\n", program_invocation_short_name, strerror(-ret));
		return ret;
	}
	if (!json)
		return 0;
	out = strcmp(json, "-") ? fopen(json, "w") : stdout;
	if (!out) {
		ret = -errno;
		perror(json);
		paired_free(run);
		return ret;
	}
	paired_print_json(out, run, 0, 1);
	if (out != stdout)
		fclose(out);
	return 0;
}

/* ---- what is printed ---- */

static bool missed;

void report_machine(void)
{
	struct pcpu_info info = {.size = sizeof(info)};

	pcpu_get_info(&info);
	printf("pcpu_stat %s, backend %s, %u CPUs online, %u usable here\n", pcpu_version(),
	       pcpu_backend_name(info.backend), info.slots_online, team_cpus());
}

void report_heading(const struct paired_run *run)
{
	printf("%u rounds of %.0f us slices, %u placements; ratios of minima, at the best placements, paired "
	       "by round\n\n",
	       run->rounds, run->slice_us, BENCH_PLACEMENTS);
	printf("%-60s %6s %6s %6s  %6s\n", "", "min", "best", "paired", "bar");
}

void report_bar(const char *what, struct paired_ratio ratio, double bar)
{
	const char *verdict = "MISSED";

	if (ratio.paired <= bar)
		verdict = "met";
	else if (ratio.best <= bar)
		verdict = "met at the best placement only";
	else if (ratio.min <= bar)
		verdict = "met by the minima only";
	else
		missed = true;
	printf("%-60s %6.2f %6.2f %6.2f  %6.2f  %s\n", what, ratio.min, ratio.best, ratio.paired, bar,
	       verdict);
}

void report_context(const char *what, struct paired_ratio ratio)
{
	printf("  %-58s %6.2f %6.2f %6.2f\n", what, ratio.min, ratio.best, ratio.paired);
}

void report_number(const char *what, double value, double bar)
{
	missed |= value > bar;
	printf("%-60s %20.2f  %6.2f  %s\n", what, value, bar, value <= bar ? "met" : "MISSED");
}

void report_fact(const char *what, int holds)
{
	missed |= holds == 0;
	printf("%-60s %s\n", what, holds < 0 ? "could not tell" : holds ? "met" : "MISSED");
}

bool report_missed(void)
{
	return missed;
}

void report_costs(const struct paired_run *run, unsigned variant, const char *name)
{
	const struct paired_variant *unit = &run->variants[0], *floor = &run->variants[1];
	const struct paired_variant *v = &run->variants[variant];

	printf("\nNanoseconds, min/best/median: unit %.2f/%.2f/%.2f, floor %.2f/%.2f/%.2f, %s "
	       "%.2f/%.2f/%.2f.\n",
	       unit->min, unit->best, unit->median, floor->min, floor->best, floor->median, name, v->min,
	       v->best, v->median);
}

/* ---- pictures ---- */

int report_picture(const char *path, int (*draw)(FILE *, const struct svg_chart *),
		   const struct svg_chart *chart)
{
	FILE *out = fopen(path, "w");
	int ret;

	if (!out) {
		perror(path);
		return 1;
	}
	ret = draw(out, chart);
	if (fclose(out) || ret) {
		fprintf(stderr, "%s: cannot write %s\n", program_invocation_short_name, path);
		return 1;
	}
	printf("wrote %s\n", path);
	return 0;
}
