/* SPDX-License-Identifier: MIT */
/*
 * The counter against what programs use in its place.
 *
 * Without options of its own this is a google-benchmark program. The options below measure by interleaved
 * slices instead (paired.h), which is what ratios should be taken from, or by windows with many threads
 * (throughput.h).
 */
#define _GNU_SOURCE
#include "counter_memory.h"
#include "counter_ops.h"
#include "paired.h"
#include "rivals.h"
#include "shim.h"
#include "svg.h"
#include "team.h"
#include "throughput.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* How this program got the library, which the function form's cost depends on: see meson.build. */
#ifndef BENCH_LINKED
#define BENCH_LINKED "shared"
#endif

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static const char usage[] =
	"Usage: bench_counter [--benchmark_...]      google-benchmark (--benchmark_help lists its flags)\n"
	"       bench_counter MODE... [OPTION...]\n"
	"\n"
	"  --summary         what an add costs, next to everything else that counts; a few seconds\n"
	"  --ratios          all operations, with minima, medians and ratios (see bench/paired.h)\n"
	"  --bars            the ratios that the project holds itself to, with verdicts\n"
	"  --memory          resident memory of 1000 counters on 512 possible CPUs\n"
	"  --svg FILE        draw throughput against threads\n"
	"  --svg-bars FILE   draw the cost of an add with one thread and with one per CPU\n"
	"\n"
	"  --json FILE       also write the figures of --summary, --ratios or --bars; - is standard output\n"
	"  --rounds N        at most N rounds of slices (400)\n"
	"  --seconds S       at most S seconds for each measurement (4)\n"
	"  --strict          exit status 1 if --bars finds one missed\n";

struct options {
	bool summary, ratios, bars, memory, strict;
	const char *svg, *svg_bars, *json;
	struct paired_options paired;
};

/* Operations that are compared at every number of threads. */
static const struct bench_op *const adds[] = {
	&counter_add_inline, &counter_add_function, &counter_add_node_level, &counter_add_batch_1,
	&rival_thread_local, &rival_floor,	    &rival_per_thread,	     &rival_lock_own_line,
	&rival_percpu_rseq,  &rival_percpu_getcpu,  &rival_shared,	     &rival_mutex,
};

/* With one thread only, and turns per call of the loop for google-benchmark. */
static const struct {
	const struct bench_op *op;
	uint64_t batch;
} singles[] = {
	{&rival_adjacent, 0},	       {&counter_add_wide, 0},	    {&counter_add_four, 0},
	{&rival_thread_local_four, 0}, {&counter_read, 0},	    {&rival_called_load, 0},
	{&counter_sum, 256},	       {&counter_compare_sum, 256}, {&counter_compare_bounds, 0},
	{&counter_error, 1024},	       {&counter_drain, 256},	    {&counter_init_destroy, 16},
	{&rival_per_thread_sum, 256},
};

static bool available(const struct bench_op *op)
{
	return op != &rival_percpu_rseq || rival_has_rseq();
}

static void print_machine(FILE *out)
{
	struct pcpu_info info = {.size = sizeof(info)};

	pcpu_get_info(&info);
	fprintf(out, "pcpu_stat %s, backend %s, %u CPUs online, %u usable here\n", pcpu_version(),
		pcpu_backend_name(info.backend), info.slots_online, team_cpus());
}

