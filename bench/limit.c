/* SPDX-License-Identifier: MIT */
/*
 * Limits: what charging costs within the stock, at any depth, with limits and without; near the ceiling; and
 * beside statistics.
 *
 * Without options of its own this is a google-benchmark program. --bars measures by interleaved slices
 * (paired.h). --hackbench and --distance run windows (throughput.h), round and round.
 *
 * --hackbench is the workload of two reports on the kernel: senders allocate (charge and count) and
 * receivers, which are other threads, free. "One more statistic cost 13.7 %, and removing the hierarchical
 * charge beside it gained 147 %" (2022); "replacing try_charge by charge where no limit was set gained 10.3
 * %" (2021).
 */
#define _GNU_SOURCE
#define PCPU_STAT_INLINE
#include "paired.h"
#include "report.h"
#include "shim.h"
#include "team.h"
#include "throughput.h"

#include <pcpu_stat/pcpu_stat.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
	"Usage: bench_limit [--benchmark_...]     google-benchmark (--benchmark_help lists its flags)\n"
	"       bench_limit MODE... [OPTION...]\n"
	"\n"
	"  --bars            the ratios that the project holds itself to, with verdicts\n"
	"  --hackbench       allocate and free across threads: statistics, limits, both; depths 1, 3, 6\n"
	"  --distance        throughput of 8 threads against the distance to the limit\n"
	"\n"
	"  --rounds N        at most N rounds of slices (400)\n"
	"  --seconds S       at most S seconds for each measurement (4)\n"
	"  --strict          exit status 1 if --bars finds one missed\n";

enum { MAX_DEPTH = 6, STATS = 3, THREADS = 8 };

/* ---- what is charged: a chain of limits, and a node of a tree as deep ---- */

struct chain {
	unsigned depth;
	uint32_t batch;
	int64_t max;  /* at every level */
	int64_t held; /* charged at the start */
	struct pcpu_limit *limits[MAX_DEPTH], *leaf;
	struct pcpu_tree *tree;
	struct pcpu_node *node;
};

static void fail(const char *what)
{
	fprintf(stderr, "bench_limit: cannot make %s\n", what);
	exit(1);
}

static void chain_setup(void *ctx, unsigned threads)
{
	static const struct pcpu_stat_desc stats[STATS] = {{.name = "objects", .kind = PCPU_STAT_GAUGE},
							   {.name = "bytes", .kind = PCPU_STAT_GAUGE},
							   {.name = "calls", .kind = PCPU_STAT_COUNTER}};
	const struct pcpu_tree_attr tree = {
		.size = sizeof(tree), .name = "bench", .stats = stats, .nr_stats = STATS};
	struct chain *c = ctx;
	struct pcpu_limit_attr attr = {.size = sizeof(attr), .max = c->max, .batch = c->batch};

	(void)threads;
	for (unsigned i = 0; i < c->depth; i++)
		if (pcpu_limit_create(&c->limits[i], i ? c->limits[i - 1] : NULL, &attr))
			fail("a limit");
	c->leaf = c->limits[c->depth - 1];
	if (pcpu_tree_create(&c->tree, &tree))
		fail("a tree");
	c->node = pcpu_tree_root(c->tree);
	for (unsigned i = 1; i < c->depth; i++)
		if (pcpu_node_create(&c->node, c->node, "child"))
			fail("a node");
	pcpu_limit_charge(c->leaf, c->held);
}

static void chain_teardown(void *ctx, unsigned threads)
{
	struct chain *c = ctx;

	(void)threads;
	pcpu_limit_uncharge(c->leaf, pcpu_limit_usage(c->leaf));
	for (unsigned i = c->depth; i-- > 0;)
		pcpu_limit_destroy(c->limits[i]);
	pcpu_tree_destroy(c->tree);
}

/* Amounts that the compiler does not know, and batches so wide that hardly any charge leaves the stock. */
#define LEAF                                                                                                 \
	struct pcpu_limit *l = ((struct chain *)ctx)->leaf;                                                  \
	int64_t one = 1;                                                                                     \
	BENCH_OPAQUE(one)
BENCH_LOOPS(charge_loops, LEAF, pcpu_limit_charge(l, one); BENCH_BARRIER());
BENCH_LOOPS(try_charge_loops, LEAF, if (!pcpu_limit_try_charge(l, one, NULL)) return; BENCH_BARRIER());
BENCH_LOOPS(pair_loops, LEAF, if (pcpu_limit_try_charge(l, one, NULL)) pcpu_limit_uncharge(l, one);
	    BENCH_BARRIER());
