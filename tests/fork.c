/* SPDX-License-Identifier: MIT */
/*
 * Forks. I1, I9: a forked child has its own copy and both go on counting apart; it may make and unmake
 * counters whatever other threads of the parent were doing, and ends in time.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pcpu_stat/pcpu_stat.h>

#include "tap.h"
#include "tools.h"

static struct pcpu_counter shared = PCPU_COUNTER_INIT;
static struct pcpu_counter unused = PCPU_COUNTER_INIT;
static int stop, wrong;
static int64_t made[4];

static void live(unsigned number, void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		struct pcpu_counter mine;

		if (pcpu_counter_init(&mine, NULL))
			abort();
		for (int i = 0; i < 20; i++)
			pcpu_counter_add(&mine, number);
		if (pcpu_counter_sum(&mine) != 20 * (int64_t)number)
			__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
		pcpu_counter_destroy(&mine);
		pcpu_counter_add(&shared, 1);
		made[number]++;
	}
}

/* 0 if all is well in the child. */
static int child(void)
{
	struct pcpu_counter mine;
	struct pcpu_region *region;
	int64_t before;

	alarm(20);
	before = pcpu_counter_sum(&shared);
	pcpu_counter_add(&shared, 10);
	if (pcpu_counter_sum(&shared) != before + 10)
		return 1;
	pcpu_counter_add(&unused, 4);
	if (pcpu_counter_sum(&unused) != 4)
		return 2;
	if (pcpu_counter_init(&mine, NULL) || pcpu_counter_sum(&mine))
		return 3;
	for (int i = 0; i < 500; i++)
		pcpu_counter_add(&mine, i % 3);
	if (pcpu_counter_drain(&mine) != 499)
		return 4;
	pcpu_counter_destroy(&mine);
	if (pcpu_region_create(&region, NULL))
		return 5;
	pcpu_region_close(region);
	return 0;
}

int main(void)
{
	static struct crew crew;
	int bad = 0, children = (int)scaled(500);
	int64_t all = 0;

	alarm(600);
	crew_start(&crew, 4, live, NULL);
	for (int i = 0; i < children; i++) {
		pid_t pid = fork();
		int status;

		if (pid == 0)
			_exit(child());
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
			if (bad++ == 0)
				printf("# child %d: status %#x\n", i, (unsigned)status);
		}
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	crew_wait(&crew);
	for (int i = 0; i < 4; i++)
		all += made[i];
	tap_ok(bad == 0, "%d of %d children went wrong", bad, children);
	tap_ok(wrong == 0, "%d counters of the parent went wrong", wrong);
	tap_ok(pcpu_counter_sum(&shared) == all, "the parent's counter holds the parent's adds: %lld of %lld",
	       (long long)pcpu_counter_sum(&shared), (long long)all);
	tap_ok(pcpu_counter_sum(&unused) == 0, "and none of the children's");
	return tap_done();
}
