/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "tree_flush.h"

#include "team.h"
#include "tree_ops.h"

#include "tree/tree.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static __attribute__((noreturn)) void fail(const char *what)
{
	fprintf(stderr, "bench_tree: %s\n", what);
	exit(1);
}

static struct flush_counts counts_of(const struct pcpu_tree *tree)
{
	return (struct flush_counts){__atomic_load_n(&tree->begun, __ATOMIC_RELAXED),
				     __atomic_load_n(&tree->visits, __ATOMIC_RELAXED),
				     __atomic_load_n(&tree->longest_hold, __ATOMIC_RELAXED)};
}

/* ---- Flushes of trees of all sizes ---- */

void flush_case_make(struct flush_case *fc)
{
	unsigned per_group, made = 0;
	char name[32];

	fc->tree = tree_make(0);
	/* Ten at least, so that ten changed leaves can lie in ten groups whatever the size. */
	for (fc->nr_groups = 10; fc->nr_groups * fc->nr_groups * 2 < fc->nr_nodes; fc->nr_groups *= 2)
		;
	per_group = fc->nr_nodes / fc->nr_groups ? fc->nr_nodes / fc->nr_groups : 1;
	fc->nr_leaves = per_group * fc->nr_groups;
	fc->leaves = calloc(fc->nr_leaves, sizeof(struct pcpu_node *));
	if (!fc->leaves)
		fail("no memory");
	for (unsigned g = 0; g < fc->nr_groups; g++) {
		struct pcpu_node *group;

		snprintf(name, sizeof(name), "group%u", g);
		if (pcpu_node_create(&group, pcpu_tree_root(fc->tree), name))
			fail("cannot make a node");
		for (unsigned i = 0; i < per_group; i++) {
			snprintf(name, sizeof(name), "leaf%u", i);
			/* Neighbours in the array belong to different groups. */
			if (pcpu_node_create(&fc->leaves[i * fc->nr_groups + g], group, name))
				fail("cannot make a node");
			made++;
		}
	}
	/* As in a program that has run for a while: every leaf has been used and flushed. */
	for (unsigned i = 0; i < made; i++)
		pcpu_node_add(fc->leaves[i], 0, 1);
	pcpu_node_flush(pcpu_tree_root(fc->tree));
	fc->tree->longest_hold = 0; /* that flush does not count */
	fc->next = 0;
	fc->rounds = 0;
}

void flush_case_end(struct flush_case *fc)
{
	pcpu_tree_destroy(fc->tree);
	free(fc->leaves);
	fc->tree = NULL;
	fc->leaves = NULL;
}

struct flush_counts flush_case_counts(const struct flush_case *fc)
{
	return counts_of(fc->tree);
}

/* One leaf in each of nr_dirty groups, as far as there are groups: a stride that is prime to them. */
static void change_leaves(struct flush_case *fc)
{
	unsigned stride = fc->nr_groups / 10 ? fc->nr_groups / 10 : 1;
	unsigned at = fc->moving ? fc->next : 0;

	if (fc->nr_dirty > 10)
		stride = 1;
	for (unsigned i = 0; i < fc->nr_dirty; i++)
		pcpu_node_add(fc->leaves[(at + i * stride) % fc->nr_leaves], 0, 1);
	fc->next = (fc->next + fc->nr_groups + 1) % fc->nr_leaves;
}

struct round {
	struct flush_case *fc;
	struct team *team;
	double *begin, *end; /* of each reader */
};

static void change_thread(void *arg, unsigned thread)
{
	struct round *r = arg;

	(void)thread;
	change_leaves(r->fc);
}

static void read_thread(void *arg, unsigned thread)
{
	struct round *r = arg;
	int64_t value;

	team_barrier(r->team);
	r->begin[thread] = team_now_ns();
	value = pcpu_node_read(pcpu_tree_root(r->fc->tree), 0, PCPU_READ_EXACT);
	BENCH_USE(value);
	r->end[thread] = team_now_ns();
}

enum { MAX_READERS = 64 };

