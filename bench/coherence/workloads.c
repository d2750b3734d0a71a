/* SPDX-License-Identifier: MIT */
#include "workloads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pcpu_stat/pcpu_stat.h>

#include "cpu/cpu.h"
#include "names.h"
#include "simulated_rivals.h"
#include "tree/tree.h"

const struct workload workloads[NR_WORKLOADS] = {
	[COUNTER_64] = {"counter", "counter, batch 64", true},
	[COUNTER_AUTO] = {"counter-auto", "counter, automatic batch", true},
	[COUNTER_64_ATOMIC] = {"counter-atomic", "counter, batch 64, atomic backend", true},
	[COUNTER_64_NODES_OFF] = {"counter-flat", "counter, batch 64, no node level", true},
	[COUNTER_64_SUM] = {"counter-sum", "counter, batch 64, exact sum every 10^4 adds", true},
	[TREE_1] = {"tree-1", "tree, depth 1", true},
	[TREE_4] = {"tree-4", "tree, depth 4", true},
	[TREE_1_BOUNDED] = {"tree-1-bounded", "tree, depth 1, BOUNDED read every 10^4 adds", true},
	[TREE_4_BOUNDED] = {"tree-4-bounded", "tree, depth 4, BOUNDED read every 10^4 adds", true},
	[TREE_4_EXACT] = {"tree-4-exact", "tree, depth 4, EXACT read every 10^4 adds", true},
	[TREE_4_CLEAN] = {"tree-4-clean", "tree, depth 4, EXACT reads, no adds", true},
	[SHARED] = {"shared", "one shared atomic", false},
	[SHARDED] = {"sharded", "64 atomic shards", false},
	[UNPADDED] = {"unpadded", "word per CPU, unpadded", false},
	[PADDED] = {"padded", "atomic word per CPU, padded", false},
	[CARRY_1] = {"carry-1", "carry tree, unit steps", false},
	[CARRY_64] = {"carry-64", "carry tree, batch 64", false},
};

/*
 * A CPU does something else for this long after each operation, give or take a little. Where there is a reader,
 * CPUs add so seldom that it keeps up: 10^4 adds take a millisecond, however many CPUs make them. At full speed
 * 512 CPUs are done with them before a reader has fetched a single line from the other node.
 */
enum { WORK_NS = 10, WORK_JITTER_NS = 8, READER_WORK_NS_PER_CPU = 100, STATS = 4, DEPTH = 4 };

static struct {
	enum workload_id id;
	unsigned cpus;
	uint64_t operations; /* of each CPU, in the phase under way */
	uint64_t stagger;    /* at most so many more */
	uint64_t done;	     /* by all */
	uint64_t next_read, reads;
	bool wrong; /* a read said something impossible */
} run;

/* Nothing of a program lies beside what is measured. */
static _Alignas(4096) struct pcpu_counter counter;
static struct pcpu_tree *tree;
static struct pcpu_node *nodes[DEPTH + 1], *target;

unsigned default_nodes(unsigned cpus)
{
	return cpus <= 64 ? 1 : cpus / 64;
}

static void must(int r, const char *what)
{
	if (r == 0)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(-r));
	exit(1);
}

static void start_counter(enum workload_id id)
{
	struct pcpu_counter_attr attr = {.size = sizeof(attr), .batch = id == COUNTER_AUTO ? 0 : 64};

	if (id == COUNTER_64_NODES_OFF)
		attr.flags = PCPU_COUNTER_NO_NODE_LEVEL;
	must(pcpu_counter_init(&counter, &attr), "counter");
	name_counter(&counter);
}

static void start_tree(unsigned depth)
{
	static const struct pcpu_stat_desc stats[STATS] = {
		{.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}};
	static const char *const names[] = {"", "a", "b", "c", "d"};
	struct pcpu_tree_attr attr = {
		.size = sizeof(attr), .stats = stats, .nr_stats = STATS, .max_nodes = 64};

	must(pcpu_tree_create(&tree, &attr), "tree");
	nodes[0] = pcpu_tree_root(tree);
	for (unsigned i = 1; i <= depth; i++)
		must(pcpu_node_create(&nodes[i], nodes[i - 1], names[i]), "node");
	target = nodes[depth];
	for (unsigned i = 0; i <= depth; i++)
		name_node(nodes[i], i == depth);
	/* Something to read that nobody changes any more. */
	if (run.id == TREE_4_CLEAN) {
		pcpu_node_add(target, 0, 1);
		must(pcpu_node_flush(nodes[0]), "flush");
	}
}

