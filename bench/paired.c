/* SPDX-License-Identifier: MIT */
/* Interleaved measurement: see paired.h for the method. */
#include "paired.h"
#include "team.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_ROUNDS = 400, MIN_ROUNDS = 3 };
#define DEFAULT_SECONDS	 5.0
#define DEFAULT_SLICE_US 100.0

/* One slice, as handed to every thread of the team. */
struct slice {
	const struct bench_op *op;
	bench_loop loop;
	uint64_t turns;
	struct team *team;
	double *elapsed; /* per thread, nanoseconds */
};

static void run_slice_thread(void *arg, unsigned thread)
{
	struct slice *s = arg;
	const struct bench_op *op = s->op;

	if (op->enter)
		op->enter(op->ctx, thread);
	s->loop(op->ctx, s->turns / 16 + 1, thread);
	team_barrier(s->team);
	double start = team_now_ns();
	s->loop(op->ctx, s->turns, thread);
	s->elapsed[thread] = team_now_ns() - start;
	if (op->leave)
		op->leave(op->ctx, thread);
}

/* Nanoseconds per turn, the mean over the threads. */
static double run_slice(struct team *team, double *elapsed, const struct paired_variant *v,
			unsigned placement)
{
	struct slice s = {
		.op = v->op,
		.loop = v->op->loops[placement],
		.turns = v->turns,
		.team = team,
		.elapsed = elapsed,
	};
	double sum = 0;

	team_run(team, v->threads, run_slice_thread, &s);
	for (unsigned i = 0; i < v->threads; i++)
		sum += elapsed[i];
	return sum / v->threads / (double)v->turns;
}

/* Double the turns until a slice is long enough to be timed, then scale. */
static void calibrate(struct team *team, double *elapsed, struct paired_variant *v, double slice_ns)
{
	double per_turn;

	for (v->turns = 16;; v->turns *= 2) {
		per_turn = run_slice(team, elapsed, v, 0);
		if (per_turn * (double)v->turns > slice_ns / 4)
			break;
	}
	v->turns = (uint64_t)(slice_ns / per_turn) + 1;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, unsigned nr)
{
	qsort(values, nr, sizeof(*values), compare_doubles);
	return nr % 2 ? values[nr / 2] : (values[nr / 2 - 1] + values[nr / 2]) / 2;
}

/* What the slices of one variant come to. samples[round * nr_loops + placement]. */
static void reduce(struct paired_variant *v, const double *samples, unsigned rounds, double *scratch)
{
	double placements[BENCH_PLACEMENTS];

	v->min = samples[0];
	for (unsigned i = 0; i < rounds * v->nr_loops; i++)
		v->min = samples[i] < v->min ? samples[i] : v->min;
	for (unsigned p = 0; p < v->nr_loops; p++) {
		for (unsigned r = 0; r < rounds; r++)
			scratch[r] = samples[r * v->nr_loops + p];
		placements[p] = median(scratch, rounds);
	}
	v->median = median(placements, v->nr_loops);
	v->best = placements[0]; /* sorted by now */
	for (unsigned r = 0; r < rounds; r++) {
		memcpy(scratch, samples + r * v->nr_loops, v->nr_loops * sizeof(*scratch));
		v->rounds[r] = median(scratch, v->nr_loops);
	}
}

/* A (variant, placement) pair of a round. */
struct stop {
	unsigned variant, placement;
};

static void shuffle(struct stop *stops, unsigned nr, uint64_t *state)
{
	for (unsigned i = nr - 1; i > 0; i--) {
		*state ^= *state << 13; /* xorshift64: any full-period generator would do */
		*state ^= *state >> 7;
		*state ^= *state << 17;
		unsigned j = (unsigned)(*state % (i + 1));
		struct stop other = stops[j];
		stops[j] = stops[i];
		stops[i] = other;
	}
}

/* Is this the first variant of its operation? Those of one operation share its setup. */
static bool is_first(const struct paired_variant *variants, unsigned i)
{
	for (unsigned other = 0; other < i; other++)
		if (variants[other].op == variants[i].op)
			return false;
	return true;
}

static void set_up(const struct paired_variant *variants, unsigned nr, unsigned max_threads)
{
	for (unsigned i = 0; i < nr; i++)
		if (variants[i].op->setup && is_first(variants, i))
			variants[i].op->setup(variants[i].op->ctx, max_threads);
}