double flush_case_round(struct flush_case *fc, struct team *team)
{
	unsigned readers = fc->readers ? fc->readers : 1, cpus = fc->cpus ? fc->cpus : 1;
	double begin[MAX_READERS], end[MAX_READERS], first, last = 0;
	struct round r = {.fc = fc, .team = team, .begin = begin, .end = end};

	/* Threads of a bound team are on different CPUs. */
	team_run(team, cpus, change_thread, &r);
	team_run(team, readers, read_thread, &r);
	first = begin[0];
	for (unsigned i = 0; i < readers; i++) {
		first = begin[i] < first ? begin[i] : first;
		last = end[i] > last ? end[i] : last;
	}
	fc->rounds++;
	return last - first;
}

BENCH_LOOP(flush_loops, struct flush_case *fc = ctx, {
	change_leaves(fc);
	pcpu_node_flush(pcpu_tree_root(fc->tree));
});

static void flush_setup(void *ctx, unsigned threads)
{
	(void)threads;
	flush_case_make(ctx);
}

static void flush_teardown(void *ctx, unsigned threads)
{
	(void)threads;
	flush_case_end(ctx);
}

static struct flush_case small = {.nr_nodes = 100, .nr_dirty = 10},
			 large = {.nr_nodes = 20000, .nr_dirty = 10};

#define FLUSH(case, identifier, text)                                                                        \
	{                                                                                                    \
		.name = identifier, .label = text, .loops = flush_loops, .nr_loops = 1, .ctx = &case,        \
		.setup = flush_setup, .teardown = flush_teardown,                                            \
	}

const struct bench_op flush_10_of_100 = FLUSH(small, "tree_flush_10_of_100", "10 of 100 changed and flushed");
const struct bench_op flush_10_of_20000 =
	FLUSH(large, "tree_flush_10_of_20000", "10 of 20000 changed and flushed");

/* ---- To and fro ---- */

uint64_t flushes_of_to_and_fro(uint64_t turns, uint64_t read_every)
{
	struct tree_case tc = {.depth = TREE_DEPTH};
	uint64_t before, after;

	tree_case_setup(&tc, 1);
	before = counts_of(tc.tree).flushes;
	for (uint64_t i = 0; i < turns; i++) {
		pcpu_node_add(tc.node, 0, i % 2 ? -1 : 1);
		if (i % read_every == 0)
			pcpu_node_read(pcpu_tree_root(tc.tree), 0, PCPU_READ_BOUNDED);
	}
	after = counts_of(tc.tree).flushes;
	tree_case_teardown(&tc, 1);
	return after - before;
}

/* ---- A clean read ---- */

/* Take the right to write from all memory but the stack and what holds @keep. Returns whether that worked. */
static bool write_protect(const void *keep)
{
	static struct {
		uintptr_t begin, end;
	} found[4096];
	unsigned nr = 0;
	char line[512];
	FILE *maps = fopen("/proc/self/maps", "r");

	if (!maps)
		return false;
	while (fgets(line, sizeof(line), maps) && nr < sizeof(found) / sizeof(found[0])) {
		unsigned long begin, end;
		char rights[5];

		if (sscanf(line, "%lx-%lx %4s", &begin, &end, rights) != 3 || rights[1] != 'w' ||
		    strstr(line, "[stack") || ((uintptr_t)keep >= begin && (uintptr_t)keep < end))
			continue;
		found[nr].begin = begin;
		found[nr++].end = end;
	}
	fclose(maps);
	for (unsigned i = 0; i < nr; i++)
		if (syscall(SYS_mprotect, found[i].begin, found[i].end - found[i].begin, PROT_READ))
			return false;
	return true;
}

