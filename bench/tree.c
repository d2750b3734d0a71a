/* SPDX-License-Identifier: MIT */
/*
 * The tree: what an add costs at any depth, what a read and a flush cost, and what they do to each other.
 *
 * Without options of its own this is a google-benchmark program. The options below measure by interleaved
 * slices (paired.h) what takes nanoseconds, and round by round, all cases in turn, what takes microseconds.
 */
#define _GNU_SOURCE
#include "paired.h"
#include "rivals.h"
#include "shim.h"
#include "svg.h"
#include "team.h"
#include "throughput.h"
#include "tree_flush.h"
#include "tree_ops.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static const char usage[] =
	"Usage: bench_tree [--benchmark_...]      google-benchmark (--benchmark_help lists its flags)\n"
	"       bench_tree MODE... [OPTION...]\n"
	"\n"
	"  --ratios          all operations, with minima, medians and ratios (see bench/paired.h), and "
	"flushes\n"
	"                    against nodes, changed nodes, CPUs and readers\n"
	"  --bars            the ratios that the project holds itself to, with verdicts\n"
	"  --svg FILE        draw the cost of an add against the depth of the node\n"
	"  --svg-flush FILE  draw the cost of a flush against the number of nodes\n"
	"\n"
	"  --json FILE       also write the figures of --ratios or --bars; - is standard output\n"
	"  --rounds N        at most N rounds of slices (400)\n"
	"  --seconds S       at most S seconds for each measurement (4)\n"
	"  --strict          exit status 1 if --bars finds one missed\n";

struct options {
	bool ratios, bars, strict;
	const char *svg, *svg_flush, *json;
	struct paired_options paired;
};

/* With one thread, and turns per call of the loop for google-benchmark. */
static const struct {
	const struct bench_op *op;
	uint64_t batch;
} singles[] = {
	{&tree_add_variable, 0},      {&tree_add_second, 0},	     {&tree_add_eighth, 0},
	{&tree_add_many_function, 0}, {&rival_thread_local_four, 0}, {&tree_read_cached, 0},
	{&tree_read_bounded, 0},      {&tree_read_exact, 0},	     {&tree_read_within, 0},
	{&tree_snapshot, 0},	      {&rival_called_load, 0},	     {&tree_dirty_cached, 0},
	{&tree_dirty_bounded, 64},    {&tree_dirty_beyond, 64},	     {&tree_dirty_exact, 64},
	{&flush_10_of_100, 16},	      {&flush_10_of_20000, 16},	     {&tree_node_create_destroy, 1},
};

static void print_machine(FILE *out)
{
	struct pcpu_info info = {.size = sizeof(info)};

	pcpu_get_info(&info);
	fprintf(out, "pcpu_stat %s, backend %s, %u CPUs online, %u usable here\n", pcpu_version(),
		pcpu_backend_name(info.backend), info.slots_online, team_cpus());
}

/* Run the variants, save what was asked for. The first is the unit, the second the floor. */
static int measure(struct paired_run *run, struct paired_variant *variants, unsigned nr,
		   const struct options *options)
{
	int ret = paired_measure(run, variants, nr, &options->paired);

	if (ret) {
		fprintf(stderr, "bench_tree: %s\n", strerror(-ret));
		return ret;
	}
	if (options->json) {
		FILE *out = strcmp(options->json, "-") ? fopen(options->json, "w") : stdout;

		if (!out) {
			ret = -errno;
			perror(options->json);
			paired_free(run);
			return ret;
		}
		paired_print_json(out, run, 0, 1);
		if (out != stdout)
			fclose(out);
	}
	return 0;
}

/*
 * Flushes, round by round.
 */

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

enum { MAX_CASES = 16, MAX_ROUNDS = 2000 };

/* A case and what came out, per round. */
struct flush_result {
	struct flush_case fc;
	double min, median; /* ns */
	double flushes, visits;
	uint64_t longest_hold;
};

/*
 * All cases in turn, round by round, at most @rounds times and for @seconds, so that the machine's moods meet
 * all alike. Returns the number of rounds, or 0.
 */