static void start_rival(enum workload_id id)
{
	memset(&rival_shared, 0, sizeof(rival_shared));
	memset(rival_shards, 0, sizeof(rival_shards));
	memset(rival_unpadded, 0, sizeof(rival_unpadded));
	memset(rival_padded, 0, sizeof(rival_padded));
	rival_carry_start(run.cpus, id == CARRY_1 ? 1 : 64);
	model_name(&rival_shared, sizeof(rival_shared), "rival", "shared");
	model_name(rival_shards, sizeof(rival_shards), "rival", "shards");
	model_name(rival_unpadded, sizeof(rival_unpadded), "rival", "unpadded");
	model_name(rival_padded, sizeof(rival_padded), "rival", "padded");
	for (unsigned level = 0; level <= RIVAL_LEVELS; level++) {
		static const char *const level_names[RIVAL_LEVELS + 1] = {
			"level 0", "level 1", "level 2", "level 3", "level 4",
			"level 5", "level 6", "level 7", "level 8", "level 9"};

		model_name(rival_carry[level], sizeof(rival_carry[level]), "carry", level_names[level]);
	}
}

static bool is_tree(enum workload_id id)
{
	return id >= TREE_1 && id <= TREE_4_CLEAN;
}

static bool is_counter(enum workload_id id)
{
	return id <= COUNTER_64_SUM;
}

static void start(enum workload_id id)
{
	name_facts();
	if (is_counter(id))
		start_counter(id);
	else if (is_tree(id))
		start_tree(id == TREE_1 || id == TREE_1_BOUNDED ? 1 : DEPTH);
	else
		start_rival(id);
}

static void stop(enum workload_id id)
{
	if (is_counter(id))
		pcpu_counter_destroy(&counter);
	else if (is_tree(id))
		pcpu_tree_destroy(tree);
}

static bool is_bounded(enum workload_id id)
{
	return id == TREE_1_BOUNDED || id == TREE_4_BOUNDED;
}

/* CPU 0 reads when so many adds were made since it last did. */
static void read_now_and_then(unsigned thread)
{
	int64_t before = (int64_t)run.done, value;

	if (thread != 0 || run.done < run.next_read)
		return;
	run.next_read = run.done + READ_EVERY;
	run.reads++;
	if (run.id == COUNTER_64_SUM)
		value = pcpu_counter_sum(&counter);
	else
		value = pcpu_node_read(nodes[0], 0, is_bounded(run.id) ? PCPU_READ_BOUNDED : PCPU_READ_EXACT);
	if (is_bounded(run.id))
		before -= (int64_t)pcpu_node_threshold(nodes[0]);
	run.wrong |= value < before || value > (int64_t)(run.done + run.cpus);
}

static void operate(unsigned thread)
{
	switch (run.id) {
	case COUNTER_64:
	case COUNTER_AUTO:
	case COUNTER_64_ATOMIC:
	case COUNTER_64_NODES_OFF:
		pcpu_counter_add(&counter, 1);
		break;
	case COUNTER_64_SUM:
		pcpu_counter_add(&counter, 1);
		run.done++;
		read_now_and_then(thread);
		return;
	case TREE_1:
	case TREE_4:
		pcpu_node_add(target, 0, 1);
		break;
	case TREE_1_BOUNDED:
	case TREE_4_BOUNDED:
	case TREE_4_EXACT:
		pcpu_node_add(target, 0, 1);
		run.done++;
		read_now_and_then(thread);
		return;
	case TREE_4_CLEAN:
		run.wrong |= pcpu_node_read(target, 0, PCPU_READ_EXACT) != 1;
		break;
	case SHARED:
		rival_add_shared(machine_cpu());
		break;
	case SHARDED:
		rival_add_sharded(machine_cpu());
		break;
	case UNPADDED:
		rival_add_unpadded(machine_cpu());
		break;
	case PADDED:
		rival_add_padded(machine_cpu());
		break;
	case CARRY_1:
	case CARRY_64:
		rival_add_carry(machine_cpu());
		break;
	case NR_WORKLOADS:
		break;
	}
	run.done++;
}

static bool has_reader(enum workload_id id)
{
	return id == COUNTER_64_SUM || id == TREE_4_EXACT || is_bounded(id);
}

