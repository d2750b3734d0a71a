/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "rivals.h"

#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>

#if defined(__has_include)
#if __has_include(<sys/rseq.h>) && defined(__x86_64__)
#include <sys/rseq.h>
#define HAVE_RSEQ_AREA 1
#endif
#endif

/* One number and nothing else: two lines, since adjacent lines are fetched in pairs. */
struct line {
	_Alignas(128) int64_t value;
};

#define AMOUNT                                                                                               \
	int64_t v = 1;                                                                                       \
	BENCH_OPAQUE(v)

/* Thread-local. Padded, for words of other threads or other uses must not share the lines. */
static _Thread_local struct line unit;
static _Thread_local _Alignas(128) struct {
	int64_t a, b, c, d;
} units;

BENCH_LOOPS(thread_local_loops, AMOUNT, {
	unit.value += v;
	BENCH_BARRIER();
});

const struct bench_op rival_thread_local = {
	.name = "thread_local",
	.label = "thread_local += v",
	.loops = thread_local_loops,
	.nr_loops = BENCH_PLACEMENTS,
};

BENCH_LOOPS(thread_local_four_loops, AMOUNT, {
	units.a += v;
	BENCH_BARRIER();
	units.b += v;
	BENCH_BARRIER();
	units.c += v;
	BENCH_BARRIER();
	units.d += v;
	BENCH_BARRIER();
});

const struct bench_op rival_thread_local_four = {
	.name = "thread_local_four",
	.label = "four thread_local += v",
	.loops = thread_local_four_loops,
	.nr_loops = BENCH_PLACEMENTS,
	.items = 4,
};

/* Floor. */
#ifdef __x86_64__
#define PLAIN_ADD(p, v, between)                                                                             \
	__asm__ volatile("movq (%0), %%rax\n\t" between "addq %1, %%rax\n\t"                                 \
			 "movq %%rax, (%0)"                                                                  \
			 :                                                                                   \
			 : "r"(p), "r"(v)                                                                    \
			 : "rax", "memory", "cc")
#else
#define PLAIN_ADD(p, v, between) (*(volatile int64_t *)(p) = *(volatile int64_t *)(p) + (v))
#endif

BENCH_LOOPS(floor_loops, AMOUNT; int64_t *p = &unit.value, PLAIN_ADD(p, v, "nop\n\t"));

const struct bench_op rival_floor = {
	.name = "floor",
	.label = "load, add, store (the floor)",
	.loops = floor_loops,
	.nr_loops = BENCH_PLACEMENTS,
};

BENCH_LOOPS(adjacent_loops, AMOUNT; int64_t *p = &unit.value, PLAIN_ADD(p, v, ""));

const struct bench_op rival_adjacent = {
	.name = "load_add_store_adjacent",
	.label = "load, add, store, none between",
	.loops = adjacent_loops,
	.nr_loops = BENCH_PLACEMENTS,
};

/* Atomic adds. */
static struct line lines[RIVAL_MAX_THREADS];

BENCH_LOOPS(lock_own_line_loops, AMOUNT; int64_t *p = &lines[thread % RIVAL_MAX_THREADS].value,
					 __atomic_fetch_add(p, v, __ATOMIC_RELAXED));

const struct bench_op rival_lock_own_line = {
	.name = "lock_own_line",
	.label = "atomic add on a line of its own",
	.loops = lock_own_line_loops,
	.nr_loops = BENCH_PLACEMENTS,
};

/* CPU ids beyond the array share lines: slower there, never wrong. */
#ifdef HAVE_RSEQ_AREA
static inline unsigned rseq_cpu(ptrdiff_t offset)
{
	unsigned cpu;

	/* Field cpu_id, at byte 4 of struct rseq. volatile: it changes between two looks. */
	__asm__ volatile("movl %%fs:4(%1), %0" : "=r"(cpu) : "r"(offset));
	return cpu;
}

bool rival_has_rseq(void)
{
	return __rseq_size != 0 && rseq_cpu(__rseq_offset) < (1u << 30);
}

BENCH_LOOPS(percpu_rseq_loops, AMOUNT;
	    ptrdiff_t offset = __rseq_offset,
	    __atomic_fetch_add(&lines[rseq_cpu(offset) % RIVAL_MAX_THREADS].value, v, __ATOMIC_RELAXED));
#else
bool rival_has_rseq(void)
{
	return false;
}

BENCH_LOOPS(percpu_rseq_loops, , );
#endif

const struct bench_op rival_percpu_rseq = {
	.name = "percpu_lock_rseq",
	.label = "per-CPU atomic add, rseq CPU id",
	.loops = percpu_rseq_loops,
	.nr_loops = BENCH_PLACEMENTS,
};

BENCH_LOOPS(percpu_getcpu_loops, AMOUNT,
	    __atomic_fetch_add(&lines[(unsigned)sched_getcpu() % RIVAL_MAX_THREADS].value, v,
			       __ATOMIC_RELAXED));