static unsigned measure_flushes(struct flush_result *results, unsigned nr, unsigned rounds, double seconds)
{
	static double samples[MAX_CASES][MAX_ROUNDS];
	struct flush_counts before[MAX_CASES];
	unsigned threads = team_cpus() > 1 ? 2 : 1, round;
	struct team *team;
	double begin;

	for (unsigned i = 0; i < nr; i++)
		threads = results[i].fc.readers > threads ? results[i].fc.readers : threads;
	/* Never alone, as in paired.c. */
	if (team_start(&team, threads > 1 ? threads : 2, TEAM_BIND))
		return 0;
	for (unsigned i = 0; i < nr; i++) {
		flush_case_make(&results[i].fc);
		flush_case_round(&results[i].fc, team);
		before[i] = flush_case_counts(&results[i].fc);
	}
	begin = team_now_ns();
	for (round = 0; round < rounds && round < MAX_ROUNDS; round++) {
		if (round >= 3 && team_now_ns() - begin > seconds * 1e9)
			break;
		for (unsigned i = 0; i < nr; i++)
			samples[i][round] = flush_case_round(&results[i].fc, team);
	}
	for (unsigned i = 0; i < nr; i++) {
		struct flush_counts after = flush_case_counts(&results[i].fc);

		qsort(samples[i], round, sizeof(samples[i][0]), compare_doubles);
		results[i].min = samples[i][0];
		results[i].median = samples[i][round / 2];
		results[i].flushes = (double)(after.flushes - before[i].flushes) / round;
		results[i].visits = (double)(after.visits - before[i].visits) / round;
		results[i].longest_hold = after.longest_hold;
		flush_case_end(&results[i].fc);
	}
	team_stop(team);
	return round;
}

static unsigned flush_rounds(const struct options *options)
{
	return options->paired.rounds ? options->paired.rounds : MAX_ROUNDS;
}

static int print_flushes(const struct options *options, const char *title, struct flush_result *results,
			 unsigned nr)
{
	unsigned rounds = measure_flushes(results, nr, flush_rounds(options), options->paired.seconds / 2);

	if (!rounds) {
		fprintf(stderr, "bench_tree: no threads\n");
		return 1;
	}
	printf("\n%s; %u rounds\n", title, rounds);
	printf("%7s %8s %5s %8s  %10s %10s %12s  %8s %8s %12s\n", "nodes", "changed", "CPUs", "readers",
	       "min us", "median us", "ns / pair", "flushes", "pairs", "longest hold");
	for (unsigned i = 0; i < nr; i++) {
		const struct flush_result *r = &results[i];

		printf("%7u %8u %5u %8u  %10.2f %10.2f %12.0f  %8.2f %8.1f %9.1f us%s\n", r->fc.nr_nodes,
		       r->fc.nr_dirty, r->fc.cpus ? r->fc.cpus : 1, r->fc.readers ? r->fc.readers : 1,
		       r->min / 1e3, r->median / 1e3, r->visits > 0 ? r->median / r->visits : 0, r->flushes,
		       r->visits, (double)r->longest_hold / 1e3, r->fc.moving ? "  others each time" : "");
	}
	return 0;
}

