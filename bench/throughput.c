/* SPDX-License-Identifier: MIT */
#include "throughput.h"
#include "team.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Turns between two looks at the clock: long against the look, short against the window. */
#define STRETCH_NS 5e3

struct window {
	const struct bench_op *op;
	struct team *team;
	double length_ns;
	atomic_ullong turns;
	_Atomic double start, end; /* 0: not yet */
};

/* The first to come keeps the time for all. */
static void set_once(_Atomic double *when, double now)
{
	double none = 0;

	atomic_compare_exchange_strong(when, &none, now);
}

static void run_window_thread(void *arg, unsigned thread)
{
	struct window *w = arg;
	const struct bench_op *op = w->op;
	bench_loop loop = op->loops[0];
	uint64_t turns = 0, stretch = 1;
	double before, now;

	if (op->enter)
		op->enter(op->ctx, thread);
	team_barrier(w->team);
	before = team_now_ns();
	set_once(&w->start, before);
	do {
		loop(op->ctx, stretch, thread);
		turns += stretch;
		now = team_now_ns();
		if (now - before < STRETCH_NS / 2)
			stretch *= 2;
		before = now;
		if (now - atomic_load(&w->start) > w->length_ns)
			set_once(&w->end, now);
	} while (atomic_load_explicit(&w->end, memory_order_relaxed) == 0);
	atomic_fetch_add(&w->turns, turns);
	if (op->leave)
		op->leave(op->ctx, thread);
}

static double run_window(struct team *team, const struct bench_op *op, unsigned threads, double length_ns)
{
	struct window w = {.op = op, .team = team, .length_ns = length_ns};

	if (op->setup)
		op->setup(op->ctx, threads);
	team_run(team, threads, run_window_thread, &w);
	if (op->teardown)
		op->teardown(op->ctx, threads);
	return (double)w.turns * (op->items ? op->items : 1) / (w.end - w.start) * 1e9;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int throughput_measure(struct throughput_series *series, unsigned nr_series, const unsigned *counts,
		       unsigned nr_counts, const struct throughput_options *options)
{
	unsigned repetitions = options && options->repetitions ? options->repetitions : 3, most = 1;
	double length_ns = (options && options->window_ms > 0 ? options->window_ms : 40) * 1e6;
	struct team *team;
	double *samples = calloc((size_t)nr_series * nr_counts * repetitions, sizeof(*samples));
	int ret;

	if (!samples)
		return -ENOMEM;
	for (unsigned i = 0; i < nr_counts; i++)
		most = counts[i] > most ? counts[i] : most;
	ret = team_start(&team, most, 0);
	if (ret)
		goto out;
	for (unsigned r = 0; r < repetitions; r++)
		for (unsigned t = 0; t < nr_counts; t++)
			for (unsigned i = 0; i < nr_series; i++)
				samples[(i * nr_counts + t) * repetitions + r] =
					run_window(team, series[i].op, counts[t], length_ns);
	team_stop(team);
	for (unsigned i = 0; i < nr_series; i++) {
		for (unsigned t = 0; t < nr_counts; t++) {
			double *point = &samples[(i * nr_counts + t) * repetitions];

			qsort(point, repetitions, sizeof(*point), compare_doubles);
			series[i].rates[t] = point[repetitions / 2];
		}
	}
out:
	free(samples);
	return ret;
}

unsigned throughput_counts(unsigned counts[16], unsigned max)
{
	unsigned nr = 0;

	for (unsigned n = 1; n < max && nr < 15; n *= 2)
		counts[nr++] = n;
	counts[nr++] = max;
	return nr;
}