static void body(unsigned thread, void *ctx)
{
	unsigned work = WORK_NS, jitter = WORK_JITTER_NS;
	uint64_t n = run.operations + (run.stagger ? machine_random() % run.stagger : 0);

	(void)ctx;
	if (has_reader(run.id)) {
		jitter = READER_WORK_NS_PER_CPU * run.cpus / 4;
		work = READER_WORK_NS_PER_CPU * run.cpus - jitter / 2;
	}
	for (uint64_t i = 0; i < n; i++) {
		operate(thread);
		machine_work(work + (unsigned)(machine_random() % jitter));
	}
}

static uint64_t max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Operations per CPU: to get going, and then to be counted. */
static void measure(enum workload_id id, uint64_t *warm, uint64_t *counted)
{
	uint64_t cpus = run.cpus;

	*warm = 200;
	*counted = max(320, 20000 / cpus);
	switch (id) {
	case COUNTER_64:
	case COUNTER_64_ATOMIC:
	case COUNTER_64_NODES_OFF:
	case CARRY_64:
		*counted = max(640, 64000 / cpus / 64 * 64);
		break;
	case COUNTER_AUTO:
		/* Each CPU carries about once before, and once while counting: large machines have large batches. */
		*warm = pcpu_cpu.auto_batch;
		*counted = pcpu_cpu.auto_batch;
		break;
	case COUNTER_64_SUM:
	case TREE_1_BOUNDED:
	case TREE_4_BOUNDED:
	case TREE_4_EXACT:
		*counted = max(320, 30 * READ_EVERY / cpus);
		break;
	default:
		break;
	}
}

static bool everything_is_there(enum workload_id id)
{
	int64_t sum = 0, expected = id == TREE_4_CLEAN ? 1 : (int64_t)run.done;

	if (is_counter(id))
		sum = pcpu_counter_sum(&counter);
	else if (is_tree(id))
		sum = pcpu_node_read(nodes[0], 0, PCPU_READ_EXACT);
	else
		return true;
	return sum == expected && !run.wrong;
}

static struct model_count handle_counts(void)
{
	/* The epoch shares the line of what adds read, as they read it as well. */
	static const char *const fields[][2] = {
		{"counter", "slots"},	     {"counter", "stride"},   {"counter", "fast_slots"},
		{"counter", "batch"},	     {"counter", "bias"},     {"counter", "region"},
		{"counter", "node_words"},   {"counter", "nr_slots"}, {"counter", "state"},
		{"node", "fast.slots"},	     {"node", "fast.stride"}, {"node", "fast.nr_stats"},
		{"node", "fast.fast_slots"},
	};
	struct model_count sum = {0};

	for (unsigned i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		struct model_count c = model_count_of(fields[i][0], fields[i][1]);

		sum.transfers += c.transfers - model_blame(fields[i][0], fields[i][1], "node", "fast.epoch");
	}
	return sum;
}

struct outcome workload_run(enum workload_id id, unsigned cpus, unsigned nr_nodes, bool pairs, uint64_t seed,
			    bool fields)
{
	struct machine_options options = {
		.cpus = cpus,
		.nodes = nr_nodes,
		.pairs = pairs,
		.seed = seed,
		.backend = id == COUNTER_64_ATOMIC ? PCPU_BACKEND_ATOMIC : PCPU_BACKEND_RSEQ,
	};
	struct outcome outcome = {0};
	uint64_t warm, began;

	memset(&run, 0, sizeof(run));
	run.id = id;
	run.cpus = cpus;
	run.next_read = READ_EVERY;
	machine_start(&options);
	start(id);
	measure(id, &warm, &outcome.operations);
	/* CPUs that all began at once would all carry at once. */
	run.operations = warm;
	run.stagger = warm;
	machine_run(body, NULL);
	model_reset_counts();
	began = machine_now();
	run.operations = outcome.operations;
	run.stagger = 0;
	run.reads = 0;
	machine_run(body, NULL);

	outcome.ns = (double)(machine_now() - began) / (double)outcome.operations;
	outcome.operations *= cpus;
	outcome.reads = run.reads;
	outcome.count = model_total();
	outcome.handle = handle_counts();
	if (fields)
		model_print_fields(outcome.operations);
	outcome.exact = everything_is_there(id);
	stop(id);
	return outcome;
}