static int flush_tables(const struct options *options)
{
	struct flush_result nodes[] = {
		{.fc = {.nr_nodes = 100, .nr_dirty = 10}},
		{.fc = {.nr_nodes = 1000, .nr_dirty = 10}},
		{.fc = {.nr_nodes = 10000, .nr_dirty = 10}},
		{.fc = {.nr_nodes = 20000, .nr_dirty = 10}},
		{.fc = {.nr_nodes = 100, .nr_dirty = 10, .moving = 1}},
		{.fc = {.nr_nodes = 20000, .nr_dirty = 10, .moving = 1}},
	};
	struct flush_result dirty[] = {
		{.fc = {.nr_nodes = 20000, .nr_dirty = 0}},
		{.fc = {.nr_nodes = 20000, .nr_dirty = 1}},
		{.fc = {.nr_nodes = 20000, .nr_dirty = 10}},
		{.fc = {.nr_nodes = 20000, .nr_dirty = 100}},
		{.fc = {.nr_nodes = 20000, .nr_dirty = 1000}},
		{.fc = {.nr_nodes = 20000, .nr_dirty = 10000}},
		{.fc = {.nr_nodes = 20000, .nr_dirty = 20000}},
	};
	struct flush_result cpus[] = {
		{.fc = {.nr_nodes = 1000, .nr_dirty = 100, .cpus = 1}},
		{.fc = {.nr_nodes = 1000, .nr_dirty = 100, .cpus = 2}},
	};
	struct flush_result readers[] = {
		{.fc = {.nr_nodes = 1000, .nr_dirty = 1000, .readers = 1}},
		{.fc = {.nr_nodes = 1000, .nr_dirty = 1000, .readers = 2}},
		{.fc = {.nr_nodes = 1000, .nr_dirty = 1000, .readers = 4}},
		{.fc = {.nr_nodes = 1000, .nr_dirty = 1000, .readers = 8}},
		{.fc = {.nr_nodes = 1000, .nr_dirty = 1000, .readers = 16}},
	};

	return print_flushes(options, "An EXACT read of the root against the number of nodes", nodes,
			     ARRAY_SIZE(nodes)) ||
	       print_flushes(options, "Against the number of changed nodes", dirty, ARRAY_SIZE(dirty)) ||
	       (team_cpus() > 1 && print_flushes(options, "Against the number of CPUs that changed them",
						 cpus, ARRAY_SIZE(cpus))) ||
	       print_flushes(options, "Against the number of readers at once, until the last has its value",
			     readers, ARRAY_SIZE(readers));
}

/*
 * Ratios: everything, for those who know what they look at.
 */

/* Unit and floor first; returns how many. */
static unsigned all_variants(struct paired_variant *v)
{
	unsigned nr = 0;

	v[nr++].op = &rival_thread_local;
	v[nr++].op = &rival_floor;
	v[nr++].op = &rival_lock_own_line;
	v[nr++].op = &tree_add_inline;
	v[nr++].op = &tree_add_function;
	for (unsigned i = 0; i < TREE_DEPTHS; i++)
		v[nr++].op = tree_add_depth[i];
	for (unsigned i = 0; i < TREE_DEPTHS; i++)
		v[nr++].op = tree_rival_path[i];
	for (unsigned i = 0; i < TREE_STATS; i++)
		v[nr++].op = tree_add_singly[i];
	for (unsigned i = 0; i < TREE_STATS; i++)
		v[nr++].op = tree_add_many[i];
	for (unsigned i = 0; i < ARRAY_SIZE(singles); i++)
		v[nr++].op = singles[i].op;
	if (team_cpus() > 1)
		v[nr++].op = &tree_add_flushed;
	for (unsigned i = 0; i < nr; i++)
		v[i].nr_loops = BENCH_PLACEMENTS / 2;
	return nr;
}

static int ratios(const struct options *options)
{
	struct paired_variant variants[6 + 2 * TREE_DEPTHS + 2 * TREE_STATS + ARRAY_SIZE(singles)] = {{0}};
	unsigned nr = all_variants(variants);
	struct paired_run run;

	if (measure(&run, variants, nr, options))
		return 1;
	print_machine(stdout);
	printf("One thread, %u placements of each loop\n", BENCH_PLACEMENTS / 2);
	paired_print(stdout, &run, 0, 1);
	paired_free(&run);
	return flush_tables(options);
}

/*
 * Bars: what the project holds itself to.
 */
static bool missed;

static void print_bar(const char *what, struct paired_ratio ratio, double limit)
{
	const char *verdict;

	if (ratio.paired <= limit)
		verdict = "met";
	else if (ratio.best <= limit)
		verdict = "met at the best placement only";
	else if (ratio.min <= limit)
		verdict = "met by the minima only";
	else
		verdict = "MISSED";
	missed |= ratio.paired > limit && ratio.best > limit && ratio.min > limit;
	printf("%-60s %6.2f %6.2f %6.2f  %6.2f  %s\n", what, ratio.min, ratio.best, ratio.paired, limit,
	       verdict);
}

