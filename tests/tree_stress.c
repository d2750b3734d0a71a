/* SPDX-License-Identifier: MIT */
/*
 * Trees under everything at once. Each test names what it checks; a hang ends in SIGALRM.
 *
 *	tree_stress [NAME]	all tests, or one
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pcpu_stat/pcpu_stat.h>

#include "cpu/cpu.h"
#include "os_fake.h"
#include "tap.h"
#include "tools.h"
#include "tree/tree.h"

static const struct pcpu_stat_desc stats[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};

static struct pcpu_tree *tree;
static struct pcpu_node *root;
static int stop;
static long wrong;
static const char *variant = "";

static bool stopped(void)
{
	return __atomic_load_n(&stop, __ATOMIC_ACQUIRE);
}

static void begin(void)
{
	struct pcpu_tree_attr attr = {.size = sizeof(attr), .stats = stats, .nr_stats = 3};

	if (pcpu_tree_create(&tree, &attr))
		abort();
	root = pcpu_tree_root(tree);
	stop = 0;
	wrong = 0;
	alarm(850);
}

static void end(void)
{
	pcpu_tree_destroy(tree);
	alarm(0);
}

static struct pcpu_node *node(struct pcpu_node *parent, const char *name)
{
	struct pcpu_node *n;

	if (pcpu_node_create(&n, parent, name))
		abort();
	return n;
}

static int64_t exact(struct pcpu_node *n)
{
	return pcpu_node_read(n, 0, PCPU_READ_EXACT);
}

static void mistake_at(unsigned line)
{
	if (__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED) < 5)
		printf("# line %u\n", line);
}

#define mistake() mistake_at(__LINE__)

/* On another CPU from now on, if there is one. */
static void flip(unsigned *cpu)
{
	cpu_set_t set;

	*cpu = (*cpu + 1) % pcpu_cpu.topology.online;
	CPU_ZERO(&set);
	CPU_SET(*cpu, &set);
	sched_setaffinity(0, sizeof(set), &set); /* refused: as good */
}

/* ---- I2: told of an add, an EXACT reader sees it ---- */

#define LEAVES 3

static struct {
	struct pcpu_node *middle, *leaf[LEAVES], *sibling;
	/* How many adds are over: the adder's flag. */
	struct {
		int64_t added, begun;
	} __attribute__((aligned(128))) adder[LEAVES];
	int64_t own; /* made to the middle node itself */
	long rounds;
} told;

static void tell(unsigned number, void *arg)
{
	unsigned cpu = number;

	(void)arg;
	for (int64_t i = 1; !stopped(); i++) {
		__atomic_store_n(&told.adder[number].begun, i, __ATOMIC_RELAXED);
		pcpu_node_add(told.leaf[number], 0, 1);
		__atomic_store_n(&told.adder[number].added, i, __ATOMIC_RELEASE);
		if (number == 1 && i % 512 == 0)
			flip(&cpu);
	}
}

static void hear(unsigned number, void *arg)
{
	(void)number;
	(void)arg;
	for (long i = 0; i < told.rounds; i++) {
		int64_t heard[LEAVES], sum = 0, got, most = 0;
		unsigned which = (unsigned)i % LEAVES;

		for (unsigned j = 0; j < LEAVES; j++)
			sum += heard[j] = __atomic_load_n(&told.adder[j].added, __ATOMIC_ACQUIRE);
		switch (i / LEAVES % 4) {
		case 0:
			got = exact(told.leaf[which]);
			if (got < heard[which] ||
			    got > __atomic_load_n(&told.adder[which].begun, __ATOMIC_ACQUIRE))
				mistake();
			continue;
		case 1:
			got = pcpu_node_read_within(told.middle, 0, 0);
			break;
		case 2:
			pcpu_node_snapshot(root, &got, 1, PCPU_READ_EXACT);
			break;
		default:
			got = exact(root);
		}
		for (unsigned j = 0; j < LEAVES; j++)
			most += __atomic_load_n(&told.adder[j].begun, __ATOMIC_ACQUIRE);
		if (got < sum || got > most)
			mistake();
	}
}

static void disturb(unsigned number, void *arg)
{
	struct pcpu_node *const nodes[] = {told.sibling, told.middle, root};

	(void)arg;
	while (!stopped()) {
		if (number == 0)
			pcpu_node_add(told.sibling, 1, 1);
		pcpu_node_flush(nodes[number]);
		sched_yield();
	}
}

