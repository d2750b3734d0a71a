/* SPDX-License-Identifier: MIT */
/*
 * Counters under real threads. I1: nothing lost or twice, whatever threads, drains and batch changes do. I2: a
 * sum holds what happened before it. I3: bounds hold at rest. With PCPU_TEST_EXPECT_LOSS set (the mutant whose
 * sections are not armed) the program succeeds when the affinity test loses adds.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <pcpu_stat/pcpu_stat.h>

#include "tap.h"
#include "tools.h"

static struct pcpu_counter c;
static unsigned cpus;
static int stop;

static void make(uint32_t batch, uint32_t flags)
{
	struct pcpu_counter_attr attr = {.size = sizeof(attr), .batch = batch, .flags = flags};

	if (pcpu_counter_init(&c, &attr))
		abort();
	stop = 0;
}

static bool stopped(void)
{
	return __atomic_load_n(&stop, __ATOMIC_ACQUIRE);
}

static void do_stop(void)
{
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
}

static bool bounds_hold(void)
{
	int64_t below, above, lag = pcpu_counter_sum(&c) - pcpu_counter_read(&c);

	pcpu_counter_error(&c, &below, &above);
	return lag <= below && -lag <= above;
}

/* ---- 8 threads x 10^6 adds while another thread drains in a loop ---- */

static long adds_each;

static void add_ones(unsigned number, void *arg)
{
	(void)number;
	(void)arg;
	for (long i = 0; i < adds_each; i++)
		pcpu_counter_add(&c, 1);
}

static void drain_loop(unsigned number, void *arg)
{
	int64_t *drained = arg;

	(void)number;
	while (!stopped()) {
		*drained += pcpu_counter_drain(&c);
		sched_yield();
	}
}

static void drain(void)
{
	static struct crew adders, drainer;
	int64_t drained = 0, rest;

	make(0, 0);
	adds_each = scaled(1000000);
	crew_start(&drainer, 1, drain_loop, &drained);
	crew_start(&adders, 8, add_ones, NULL);
	crew_wait(&adders);
	do_stop();
	crew_wait(&drainer);
	rest = pcpu_counter_sum(&c);
	tap_ok(drained + rest == 8 * adds_each, "drain: %lld drained and %lld left of %ld",
	       (long long)drained, (long long)rest, 8 * adds_each);
	tap_ok(bounds_hold(), "drain: bounds hold afterwards");
	pcpu_counter_destroy(&c);
}

/* Several drainers: every add in exactly one result. */
static void drains(void)
{
	static struct crew adders, drainers[3];
	int64_t drained[3] = {0}, rest;

	make(16, PCPU_COUNTER_NODE_LEVEL);
	adds_each = scaled(300000);
	for (int i = 0; i < 3; i++)
		crew_start(&drainers[i], 1, drain_loop, &drained[i]);
	crew_start(&adders, 4, add_ones, NULL);
	crew_wait(&adders);
	do_stop();
	for (int i = 0; i < 3; i++)
		crew_wait(&drainers[i]);
	rest = pcpu_counter_drain(&c);
	tap_ok(drained[0] + drained[1] + drained[2] + rest == 4 * adds_each,
	       "drains: three drainers share %ld", 4 * adds_each);
	tap_ok(pcpu_counter_sum(&c) == 0 && bounds_hold(), "drains: nothing is left");
	pcpu_counter_destroy(&c);
}

/* ---- threads that come and go while a reader sums ---- */

static int64_t fell;

static void watch(unsigned number, void *arg)
{
	int64_t last = 0;

	(void)number;
	(void)arg;
	while (!stopped()) {
		int64_t sum = pcpu_counter_sum(&c);

		if (sum < last)
			fell++;
		last = sum;
	}
}

static void add_hundred(unsigned number, void *arg)
{
	(void)number;
	(void)arg;
	pcpu_counter_add(&c, 100);
}

static void exits(void)
{
	static struct crew watcher;
	int64_t sum;

	make(1000, 0);
	fell = 0;
	pcpu_counter_add(&c, 900);
	crew_start(&watcher, 1, watch, NULL);
	for (int i = 0; i < 200; i++)
		run_threads(1, add_hundred, NULL);
	do_stop();
	crew_wait(&watcher);
	sum = pcpu_counter_sum(&c);
	tap_ok(fell == 0, "exits: sums never fall");
	tap_ok(sum == 20900, "exits: %lld at the end", (long long)sum);
	pcpu_counter_destroy(&c);
}

/* ---- affinity flips and preemption ---- */

static pid_t tids[MAX_THREADS];

static void add_both_ways(unsigned number, void *arg)
{
	long n = *(long *)arg;

	__atomic_store_n(&tids[number], gettid(), __ATOMIC_RELEASE);
	for (long i = 0; i < n; i++) {
		pcpu_counter_add(&c, 3);
		pcpu_counter_sub(&c, 1);
		if (i % 4096 == 0)
			sched_yield();
	}
}

