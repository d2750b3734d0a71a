/* SPDX-License-Identifier: MIT */
/*
 * Are sums exact when sections are interrupted all the time?
 *
 * More threads than CPUs, on the simulated machine that draws by lot who goes on after each access; threads are
 * preempted between any two accesses, often in the middle of a section, and come back on another CPU. Every
 * interleaving of single accesses can happen, and what happens is the same for the same seed. (Sequentially
 * consistent ones alone: nothing here is ever reordered.)
 *
 * The same is done with sections that commit although they were interrupted. They must lose adds, or the test
 * would prove nothing.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pcpu_stat/pcpu_stat.h>

#include "machine.h"

enum { STATS = 3, NODES = 7, MANY = 3 };

static uint64_t first_seed = 1;
static unsigned tests, failures, adds_per_thread = 300;

static void __attribute__((format(printf, 2, 3))) result(bool ok, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("%s %u - ", ok ? "ok" : "not ok", ++tests);
	vprintf(format, args);
	putchar('\n');
	fflush(stdout);
	va_end(args);
	failures += !ok;
}

static void must(int r, const char *what)
{
	if (r == 0)
		return;
	printf("Bail out! %s: %s\n", what, strerror(-r));
	exit(1);
}

static const struct machine_options machines[] = {
	/* Two CPUs collide most; an add on three quarters of these machines is aborted at least once. */
	{.cpus = 2, .nodes = 1, .threads = 6, .preempt_one_in = 8, .backend = PCPU_BACKEND_RSEQ},
	{.cpus = 8, .nodes = 2, .threads = 24, .preempt_one_in = 16, .backend = PCPU_BACKEND_RSEQ},
	/* No thread waits: each preemption is a migration, and one of another thread. */
	{.cpus = 8, .nodes = 4, .threads = 8, .preempt_one_in = 24, .backend = PCPU_BACKEND_RSEQ},
	/* Hardly any section gets through: adds go past the slots. */
	{.cpus = 4, .nodes = 1, .threads = 8, .preempt_one_in = 2, .backend = PCPU_BACKEND_RSEQ},
	{.cpus = 8, .nodes = 2, .threads = 16, .preempt_one_in = 16, .backend = PCPU_BACKEND_ATOMIC},
};

static void start(const struct machine_options *machine, uint64_t seed, bool unprotected)
{
	struct machine_options options = *machine;

	options.seed = seed;
	options.unprotected = unprotected;
	machine_start(&options);
}

static int64_t amount(void)
{
	return (int64_t)(machine_random() % 13) - 4;
}

/* ---- a counter, and threads that read it, take from it and change its batch meanwhile ---- */

static struct {
	struct pcpu_counter counter;
	int64_t begun, done; /* of adds of positive amounts */
	int64_t added, drained;
	unsigned wrong;
	bool positive;
} c;

static void count(unsigned thread, void *ctx)
{
	bool upkeep = thread == 0 && !c.positive;

	(void)ctx;
	for (unsigned i = 0; i < adds_per_thread; i++) {
		int64_t n = c.positive ? 1 : amount();

		if (upkeep && i % 8 == 0) {
			c.drained += pcpu_counter_drain(&c.counter);
			pcpu_counter_set_batch(&c.counter, 1 + (uint32_t)(machine_random() % 16));
		}
		if (c.positive && i % 16 == thread % 16) {
			int64_t at_least = c.done, sum = pcpu_counter_sum(&c.counter);

			c.wrong += sum < at_least || sum > c.begun;
		}
		c.begun += n;
		pcpu_counter_add(&c.counter, n);
		c.done += n;
		c.added += n;
	}
}

/* Adds that are missing or too many, in the sum; or a reader's complaint. */
static int64_t counter_error(const struct machine_options *machine, uint64_t seed, bool unprotected,
			     bool positive)
{
	struct pcpu_counter_attr attr = {.size = sizeof(attr), .batch = 5};
	int64_t sum, read, below, above, error;

	start(machine, seed, unprotected);
	memset(&c, 0, sizeof(c));
	c.positive = positive;
	must(pcpu_counter_init(&c.counter, &attr), "counter");
	machine_run(count, NULL);
	sum = pcpu_counter_sum(&c.counter);
	read = pcpu_counter_read(&c.counter);
	pcpu_counter_error(&c.counter, &below, &above);
	error = sum + c.drained - c.added;
	if (!unprotected && !error && (read < sum - below || read > sum + above || c.wrong))
		error = 1;
	pcpu_counter_destroy(&c.counter);
	return error;
}

/* ---- a tree, and threads that read and flush it meanwhile ---- */

static struct {
	struct pcpu_tree *tree;
	struct pcpu_node *nodes[NODES];	   /* parent of i: (i - 1) / 2 */
	int64_t begun[NODES], done[NODES]; /* statistic 0, subtree */
	int64_t local[NODES][STATS];
	unsigned wrong;
} t;

static void note(int64_t *sums, unsigned node, int64_t n)
{
	for (;; node = (node - 1) / 2) {
		sums[node] += n;
		if (node == 0)
			return;
	}
}

