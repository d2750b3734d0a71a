/* SPDX-License-Identifier: MIT */
/* What stress programs share: threads, random numbers with a seed that is printed, and how long to go on. */
#ifndef PCPU_TESTS_TOOLS_H
#define PCPU_TESTS_TOOLS_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <pcpu_stat/cpu.h>

#define MAX_THREADS 512

/* Work is multiplied by PCPU_TEST_SCALE (default 1), or divided by it if negative (emulators, valgrind). */
static inline long scaled(long n)
{
	const char *text = getenv("PCPU_TEST_SCALE");
	long scale = text ? atol(text) : 1;

	if (scale < 0)
		return n / -scale > 0 ? n / -scale : 1;
	return scale > 0 ? n * scale : n;
}

/* Run @fn in @n threads, each with its number, and wait for all. */
struct numbered {
	void (*fn)(unsigned number, void *arg);
	void *arg;
	unsigned number;
	pthread_t thread;
};

static inline void *run_numbered(void *arg)
{
	const struct numbered *me = arg;

	me->fn(me->number, me->arg);
	return NULL;
}

struct crew {
	unsigned n;
	struct numbered members[MAX_THREADS];
};

static inline void crew_start(struct crew *crew, unsigned n, void (*fn)(unsigned, void *), void *arg)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 10);
	crew->n = n;
	for (unsigned i = 0; i < n; i++) {
		struct numbered *m = &crew->members[i];

		*m = (struct numbered){.fn = fn, .arg = arg, .number = i};
		if (pthread_create(&m->thread, &attr, run_numbered, m)) {
			fprintf(stderr, "cannot start thread %u\n", i);
			abort();
		}
	}
	pthread_attr_destroy(&attr);
}

static inline void crew_wait(struct crew *crew)
{
	for (unsigned i = 0; i < crew->n; i++)
		pthread_join(crew->members[i].thread, NULL);
}

static inline void run_threads(unsigned n, void (*fn)(unsigned, void *), void *arg)
{
	static struct crew crew;

	crew_start(&crew, n, fn, arg);
	crew_wait(&crew);
}

/* Do updates run in restartable sections? */
static inline int in_sections(void)
{
	struct pcpu_info info = {.size = sizeof(info)};

	return pcpu_get_info(&info) == 0 && info.rseq == PCPU_RSEQ_USED;
}

/* splitmix64 (Steele, Lea, Flood 2014): any seed is as good as another. */
static inline uint64_t next_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* PCPU_TEST_SEED, or @fallback; printed, so that a failure can be had again. */
static inline uint64_t seed(uint64_t fallback)
{
	const char *text = getenv("PCPU_TEST_SEED");
	uint64_t s = text ? strtoull(text, NULL, 0) : fallback;

	printf("# PCPU_TEST_SEED=%llu\n", (unsigned long long)s);
	return s;
}

#endif /* PCPU_TESTS_TOOLS_H */