static void print_context(const char *what, struct paired_ratio ratio)
{
	printf("  %-58s %6.2f %6.2f %6.2f\n", what, ratio.min, ratio.best, ratio.paired);
}

/* A number instead of ratios. */
static void print_number(const char *what, double value, double limit)
{
	missed |= value > limit;
	printf("%-60s %20.2f  %6.2f  %s\n", what, value, limit, value <= limit ? "met" : "MISSED");
}

/* Of flushes: there are no placements. */
static struct paired_ratio flush_ratio(const struct flush_result *a, const struct flush_result *b)
{
	return (struct paired_ratio){a->min / b->min, a->median / b->median, a->median / b->median};
}

static void bars_of_flushes(const struct options *options)
{
	struct flush_result sizes[] = {
		{.fc = {.nr_nodes = 100, .nr_dirty = 10}},
		{.fc = {.nr_nodes = 20000, .nr_dirty = 10}},
		{.fc = {.nr_nodes = 100, .nr_dirty = 10, .moving = 1}},
		{.fc = {.nr_nodes = 20000, .nr_dirty = 10, .moving = 1}},
	};
	struct flush_result crowds[] = {
		{.fc = {.nr_nodes = 1000, .nr_dirty = 1000, .readers = 1}},
		{.fc = {.nr_nodes = 1000, .nr_dirty = 1000, .readers = 16}},
	};
	char what[80];
	double pairs;

	if (measure_flushes(sizes, ARRAY_SIZE(sizes), flush_rounds(options), options->paired.seconds / 2)) {
		print_bar("flush, 10 changed of 20 000 nodes / 10 of 100", flush_ratio(&sizes[1], &sizes[0]),
			  1.5);
		print_context("the same, other ten each time: with the cache misses",
			      flush_ratio(&sizes[3], &sizes[2]));
	}
	if (measure_flushes(crowds, ARRAY_SIZE(crowds), flush_rounds(options), options->paired.seconds / 2)) {
		print_number("16 threads demanding EXACT at once / 1: flushes per round",
			     crowds[1].flushes / crowds[0].flushes, 1.2);
		print_number("  the same: pairs read per round", crowds[1].visits / crowds[0].visits, 1.2);
	}
	print_number("+1/-1 a million times, BOUNDED read each 100: flushes",
		     (double)flushes_of_to_and_fro(1000000, 100), 0);
	pairs = tree_memory_per_pair();
	snprintf(what, sizeof(what), "memory per (node, CPU) beyond 16 B per statistic (%u)", TREE_STATS);
	if (pairs > -1)
		print_number(what, pairs, 16);
}

static void print_clean_read(const struct paired_run *run, unsigned exact, unsigned cached, unsigned load)
{
	int no_store = exact_read_stores_nothing();

	missed |= no_store == 0;
	printf("%-60s %s\n", "clean EXACT read: stores nothing (memory write-protected)",
	       no_store < 0 ? "could not tell"
	       : no_store   ? "met"
			    : "MISSED");
	print_context("clean EXACT read / CACHED read: one load and its branch",
		      paired_compare(run, exact, cached));
	print_context("clean EXACT read / a function that loads a word", paired_compare(run, exact, load));
}

static void bar_amid_flushes(const struct options *options)
{
	struct amid_flushes r;

	measure_amid_flushes(&r, options->paired.seconds / 2);
	print_bar("add while another thread flushes without pause / alone",
		  (struct paired_ratio){r.amid_min / r.alone_min, r.amid_median / r.alone_median,
					r.amid_median / r.alone_median},
		  1.5);
	printf("  a flush every %.2f us; %u of %u stretches\n", r.every_ns / 1e3, r.kept, r.all);
}