static void add_many(unsigned node)
{
	struct pcpu_delta deltas[MANY];
	int64_t first = 0;

	for (unsigned i = 0; i < MANY; i++) {
		deltas[i].stat = (uint32_t)(machine_random() % STATS);
		deltas[i].n = 1 + (int64_t)(machine_random() % 3);
		t.local[node][deltas[i].stat] += deltas[i].n;
		if (deltas[i].stat == 0)
			first += deltas[i].n;
	}
	note(t.begun, node, first);
	pcpu_node_add_many(t.nodes[node], deltas, MANY);
	note(t.done, node, first);
}

static void grow(unsigned thread, void *ctx)
{
	bool exact = thread % 2 == 0;

	(void)ctx;
	for (unsigned i = 0; i < adds_per_thread; i++) {
		unsigned node = (unsigned)(machine_random() % NODES);

		if (i % 16 == thread % 16) {
			int64_t at_least = t.done[node];
			int64_t value =
				pcpu_node_read(t.nodes[node], 0, exact ? PCPU_READ_EXACT : PCPU_READ_BOUNDED);

			t.wrong += (exact && value < at_least) || value > t.begun[node];
		}
		if (i % 4 == 0) {
			add_many(node);
			continue;
		}
		t.local[node][i % STATS]++;
		if (i % STATS == 0)
			note(t.begun, node, 1);
		pcpu_node_add(t.nodes[node], i % STATS, 1);
		if (i % STATS == 0)
			note(t.done, node, 1);
	}
}

static bool node_is_right(unsigned node)
{
	int64_t values[STATS], subtree = 0;

	must(pcpu_node_snapshot_local(t.nodes[node], values, STATS, PCPU_READ_EXACT), "snapshot");
	for (unsigned i = 0; i < STATS; i++)
		if (values[i] != t.local[node][i])
			return false;
	for (unsigned i = node; i < NODES; i++) {
		unsigned up = i;

		while (up > node)
			up = (up - 1) / 2;
		if (up == node)
			subtree += t.local[i][0];
	}
	return pcpu_node_read(t.nodes[node], 0, PCPU_READ_EXACT) == subtree;
}

/* Nodes whose counts are wrong, and reads that were. */
static unsigned tree_errors(const struct machine_options *machine, uint64_t seed, bool unprotected)
{
	static const struct pcpu_stat_desc stats[STATS] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
	struct pcpu_tree_attr attr = {
		.size = sizeof(attr), .stats = stats, .nr_stats = STATS, .max_nodes = 16, .batch = 2};
	unsigned errors;

	start(machine, seed, unprotected);
	memset(&t, 0, sizeof(t));
	must(pcpu_tree_create(&t.tree, &attr), "tree");
	t.nodes[0] = pcpu_tree_root(t.tree);
	for (unsigned i = 1; i < NODES; i++)
		must(pcpu_node_create(&t.nodes[i], t.nodes[(i - 1) / 2], i % 2 ? "a" : "b"), "node");
	machine_run(grow, NULL);
	errors = t.wrong;
	for (unsigned i = 0; i < NODES; i++)
		errors += !node_is_right(i);
	pcpu_tree_destroy(t.tree);
	return errors;
}

/* ---- */

static void test_machine(const struct machine_options *machine, unsigned seeds)
{
	struct machine_events e = {0}, counter_events = {0};
	int64_t counter_errors = 0;
	unsigned wrong = 0;
	char what[96];

	for (uint64_t seed = first_seed; seed < first_seed + seeds; seed++) {
		counter_errors += counter_error(machine, seed, false, seed % 2) != 0;
		e = machine_events();
		counter_events.aborts += e.aborts;
		counter_events.migrations += e.migrations;
	}
	snprintf(what, sizeof(what), "%u threads on %u CPUs, %u nodes, one access in %u preempted, %s",
		 machine->threads, machine->cpus, machine->nodes, machine->preempt_one_in,
		 pcpu_backend_name(machine->backend));
	result(counter_errors == 0, "counter: %s: %llu aborts, %llu migrations", what,
	       (unsigned long long)counter_events.aborts, (unsigned long long)counter_events.migrations);
	if (machine->backend == PCPU_BACKEND_RSEQ && counter_events.aborts < 1000)
		result(false, "counter: %s: sections are aborted", what);

	memset(&counter_events, 0, sizeof(counter_events));
	for (uint64_t seed = first_seed; seed < first_seed + seeds; seed++) {
		wrong += tree_errors(machine, seed, false);
		e = machine_events();
		counter_events.aborts += e.aborts;
		counter_events.migrations += e.migrations;
	}
	result(wrong == 0, "tree: %s: %llu aborts, %llu migrations", what,
	       (unsigned long long)counter_events.aborts, (unsigned long long)counter_events.migrations);
}

int main(int argc, char **argv)
{
	unsigned seeds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 4, lost = 0, wrong = 0;
	int64_t missing = 0;

	if (argc > 2)
		first_seed = strtoul(argv[2], NULL, 10);
	for (unsigned i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
		test_machine(&machines[i], seeds);

	for (uint64_t seed = first_seed; seed < first_seed + seeds; seed++) {
		int64_t error = counter_error(&machines[1], seed, true, true);

		lost += error != 0;
		missing -= error;
		wrong += tree_errors(&machines[1], seed, true) != 0;
	}
	result(lost == seeds, "unprotected sections lose a counter's adds: %lld of %u", (long long)missing,
	       seeds * machines[1].threads * adds_per_thread);
	result(wrong == seeds, "unprotected sections lose a tree's adds");
	printf("1..%u\n", tests);
	return failures != 0;
}
