/* SPDX-License-Identifier: MIT */
/*
 * Adds in signal handlers. I1: a handler that adds to the counter it interrupts an add to loses nothing. I9: a
 * thread whose very first call is in a handler that interrupts malloc. A hang ends in SIGALRM.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pcpu_stat/pcpu_stat.h>

#include "tap.h"
#include "tools.h"

static struct pcpu_counter c = PCPU_COUNTER_INIT;
static int64_t handled, stop;

/*
 * The signals come from a timer that the handler winds up again, so that the program goes on for a while
 * between two of them however slow the machine is.
 */
static timer_t timer;
static int wound;

static void wind_up(void)
{
	struct itimerspec spec = {.it_value = {.tv_nsec = 3000 + 1000 * (handled % 16)}};

	if (__atomic_load_n(&wound, __ATOMIC_RELAXED) && timer_settime(timer, 0, &spec, NULL))
		abort();
}

static void add_in_handler(int signal)
{
	(void)signal;
	pcpu_counter_add(&c, 1);
	__atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
	wind_up();
}

static void start_signals(void)
{
	struct sigaction action = {.sa_handler = add_in_handler, .sa_flags = SA_RESTART};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};

	handled = 0;
	wound = 1;
	sigaction(SIGUSR1, &action, NULL);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer))
		abort();
	wind_up();
}

static void stop_signals(void)
{
	__atomic_store_n(&wound, 0, __ATOMIC_RELAXED);
	timer_delete(timer);
}

static void storm(uint32_t batch, int64_t wanted)
{
	struct pcpu_counter_attr attr = {.size = sizeof(attr), .batch = batch};
	int64_t made = 0, sum;

	pcpu_counter_destroy(&c);
	if (pcpu_counter_init(&c, &attr))
		abort();
	start_signals();
	for (; __atomic_load_n(&handled, __ATOMIC_RELAXED) < wanted; made += 100)
		for (int i = 0; i < 100; i++)
			pcpu_counter_add(&c, 1);
	stop_signals();
	sum = pcpu_counter_sum(&c);
	if (getenv("PCPU_TEST_EXPECT_LOSS") && !in_sections())
		tap_skip("the mutant is noticed", "there are no sections here to leave unarmed");
	else if (getenv("PCPU_TEST_EXPECT_LOSS"))
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
	int64_t made = 0, drained = 0;

	pcpu_counter_destroy(&c);
	if (pcpu_counter_init(&c, NULL))
		abort();
	start_signals();
	for (long i = 0; i < scaled(500000); i++) {
		int64_t below, above;

		pcpu_counter_add(&c, i % 100);
		made += i % 100;
		drained += pcpu_counter_drain(&c);
		pcpu_counter_set_batch(&c, (uint32_t)(i % 70 + 1));
		pcpu_counter_error(&c, &below, &above);
		pcpu_counter_compare(&c, 10);
	}
	stop_signals();
	drained += pcpu_counter_drain(&c);
	tap_ok(drained == made + handled, "interrupted calls: %lld drained, %lld added, %lld in handlers",
	       (long long)drained, (long long)made, (long long)handled);
}

int main(void)
{
	alarm(300);
	storm(0, scaled(100000));
	if (!getenv("PCPU_TEST_EXPECT_LOSS")) {
		storm(2, scaled(20000));
		first_call();
		interrupted_calls();
	}
	return tap_done();
}