static void told_readers_see(void)
{
	static struct crew adders, flushers;
	long rounds = scaled(100000);
	char name[2] = "a";

	begin();
	memset(&told, 0, sizeof(told));
	told.rounds = rounds / 2;
	told.middle = node(root, "middle");
	told.sibling = node(told.middle, "sibling");
	for (int i = 0; i < LEAVES; i++, name[0]++)
		told.leaf[i] = node(told.middle, name);
	crew_start(&adders, LEAVES, tell, NULL);
	crew_start(&flushers, 3, disturb, NULL);
	run_threads(2, hear, NULL);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	crew_wait(&adders);
	crew_wait(&flushers);
	tap_ok(wrong == 0, "I2: told of an add, EXACT has it%s: %ld rounds, %ld wrong", variant, rounds,
	       wrong);
	end();
}

/* ---- I2 again, rarely and then at once: each add is the first since a flush ---- */

static struct {
	int64_t value, seen;
	long rounds;
} ping;

/* The slow path of every add, and a fence per round, with nothing but one store between the two. */
static void ping_add(unsigned number, void *arg)
{
	(void)number;
	(void)arg;
	for (int64_t i = 1; i <= ping.rounds; i++) {
		pcpu_node_add(told.leaf[i % LEAVES], 0, 1);
		__atomic_store_n(&ping.value, i, __ATOMIC_RELEASE);
		for (int j = 0; j < 200 && __atomic_load_n(&ping.seen, __ATOMIC_ACQUIRE) < i; j++)
			if (j == 199)
				sched_yield();
	}
}

static void ping_read(unsigned number, void *arg)
{
	int64_t heard = 0;

	(void)number;
	(void)arg;
	while (heard < ping.rounds) {
		heard = __atomic_load_n(&ping.value, __ATOMIC_ACQUIRE);
		if (exact(root) < heard)
			mistake();
		__atomic_store_n(&ping.seen, heard, __ATOMIC_RELEASE);
	}
}

static void ping_both(unsigned number, void *arg)
{
	(number ? ping_read : ping_add)(number, arg);
}

static void first_add_after_a_flush(void)
{
	char name[2] = "a";

	begin();
	ping.rounds = scaled(5000);
	ping.value = ping.seen = 0;
	for (int i = 0; i < LEAVES; i++, name[0]++)
		told.leaf[i] = node(node(root, name), "leaf");
	run_threads(2, ping_both, NULL);
	tap_ok(wrong == 0 && exact(root) == ping.rounds, "I2: add, tell, read, add%s: %ld rounds, %ld wrong",
	       variant, ping.rounds, wrong);
	end();
}

/* ---- I1: adders, flushers, readers, creators, destroyers, walkers ---- */

#define STAYING 24
#define CHURNED 6

static struct {
	struct pcpu_node *stay[STAYING], *group[3];
	int64_t made; /* adds with amount 1, anywhere */
	long walks, rounds;
} zoo;

static void zoo_add(unsigned number, void *arg)
{
	unsigned cpu = number, made = 0;
	uint64_t state = number;

	(void)arg;
	while (!stopped()) {
		struct pcpu_delta two[2] = {{1, 1}, {0, 1}};
		struct pcpu_node *n = zoo.stay[next_random(&state) % STAYING];

		if (next_random(&state) % 4)
			pcpu_node_add(n, 0, 1);
		else
			pcpu_node_add_many(n, two, 2);
		if (++made % 256 == 0)
			flip(&cpu);
	}
	__atomic_fetch_add(&zoo.made, made, __ATOMIC_RELAXED);
}

/* The same name by many: made by one, found and used by others while it goes. */
static void zoo_churn(unsigned number, void *arg)
{
	unsigned cpu = number;
	uint64_t state = 100 + number;
	int64_t made = 0;

	(void)arg;
	for (int i = 0; !stopped(); i++) {
		unsigned which = (unsigned)(next_random(&state) % CHURNED);
		struct pcpu_node *parent = zoo.group[which % 3], *n, *child = NULL;
		char name[32], path[64];

		snprintf(name, sizeof(name), "churned-%u-churned", which);
		if (pcpu_node_create(&n, parent, name)) {
			snprintf(path, sizeof(path), "group%u/%s", which % 3, name);
			if (pcpu_node_find(&n, tree, path) == 0) {
				/* It may be destroyed at any time: what we add then is the parent's. */
				for (int j = 0; j < 10; j++, made++)
					pcpu_node_add(n, 0, 1);
				if (strcmp(pcpu_node_name(n), name))
					mistake();
				pcpu_node_put(n);
			}
			continue;
		}
		for (int j = 0; j < 5; j++, made++)
			pcpu_node_add(n, 0, 1);
		if (exact(n) < 5)
			mistake();
		if (pcpu_node_create(&child, n, "child") == 0) {
			/* A trace of an earlier owner? To stat 0 a walk may have added by now. */
			if (pcpu_node_read(child, 2, PCPU_READ_EXACT) != 0)
				mistake();
			pcpu_node_add(child, 2, 1);
			pcpu_node_add(child, 0, 1);
			made++;
			if (pcpu_node_destroy(child))
				mistake();
		}
		if (i % 2)
			flip(&cpu);
		if (pcpu_node_destroy(n))
			mistake();
	}
	__atomic_fetch_add(&zoo.made, made, __ATOMIC_RELAXED);
}