static int bars(const struct options *options)
{
	enum {
		UNIT,
		FLOOR,
		INLINE,
		FUNCTION,
		VARIABLE,
		DEPTH_1,
		DEPTH_8,
		MANY_4,
		MANY_4_FUNCTION,
		UNIT_4,
		SECOND,
		EIGHTH,
		SINGLY_1,
		SINGLY_2,
		SINGLY_7,
		SINGLY_8,
		EXACT,
		CACHED,
		LOAD,
		NR,
	};
	struct paired_variant v[NR] = {
		[UNIT] = {.op = &rival_thread_local},
		[FLOOR] = {.op = &rival_floor},
		[INLINE] = {.op = &tree_add_inline},
		[FUNCTION] = {.op = &tree_add_function},
		[VARIABLE] = {.op = &tree_add_variable},
		[DEPTH_1] = {.op = tree_add_depth[0]},
		[DEPTH_8] = {.op = tree_add_depth[7]},
		[MANY_4] = {.op = tree_add_many[3]},
		[MANY_4_FUNCTION] = {.op = &tree_add_many_function},
		[UNIT_4] = {.op = &rival_thread_local_four},
		[SECOND] = {.op = &tree_add_second},
		[EIGHTH] = {.op = &tree_add_eighth},
		[SINGLY_1] = {.op = tree_add_singly[0]},
		[SINGLY_2] = {.op = tree_add_singly[1]},
		[SINGLY_7] = {.op = tree_add_singly[6]},
		[SINGLY_8] = {.op = tree_add_singly[7]},
		[EXACT] = {.op = &tree_read_exact},
		[CACHED] = {.op = &tree_read_cached},
		[LOAD] = {.op = &rival_called_load},
	};
	struct paired_run run;

	if (measure(&run, v, NR, options))
		return 1;
	print_machine(stdout);
	printf("%u rounds of %.0f us slices, %u placements; ratios of minima, at the best placements, paired "
	       "by round\n\n",
	       run.rounds, run.slice_us, BENCH_PLACEMENTS);
	printf("%-60s %6s %6s %6s  %6s\n", "", "min", "best", "paired", "bar");
	print_bar("tree add inline / thread_local += v", paired_compare(&run, INLINE, UNIT), 0.55);
	print_context("a statistic that the compiler does not know", paired_compare(&run, VARIABLE, UNIT));
	print_context("the floor (load, add, store) / thread_local += v", paired_compare(&run, FLOOR, UNIT));
	print_bar("tree add function / thread_local += v", paired_compare(&run, FUNCTION, UNIT), 0.65);
	print_bar("tree add at depth 8 / at depth 1", paired_compare(&run, DEPTH_8, DEPTH_1), 1.02);
	print_bar("four by add_many inline / four thread-local adds", paired_compare(&run, MANY_4, UNIT_4),
		  1.2);
	print_context("the same, function form", paired_compare(&run, MANY_4_FUNCTION, UNIT_4));
	print_bar("add to the 8th statistic of a touched node / to the 2nd",
		  paired_compare(&run, EIGHTH, SECOND), 1.05);
	printf("  %-58s %6.2f %6.2f ns\n", "what the 8th in a row adds to seven, the 2nd to one",
	       v[SINGLY_8].median - v[SINGLY_7].median, v[SINGLY_2].median - v[SINGLY_1].median);
	print_clean_read(&run, EXACT, CACHED, LOAD);
	if (team_cpus() > 1)
		bar_amid_flushes(options);
	bars_of_flushes(options);
	printf("\nNanoseconds, min/best/median: unit %.2f/%.2f/%.2f, floor %.2f/%.2f/%.2f, inline "
	       "%.2f/%.2f/%.2f.\n",
	       v[UNIT].min, v[UNIT].best, v[UNIT].median, v[FLOOR].min, v[FLOOR].best, v[FLOOR].median,
	       v[INLINE].min, v[INLINE].best, v[INLINE].median);
	printf("What the columns mean: bench/paired.h. Flushes have no placements: min, and twice the "
	       "median.\n");
	paired_free(&run);
	return options->strict && missed;
}

/*
 * Pictures.
 */
static int save(const char *path, int (*draw)(FILE *, const struct svg_chart *),
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
		fprintf(stderr, "bench_tree: cannot write %s\n", path);
		return 1;
	}
	printf("wrote %s\n", path);
	return 0;
}