/* More than the stock: a step of the ledger each. */
BENCH_LOOP(direct_loop, LEAF;
	   one = 1000000, if (pcpu_limit_try_charge(l, one, NULL)) pcpu_limit_uncharge(l, one));

/* The same for a counter, by which the bars go. */
static void counter_setup(void *ctx, unsigned threads)
{
	const struct pcpu_counter_attr attr = {.size = sizeof(attr), .batch = INT32_MAX};

	(void)threads;
	if (pcpu_counter_init(ctx, &attr))
		fail("a counter");
}

static void counter_teardown(void *ctx, unsigned threads)
{
	(void)threads;
	pcpu_counter_destroy(ctx);
}

#define COUNTER                                                                                              \
	struct pcpu_counter *counter = ctx;                                                                  \
	int64_t one = 1;                                                                                     \
	BENCH_OPAQUE(one)
BENCH_LOOPS(add_loops, COUNTER, pcpu_counter_add(counter, one); BENCH_BARRIER());
BENCH_LOOPS(add_pair_loops, COUNTER, pcpu_counter_add(counter, one); pcpu_counter_sub(counter, one);
	    BENCH_BARRIER());

static _Alignas(128) struct pcpu_counter counters[2];

#define LIMIT_OP(op_name, op_label, op_loops, op_items, of_depth, of_batch, of_max)                          \
	{                                                                                                    \
		.name = op_name, .label = op_label, .loops = op_loops, .nr_loops = ARRAY_SIZE(op_loops),     \
		.items = op_items,                                                                           \
		.ctx = &(struct chain){.depth = of_depth, .batch = of_batch, .max = of_max},                 \
		.setup = chain_setup, .teardown = chain_teardown                                             \
	}

enum { ADD, ADD_PAIR, CHARGE, TRY, TRY_6, TRY_LIMIT, TRY_LIMIT_6, PAIR, PAIR_64, DIRECT_1, DIRECT_6, NR_OPS };

/* Half of this is the widest stock: refilled once in 2^30 charges. */
#define WIDE INT32_MAX
#define FAR  (INT64_MAX / 2)

static const struct bench_op ops[NR_OPS] = {
	[ADD] = {.name = "counter_add",
		 .loops = add_loops,
		 .nr_loops = ARRAY_SIZE(add_loops),
		 .ctx = &counters[0],
		 .setup = counter_setup,
		 .teardown = counter_teardown},
	[ADD_PAIR] = {.name = "counter_add_sub",
		      .loops = add_pair_loops,
		      .nr_loops = ARRAY_SIZE(add_pair_loops),
		      .items = 2,
		      .ctx = &counters[1],
		      .setup = counter_setup,
		      .teardown = counter_teardown},
	[CHARGE] = LIMIT_OP("limit_charge", "charge, no limit", charge_loops, 1, 1, WIDE, PCPU_LIMIT_MAX),
	[TRY] = LIMIT_OP("limit_try_charge", "try_charge, no limit", try_charge_loops, 1, 1, WIDE,
			 PCPU_LIMIT_MAX),
	[TRY_6] = LIMIT_OP("limit_try_charge_6", "the same, 6 deep", try_charge_loops, 1, 6, WIDE,
			   PCPU_LIMIT_MAX),
	[TRY_LIMIT] = LIMIT_OP("limit_try_charge_limited", "try_charge, limited", try_charge_loops, 1, 1,
			       WIDE, FAR),
	[TRY_LIMIT_6] = LIMIT_OP("limit_try_charge_limited_6", "the same, 6 deep, at every level",
				 try_charge_loops, 1, 6, WIDE, FAR),
	[PAIR] = LIMIT_OP("limit_pair", "try_charge and uncharge", pair_loops, 2, 1, WIDE, FAR),
	[PAIR_64] = LIMIT_OP("limit_pair_64", "the same, batch 64", pair_loops, 2, 1, 64, FAR),
	[DIRECT_1] = LIMIT_OP("limit_direct", "more than the stock, and back", direct_loop, 2, 1, 64, FAR),
	[DIRECT_6] = LIMIT_OP("limit_direct_6", "the same, 6 deep", direct_loop, 2, 6, 64, FAR),
};

struct options {
	bool bars, hackbench, distance, strict;
	struct paired_options paired;
};

/* ---- bars ---- */

/* Rates of the pair of calls by THREADS threads at each of the chains, interleaved. */
static int pair_rates(struct chain *chains, unsigned nr, double *rates)
{
	struct bench_op pairs[16];
	struct throughput_series series[16];
	unsigned threads = THREADS;

	for (unsigned i = 0; i < nr; i++) {
		pairs[i] = ops[PAIR_64];
		pairs[i].ctx = &chains[i];
		series[i] = (struct throughput_series){&pairs[i], &rates[i]};
	}
	return throughput_measure(series, nr, &threads, 1, &(struct throughput_options){.repetitions = 7});
}