static void tear_down(const struct paired_variant *variants, unsigned nr, unsigned max_threads)
{
	for (unsigned i = 0; i < nr; i++)
		if (variants[i].op->teardown && is_first(variants, i))
			variants[i].op->teardown(variants[i].op->ctx, max_threads);
}

int paired_measure(struct paired_run *run, struct paired_variant *variants, unsigned nr_variants,
		   const struct paired_options *options)
{
	unsigned max_rounds = options && options->rounds ? options->rounds : DEFAULT_ROUNDS;
	double max_seconds = options && options->seconds > 0 ? options->seconds : DEFAULT_SECONDS;
	double slice_us = options && options->slice_us > 0 ? options->slice_us : DEFAULT_SLICE_US;
	unsigned nr_stops = 0, max_threads = 1, rounds;
	uint64_t random = 0x9e3779b97f4a7c15u;
	int ret = -ENOMEM;

	for (unsigned i = 0; i < nr_variants; i++) {
		struct paired_variant *v = &variants[i];

		if (!v->threads)
			v->threads = 1;
		if (!v->nr_loops || v->nr_loops > v->op->nr_loops)
			v->nr_loops = v->op->nr_loops;
		if (!v->label)
			v->label = v->op->label ? v->op->label : v->op->name;
		v->rounds = NULL;
		nr_stops += v->nr_loops;
		max_threads = v->threads > max_threads ? v->threads : max_threads;
	}

	struct team *team = NULL;
	double **samples = calloc(nr_variants, sizeof(*samples));
	double *scratch = calloc(max_rounds + BENCH_PLACEMENTS, sizeof(*scratch));
	double *elapsed = calloc(max_threads, sizeof(*elapsed));
	struct stop *stops = calloc(nr_stops, sizeof(*stops));
	if (!samples || !scratch || !elapsed || !stops)
		goto out;
	for (unsigned i = 0, s = 0; i < nr_variants; i++) {
		samples[i] = calloc((size_t)max_rounds * variants[i].nr_loops, sizeof(**samples));
		variants[i].rounds = calloc(max_rounds, sizeof(*variants[i].rounds));
		if (!samples[i] || !variants[i].rounds)
			goto out;
		for (unsigned p = 0; p < variants[i].nr_loops; p++)
			stops[s++] = (struct stop){i, p};
	}
	/*
	 * Never alone: the C library spares a process with one thread the atomic instructions of its locks,
	 * which no program that counts from several threads would see.
	 */
	ret = team_start(&team, max_threads > 1 ? max_threads : 2, TEAM_BIND);
	if (ret)
		goto out;

	set_up(variants, nr_variants, max_threads);
	for (unsigned i = 0; i < nr_variants; i++)
		calibrate(team, elapsed, &variants[i], slice_us * 1e3);
	double start = team_now_ns();
	for (rounds = 0; rounds < max_rounds; rounds++) {
		if (rounds >= MIN_ROUNDS && team_now_ns() - start > max_seconds * 1e9)
			break;
		shuffle(stops, nr_stops, &random);
		for (unsigned s = 0; s < nr_stops; s++) {
			const struct paired_variant *v = &variants[stops[s].variant];

			samples[stops[s].variant][rounds * v->nr_loops + stops[s].placement] =
				run_slice(team, elapsed, v, stops[s].placement);
		}
	}
	*run = (struct paired_run){
		.variants = variants,
		.nr_variants = nr_variants,
		.rounds = rounds,
		.seconds = (team_now_ns() - start) / 1e9,
		.slice_us = slice_us,
	};
	tear_down(variants, nr_variants, max_threads);
	team_stop(team);
	for (unsigned i = 0; i < nr_variants; i++)
		reduce(&variants[i], samples[i], rounds, scratch);
	ret = 0;
out:
	for (unsigned i = 0; i < nr_variants; i++) {
		if (samples)
			free(samples[i]);
		if (ret) {
			free(variants[i].rounds);
			variants[i].rounds = NULL;
		}
	}
	free(stops);
	free(elapsed);
	free(scratch);
	free(samples);
	return ret;
}

