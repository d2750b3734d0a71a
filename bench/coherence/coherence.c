/* SPDX-License-Identifier: MIT */
/*
 * Contention by counting: what the library's own code asks of the caches of machines with 2 to 512 CPUs.
 *
 *	bench_coherence				every workload on 64 CPUs
 *	bench_coherence --cpus 512 --nodes 8	on others
 *	bench_coherence --workload tree-4-bounded --fields
 *	bench_coherence --all --svg DIR		2, 4 .. 512 CPUs, with pictures
 *	bench_coherence --check			the bars, and that spoilt libraries fail them; exit status 1 if not
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machine.h"
#include "svg.h"
#include "workloads.h"

static struct {
	unsigned cpus, nodes; /* 0: not given */
	bool pairs, fields, all, bars, check;
	uint64_t seed;
	const char *svg;
	const char *only;
} options = {.seed = 1};

/* 2 .. 512 */
enum { SIZES = 9 };
static unsigned size_of(unsigned i)
{
	return 2u << i;
}

static __attribute__((noreturn)) void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* ---- tables ---- */

static void print_head(unsigned cpus, unsigned nodes)
{
	printf("%u CPUs, %u node%s, seed %llu%s; per operation\n\n", cpus, nodes, nodes == 1 ? "" : "s",
	       (unsigned long long)options.seed, options.pairs ? ", lines fetched in pairs" : "");
	printf("%-45s %9s %9s %9s %9s %9s\n", "", "transfers", "remote", "upgrades", "invalid.", "model ns");
}

static struct outcome run_and_print(enum workload_id id, unsigned cpus, unsigned nodes)
{
	struct outcome o;

	if (options.fields)
		printf("%-28s %9s %9s %9s %9s %9s %9s\n", workloads[id].name, "transfers", "remote",
		       "upgrades", "invalid.", "reads", "writes");
	o = workload_run(id, cpus, nodes, options.pairs, options.seed, options.fields);
	printf("%-45s %9.5f %9.5f %9.5f %9.5f %9.1f", workloads[id].what,
	       per(o.count.transfers, o.operations), per(o.count.remote, o.operations),
	       per(o.count.upgrades, o.operations), per(o.count.invalidations, o.operations), o.ns);
	if (o.reads)
		printf("  %.0f transfers per read, %.0f operations", per(o.count.transfers, o.reads),
		       per(o.operations, o.reads));
	puts(o.exact ? "" : "  WRONG SUM");
	fflush(stdout);
	return o;
}

static bool wanted(enum workload_id id)
{
	return !options.only || strcmp(options.only, workloads[id].name) == 0;
}

static int print_table(void)
{
	unsigned cpus = options.cpus ? options.cpus : 64;
	unsigned nodes = options.nodes ? options.nodes : default_nodes(cpus);
	bool exact = true;

	print_head(cpus, nodes);
	for (unsigned id = 0; id < NR_WORKLOADS; id++)
		if (wanted(id))
			exact &= run_and_print(id, cpus, nodes).exact;
	return !exact;
}

/* ---- pictures ---- */

static void draw(const char *name, const char *title, const char *unit, double values[][SIZES],
		 bool library_only)
{
	static const char *const places[SIZES] = {"2", "4", "8", "16", "32", "64", "128", "256", "512"};
	struct svg_series series[NR_WORKLOADS];
	unsigned nr = 0;
	char path[PATH_MAX];
	struct svg_chart chart = {
		.title = title,
		.subtitle = "simulated CPUs, 64 to a node; costs are constants of the model",
		.x_label = "CPUs",
		.y_label = unit,
		.places = places,
		.nr_places = SIZES,
		.series = series,
		.logarithmic = 1,
	};
	FILE *out;

	for (unsigned id = 0; id < NR_WORKLOADS; id++)
		if (wanted(id) && (!library_only || workloads[id].library))
			series[nr++] = (struct svg_series){workloads[id].what, values[id]};
	chart.nr_series = nr;
	snprintf(path, sizeof(path), "%s/%s.svg", options.svg, name);
	out = fopen(path, "w");
	if (!out || svg_lines(out, &chart) || fclose(out))
		fail(path);
	printf("wrote %s\n", path);
}

static int print_all(void)
{
	static double transfers[NR_WORKLOADS][SIZES], remote[NR_WORKLOADS][SIZES], rate[NR_WORKLOADS][SIZES];
	bool exact = true;

	for (unsigned i = 0; i < SIZES; i++) {
		unsigned cpus = size_of(i), nodes = default_nodes(cpus);

		if (options.cpus && cpus > options.cpus)
			break;
		print_head(cpus, nodes);
		for (unsigned id = 0; id < NR_WORKLOADS; id++) {
			struct outcome o;

			if (!wanted(id))
				continue;
			o = run_and_print(id, cpus, nodes);
			exact &= o.exact;
			transfers[id][i] = per(o.count.transfers, o.operations);
			remote[id][i] = per(o.count.remote, o.operations);
			rate[id][i] = 1000.0 * cpus / o.ns;
		}
		putchar('\n');
	}
	if (options.svg) {
		if (mkdir(options.svg, 0777) && errno != EEXIST)
			fail(options.svg);
		draw("transfers", "Cache-line transfers per operation (none: no point)", "transfers",
		     transfers, false);
		draw("remote", "Transfers between nodes per operation (none: no point)", "transfers", remote,
		     false);
		draw("rate", "Operations per microsecond, all CPUs together", "per us (model)", rate, false);
	}
	return !exact;
}

