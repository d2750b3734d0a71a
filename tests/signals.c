/* SPDX-License-Identifier: MIT */
/*
 * Adds in signal handlers. I1: a handler that adds to the counter it interrupts an add to loses nothing. I9: a
 * thread whose very first call is in a handler that interrupts malloc. A hang ends in SIGALRM.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <pcpu_stat/pcpu_stat.h>

#include "tap.h"
#include "tools.h"

static struct pcpu_counter c = PCPU_COUNTER_INIT;
static int64_t handled, stop;

static void add_in_handler(int signal)
{
	(void)signal;
	pcpu_counter_add(&c, 1);
	__atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
}

static void add_until_stopped(unsigned number, void *arg)
{
	int64_t *made = arg;

	(void)number;
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		for (int i = 0; i < 100; i++)
			pcpu_counter_add(&c, 1);
		*made += 100;
	}
}

static void storm(uint32_t batch)
{
	static struct crew adder;
	struct pcpu_counter_attr attr = {.size = sizeof(attr), .batch = batch};
	struct sigaction action = {.sa_handler = add_in_handler};
	int64_t made = 0, wanted = scaled(100000), sum;

	pcpu_counter_destroy(&c);
	if (pcpu_counter_init(&c, &attr))
		abort();
	sigaction(SIGUSR1, &action, NULL);
	handled = stop = 0;
	crew_start(&adder, 1, add_until_stopped, &made);
	while (__atomic_load_n(&handled, __ATOMIC_RELAXED) < wanted) {
		int64_t before = __atomic_load_n(&handled, __ATOMIC_RELAXED);

		pthread_kill(adder.members[0].thread, SIGUSR1);
		for (int i = 0; i < 1000 && __atomic_load_n(&handled, __ATOMIC_RELAXED) == before; i++)
			;
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	crew_wait(&adder);
	sum = pcpu_counter_sum(&c);
	if (getenv("PCPU_TEST_EXPECT_LOSS"))
		tap_ok(sum != made + handled, "storm: the mutant is noticed, %lld off",
		       (long long)(made + handled - sum));
	else
		tap_ok(sum == made + handled, "storm, batch %u: %lld adds and %lld in handlers, sum %lld",
		       batch, (long long)made, (long long)handled, (long long)sum);
}

/* ---- the first call of a thread, in a handler, in malloc, to a counter that has no slots yet ---- */

static struct pcpu_counter fresh[200];
static int round_number;

static void add_first(int signal)
{
	(void)signal;
	pcpu_counter_add(&fresh[round_number], 1);
	__atomic_fetch_add(&handled, 1, __ATOMIC_RELEASE);
}

static int ready;

static void allocate_until_stopped(unsigned number, void *arg)
{
	unsigned i = number;

	(void)arg;
	__atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		char *volatile p = malloc(16 + i++ % 3000);

		free(p);
	}
}

static void first_call(void)
{
	static struct crew crew;
	struct sigaction action = {.sa_handler = add_first};
	int wrong = 0, rounds = (int)(scaled(200) < 200 ? scaled(200) : 200);

	sigaction(SIGUSR2, &action, NULL);
	for (round_number = 0; round_number < rounds; round_number++) {
		handled = stop = ready = 0;
		crew_start(&crew, 1, allocate_until_stopped, NULL);
		while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE))
			;
		for (int i = 0; i < 3; i++) {
			int64_t before = __atomic_load_n(&handled, __ATOMIC_ACQUIRE);

			pthread_kill(crew.members[0].thread, SIGUSR2);
			while (__atomic_load_n(&handled, __ATOMIC_ACQUIRE) == before)
				sched_yield();
		}
		__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
		crew_wait(&crew);
		wrong += pcpu_counter_sum(&fresh[round_number]) != 3;
	}
	tap_ok(wrong == 0, "first call in a handler in malloc: %d of %d wrong", wrong, rounds);
}

/* ---- a timer that interrupts everything the counter can do ---- */

static void interrupted_calls(void)
{
	struct sigaction action = {.sa_handler = add_in_handler, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
	int64_t made = 0, drained = 0;

	pcpu_counter_destroy(&c);
	if (pcpu_counter_init(&c, NULL))
		abort();
	sigaction(SIGALRM, &action, NULL);
	handled = 0;
	setitimer(ITIMER_REAL, &often, NULL);
	for (long i = 0; i < scaled(200000); i++) {
		int64_t below, above;

		pcpu_counter_add(&c, i % 100);
		made += i % 100;
		drained += pcpu_counter_drain(&c);
		pcpu_counter_set_batch(&c, (uint32_t)(i % 70 + 1));
		pcpu_counter_error(&c, &below, &above);
		pcpu_counter_compare(&c, 10);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	signal(SIGALRM, SIG_DFL);
	drained += pcpu_counter_drain(&c);
	tap_ok(drained == made + handled, "interrupted calls: %lld drained, %lld added, %lld in handlers",
	       (long long)drained, (long long)made, (long long)handled);
}

int main(void)
{
	alarm(300);
	storm(0);
	if (!getenv("PCPU_TEST_EXPECT_LOSS")) {
		storm(2);
		first_call();
		interrupted_calls();
	}
	return tap_done();
}