static int draw_depths(const struct options *options)
{
	static const char *const places[TREE_DEPTHS] = {"1", "2", "3", "4", "5", "6", "7", "8"};
	enum { TREE, RIVAL, TREE_ALL, RIVAL_ALL, NR_LINES };
	struct paired_variant v[NR_LINES * TREE_DEPTHS] = {{0}};
	double costs[NR_LINES][TREE_DEPTHS];
	char names[NR_LINES][64], subtitle[96];
	struct svg_series lines[NR_LINES];
	unsigned cpus = team_cpus(), nr_lines = cpus > 1 ? NR_LINES : TREE_ALL;
	struct paired_run run;

	for (unsigned line = 0; line < nr_lines; line++) {
		bool rival = line % 2 == RIVAL;
		unsigned threads = line >= TREE_ALL ? cpus : 1;

		for (unsigned d = 0; d < TREE_DEPTHS; d++)
			v[line * TREE_DEPTHS + d] = (struct paired_variant){
				.op = rival ? tree_rival_path[d] : tree_add_depth[d],
				.threads = threads,
				.nr_loops = BENCH_PLACEMENTS / 4,
			};
		snprintf(names[line], sizeof(names[line]), "%s, %u thread%s",
			 rival ? "atomic add per level" : "tree add", threads, threads > 1 ? "s" : "");
		lines[line] = (struct svg_series){.name = names[line], .values = costs[line]};
	}
	if (paired_measure(&run, v, nr_lines * TREE_DEPTHS, &options->paired))
		return 1;
	for (unsigned line = 0; line < nr_lines; line++)
		for (unsigned d = 0; d < TREE_DEPTHS; d++)
			costs[line][d] = v[line * TREE_DEPTHS + d].median;
	snprintf(subtitle, sizeof(subtitle), "medians of %u interleaved repetitions, %u CPUs; logarithmic",
		 run.rounds, cpus);
	paired_free(&run);
	return save(options->svg, svg_lines,
		    &(struct svg_chart){
			    .title = "What one add to a node costs at each depth",
			    .subtitle = subtitle,
			    .x_label = "levels below the root",
			    .y_label = "nanoseconds, as each thread sees it",
			    .places = places,
			    .nr_places = TREE_DEPTHS,
			    .series = lines,
			    .nr_series = nr_lines,
			    .logarithmic = 1,
		    });
}

static int draw_flushes(const struct options *options)
{
	static const char *const places[] = {"100", "1000", "10 000", "20 000"};
	static const unsigned sizes[] = {100, 1000, 10000, 20000};
	static const unsigned dirty[] = {1, 10, 100};
	enum { NR_SIZES = ARRAY_SIZE(sizes), NR_LINES = ARRAY_SIZE(dirty) };
	struct flush_result results[NR_LINES * NR_SIZES];
	double costs[NR_LINES][NR_SIZES];
	struct svg_series lines[NR_LINES] = {
		{"1 changed", costs[0]}, {"10 changed", costs[1]}, {"100 changed", costs[2]}};
	char subtitle[96];
	unsigned rounds;

	for (unsigned i = 0; i < ARRAY_SIZE(results); i++)
		results[i] = (struct flush_result){
			.fc = {.nr_nodes = sizes[i % NR_SIZES], .nr_dirty = dirty[i / NR_SIZES]}};
	rounds =
		measure_flushes(results, ARRAY_SIZE(results), flush_rounds(options), options->paired.seconds);
	if (!rounds)
		return 1;
	for (unsigned i = 0; i < ARRAY_SIZE(results); i++)
		costs[i / NR_SIZES][i % NR_SIZES] = results[i].median / 1e3;
	snprintf(subtitle, sizeof(subtitle), "medians of %u rounds, %u CPUs; logarithmic", rounds,
		 team_cpus());
	return save(options->svg_flush, svg_lines,
		    &(struct svg_chart){
			    .title = "What an EXACT read of the root costs",
			    .subtitle = subtitle,
			    .x_label = "nodes in the tree",
			    .y_label = "microseconds",
			    .places = places,
			    .nr_places = NR_SIZES,
			    .series = lines,
			    .nr_series = NR_LINES,
			    .logarithmic = 1,
		    });
}