/* ---- bars ---- */

static unsigned failed;

static void bar(bool holds, const char *what, double value, const char *criterion)
{
	printf("%-4s %-66s %10.5f  %s\n", holds ? "ok" : "FAIL", what, value, criterion);
	fflush(stdout);
	failed += !holds;
}

static struct outcome run_bar(enum workload_id id, unsigned cpus, unsigned nodes, bool pairs)
{
	struct outcome o = workload_run(id, cpus, nodes, pairs, options.seed, false);
	char text[128];

	/* What holds for all of the library's updates, whatever else is asked of the one at hand. */
	if (!workloads[id].library)
		return o;
	if (!o.exact) {
		snprintf(text, sizeof(text), "%s, %u CPUs: sums are exact", workloads[id].what, cpus);
		bar(false, text, 0, "exact");
	}
	if (o.count.foreign && id != COUNTER_64_ATOMIC) {
		snprintf(text, sizeof(text), "%s, %u CPUs: slots written by others", workloads[id].what,
			 cpus);
		bar(false, text, per(o.count.foreign, o.operations), "0");
	}
	if (o.handle.transfers) {
		snprintf(text, sizeof(text), "%s, %u CPUs%s: transfers of read-mostly fields",
			 workloads[id].what, cpus, pairs ? ", pairs" : "");
		bar(false, text, per(o.handle.transfers, o.operations), "0");
	}
	return o;
}

static double transfers_of(enum workload_id id, unsigned cpus, bool pairs)
{
	struct outcome o = run_bar(id, cpus, options.nodes ? options.nodes : default_nodes(cpus), pairs);

	return per(o.count.transfers, o.operations);
}

static void bar_flat(enum workload_id id, unsigned cpus, bool pairs)
{
	double least = 0, most = 0;
	char text[128];

	for (unsigned i = 0; i < SIZES && size_of(i) <= cpus; i++) {
		double value = transfers_of(id, size_of(i), pairs);

		least = i == 0 || value < least ? value : least;
		most = value > most ? value : most;
	}
	snprintf(text, sizeof(text), "%s, 2 .. %u CPUs%s: transfers per add", workloads[id].what, cpus,
		 pairs ? ", pairs" : "");
	bar(most <= 0.05, text, most, "<= 0.05");
	snprintf(text, sizeof(text), "%s, 2 .. %u CPUs%s: most / least", workloads[id].what, cpus,
		 pairs ? ", pairs" : "");
	bar(least > 0 && most / least <= 1.2, text, least > 0 ? most / least : 0, "<= 1.2");
}

static void bar_most(enum workload_id id, unsigned cpus, bool pairs, double limit)
{
	double value = transfers_of(id, cpus, pairs);
	char text[128], criterion[32];

	snprintf(text, sizeof(text), "%s, %u CPUs%s: transfers per operation", workloads[id].what, cpus,
		 pairs ? ", pairs" : "");
	snprintf(criterion, sizeof(criterion), "<= %g", limit);
	bar(value <= limit, text, value, criterion);
}

/* The instrument must see contention where there is some. */
static void bar_least(enum workload_id id, unsigned cpus, double limit)
{
	double value = transfers_of(id, cpus, false);
	char text[128], criterion[32];

	snprintf(text, sizeof(text), "%s, %u CPUs: transfers per operation", workloads[id].what, cpus);
	snprintf(criterion, sizeof(criterion), ">= %g", limit);
	bar(value >= limit, text, value, criterion);
}

static void bar_node_level(void)
{
	struct outcome on = run_bar(COUNTER_64, 512, 8, false),
		       off = run_bar(COUNTER_64_NODES_OFF, 512, 8, false);
	double ratio = per(on.count.remote, off.count.remote);

	bar(off.count.remote && ratio <= 0.25, "512 CPUs, 8 nodes: remote transfers, node level on / off",
	    ratio, "<= 0.25");
}

static void bar_clean(unsigned cpus)
{
	struct outcome o = run_bar(TREE_4_CLEAN, cpus, default_nodes(cpus), false);

	bar(o.count.writes == 0, "exact read of a clean subtree: writes", per(o.count.writes, o.operations),
	    "0");
	bar(o.count.transfers == 0, "exact read of a clean subtree: transfers",
	    per(o.count.transfers, o.operations), "0");
	/* Is it clean, is there such a statistic, where are the values, and the value. */
	bar(o.count.reads <= 4 * o.operations, "exact read of a clean subtree: loads",
	    per(o.count.reads, o.operations), "<= 4");
}