static void flip(unsigned number, void *arg)
{
	unsigned threads = *(unsigned *)arg, cpu = 0;

	(void)number;
	while (!stopped()) {
		for (unsigned i = 0; i < threads && !stopped(); i++) {
			pid_t tid = __atomic_load_n(&tids[i], __ATOMIC_ACQUIRE);
			cpu_set_t set;

			CPU_ZERO(&set);
			CPU_SET(cpu % cpus, &set);
			cpu++;
			if (tid)
				sched_setaffinity(tid, sizeof(set), &set);
		}
		usleep(100);
	}
}

static void affinity(uint32_t batch, uint32_t flags, const char *name)
{
	static struct crew adders, flipper;
	unsigned threads = 4 * cpus > MAX_THREADS ? MAX_THREADS : 4 * cpus;
	long each = scaled(10000000) / (long)threads;
	int64_t sum, wanted = 2 * each * (long)threads;

	make(batch, flags);
	memset(tids, 0, sizeof(tids));
	crew_start(&adders, threads, add_both_ways, &each);
	crew_start(&flipper, 1, flip, &threads);
	crew_wait(&adders);
	do_stop();
	crew_wait(&flipper);
	sum = pcpu_counter_sum(&c);
	if (getenv("PCPU_TEST_EXPECT_LOSS") && !in_sections())
		tap_skip("the mutant is noticed", "there are no sections here to leave unarmed");
	else if (getenv("PCPU_TEST_EXPECT_LOSS"))
		tap_ok(sum != wanted, "%s: the mutant is noticed, %lld adds off", name,
		       (long long)(sum - wanted));
	else {
		tap_ok(sum == wanted, "%s: %lld of %lld", name, (long long)sum, (long long)wanted);
		tap_ok(bounds_hold(), "%s: bounds hold afterwards", name);
	}
	pcpu_counter_destroy(&c);
}

/* ---- 500 threads add batch - 1 once and sleep ---- */

static pthread_barrier_t added, seen;

static void add_and_sleep(unsigned number, void *arg)
{
	(void)number;
	(void)arg;
	pcpu_counter_add(&c, 99);
	pthread_barrier_wait(&added);
	pthread_barrier_wait(&seen);
}

static void sleepers(void)
{
	static struct crew crew;
	struct pcpu_info info = {.size = sizeof(info)};
	int64_t lag;

	pcpu_get_info(&info);
	make(100, 0);
	pthread_barrier_init(&added, NULL, 501);
	pthread_barrier_init(&seen, NULL, 501);
	crew_start(&crew, 500, add_and_sleep, NULL);
	pthread_barrier_wait(&added);
	lag = pcpu_counter_sum(&c) - pcpu_counter_read(&c);
	tap_ok(pcpu_counter_sum(&c) == 500 * 99, "sleepers: all there");
	tap_ok(lag <= info.slots * 99 && -lag <= info.slots * 99,
	       "sleepers: read is off by %lld, not by threads (at most %u)", (long long)lag, info.slots * 99);
	pthread_barrier_wait(&seen);
	crew_wait(&crew);
	pcpu_counter_destroy(&c);
}

/* ---- I2: what an adder has told of is in the sum ---- */

static int64_t told[64];

static void add_and_tell(unsigned number, void *arg)
{
	long n = *(long *)arg;

	for (long i = 1; i <= n; i++) {
		pcpu_counter_inc(&c);
		__atomic_store_n(&told[number], i, __ATOMIC_RELEASE);
		if (i % 1024 == 0)
			sched_yield();
	}
}

static void messages(void)
{
	static struct crew adders;
	long n = scaled(200000);
	long late = 0, looks = 0;
	int64_t heard;

	make(0, 0);
	memset(told, 0, sizeof(told));
	crew_start(&adders, 4, add_and_tell, &n);
	do {
		int64_t sum;

		heard = 0;
		for (int i = 0; i < 4; i++)
			heard += __atomic_load_n(&told[i], __ATOMIC_ACQUIRE);
		sum = pcpu_counter_sum(&c);
		late += sum < heard;
		looks++;
	} while (heard < 4 * n);
	crew_wait(&adders);
	tap_ok(late == 0, "messages: %ld sums, %ld without an add that was told of", looks, late);
	pcpu_counter_destroy(&c);
}

/* ---- the batch changes under adds ---- */

static void add_mixed(unsigned number, void *arg)
{
	int64_t *mine = arg;
	uint64_t random = number + 1;

	for (long i = 0; i < adds_each; i++) {
		int64_t n = (int64_t)(next_random(&random) % 401) - 200;

		mine[number] += n;
		pcpu_counter_add(&c, n);
	}
}

static void change_loop(unsigned number, void *arg)
{
	static const uint32_t batches[] = {1, 2, 1000, 7, INT32_MAX, 64, 0};

	(void)arg;
	for (unsigned i = number; !stopped(); i++) {
		pcpu_counter_set_batch(&c, batches[i % 7]);
		usleep(50);
	}
}