/* Run the variants, print or save what was asked for. The first is the unit, the second the floor. */
static int measure(struct paired_run *run, struct paired_variant *variants, unsigned nr,
		   const struct options *options)
{
	int ret = paired_measure(run, variants, nr, &options->paired);

	if (ret) {
		fprintf(stderr, "bench_counter: %s\n", strerror(-ret));
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
 * Summary: for people, in a few seconds.
 */

/* Every operation with one thread, and again with one per CPU. Returns how many there are with one. */
static unsigned summary_variants(struct paired_variant *variants)
{
	static const struct bench_op *const ops[] = {
		&rival_thread_local,   &rival_floor,	     &counter_add_inline,
		&counter_add_function, &rival_lock_own_line, &rival_percpu_rseq,
		&rival_percpu_getcpu,  &rival_shared,	     &rival_mutex,
	};
	unsigned nr = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(ops); i++)
		if (available(ops[i]))
			variants[nr++] = (struct paired_variant){.op = ops[i]};
	for (unsigned i = 0; i < nr; i++) /* one placement in two is enough here */
		variants[nr + i] = (struct paired_variant){
			.op = variants[i].op, .threads = team_cpus(), .nr_loops = BENCH_PLACEMENTS / 2};
	return nr;
}

enum { SUMMARY_VARIANTS = 20, BAR_WIDTH = 30 };

static int summary(const struct options *options)
{
	struct paired_variant variants[SUMMARY_VARIANTS] = {{0}};
	unsigned nr = summary_variants(variants), cpus = team_cpus();
	bool cut = false;
	double scale;
	struct paired_run run;

	if (measure(&run, variants, cpus > 1 ? 2 * nr : nr, options))
		return 1;
	/* A contended mutex would leave nothing to see of the rest. */
	scale = 12 * variants[0].median;

	printf("What one add costs, in nanoseconds as each thread sees it\n");
	print_machine(stdout);
	printf("\n%-46s %9s %9s %9s\n", "", "1 thread", "x unit", "");
	for (unsigned all = 0; all < (cpus > 1 ? 2u : 1u); all++) {
		if (all)
			printf("\n%-46s %4u threads, all at once\n", "", cpus);
		for (unsigned i = all * nr; i < (all + 1) * nr; i++) {
			char bar[3 * BAR_WIDTH + 1];
			double cost = variants[i].median;

			printf("%-46s %9.2f %9.2f  %s%s\n", variants[i].label, cost,
			       paired_compare(&run, i, 0).paired, paired_bar(bar, BAR_WIDTH, cost, scale),
			       cost > scale ? ">>" : "");
			cut |= cost > scale;
		}
	}
	printf("\nThe unit is the first line; the floor is the least that any add to memory can cost. "
	       "Medians of %u\n"
	       "interleaved repetitions%s.\n",
	       run.rounds, cut ? "; bars that end in >> are cut" : "");
	paired_free(&run);
	return 0;
}

/*
 * Ratios: everything, for those who know what they look at.
 */
static int ratios(const struct options *options)
{
	struct paired_variant variants[ARRAY_SIZE(adds) * 2 + ARRAY_SIZE(singles)] = {
		{.op = &rival_thread_local}, {.op = &rival_floor}};
	unsigned nr = 2, cpus = team_cpus();
	struct paired_run run;

	for (unsigned i = 0; i < ARRAY_SIZE(adds); i++)
		if (available(adds[i]) && adds[i] != &rival_thread_local && adds[i] != &rival_floor)
			variants[nr++].op = adds[i];
	for (unsigned i = 0; i < ARRAY_SIZE(singles); i++)
		variants[nr++].op = singles[i].op;
	if (measure(&run, variants, nr, options))
		return 1;
	print_machine(stdout);
	printf("One thread, %u placements of each loop\n", BENCH_PLACEMENTS);
	paired_print(stdout, &run, 0, 1);
	paired_free(&run);
	if (cpus == 1)
		return 0;

	memset(variants, 0, sizeof(variants));
	variants[0].op = &rival_thread_local;
	variants[1].op = &rival_floor;
	nr = 2;
	for (unsigned i = 0; i < ARRAY_SIZE(adds); i++)
		if (available(adds[i]) && adds[i] != &rival_thread_local && adds[i] != &rival_floor)
			variants[nr++].op = adds[i];
	variants[nr++].op = &counter_add_wide;
	for (unsigned i = 0; i < nr; i++) {
		variants[i].threads = cpus;
		variants[i].nr_loops = BENCH_PLACEMENTS / 2;
	}
	if (paired_measure(&run, variants, nr, &options->paired))
		return 1;
	printf("\n%u threads, one per CPU; nanoseconds as each thread sees them\n", cpus);
	paired_print(stdout, &run, 0, 1);
	paired_free(&run);
	return 0;
}

/*
 * Memory: measured by a program that is linked with the library's internals.
 */
static long measure_memory(unsigned *slots, unsigned *used)
{
	char self[PATH_MAX], command[PATH_MAX + 64];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	long resident = -1;
	FILE *in;

	if (len < 0)
		return -1;
	self[len] = '\0';
	snprintf(command, sizeof(command), "%s/" MEMORY_PROGRAM, dirname(self));
	if (access(command, X_OK)) /* not built, or bench_counter was copied elsewhere */
		return -1;
	snprintf(command, sizeof(command), "'%s/" MEMORY_PROGRAM "'", self);
	in = popen(command, "r");
	if (!in)
		return -1;
	if (fscanf(in, MEMORY_FORMAT, &resident, slots, used) != 3)
		resident = -1;
	return pclose(in) ? -1 : resident;
}

static int memory(void)
{
	unsigned slots = 0, used = 0;
	long bytes = measure_memory(&slots, &used);

	if (bytes < 0) {
		fprintf(stderr, "bench_counter: " MEMORY_PROGRAM " is not there or failed\n");
		return 1;
	}
	printf("%u counters on %u possible CPUs, %u of them used: %ld KiB resident (%.0f bytes per "
	       "counter)\n",
	       MEMORY_COUNTERS, slots, used, bytes / 1024, (double)bytes / MEMORY_COUNTERS);
	return 0;
}

/*
 * Bars: what the project holds itself to.
 */

/*
 * Does read store anything into the counter? In a child that may not write to it. Returns 1 for no, 0 for
 * yes, -1 for cannot tell.
 */
static int read_stores_nothing(void)
{
	long page = sysconf(_SC_PAGESIZE);
	struct pcpu_counter *c =
		mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int status = 0;
	pid_t child;

	if (c == MAP_FAILED)
		return -1;
	if (pcpu_counter_init(
		    c, &(struct pcpu_counter_attr){.size = sizeof(struct pcpu_counter_attr), .batch = 2}))
		return -1;
	pcpu_counter_add(c, 1000); /* carried at once */
	fflush(NULL);
	child = fork();
	if (child == 0) {
		mprotect(c, (size_t)page, PROT_READ);
		_exit(pcpu_counter_read(c) != 1000);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		status = -1;
	pcpu_counter_destroy(c);
	munmap(c, (size_t)page);
	return status == -1 ? -1 : status == 0;
}

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
	printf("%-54s %6.2f %6.2f %6.2f  %6.2f  %s\n", what, ratio.min, ratio.best, ratio.paired, limit,
	       verdict);
}

static void print_context(const char *what, struct paired_ratio ratio)
{
	printf("  %-52s %6.2f %6.2f %6.2f\n", what, ratio.min, ratio.best, ratio.paired);
}

static int bars(const struct options *options)
{
	enum {
		UNIT,
		FLOOR,
		ADJACENT,
		INLINE,
		FUNCTION,
		AUTOMATIC,
		FUNCTION_AUTOMATIC,
		LOCK,
		FOUR,
		UNIT_FOUR,
		READ,
		LOAD,
		WIDE,
		ONE_CPU, /* those that follow need two */
		UNIT_2 = ONE_CPU,
		AUTOMATIC_2,
		INLINE_2,
		WIDE_2,
		NR,
	};
	struct paired_variant v[NR] = {
		[UNIT] = {.op = &rival_thread_local},
		[FLOOR] = {.op = &rival_floor},
		[ADJACENT] = {.op = &rival_adjacent},
		[INLINE] = {.op = &counter_add_inline},
		[FUNCTION] = {.op = &counter_add_function},
		[AUTOMATIC] = {.op = &counter_add_automatic},
		[FUNCTION_AUTOMATIC] = {.op = &counter_add_function_automatic},
		[LOCK] = {.op = &rival_lock_own_line},
		[FOUR] = {.op = &counter_add_four},
		[UNIT_FOUR] = {.op = &rival_thread_local_four},
		[READ] = {.op = &counter_read},
		[LOAD] = {.op = &rival_called_load},
		[WIDE] = {.op = &counter_add_wide},
		[UNIT_2] = {.op = &rival_thread_local, .threads = 2},
		[AUTOMATIC_2] = {.op = &counter_add_automatic, .threads = 2},
		[INLINE_2] = {.op = &counter_add_inline, .threads = 2},
		[WIDE_2] = {.op = &counter_add_wide, .threads = 2},
	};
	struct paired_run run;
	unsigned slots = 0, used = 0;
	int no_store;
	long bytes;

	if (measure(&run, v, team_cpus() > 1 ? NR : ONE_CPU, options))
		return 1;
	print_machine(stdout);
	printf("%u rounds of %.0f us slices, %u placements; ratios of minima, at the best placements, paired "
	       "by round\n\n",
	       run.rounds, run.slice_us, BENCH_PLACEMENTS);
	printf("%-54s %6s %6s %6s  %6s\n", "", "min", "best", "paired", "bar");
	print_bar("counter add inline / thread_local += v", paired_compare(&run, INLINE, UNIT), 0.55);
	print_bar("counter add function (" BENCH_LINKED ") / thread_local += v",
		  paired_compare(&run, FUNCTION, UNIT), 0.65);
	print_context("the same two at the automatic batch: inline", paired_compare(&run, AUTOMATIC, UNIT));
	print_context("and function", paired_compare(&run, FUNCTION_AUTOMATIC, UNIT));
	print_context("the floor (load, add, store) / thread_local += v", paired_compare(&run, FLOOR, UNIT));
	print_context("the same, add right behind the load", paired_compare(&run, ADJACENT, UNIT));
	print_context("counter add inline / the floor", paired_compare(&run, INLINE, FLOOR));
	print_bar("counter add inline / LOCK add on its own line", paired_compare(&run, INLINE, LOCK), 0.22);
	print_context("thread_local += v / LOCK add on its own line", paired_compare(&run, UNIT, LOCK));
	print_bar("four counters in a row / four thread-local adds", paired_compare(&run, FOUR, UNIT_FOUR),
		  1.8);
	if (team_cpus() > 1) {
		/*
		 * At the automatic batch, since this asks whether threads stay out of each other's way: at 64,
		 * two threads that do nothing else meet at the shared line every 64 adds each.
		 */
		print_bar("2 threads on one counter / 1 thread, automatic batch",
			  paired_compare(&run, AUTOMATIC_2, AUTOMATIC), 1.05);
		print_context("the same at batch 64", paired_compare(&run, INLINE_2, INLINE));
		print_context("thread_local += v, 2 threads / 1 thread", paired_compare(&run, UNIT_2, UNIT));
		print_context("a counter that does not carry, 2 threads / 1 thread",
			      paired_compare(&run, WIDE_2, WIDE));
	}

	no_store = read_stores_nothing();
	missed |= no_store == 0;
	printf("%-54s %s\n", "read: no store to the counter",
	       no_store < 0 ? "could not tell"
	       : no_store   ? "met"
			    : "MISSED");
	print_context("read / a function that loads a word", paired_compare(&run, READ, LOAD));

	bytes = measure_memory(&slots, &used);
	if (bytes >= 0) {
		missed |= bytes > 1 << 20;
		printf("1000 counters, %3u possible CPUs, %u used: KiB resident %20ld  %6d  %s\n", slots,
		       used, bytes / 1024, 1024, bytes <= 1 << 20 ? "met" : "MISSED");
	}
	printf("\nNanoseconds, min/best/median: unit %.2f/%.2f/%.2f, floor %.2f/%.2f/%.2f, inline "
	       "%.2f/%.2f/%.2f.\n",
	       v[UNIT].min, v[UNIT].best, v[UNIT].median, v[FLOOR].min, v[FLOOR].best, v[FLOOR].median,
	       v[INLINE].min, v[INLINE].best, v[INLINE].median);
	printf("What the columns mean, and why the floor can lie far below the unit: bench/paired.h.\n");
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
		fprintf(stderr, "bench_counter: cannot write %s\n", path);
		return 1;
	}
	printf("wrote %s\n", path);
	return 0;
}

