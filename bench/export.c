/* SPDX-License-Identifier: MIT */
/*
 * What an export costs: 500 nodes of 20 statistics each, at rest, to a sink that only counts.
 *
 * One turn is a whole export. The rival is what a program would write by hand: the same walk and reads, with
 * snprintf for each line; it is spared the escaping.
 */
#include "paired.h"
#include "shim.h"

#include <pcpu_stat/pcpu_stat.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES	   500u
#define STATISTICS 20u
#define SAMPLES	   (NODES * STATISTICS)

static struct pcpu_tree *tree;
static unsigned users;
static uint64_t written; /* so that the sink has an effect */

static int count(void *ctx, const char *buf, size_t len)
{
	(void)ctx;
	(void)buf;
	written += len;
	return 0;
}

static __attribute__((noreturn)) void fail(const char *what)
{
	fprintf(stderr, "bench_export: %s\n", what);
	exit(1);
}

/* The root, some groups, and their members. */
static void setup(void *ctx, unsigned threads)
{
	static char names[STATISTICS][24];
	static struct pcpu_stat_desc stats[STATISTICS];
	struct pcpu_tree_attr attr = {
		.size = sizeof(attr), .name = "bench", .stats = stats, .nr_stats = STATISTICS};
	struct pcpu_node *node, *group = NULL;
	char name[24];

	(void)ctx;
	(void)threads;
	if (users++)
		return;
	for (unsigned i = 0; i < STATISTICS; i++) {
		snprintf(names[i], sizeof(names[i]), "statistic%u", i);
		stats[i].name = names[i];
		stats[i].kind = i % 2 ? PCPU_STAT_GAUGE : PCPU_STAT_COUNTER;
	}
	if (pcpu_tree_create(&tree, &attr))
		fail("no tree");
	for (unsigned i = 0; i < NODES - 1; i++) {
		snprintf(name, sizeof(name), i % 50 ? "member%u" : "group%u", i);
		if (pcpu_node_create(&node, i % 50 ? group : pcpu_tree_root(tree), name))
			fail("no node");
		if (i % 50 == 0)
			group = node;
		for (unsigned stat = 0; stat < STATISTICS; stat++)
			pcpu_node_add(node, stat, (int64_t)1 << (i + stat) % 50);
		pcpu_node_put(node); /* the tree holds it too */
	}
}

static void teardown(void *ctx, unsigned threads)
{
	(void)ctx;
	(void)threads;
	if (--users == 0)
		pcpu_tree_destroy(tree);
}

struct by_hand {
	const struct pcpu_stat_desc *stat;
	uint32_t index;
	size_t used;
	char buffer[4096];
};

static int print_sample(struct pcpu_node *node, unsigned depth, void *ctx)
{
	struct by_hand *b = ctx;
	char path[256];

	(void)depth;
	pcpu_node_path(node, path, sizeof(path));
	if (sizeof(b->buffer) - b->used < 512) {
		count(NULL, b->buffer, b->used);
		b->used = 0;
	}
	b->used += (size_t)snprintf(b->buffer + b->used, sizeof(b->buffer) - b->used,
				    "bench_%s%s{node=\"%s\"} %" PRId64 "\n", b->stat->name,
				    b->stat->kind == PCPU_STAT_COUNTER ? "_total" : "", path,
				    pcpu_node_read(node, b->index, PCPU_READ_CACHED));
	return 0;
}

static void print_by_hand(void)
{
	struct by_hand b = {.used = 0};

	pcpu_node_flush(pcpu_tree_root(tree));
	for (b.index = 0; b.index < STATISTICS; b.index++) {
		b.stat = pcpu_tree_stat(tree, b.index);
		pcpu_tree_walk(tree, print_sample, &b);
	}
	count(NULL, b.buffer, b.used);
}

BENCH_LOOP(by_hand_loops, (void)0, print_by_hand());
BENCH_LOOP(openmetrics_loops, (void)0, pcpu_export_openmetrics(tree, count, NULL));
BENCH_LOOP(prometheus_loops, (void)0, pcpu_export_prometheus(tree, count, NULL));
BENCH_LOOP(json_loops, (void)0, pcpu_export_json(tree, count, NULL));

#define OP(symbol, text)                                                                                     \
	static const struct bench_op symbol = {.name = "export_" #symbol,                                    \
					       .label = text,                                                \
					       .loops = symbol##_loops,                                      \
					       .nr_loops = 1,                                                \
					       .items = SAMPLES,                                             \
					       .setup = setup,                                               \
					       .teardown = teardown}
OP(by_hand, "snprintf by hand");
OP(openmetrics, "OpenMetrics");
OP(prometheus, "Prometheus");
OP(json, "JSON, with local values");

static const struct bench_op *const ops[] = {&by_hand, &openmetrics, &prometheus, &json};
#define NR_OPS (sizeof(ops) / sizeof(ops[0]))

static int ratios(double seconds)
{
	struct paired_variant variants[NR_OPS] = {{0}};
	struct paired_options options = {.seconds = seconds, .slice_us = 1000};
	struct paired_run run;

	for (unsigned i = 0; i < NR_OPS; i++)
		variants[i].op = ops[i];
	if (paired_measure(&run, variants, NR_OPS, &options))
		fail("out of memory");
	printf("%u nodes x %u statistics, %u interleaved rounds\n\n", NODES, STATISTICS, run.rounds);
	printf("%-24s %14s %10s %10s\n", "", "ns per sample", "median", "by hand");
	for (unsigned i = 0; i < NR_OPS; i++)
		printf("%-24s %14.1f %10.1f %9.2fx\n", ops[i]->label, variants[i].min / SAMPLES,
		       variants[i].median / SAMPLES, paired_compare(&run, i, 0).paired);
	paired_free(&run);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "--ratios")) {
		double seconds = argc > 2 ? atof(argv[2]) : 4;

		if (argc <= 3 && seconds > 0)
			return ratios(seconds);
	} else if (argc <= 1 || !strncmp(argv[1], "--benchmark_", 12)) {
		for (unsigned i = 0; i < NR_OPS; i++)
			shim_register(ops[i], 1, 1);
		return shim_main(argc, argv);
	}
	fprintf(stderr, "usage: bench_export [--ratios [SECONDS] | --benchmark_... ]\n");
	return 2;
}