/*
 * google-benchmark.
 */
static int google_benchmark(int argc, char **argv)
{
	static const struct bench_op *const adds[] = {&tree_add_inline, &tree_add_function,
						      &rival_thread_local, &rival_floor,
						      &rival_lock_own_line};
	unsigned counts[16], nr = throughput_counts(counts, 4 * team_cpus());

	for (unsigned i = 0; i < ARRAY_SIZE(adds); i++)
		for (unsigned t = 0; t < nr; t++)
			shim_register(adds[i], counts[t], 0);
	for (unsigned i = 0; i < TREE_DEPTHS; i++)
		shim_register(tree_add_depth[i], 1, 0);
	for (unsigned i = 0; i < TREE_DEPTHS; i++)
		for (unsigned t = 0; t < nr; t++)
			shim_register(tree_rival_path[i], counts[t], 0);
	for (unsigned i = 0; i < TREE_STATS; i++)
		shim_register(tree_add_singly[i], 1, 0);
	for (unsigned i = 0; i < TREE_STATS; i++)
		shim_register(tree_add_many[i], 1, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(singles); i++)
		shim_register(singles[i].op, 1, singles[i].batch);
	if (team_cpus() > 1)
		shim_register(&tree_add_flushed, 1, 0);
	return shim_main(argc, argv);
}

/* A number above 0 as an argument, or the end of the program. */
static double number(const char *option, const char *value)
{
	char *end;
	double n = strtod(value, &end);

	if (*end || end == value || !(n > 0) || n > 1e9) {
		fprintf(stderr, "bench_tree: %s wants a number above 0, not \"%s\"\n", option, value);
		exit(2);
	}
	return n;
}

/* Take our own options out of the arguments; what is left is for google-benchmark. */
static void parse(struct options *options, int *argc, char **argv)
{
	const struct {
		const char *name;
		bool *flag;
	} flags[] = {
		{"--ratios", &options->ratios},
		{"--bars", &options->bars},
		{"--strict", &options->strict},
	};
	const struct {
		const char *name;
		const char **text;
	} texts[] = {
		{"--svg", &options->svg},
		{"--svg-flush", &options->svg_flush},
		{"--json", &options->json},
	};
	int kept = 1;

	for (int i = 1; i < *argc; i++) {
		bool known = false;

		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			fputs(usage, stdout);
			exit(0);
		}
		for (unsigned f = 0; f < ARRAY_SIZE(flags); f++)
			if (!strcmp(argv[i], flags[f].name))
				known = *flags[f].flag = true;
		for (unsigned t = 0; t < ARRAY_SIZE(texts) && i + 1 < *argc; t++) {
			if (!known && !strcmp(argv[i], texts[t].name)) {
				*texts[t].text = argv[++i];
				known = true;
			}
		}
		if (!known && i + 1 < *argc && !strcmp(argv[i], "--rounds")) {
			options->paired.rounds = (unsigned)number("--rounds", argv[++i]);
			known = true;
		} else if (!known && i + 1 < *argc && !strcmp(argv[i], "--seconds")) {
			options->paired.seconds = number("--seconds", argv[++i]);
			known = true;
		}
		if (!known)
			argv[kept++] = argv[i];
	}
	argv[kept] = NULL;
	*argc = kept;
}

int main(int argc, char **argv)
{
	struct options options = {.paired = {.seconds = 4}};
	int ret = 0;

	parse(&options, &argc, argv);
	if (!options.ratios && !options.bars && !options.svg && !options.svg_flush)
		return google_benchmark(argc, argv);
	if (argc > 1) {
		fprintf(stderr, "bench_tree: what is \"%s\"?\n%s", argv[1], usage);
		return 2;
	}
	if (options.ratios)
		ret |= ratios(&options);
	if (options.bars)
		ret |= bars(&options);
	if (options.svg)
		ret |= draw_depths(&options);
	if (options.svg_flush)
		ret |= draw_flushes(&options);
	return ret;
}