static int draw_throughput(const struct options *options)
{
	unsigned counts[16], nr_counts = throughput_counts(counts, 4 * team_cpus()), nr = 0;
	struct throughput_series series[ARRAY_SIZE(adds)];
	struct svg_series lines[ARRAY_SIZE(adds)];
	double rates[ARRAY_SIZE(adds)][16];
	char names[16][12], subtitle[128];
	const char *places[16];
	/* --seconds bounds this as well: three repetitions of everything. */
	struct throughput_options how = {.repetitions = 3};
	int ret;

	for (unsigned i = 0; i < ARRAY_SIZE(adds); i++) {
		if (!available(adds[i]))
			continue;
		series[nr] = (struct throughput_series){.op = adds[i], .rates = rates[nr]};
		lines[nr] = (struct svg_series){.name = adds[i]->label, .values = rates[nr]};
		nr++;
	}
	how.window_ms = options->paired.seconds * 1e3 / (how.repetitions * nr_counts * nr);
	ret = throughput_measure(series, nr, counts, nr_counts, &how);
	if (ret) {
		fprintf(stderr, "bench_counter: %s\n", strerror(-ret));
		return 1;
	}
	for (unsigned i = 0; i < nr_counts; i++) {
		snprintf(names[i], sizeof(names[i]), "%u", counts[i]);
		places[i] = names[i];
	}
	printf("Millions of adds per second, all threads together\n%-46s", "threads");
	for (unsigned t = 0; t < nr_counts; t++)
		printf(" %8u", counts[t]);
	for (unsigned i = 0; i < nr; i++) {
		printf("\n%-46s", series[i].op->label);
		for (unsigned t = 0; t < nr_counts; t++)
			printf(" %8.1f", rates[i][t] / 1e6);
	}
	printf("\n");
	snprintf(subtitle, sizeof(subtitle), "%u CPUs; medians of %u windows of %.0f ms; logarithmic",
		 team_cpus(), how.repetitions, how.window_ms);
	return save(options->svg, svg_lines,
		    &(struct svg_chart){
			    .title = "Adding to one counter from many threads",
			    .subtitle = subtitle,
			    .x_label = "threads",
			    .y_label = "adds per second, all threads together",
			    .places = places,
			    .nr_places = nr_counts,
			    .series = lines,
			    .nr_series = nr,
			    .logarithmic = 1,
		    });
}