static void batches(uint32_t flags, const char *name)
{
	static struct crew adders, changers;
	int64_t mine[4], all = 0;
	bool good = true;

	make(0, flags);
	adds_each = scaled(20000);
	for (int round = 0; round < 10; round++) {
		memset(mine, 0, sizeof(mine));
		__atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
		crew_start(&adders, 4, add_mixed, mine);
		crew_start(&changers, 2, change_loop, NULL);
		crew_wait(&adders);
		do_stop();
		crew_wait(&changers);
		for (int i = 0; i < 4; i++)
			all += mine[i];
		/* At rest: exact, and inside the bounds, whatever batch it came to. */
		good = good && pcpu_counter_sum(&c) == all && bounds_hold() &&
		       pcpu_counter_compare(&c, all) == 0 && pcpu_counter_compare(&c, all + 1) < 0 &&
		       pcpu_counter_compare(&c, all - 1) > 0;
	}
	tap_ok(good, "%s: exact and in bounds at rest under any batch", name);
	pcpu_counter_destroy(&c);
}

/* ---- set while others add: each add is kept or overwritten as a whole ---- */

static void add_thousands(unsigned number, void *arg)
{
	(void)number;
	(void)arg;
	for (long i = 0; i < adds_each; i++)
		pcpu_counter_add(&c, i % 3 ? 1000 : -1000);
}

static void set_loop(unsigned number, void *arg)
{
	(void)arg;
	for (int64_t i = 0; !stopped(); i++) {
		pcpu_counter_set(&c, 1000 * i + number * 5000);
		sched_yield();
	}
}

static void sets(void)
{
	static struct crew adders, setters;
	long odd = 0;

	make(2500, 0);
	adds_each = scaled(200000);
	crew_start(&setters, 2, set_loop, NULL);
	crew_start(&adders, 3, add_thousands, NULL);
	for (int i = 0; i < 20000; i++)
		odd += pcpu_counter_sum(&c) % 1000 != 0;
	crew_wait(&adders);
	do_stop();
	crew_wait(&setters);
	tap_ok(odd == 0, "sets: %ld sums with half of an add in them", odd);
	tap_ok(pcpu_counter_sum(&c) % 1000 == 0 && bounds_hold(), "sets: bounds hold afterwards");
	pcpu_counter_destroy(&c);
}

/* ---- static counters whose first adds meet ---- */

#define FIRSTS 2000
static struct pcpu_counter firsts[FIRSTS];

static void add_first(unsigned number, void *arg)
{
	pthread_barrier_t *together = arg;

	for (int i = 0; i < FIRSTS; i++) {
		if (i % 50 == 0)
			pthread_barrier_wait(together);
		pcpu_counter_add(&firsts[i], number + 1);
		if (number == 0)
			pcpu_counter_set_batch(&firsts[i], 5);
		pcpu_counter_add(&firsts[i], number + 1);
	}
}

static void first_adds(void)
{
	pthread_barrier_t together;
	int wrong = 0, batch = 0;

	pthread_barrier_init(&together, NULL, 4);
	run_threads(4, add_first, &together);
	for (int i = 0; i < FIRSTS; i++) {
		wrong += pcpu_counter_sum(&firsts[i]) != 20;
		batch += firsts[i].batch != 5 || firsts[i].bias != 4;
		pcpu_counter_destroy(&firsts[i]);
	}
	tap_ok(wrong == 0, "first adds: %d of %d counters wrong", wrong, FIRSTS);
	tap_ok(batch == 0, "first adds: %d of %d batches wrong", batch, FIRSTS);
}

/* ---- making and unmaking in many threads ---- */

static void live(unsigned number, void *arg)
{
	int *wrong = arg;

	for (long i = 0; i < adds_each; i++) {
		struct pcpu_counter mine;

		if (pcpu_counter_init(&mine, NULL) || pcpu_counter_sum(&mine) || pcpu_counter_read(&mine))
			__atomic_fetch_add(wrong, 1, __ATOMIC_RELAXED);
		for (unsigned k = 0; k < 50; k++)
			pcpu_counter_add(&mine, number);
		if (pcpu_counter_sum(&mine) != 50 * (int64_t)number)
			__atomic_fetch_add(wrong, 1, __ATOMIC_RELAXED);
		pcpu_counter_destroy(&mine);
	}
}

static void lives(void)
{
	int wrong = 0;

	adds_each = scaled(5000);
	run_threads(8, live, &wrong);
	tap_ok(wrong == 0, "lives: %d wrong", wrong);
}

int main(int argc, char **argv)
{
	cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	affinity(0, 0, "affinity");
	if (getenv("PCPU_TEST_EXPECT_LOSS"))
		return tap_done();
	affinity(4, PCPU_COUNTER_NODE_LEVEL, "affinity, small batch, node level");
	if (argc > 1 && strcmp(argv[1], "affinity") == 0)
		return tap_done();
	drain();
	drains();
	exits();
	sleepers();
	messages();
	batches(0, "batches");
	batches(PCPU_COUNTER_NODE_LEVEL, "batches, node level");
	sets();
	first_adds();
	lives();
	return tap_done();
}