int exact_read_stores_nothing(void)
{
	struct tree_case tc = {.depth = TREE_DEPTH};
	struct pcpu_node *root;
	int status = 0;
	pid_t child;

	tree_case_setup(&tc, 1);
	root = pcpu_tree_root(tc.tree);
	pcpu_node_add(tc.node, 0, 1000);
	/* Makes it clean, and binds the function's symbol, which is a store as well. */
	pcpu_node_read(root, 0, PCPU_READ_EXACT);
	fflush(NULL);
	child = fork();
	if (child == 0) {
		/* The kernel itself writes to this thread's rseq area, which lies where errno does. */
		if (!write_protect(&errno))
			syscall(SYS_exit_group, 2);
		syscall(SYS_exit_group, pcpu_node_read(root, 0, PCPU_READ_EXACT) != 1000 ||
						pcpu_node_read(tc.node, 0, PCPU_READ_EXACT) != 1000);
	}
	if (child < 0 || waitpid(child, &status, 0) != child ||
	    (WIFEXITED(status) && WEXITSTATUS(status) == 2))
		status = -1;
	tree_case_teardown(&tc, 1);
	return status == -1 ? -1 : status == 0;
}

/* ---- Memory ---- */

static long resident(void)
{
	static char buf[4096];
	FILE *in = fopen("/proc/self/smaps_rollup", "r");
	const char *field;
	size_t length;
	long kib;

	if (!in)
		return -1;
	length = fread(buf, 1, sizeof(buf) - 1, in);
	fclose(in);
	buf[length] = '\0';
	field = strstr(buf, "Private_Dirty:");
	return field && sscanf(field, "Private_Dirty: %ld", &kib) == 1 ? kib * 1024 : -1;
}

/* Bind this thread to the i-th CPU it may use. */
static bool bind_to(const cpu_set_t *allowed, int i)
{
	cpu_set_t one;

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, allowed) || i--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		return !sched_setaffinity(0, sizeof(one), &one);
	}
	return false;
}

double tree_memory_per_pair(void)
{
	enum { NODES = 20000 };
	struct flush_case fc = {.nr_nodes = NODES};
	long before, after;
	cpu_set_t allowed;
	double bytes = -1;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) || CPU_COUNT(&allowed) < 2)
		return -1;
	/* Everything is used on one CPU. What grows when another one comes in is per (node, CPU). */
	if (!bind_to(&allowed, 0))
		return -1;
	flush_case_make(&fc);
	resident();
	before = resident();
	if (bind_to(&allowed, 1)) {
		for (unsigned i = 0; i < fc.nr_leaves; i++)
			for (uint32_t stat = 0; stat < TREE_STATS; stat++)
				pcpu_node_add(fc.leaves[i], stat, 1);
		pcpu_node_flush(pcpu_tree_root(fc.tree));
		after = resident();
		if (before >= 0 && after >= 0)
			bytes = (double)(after - before) / fc.nr_leaves - 16.0 * TREE_STATS;
	}
	flush_case_end(&fc);
	sched_setaffinity(0, sizeof(allowed), &allowed);
	return bytes;
}

/* ---- Adds while somebody flushes ---- */

struct tree_flusher {
	pthread_t thread;
	unsigned wanted; /* flushes wanted */
	unsigned active; /* being made */
	unsigned stop;
	int cpu;
	struct pcpu_tree *tree;
};

static struct tree_flusher the_flusher;

static void *flush_without_pause(void *arg)
{
	struct tree_flusher *f = arg;
	cpu_set_t others;

	/* Off the CPU of those who add. Fails where there is no other. */
	CPU_ZERO(&others);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (cpu != f->cpu)
			CPU_SET(cpu, &others);
	pthread_setaffinity_np(pthread_self(), sizeof(others), &others);
	while (!__atomic_load_n(&f->stop, __ATOMIC_ACQUIRE)) {
		if (!__atomic_load_n(&f->wanted, __ATOMIC_ACQUIRE)) {
			usleep(20);
			continue;
		}
		__atomic_store_n(&f->active, 1, __ATOMIC_RELEASE);
		while (__atomic_load_n(&f->wanted, __ATOMIC_ACQUIRE))
			pcpu_node_flush(pcpu_tree_root(f->tree));
		__atomic_store_n(&f->active, 0, __ATOMIC_RELEASE);
	}
	return NULL;
}