const struct bench_op rival_percpu_getcpu = {
	.name = "percpu_lock_getcpu",
	.label = "per-CPU atomic add, sched_getcpu",
	.loops = percpu_getcpu_loops,
	.nr_loops = BENCH_PLACEMENTS,
};

static struct line shared;

BENCH_LOOPS(shared_loops, AMOUNT, __atomic_fetch_add(&shared.value, v, __ATOMIC_RELAXED));

const struct bench_op rival_shared = {
	.name = "shared_atomic",
	.label = "one shared atomic",
	.loops = shared_loops,
	.nr_loops = BENCH_PLACEMENTS,
};

/* Mutex. */
static struct {
	_Alignas(128) pthread_mutex_t lock;
	int64_t value;
} guarded = {.lock = PTHREAD_MUTEX_INITIALIZER};

BENCH_LOOPS(mutex_loops, AMOUNT, {
	pthread_mutex_lock(&guarded.lock);
	guarded.value += v;
	pthread_mutex_unlock(&guarded.lock);
});

const struct bench_op rival_mutex = {
	.name = "mutex",
	.label = "one pthread mutex",
	.loops = mutex_loops,
	.nr_loops = BENCH_PLACEMENTS,
};

/* Per-thread with registration. */
static struct {
	pthread_mutex_t lock;
	int64_t *words[RIVAL_MAX_THREADS];
	unsigned nr;
	int64_t final; /* of threads that left */
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct line own;

static void enlist(int64_t *word)
{
	pthread_mutex_lock(&registry.lock);
	if (registry.nr < RIVAL_MAX_THREADS)
		registry.words[registry.nr++] = word;
	pthread_mutex_unlock(&registry.lock);
}

static void delist(int64_t *word)
{
	pthread_mutex_lock(&registry.lock);
	for (unsigned i = 0; i < registry.nr; i++) {
		if (registry.words[i] != word)
			continue;
		registry.final += *word;
		*word = 0;
		registry.words[i] = registry.words[--registry.nr];
		break;
	}
	pthread_mutex_unlock(&registry.lock);
}

static void per_thread_enter(void *ctx, unsigned thread)
{
	(void)ctx;
	(void)thread;
	enlist(&own.value);
}

static void per_thread_leave(void *ctx, unsigned thread)
{
	(void)ctx;
	(void)thread;
	delist(&own.value);
}

static int64_t per_thread_read(void)
{
	int64_t sum;

	pthread_mutex_lock(&registry.lock);
	sum = registry.final;
	for (unsigned i = 0; i < registry.nr; i++)
		sum += __atomic_load_n(registry.words[i], __ATOMIC_RELAXED);
	pthread_mutex_unlock(&registry.lock);
	return sum;
}

BENCH_LOOPS(per_thread_loops, AMOUNT,
	    __atomic_store_n(&own.value, __atomic_load_n(&own.value, __ATOMIC_RELAXED) + v, __ATOMIC_RELAXED);
	    BENCH_BARRIER());

const struct bench_op rival_per_thread = {
	.name = "per_thread",
	.label = "per-thread word, registered",
	.loops = per_thread_loops,
	.nr_loops = BENCH_PLACEMENTS,
	.enter = per_thread_enter,
	.leave = per_thread_leave,
};

static void per_thread_sum_setup(void *ctx, unsigned threads)
{
	(void)ctx;
	(void)threads;
	for (unsigned i = 0; i < RIVAL_REGISTERED; i++)
		enlist(&lines[i].value);
}

static void per_thread_sum_teardown(void *ctx, unsigned threads)
{
	(void)ctx;
	(void)threads;
	for (unsigned i = 0; i < RIVAL_REGISTERED; i++)
		delist(&lines[i].value);
}

BENCH_LOOP(per_thread_sum_loops, , {
	int64_t sum = per_thread_read();
	BENCH_USE(sum);
});

const struct bench_op rival_per_thread_sum = {
	.name = "per_thread_sum",
	.label = "sum of 64 registered per-thread words",
	.loops = per_thread_sum_loops,
	.nr_loops = 1,
	.setup = per_thread_sum_setup,
	.teardown = per_thread_sum_teardown,
};

/* A called load. */
static __attribute__((noinline)) int64_t called_load(const struct line *line)
{
	BENCH_BARRIER(); /* or the call would be folded away as pure */
	return __atomic_load_n(&line->value, __ATOMIC_RELAXED);
}

BENCH_LOOPS(called_load_loops, , {
	int64_t value = called_load(&shared);
	BENCH_USE(value);
});

const struct bench_op rival_called_load = {
	.name = "called_load",
	.label = "a load, called",
	.loops = called_load_loops,
	.nr_loops = BENCH_PLACEMENTS,
};