struct seen {
	unsigned times[STAYING];
	int64_t made;
};

static int look(struct pcpu_node *n, unsigned depth, void *ctx)
{
	struct seen *seen = ctx;
	const char *name = pcpu_node_name(n);
	unsigned number;
	char wanted[32];

	/* Lent, perhaps dying: an add counts all the same. */
	pcpu_node_add(n, 0, 1);
	seen->made++;
	if (sscanf(name, "stay-%u-stay", &number) == 1) {
		snprintf(wanted, sizeof(wanted), "stay-%u-stay", number);
		if (number >= STAYING || strcmp(name, wanted) || depth != 2)
			mistake();
		else
			seen->times[number]++;
	} else if (sscanf(name, "churned-%u-churned", &number) == 1) {
		snprintf(wanted, sizeof(wanted), "churned-%u-churned", number);
		if (number >= CHURNED || strcmp(name, wanted) || depth != 2)
			mistake();
	} else if (strcmp(name, "child") && strncmp(name, "group", 5) && depth) {
		mistake();
	}
	return 0;
}

static void zoo_walk(unsigned number, void *arg)
{
	int64_t made = 0;

	(void)number;
	(void)arg;
	while (!stopped()) {
		struct seen seen = {0};

		pcpu_tree_walk(tree, look, &seen);
		made += seen.made;
		for (int i = 0; i < STAYING; i++)
			if (seen.times[i] != 1)
				mistake();
		__atomic_fetch_add(&zoo.walks, 1, __ATOMIC_RELAXED);
		sched_yield();
	}
	__atomic_fetch_add(&zoo.made, made, __ATOMIC_RELAXED);
}

/* Totals never fall. */
static void zoo_read(unsigned number, void *arg)
{
	static const enum pcpu_read modes[] = {PCPU_READ_EXACT, PCPU_READ_CACHED, PCPU_READ_BOUNDED};
	int64_t last[4] = {0}, threshold = (int64_t)pcpu_node_threshold(root);

	(void)arg;
	/* And until the others have had their share. */
	for (long i = 0; i < zoo.rounds || __atomic_load_n(&zoo.walks, __ATOMIC_RELAXED) < zoo.rounds / 10;
	     i++) {
		struct pcpu_node *const nodes[] = {root, zoo.group[0], zoo.group[1], zoo.group[2]};
		unsigned which = (unsigned)i % 4;
		int64_t got = pcpu_node_read(nodes[which], 0, modes[(i / 4 + number) % 3]);

		if (got < last[which])
			mistake();
		last[which] = got;
		/* The truth grows: BOUNDED is behind what an EXACT read said before by the threshold at most. */
		got = exact(root);
		if (pcpu_node_read(root, 0, PCPU_READ_BOUNDED) < got - threshold)
			mistake();
		if (pcpu_node_read(zoo.stay[i % STAYING], 1, PCPU_READ_EXACT) < 0)
			mistake();
	}
}

static void everything_at_once(void)
{
	static struct crew adders, churners, walkers;
	char name[32];

	begin();
	memset(&zoo, 0, sizeof(zoo));
	zoo.rounds = scaled(3000);
	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "group%d", i);
		zoo.group[i] = node(root, name);
	}
	for (int i = 0; i < STAYING; i++) {
		snprintf(name, sizeof(name), "stay-%d-stay", i);
		zoo.stay[i] = node(zoo.group[i % 3], name);
	}
	pcpu_tree_flusher_start(tree, 1);
	crew_start(&adders, 2, zoo_add, NULL);
	crew_start(&churners, 3, zoo_churn, NULL);
	crew_start(&walkers, 2, zoo_walk, NULL);
	run_threads(2, zoo_read, NULL);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	crew_wait(&adders);
	crew_wait(&churners);
	crew_wait(&walkers);
	tap_ok(wrong == 0,
	       "names whole, survivors once in each walk, totals never fall%s: %ld walks, %ld wrong", variant,
	       zoo.walks, wrong);
	tap_ok(exact(root) == zoo.made, "I1: nothing lost, nothing twice%s: %lld of %lld adds", variant,
	       (long long)exact(root), (long long)zoo.made);
	/* Only what stays and what was spare at the worst of times: the churners' two nodes each, and stragglers'. */
	tap_ok(tree->nr_nodes < 1 + 3 + STAYING + 40, "slots are used again%s: %u nodes", variant,
	       tree->nr_nodes);
	end();
}

