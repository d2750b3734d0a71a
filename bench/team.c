/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "team.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

/* Turns of a waiting loop before the CPU is offered to others: a few microseconds. */
enum { SPINS = 2000 };

struct member {
	struct team *team;
	unsigned thread;
	pthread_t id;
};

struct team {
	pthread_mutex_t lock;
	pthread_cond_t wake, done;
	void (*fn)(void *arg, unsigned thread);
	void *arg;
	unsigned generation; /* of runs; a change starts one */
	unsigned in_run;     /* threads of the run under way */
	unsigned running;    /* of these, the members that have not come back */
	bool stop;
	unsigned nr_members; /* threads besides the caller */
	bool bound;
	cpu_set_t old_mask;
	_Alignas(128) atomic_uint arrived; /* at the barrier, over all of its uses */
	_Alignas(128) struct member members[];
};

unsigned team_cpus(void)
{
	cpu_set_t mask;

	/* Fails on machines with more than CPU_SETSIZE CPUs; so many are not needed here. */
	return sched_getaffinity(0, sizeof(mask), &mask) ? 1 : (unsigned)CPU_COUNT(&mask);
}

double team_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* From the last CPU down: interrupts tend to go to the first. Best effort. */
static void bind_thread(const cpu_set_t *allowed, unsigned thread)
{
	int nr = CPU_COUNT(allowed), skip;
	cpu_set_t one;

	if (!nr)
		return;
	skip = (int)(thread % (unsigned)nr);
	for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--) {
		if (!CPU_ISSET(cpu, allowed) || skip--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
		return;
	}
}

static void *member_main(void *arg)
{
	struct member *m = arg;
	struct team *t = m->team;
	unsigned seen = 0;

	if (t->bound)
		bind_thread(&t->old_mask, m->thread);
	pthread_mutex_lock(&t->lock);
	for (;;) {
		while (t->generation == seen && !t->stop)
			pthread_cond_wait(&t->wake, &t->lock);
		if (t->stop)
			break;
		seen = t->generation;
		if (m->thread >= t->in_run)
			continue;
		pthread_mutex_unlock(&t->lock);
		t->fn(t->arg, m->thread);
		pthread_mutex_lock(&t->lock);
		if (!--t->running)
			pthread_cond_signal(&t->done);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

int team_start(struct team **team, unsigned threads, unsigned flags)
{
	size_t size = sizeof(struct team) + (threads - 1) * sizeof(struct member);
	struct team *t = aligned_alloc(_Alignof(struct team),
				       (size + _Alignof(struct team) - 1) & ~(_Alignof(struct team) - 1));

	if (!t)
		return -ENOMEM;
	*t = (struct team){.bound = flags & TEAM_BIND};
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->wake, NULL);
	pthread_cond_init(&t->done, NULL);
	if (t->bound && pthread_getaffinity_np(pthread_self(), sizeof(t->old_mask), &t->old_mask))
		t->bound = false;
	for (unsigned i = 0; i + 1 < threads; i++) {
		t->members[i] = (struct member){.team = t, .thread = i + 1};
		int ret = pthread_create(&t->members[i].id, NULL, member_main, &t->members[i]);
		if (ret) {
			team_stop(t);
			return -ret;
		}
		t->nr_members++;
	}
	if (t->bound)
		bind_thread(&t->old_mask, 0);
	*team = t;
	return 0;
}

void team_stop(struct team *t)
{
	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_cond_broadcast(&t->wake);
	pthread_mutex_unlock(&t->lock);
	for (unsigned i = 0; i < t->nr_members; i++)
		pthread_join(t->members[i].id, NULL);
	if (t->bound)
		pthread_setaffinity_np(pthread_self(), sizeof(t->old_mask), &t->old_mask);
	pthread_cond_destroy(&t->done);
	pthread_cond_destroy(&t->wake);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

void team_run(struct team *t, unsigned threads, void (*fn)(void *arg, unsigned thread), void *arg)
{
	if (threads == 1) { /* nobody to wake: leaves the other CPUs alone */
		t->in_run = 1;
		fn(arg, 0);
		return;
	}
	pthread_mutex_lock(&t->lock);
	t->fn = fn;
	t->arg = arg;
	t->in_run = threads;
	t->running = threads - 1;
	t->generation++;
	pthread_cond_broadcast(&t->wake);
	pthread_mutex_unlock(&t->lock);
	fn(arg, 0);
	pthread_mutex_lock(&t->lock);
	while (t->running)
		pthread_cond_wait(&t->done, &t->lock);
	pthread_mutex_unlock(&t->lock);
	atomic_store(&t->arrived, 0); /* all are out of the run, and thereby out of the barrier */
}

void team_barrier(struct team *t)
{
	if (t->in_run == 1)
		return;
	/* This use of the barrier is over when a whole number of teams has arrived. */
	unsigned mine = atomic_fetch_add(&t->arrived, 1);
	unsigned full = (mine / t->in_run + 1) * t->in_run;

	for (unsigned spins = 0; atomic_load_explicit(&t->arrived, memory_order_acquire) < full; spins++) {
#ifdef __x86_64__
		__builtin_ia32_pause();
#endif
		if (spins >= SPINS)
			sched_yield();
	}
}