static int bars(const struct options *options)
{
	struct chain chains[2] = {{.depth = 1, .batch = 64, .max = 100000},
				  {.depth = 1, .batch = 64, .max = 100000, .held = 99990}};
	struct paired_variant v[NR_OPS];
	struct paired_run run;
	double rates[2];

	for (unsigned i = 0; i < NR_OPS; i++)
		v[i] = (struct paired_variant){.op = &ops[i]};
	if (report_measure(&run, v, NR_OPS, &options->paired, NULL) || pair_rates(chains, 2, rates))
		return 1;
	report_machine();
	report_heading(&run);
	report_bar("try_charge within the stock / counter add", paired_compare(&run, TRY_LIMIT, ADD), 1.5);
	report_bar("try_charge / charge, no limit anywhere", paired_compare(&run, TRY, CHARGE), 1.02);
	report_bar("try_charge 6 deep / 1 deep, limits at every level",
		   paired_compare(&run, TRY_LIMIT_6, TRY_LIMIT), 1.02);
	report_number("8 threads at limit - 10 / far from it, per operation", rates[0] / rates[1], 20);
	report_context("try_charge limited / no limit", paired_compare(&run, TRY_LIMIT, TRY));
	report_context("6 deep / 1 deep, no limit", paired_compare(&run, TRY_6, TRY));
	report_context("try_charge and uncharge / counter add and sub", paired_compare(&run, PAIR, ADD_PAIR));
	report_context("past the stock / counter add and sub", paired_compare(&run, DIRECT_1, ADD_PAIR));
	report_context("past the stock, 6 deep / 1 deep", paired_compare(&run, DIRECT_6, DIRECT_1));
	printf("\nNanoseconds, median: counter add %.2f, try_charge %.2f, a step of the ledger %.1f, 6 deep "
	       "%.1f\n",
	       v[ADD].median, v[TRY_LIMIT].median, v[DIRECT_1].median / 2, v[DIRECT_6].median / 2);
	paired_free(&run);
	return options->strict && report_missed();
}

/* ---- throughput against the distance to the limit ---- */

static int distance(void)
{
	static const int64_t room[] = {100000, 10000, 2000, 1000, 500, 200, 100, 50, 20, 10, 4, 0};
	struct chain chains[ARRAY_SIZE(room)];
	double rates[ARRAY_SIZE(room)];

	for (unsigned i = 0; i < ARRAY_SIZE(room); i++)
		chains[i] = (struct chain){.depth = 1, .batch = 64, .max = 100000, .held = 100000 - room[i]};
	if (pair_rates(chains, ARRAY_SIZE(room), rates))
		return 1;
	printf("\n%u threads try_charge(1) and uncharge(1): million operations a second\n\n%10s\n", THREADS,
	       "room");
	for (unsigned i = 0; i < ARRAY_SIZE(room); i++) {
		char bar[3 * 40 + 1];

		printf("%10lld %8.1f  %s%s\n", (long long)room[i], rates[i] / 1e6,
		       paired_bar(bar, 40, rates[i], rates[0]), room[i] ? "" : "  (all refused)");
	}
	return 0;
}

/* ---- hackbench ---- */

/* An allocation for the next thread: mailboxes hold how many there are for each. */
struct hackbench {
	struct chain chain;
	bool statistics, limit, ask;
	struct {
		_Alignas(128) int64_t waiting;
	} mailboxes[64];
	unsigned threads;
};

static void hackbench_setup(void *ctx, unsigned threads)
{
	struct hackbench *h = ctx;

	chain_setup(&h->chain, threads);
	memset(h->mailboxes, 0, sizeof(h->mailboxes));
	h->threads = threads;
}

static void hackbench_teardown(void *ctx, unsigned threads)
{
	chain_teardown(&((struct hackbench *)ctx)->chain, threads);
}

static inline void count(struct hackbench *h, int64_t sign)
{
	pcpu_node_add(h->chain.node, 0, sign);
	pcpu_node_add(h->chain.node, 1, sign * 512);
	pcpu_node_add(h->chain.node, 2, 1);
}