static int draw_bars(const struct options *options)
{
	struct paired_variant variants[SUMMARY_VARIANTS] = {{0}};
	unsigned nr = summary_variants(variants), cpus = team_cpus();
	const char *places[SUMMARY_VARIANTS];
	double costs[2][SUMMARY_VARIANTS];
	char all[32], subtitle[128];
	struct svg_series series[2] = {{"1 thread", costs[0]}, {all, costs[1]}};
	struct paired_run run;
	unsigned shown = 0;
	int ret;

	snprintf(all, sizeof(all), "%u threads", cpus);
	if (measure(&run, variants, cpus > 1 ? 2 * nr : nr, options))
		return 1;
	for (unsigned i = 0; i < nr; i++) {
		if (variants[i].op == &rival_mutex) /* off any scale that shows the others */
			continue;
		places[shown] = variants[i].label;
		costs[0][shown] = variants[i].median;
		costs[1][shown] = cpus > 1 ? variants[nr + i].median : 0;
		shown++;
	}
	snprintf(subtitle, sizeof(subtitle), "medians of %u interleaved repetitions, %u CPUs", run.rounds,
		 cpus);
	ret = save(options->svg_bars, svg_bars,
		   &(struct svg_chart){
			   .title = "What one add costs",
			   .subtitle = subtitle,
			   .y_label = "nanoseconds, as each thread sees it",
			   .places = places,
			   .nr_places = shown,
			   .series = series,
			   .nr_series = cpus > 1 ? 2 : 1,
		   });
	paired_free(&run);
	return ret;
}