void paired_free(struct paired_run *run)
{
	for (unsigned i = 0; i < run->nr_variants; i++) {
		free(run->variants[i].rounds);
		run->variants[i].rounds = NULL;
	}
}

struct paired_ratio paired_compare(const struct paired_run *run, unsigned a, unsigned b)
{
	const struct paired_variant *va = &run->variants[a], *vb = &run->variants[b];
	struct paired_ratio ratio = {va->min / vb->min, va->best / vb->best, va->median / vb->median};
	double *ratios = calloc(run->rounds, sizeof(*ratios));

	if (ratios) { /* without memory: the ratio of the medians, which is close */
		for (unsigned r = 0; r < run->rounds; r++)
			ratios[r] = va->rounds[r] / vb->rounds[r];
		ratio.paired = median(ratios, run->rounds);
		free(ratios);
	}
	return ratio;
}

double paired_share_below(const struct paired_run *run, unsigned v, double limit)
{
	unsigned below = 0;

	for (unsigned r = 0; r < run->rounds; r++)
		below += run->variants[v].rounds[r] < limit;
	return (double)below / run->rounds;
}

void paired_print(FILE *out, const struct paired_run *run, unsigned unit, unsigned floor)
{
	fprintf(out, "%-46s %27s  %23s  %8s\n", "", "nanoseconds", "against the unit", "floors");
	fprintf(out, "%-46s %8s %9s %8s  %7s %7s %7s  %8s\n", "", "min", "best", "median", "min", "best",
		"paired", "median");
	for (unsigned i = 0; i < run->nr_variants; i++) {
		const struct paired_variant *v = &run->variants[i];
		struct paired_ratio ratio = paired_compare(run, i, unit);

		fprintf(out, "%-46s %8.2f %9.2f %8.2f  %7.2f %7.2f %7.2f  %8.2f\n", v->label, v->min, v->best,
			v->median, ratio.min, ratio.best, ratio.paired,
			v->median / run->variants[floor].median);
	}
	fprintf(out, "%u rounds of %.0f us slices in %.1f s; the unit is \"%s\", the floor \"%s\".\n",
		run->rounds, run->slice_us, run->seconds, run->variants[unit].label,
		run->variants[floor].label);
}

void paired_print_json(FILE *out, const struct paired_run *run, unsigned unit, unsigned floor)
{
	fprintf(out,
		"{\"schema\":1,\"rounds\":%u,\"slice_us\":%g,\"seconds\":%.3f,\"unit\":\"%s\",\"floor\":\"%"
		"s\",",
		run->rounds, run->slice_us, run->seconds, run->variants[unit].op->name,
		run->variants[floor].op->name);
	fprintf(out, "\"variants\":[");
	for (unsigned i = 0; i < run->nr_variants; i++) {
		const struct paired_variant *v = &run->variants[i];
		struct paired_ratio to_unit = paired_compare(run, i, unit);
		struct paired_ratio to_floor = paired_compare(run, i, floor);

		fprintf(out,
			"%s\n{\"name\":\"%s\",\"threads\":%u,\"placements\":%u,\"items\":%u,"
			"\"ns\":{\"min\":%.4f,\"best\":%.4f,\"median\":%.4f},"
			"\"to_unit\":{\"min\":%.4f,\"best\":%.4f,\"paired\":%.4f},"
			"\"to_floor\":{\"min\":%.4f,\"best\":%.4f,\"paired\":%.4f}}",
			i ? "," : "", v->op->name, v->threads, v->nr_loops, v->op->items ? v->op->items : 1,
			v->min, v->best, v->median, to_unit.min, to_unit.best, to_unit.paired, to_floor.min,
			to_floor.best, to_floor.paired);
	}
	fprintf(out, "\n]}\n");
}

const char *paired_bar(char *buf, unsigned width, double value, double max)
{
	/* Eighths of a block, U+2588 (full) to U+258F (one eighth). */
	unsigned eighths = max > 0 ? (unsigned)(value / max * width * 8 + 0.5) : 0;
	char *p = buf;

	if (eighths > width * 8)
		eighths = width * 8;
	for (; eighths; eighths -= eighths >= 8 ? 8 : eighths) {
		*p++ = '\xe2';
		*p++ = '\x96';
		*p++ = (char)(0x90 - (eighths >= 8 ? 8 : eighths));
	}
	*p = '\0';
	return buf;
}