static int check_bars(void)
{
	unsigned cpus = options.cpus ? options.cpus : 64;

	for (unsigned pairs = 0; pairs < 2; pairs++) {
		bar_flat(COUNTER_64, cpus, pairs);
		bar_most(COUNTER_AUTO, cpus, pairs, 0.05);
		bar_most(TREE_1, cpus, pairs, 0.01);
		bar_most(TREE_4, cpus, pairs, 0.01);
		bar_most(TREE_1_BOUNDED, cpus, pairs, 0.05);
		bar_most(TREE_4_BOUNDED, cpus, pairs, 0.05);
	}
	bar_node_level();
	bar_clean(cpus);
	bar_least(SHARED, cpus, 0.9);
	bar_least(UNPADDED, cpus, 0.9);
	bar_most(PADDED, cpus, false, 0);
	return failed != 0;
}

/* ---- mutants ---- */

/*
 * The same program with a library that was spoilt on purpose. It must fail a bar whose text holds @expected.
 */
static void check_mutant(const char *name, const char *what, const char *expected)
{
	char self[PATH_MAX - 64] = "", command[PATH_MAX], line[256], *slash;
	bool caught = false;
	unsigned bars = 0;
	FILE *in;
	int status;

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		fail("/proc/self/exe");
	slash = strrchr(self, '/');
	*slash = '\0';
	snprintf(command, sizeof(command), "'%s/bench_coherence_%s' --bars --seed %llu", self, name,
		 (unsigned long long)options.seed);
	in = popen(command, "r");
	if (!in)
		fail(command);
	while (fgets(line, sizeof(line), in)) {
		if (strncmp(line, "FAIL", 4) != 0)
			continue;
		bars++;
		if (strstr(line, expected) && !caught) {
			printf("     %s", line + 5);
			caught = true;
		}
	}
	status = pclose(in);
	caught &= WIFEXITED(status) && WEXITSTATUS(status) == 1;
	printf("%-4s mutant is caught: %s (%u bars fail)\n", caught ? "ok" : "FAIL", what, bars);
	failed += !caught;
}

static int check(void)
{
	check_bars();
	check_mutant("layout", "counter.value moved beside what adds read",
		     "transfers of read-mostly fields");
	check_mutant("clearing", "flusher that clears the slots it has read", "slots written by others");
	if (failed)
		printf("%u failed\n", failed);
	return failed != 0;
}

static void usage(FILE *out)
{
	fputs("usage: bench_coherence [options]\n"
	      "  --cpus N      CPUs of the machine (64), or the most of them with --all and --bars\n"
	      "  --nodes N     its nodes, which divide the CPUs evenly (one per 64 CPUs)\n"
	      "  --pairs       a miss brings the other line of a 128-byte pair along\n"
	      "  --seed N      (1)\n"
	      "  --workload W  only this one\n"
	      "  --fields      counts by object and field as well\n"
	      "  --all         2, 4 .. 512 CPUs\n"
	      "  --svg DIR     pictures, with --all\n"
	      "  --bars        what is promised; exit status 1 if a bar does not hold\n"
	      "  --check       the same, and that spoilt libraries are found out\n"
	      "workloads:\n",
	      out);
	for (unsigned id = 0; id < NR_WORKLOADS; id++)
		fprintf(out, "  %-16s %s\n", workloads[id].name, workloads[id].what);
}

static unsigned number(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*end || end == text || n == 0 || n > UINT_MAX) {
		fprintf(stderr, "not a number: %s\n", text);
		exit(2);
	}
	return (unsigned)n;
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{"cpus", required_argument, NULL, 'c'},
		{"nodes", required_argument, NULL, 'n'},
		{"pairs", no_argument, NULL, 'p'},
		{"seed", required_argument, NULL, 's'},
		{"workload", required_argument, NULL, 'w'},
		{"fields", no_argument, NULL, 'f'},
		{"all", no_argument, NULL, 'a'},
		{"svg", required_argument, NULL, 'S'},
		{"bars", no_argument, NULL, 'b'},
		{"check", no_argument, NULL, 'C'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (option) {
		case 'c':
			options.cpus = number(optarg);
			break;
		case 'n':
			options.nodes = number(optarg);
			break;
		case 'p':
			options.pairs = true;
			break;
		case 's':
			options.seed = number(optarg);
			break;
		case 'w':
			options.only = optarg;
			break;
		case 'f':
			options.fields = true;
			break;
		case 'a':
			options.all = true;
			break;
		case 'S':
			options.svg = optarg;
			options.all = true;
			break;
		case 'b':
			options.bars = true;
			break;
		case 'C':
			options.check = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind < argc || options.cpus > MODEL_MAX_CPUS || options.nodes > MODEL_MAX_NODES ||
	    (options.nodes && (options.cpus ? options.cpus : 64) % options.nodes)) {
		usage(stderr);
		return 2;
	}
	if (options.check)
		return check();
	if (options.bars)
		return check_bars();
	return options.all ? print_all() : print_table();
}