/*
 * google-benchmark.
 */
static int google_benchmark(int argc, char **argv)
{
	unsigned counts[16], nr = throughput_counts(counts, 4 * team_cpus());

	for (unsigned i = 0; i < ARRAY_SIZE(adds); i++)
		for (unsigned t = 0; available(adds[i]) && t < nr; t++)
			shim_register(adds[i], counts[t], 0);
	for (unsigned i = 0; i < ARRAY_SIZE(singles); i++)
		shim_register(singles[i].op, 1, singles[i].batch);
	return shim_main(argc, argv);
}

/* A number above 0 as an argument, or the end of the program. */
static double number(const char *option, const char *value)
{
	char *end;
	double n = strtod(value, &end);

	if (*end || end == value || !(n > 0) || n > 1e9) {
		fprintf(stderr, "bench_counter: %s wants a number above 0, not \"%s\"\n", option, value);
		exit(2);
	}
	return n;
}

/* Take our own options out of the arguments; what is left is for google-benchmark. */
static void parse(struct options *options, int *argc, char **argv)
{
	int kept = 1;

	for (int i = 1; i < *argc; i++) {
		const struct {
			const char *name;
			bool *flag;
		} flags[] = {
			{"--summary", &options->summary}, {"--ratios", &options->ratios},
			{"--bars", &options->bars},	  {"--memory", &options->memory},
			{"--strict", &options->strict},
		};
		const struct {
			const char *name;
			const char **text;
		} texts[] = {
			{"--svg", &options->svg},
			{"--svg-bars", &options->svg_bars},
			{"--json", &options->json},
		};
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
	if (!options.summary && !options.ratios && !options.bars && !options.memory && !options.svg &&
	    !options.svg_bars)
		return google_benchmark(argc, argv);
	if (argc > 1) {
		fprintf(stderr, "bench_counter: what is \"%s\"?\n%s", argv[1], usage);
		return 2;
	}
	if (options.summary)
		ret |= summary(&options);
	if (options.ratios)
		ret |= ratios(&options);
	if (options.bars)
		ret |= bars(&options);
	if (options.memory)
		ret |= memory();
	if (options.svg)
		ret |= draw_throughput(&options);
	if (options.svg_bars)
		ret |= draw_bars(&options);
	return ret;
}