void tree_flushed_setup(void *ctx, unsigned threads)
{
	struct tree_case *tc = ctx;

	tree_case_setup(tc, threads);
	the_flusher = (struct tree_flusher){.tree = tc->tree, .cpu = sched_getcpu()};
	tc->flusher = &the_flusher;
	if (pthread_create(&the_flusher.thread, NULL, flush_without_pause, &the_flusher))
		fail("cannot start a thread");
}

void tree_flushed_teardown(void *ctx, unsigned threads)
{
	struct tree_case *tc = ctx;

	__atomic_store_n(&the_flusher.stop, 1, __ATOMIC_RELEASE);
	pthread_join(the_flusher.thread, NULL);
	tree_case_teardown(tc, threads);
}

/* Return when it has begun, or ended: neighbours in time shall not pay for it. */
void tree_flushed_enter(void *ctx, unsigned thread)
{
	struct tree_flusher *f = ((struct tree_case *)ctx)->flusher;

	(void)thread;
	__atomic_store_n(&f->wanted, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&f->active, __ATOMIC_ACQUIRE))
		sched_yield();
}

void tree_flushed_leave(void *ctx, unsigned thread)
{
	struct tree_flusher *f = ((struct tree_case *)ctx)->flusher;

	(void)thread;
	__atomic_store_n(&f->wanted, 0, __ATOMIC_RELEASE);
	while (__atomic_load_n(&f->active, __ATOMIC_ACQUIRE))
		sched_yield();
}

enum { STRETCHES = 4096, STRETCH_TURNS = 60000 };

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* ns per add; *flushes: how many began meanwhile. */
static double stretch(const struct bench_op *op, unsigned placement, uint64_t *flushes)
{
	const struct tree_case *tc = op->ctx;
	uint64_t before = counts_of(tc->tree).flushes;
	double begin = team_now_ns(), end;

	op->loops[placement](op->ctx, STRETCH_TURNS, 0);
	end = team_now_ns();
	*flushes = counts_of(tc->tree).flushes - before;
	return (end - begin) / STRETCH_TURNS;
}

void measure_amid_flushes(struct amid_flushes *result, double seconds)
{
	static double alone[STRETCHES], amid[STRETCHES], rates[STRETCHES], sorted[STRETCHES];
	const struct bench_op *op = &tree_add_flushed;
	double begin = team_now_ns(), enough;
	unsigned nr, kept = 0;
	struct team *team;
	uint64_t flushes;

	/* For its binding alone: this thread is the one that adds. */
	if (team_start(&team, 2, TEAM_BIND))
		fail("no threads");
	op->setup(op->ctx, 1);
	for (nr = 0; nr < STRETCHES && (nr < 3 || team_now_ns() - begin < seconds * 1e9); nr++) {
		unsigned placement = nr % op->nr_loops;

		alone[nr] = stretch(op, placement, &flushes);
		op->enter(op->ctx, 0);
		/* The first few flushes find out that somebody adds all the time. */
		stretch(op, placement, &flushes);
		amid[nr] = stretch(op, placement, &flushes);
		op->leave(op->ctx, 0);
		rates[nr] = sorted[nr] = (double)flushes / (amid[nr] * STRETCH_TURNS);
	}
	op->teardown(op->ctx, 1);
	team_stop(team);
	qsort(sorted, nr, sizeof(sorted[0]), compare_doubles);
	enough = sorted[nr - 1 - nr / 10] / 2;
	for (unsigned i = 0; i < nr; i++) {
		if (rates[i] < enough)
			continue;
		rates[kept] = rates[i];
		amid[kept++] = amid[i];
	}
	qsort(alone, nr, sizeof(alone[0]), compare_doubles);
	qsort(amid, kept, sizeof(amid[0]), compare_doubles);
	qsort(rates, kept, sizeof(rates[0]), compare_doubles);
	*result = (struct amid_flushes){
		.alone_min = alone[0],
		.alone_median = alone[nr / 2],
		.amid_min = amid[0],
		.amid_median = amid[kept / 2],
		.every_ns = rates[kept / 2] > 0 ? 1 / rates[kept / 2] : 0,
		.kept = kept,
		.all = nr,
	};
}