/* 16 at a time, as a socket buffer would. */
static void exchange(struct hackbench *h, unsigned thread)
{
	int64_t sent = 0, got;

	for (int i = 0; i < 16; i++) {
		if (h->limit && !h->ask)
			pcpu_limit_charge(h->chain.leaf, 1);
		else if (h->limit && !pcpu_limit_try_charge(h->chain.leaf, 1, NULL))
			break;
		if (h->statistics)
			count(h, 1);
		sent++;
	}
	__atomic_fetch_add(&h->mailboxes[(thread + 1) % h->threads].waiting, sent, __ATOMIC_RELEASE);
	got = __atomic_exchange_n(&h->mailboxes[thread].waiting, 0, __ATOMIC_ACQUIRE);
	while (got-- > 0) {
		if (h->limit)
			pcpu_limit_uncharge(h->chain.leaf, 1);
		if (h->statistics)
			count(h, -1);
	}
}

BENCH_LOOP(hackbench_loop, struct hackbench *h = ctx, exchange(h, thread));

static int hackbench(void)
{
	static const unsigned depths[] = {1, 3, 6};
	static const struct {
		const char *name;
		bool statistics, limit, ask, finite;
	} modes[] = {
		{"none", false, false, false, false},
		{"statistics", true, false, false, false},
		{"charge, no limit", false, true, false, false},
		{"try_charge, no limit", false, true, true, false},
		{"try_charge, limited", false, true, true, true},
		{"both, no limit", true, true, true, false},
		{"both, limited", true, true, true, true},
	};
	static struct hackbench cases[ARRAY_SIZE(depths) * ARRAY_SIZE(modes)];
	struct bench_op op[ARRAY_SIZE(cases)];
	struct throughput_series series[ARRAY_SIZE(cases)];
	double rates[ARRAY_SIZE(cases)];
	unsigned threads = 2 * team_cpus(), n = 0;

	threads = threads > 64 ? 64 : threads;
	for (unsigned d = 0; d < ARRAY_SIZE(depths); d++) {
		for (unsigned m = 0; m < ARRAY_SIZE(modes); m++, n++) {
			cases[n].chain = (struct chain){.depth = depths[d],
							.batch = 64,
							.max = modes[m].finite ? 1000000 : PCPU_LIMIT_MAX};
			cases[n].statistics = modes[m].statistics;
			cases[n].limit = modes[m].limit;
			cases[n].ask = modes[m].ask;
			op[n] = (struct bench_op){.name = modes[m].name,
						  .loops = hackbench_loop,
						  .nr_loops = 1,
						  .items = 16,
						  .ctx = &cases[n],
						  .setup = hackbench_setup,
						  .teardown = hackbench_teardown};
			series[n] = (struct throughput_series){&op[n], &rates[n]};
		}
	}
	if (throughput_measure(series, n, &threads, 1, &(struct throughput_options){.repetitions = 5}))
		return 1;
	printf("\n%u threads allocate and the next one frees: million objects a second, and against no "
	       "accounting\n\n"
	       "%-24s",
	       threads, "depth");
	for (unsigned d = 0; d < ARRAY_SIZE(depths); d++)
		printf("%16u", depths[d]);
	printf("\n");
	for (unsigned m = 0; m < ARRAY_SIZE(modes); m++) {
		printf("%-24s", modes[m].name);
		for (unsigned d = 0; d < ARRAY_SIZE(depths); d++) {
			const double *rate = &rates[d * ARRAY_SIZE(modes)];

			printf("%8.1f %+6.1f%%", rate[m] / 1e6, 100 * (rate[m] / rate[0] - 1));
		}
		printf("\n");
	}
	return 0;
}

/* ---- main ---- */

static int google_benchmark(int argc, char **argv)
{
	for (unsigned i = 0; i < NR_OPS; i++)
		shim_register(&ops[i], 1, 0);
	if (team_cpus() > 1) {
		shim_register(&ops[PAIR_64], 2, 0);
		shim_register(&ops[DIRECT_1], 2, 64);
	}
	return shim_main(argc, argv);
}

int main(int argc, char **argv)
{
	struct options options = {.paired = {.seconds = 4}};
	const struct report_option own[] = {
		{.name = "--bars", .flag = &options.bars},
		{.name = "--hackbench", .flag = &options.hackbench},
		{.name = "--distance", .flag = &options.distance},
		{.name = "--strict", .flag = &options.strict},
	};
	int ret = 0;

	report_parse(own, ARRAY_SIZE(own), &options.paired, usage, &argc, argv);
	if (!options.bars && !options.hackbench && !options.distance)
		return google_benchmark(argc, argv);
	if (argc > 1) {
		fprintf(stderr, "bench_limit: what is \"%s\"?\n%s", argv[1], usage);
		return 2;
	}
	if (options.bars)
		ret |= bars(&options);
	if (options.distance)
		ret |= distance();
	if (options.hackbench)
		ret |= hackbench();
	return ret;
}