/* ---- snapshots: one flush, all of it ---- */

static void order(unsigned number, void *arg)
{
	struct pcpu_delta two[2] = {{1, 1}, {0, 1}};
	unsigned cpu = number;

	(void)arg;
	for (int i = 0; !stopped(); i++) {
		/* 1 first: a flusher, which reads 0 first, never finds more of 0. */
		pcpu_node_add_many(told.leaf[number], two, 2);
		if (i % 1000 == 0)
			flip(&cpu);
	}
}

static void snapshots_are_of_one_flush(void)
{
	static struct crew adders, flushers;
	long rounds = scaled(20000);

	begin();
	told.middle = node(root, "middle");
	told.sibling = node(root, "sibling");
	told.leaf[0] = node(told.middle, "a");
	told.leaf[1] = node(told.middle, "b");
	crew_start(&adders, 2, order, NULL);
	crew_start(&flushers, 3, disturb, NULL);
	for (long i = 0; i < rounds; i++) {
		struct pcpu_node *const nodes[] = {root, told.middle, told.leaf[0], told.leaf[1]};
		int64_t values[2], cached[2];

		pcpu_node_snapshot(nodes[i % 4], values, 2, i % 8 < 4 ? PCPU_READ_EXACT : PCPU_READ_CACHED);
		pcpu_node_snapshot_local(nodes[i % 4], cached, 2, PCPU_READ_CACHED);
		if (values[1] < values[0] || cached[1] < cached[0])
			mistake();
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	crew_wait(&adders);
	crew_wait(&flushers);
	tap_ok(wrong == 0, "snapshots are of one flush%s: %ld rounds, %ld torn", variant, rounds, wrong);
	end();
}

/* ---- flushes of many holds, with changes to what they were done with ---- */

#define WIDE 50

static struct {
	struct pcpu_node *middle[WIDE], *leaf[WIDE][WIDE];
	int64_t made[2];
} wide;

static void wide_add(unsigned number, void *arg)
{
	uint64_t state = number;

	(void)arg;
	for (int64_t i = 1; !stopped(); i++) {
		unsigned a = (unsigned)(next_random(&state) % WIDE),
			 b = (unsigned)(next_random(&state) % WIDE);

		pcpu_node_add(i % 4 ? wide.leaf[a][b] : wide.middle[a], 0, 1);
		__atomic_store_n(&wide.made[number], i, __ATOMIC_RELEASE);
	}
}

static void wide_read(unsigned number, void *arg)
{
	long rounds = scaled(20);

	(void)arg;
	for (long i = 0; i < rounds; i++) {
		int64_t heard = __atomic_load_n(&wide.made[0], __ATOMIC_ACQUIRE) +
				__atomic_load_n(&wide.made[1], __ATOMIC_ACQUIRE);

		if (number == 2)
			exact(wide.middle[i % WIDE]);
		else if (exact(root) < heard)
			mistake();
	}
}

static void flushes_in_many_holds(void)
{
	static struct crew adders;
	int64_t made, got;
	char name[8];

	begin();
	memset(&wide, 0, sizeof(wide));
	for (int i = 0; i < WIDE; i++) {
		snprintf(name, sizeof(name), "%d", i);
		wide.middle[i] = node(root, name);
		for (int j = 0; j < WIDE; j++) {
			snprintf(name, sizeof(name), "%d", j);
			wide.leaf[i][j] = node(wide.middle[i], name);
		}
	}
	crew_start(&adders, 2, wide_add, NULL);
	run_threads(3, wide_read, NULL);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	crew_wait(&adders);
	made = wide.made[0] + wide.made[1];
	got = exact(root);
	tap_ok(wrong == 0 && got == made, "I2: flushes in many holds%s: %lld of %lld adds, %ld short",
	       variant, (long long)got, (long long)made, wrong);
	end();
}

/* ---- signal handlers ---- */

static int64_t handled;

static void add_in_handler(int signal)
{
	(void)signal;
	pcpu_node_add(told.leaf[handled % 2], 0, 1);
	pcpu_node_add(told.middle, 0, 1);
	__atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
}

static void add_until_stopped(unsigned number, void *arg)
{
	int64_t *made = arg;

	while (!stopped()) {
		pcpu_node_add(told.leaf[*made % 2], 0, 1);
		++*made;
		/* So that the slow path is interrupted as well. */
		if (*made % 8 == 0)
			pcpu_node_flush(number ? root : told.middle);
	}
}

static void handlers_that_add(void)
{
	static struct crew adder;
	struct sigaction action = {.sa_handler = add_in_handler};
	int64_t made = 0, wanted = scaled(500), least;

	begin();
	told.middle = node(root, "middle");
	told.leaf[0] = node(told.middle, "a");
	told.leaf[1] = node(told.middle, "b");
	handled = 0;
	sigaction(SIGUSR1, &action, NULL);
	crew_start(&adder, 1, add_until_stopped, &made);
	while ((least = __atomic_load_n(&handled, __ATOMIC_ACQUIRE)) < wanted) {
		/* A handler told us of its adds; what it interrupted may be half done. */
		if (exact(root) < 2 * least)
			mistake();
		pthread_kill(adder.members[0].thread, SIGUSR1);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	crew_wait(&adder);
	tap_ok(wrong == 0 && exact(root) == made + 2 * handled,
	       "I1, I2: handlers that add to what they interrupt%s: %lld of %lld, %ld short", variant,
	       (long long)exact(root), (long long)(made + 2 * handled), wrong);
	end();
}

/* ---- forks ---- */

static int do_nothing(struct pcpu_node *n, unsigned depth, void *ctx)
{
	(void)depth;
	(void)ctx;
	/* In a walk, with a flush: the first thing that this thread does. */
	return pcpu_node_read(n, 0, PCPU_READ_EXACT) < 0;
}

static void short_life(unsigned number, void *arg)
{
	struct pcpu_node *n;
	char name[8];

	(void)arg;
	snprintf(name, sizeof(name), "s%u", number);
	if (number % 2) {
		pcpu_node_add(told.leaf[0], 1, 1);
		pcpu_node_flush(root);
		pcpu_tree_walk(tree, do_nothing, NULL);
	} else if (pcpu_node_create(&n, told.middle, name) == 0) {
		pcpu_node_add(n, 1, 1);
		pcpu_node_destroy(n);
	}
}

/* Threads that come and go, so that every call is once some thread's first. */
static void parent_life(unsigned number, void *arg)
{
	struct numbered me = {.fn = short_life, .arg = arg};

	while (!stopped()) {
		if (number < 2) {
			me.number = number;
			if (pthread_create(&me.thread, NULL, run_numbered, &me) == 0)
				pthread_join(me.thread, NULL);
		} else {
			pcpu_node_add(told.leaf[1], 1, 1);
			pcpu_node_flush(told.leaf[1]);
		}
	}
}

/* 0 if all is well in the child. */
static int child_life(int number)
{
	struct pcpu_tree_attr attr = {.size = sizeof(attr), .stats = stats, .nr_stats = 3};
	struct pcpu_tree *mine;
	struct pcpu_node *n;
	int64_t before = exact(root);
	char name[16];

	alarm(60);
	snprintf(name, sizeof(name), "c%d", number);
	for (int i = 0; i < 10; i++)
		pcpu_node_add(told.leaf[i % 2], 0, 1);
	if (exact(root) != before + 10)
		return 1;
	if (pcpu_node_create(&n, told.middle, name) || exact(n))
		return 2;
	pcpu_node_add(n, 0, 5);
	if (exact(n) != 5 || exact(root) != before + 15)
		return 3;
	if (pcpu_node_destroy(n) || exact(told.middle) != before + 15)
		return 4;
	if (pcpu_tree_walk(tree, do_nothing, NULL))
		return 5;
	/* ThreadSanitizer gives up on threads in a child of several ("dup thread with used id"). */
	if (!PCPU_SANITIZED && (pcpu_tree_flusher_start(tree, 1) || pcpu_tree_flusher_stop(tree)))
		return 6;
	if (pcpu_tree_create(&mine, &attr))
		return 7;
	pcpu_node_add(pcpu_tree_root(mine), 0, 1);
	if (exact(pcpu_tree_root(mine)) != 1)
		return 8;
	pcpu_tree_destroy(mine);
	if (number % 3 == 0)
		pcpu_tree_destroy(tree); /* straight before exit */
	return 0;
}

static void fork_storm(void)
{
	static struct crew others;
	long n = scaled(60), bad = 0;
	int first = 0;

	begin();
	told.middle = node(root, "middle");
	told.leaf[0] = node(told.middle, "a");
	told.leaf[1] = node(told.middle, "b");
	pcpu_tree_flusher_start(tree, 1);
	crew_start(&others, 3, parent_life, NULL);
	for (long i = 0; i < n; i++) {
		int status = -1;
		pid_t child;

		fflush(stdout);
		pcpu_node_add(told.leaf[i % 2], 0, 1);
		child = fork();
		if (child == 0)
			_exit(child_life((int)i));
		if (child < 0 || waitpid(child, &status, 0) != child || status) {
			bad++;
			first = first ? first : status;
		}
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	crew_wait(&others);
	tap_ok(bad == 0 && exact(root) == n,
	       "I1, I9: forks amid everything%s: %ld of %ld children bad (status %#x)", variant, bad, n,
	       (unsigned)first);
	end();
}

/* ---- memory ---- */

static void create_and_destroy(void)
{
	long rounds = scaled(10000) * (variant[0] ? 1 : 10);
	size_t before = 0, after;
	int64_t made = 0;

	begin();
	for (long i = 0; i < rounds; i++) {
		struct pcpu_node *a = node(root, "a"), *b = node(a, "b");

		pcpu_node_add(b, 0, i % 3);
		pcpu_node_add(a, 0, 1);
		made += i % 3 + 1;
		if (exact(a) != i % 3 + 1)
			mistake();
		if (pcpu_node_destroy(b) || pcpu_node_destroy(a))
			mistake();
		if (i == rounds / 10)
			before = mallinfo2().uordblks;
	}
	after = mallinfo2().uordblks;
	tap_ok(wrong == 0 && exact(root) == made, "%ld rounds of create and destroy%s: %ld wrong", rounds,
	       variant, wrong);
	tap_ok(tree->nr_nodes == 3 && after <= before, "memory is flat%s: %u nodes, %zu bytes after %zu",
	       variant, tree->nr_nodes, after, before);
	end();
}

static void hundred_thousand_nodes(void)
{
	struct pcpu_tree_attr attr = {
		.size = sizeof(attr), .stats = stats, .nr_stats = 3, .max_nodes = 110000};
	static struct pcpu_node *nodes[100000];
	char name[16];

	begin();
	end();
	if (pcpu_tree_create(&tree, &attr))
		abort();
	root = pcpu_tree_root(tree);
	for (int i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "%d", i);
		nodes[i] = node(i < 1000 ? root : nodes[i % 1000], name);
		pcpu_node_add(nodes[i], 0, 1);
	}
	tap_ok(exact(root) == 100000 && exact(nodes[5]) == 100, "100 000 nodes%s", variant);
	for (int i = 99999; i >= 0; i--) {
		pcpu_node_add(nodes[i], 0, 1);
		if (i % 7 == 0 && pcpu_node_destroy(nodes[i]) && i >= 1000)
			mistake();
	}
	tap_ok(wrong == 0 && exact(root) == 200000, "and some of them gone%s", variant);
	pcpu_tree_destroy(tree);
}

/* ---- all of it ---- */

static long no_membarrier(int command)
{
	(void)command;
	return -1;
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{"told", told_readers_see},
	{"ping", first_add_after_a_flush},
	{"zoo", everything_at_once},
	{"snapshot", snapshots_are_of_one_flush},
	{"holds", flushes_in_many_holds},
	{"signals", handlers_that_add},
	{"fork", fork_storm},
	{"memory", create_and_destroy},
	{"nodes", hundred_thousand_nodes},
};

int main(int argc, char **argv)
{
	static struct pcpu_os refused;
	int rounds = pcpu_cpu.sections ? 2 : 1; /* atomic adds need no fence */

	if (getenv("PCPU_TEST_NO_REFUSAL"))
		rounds = 1;
	for (int round = 0; round < rounds; round++) {
		if (round == 1) {
			refused = pcpu_linux;
			refused.membarrier = no_membarrier;
			variant = " (membarrier refused)";
			pcpu_cpu_restart(&refused, -1);
		}
		for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
			if (argc < 2 || strcmp(argv[1], tests[i].name) == 0)
				tests[i].run();
	}
	return tap_done();
}
