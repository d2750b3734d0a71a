/* SPDX-License-Identifier: MIT */
/**
 * @file team.h
 * A team of threads that run the same function at the same time, again and again.
 *
 * The caller is thread 0. The others sleep between runs, so that they disturb nothing, and meet at a spinning
 * barrier inside a run, so that they start within a cache line transfer of each other.
 */
#ifndef PCPU_STAT_BENCH_TEAM_H
#define PCPU_STAT_BENCH_TEAM_H

struct team;

/** Bind thread i to the i-th CPU of the caller's affinity mask, counted from the last, and round again. */
#define TEAM_BIND 1u

/** The number of CPUs in the caller's affinity mask. */
unsigned team_cpus(void);

/** Monotonic time in nanoseconds. */
double team_now_ns(void);

/**
 * Start a team.
 *
 * @param team     out
 * @param threads  the most threads that a run will use, the caller included
 * @param flags    0 or TEAM_BIND
 * @return 0 or a negative errno value
 */
int team_start(struct team **team, unsigned threads, unsigned flags);

/** End the team and undo the caller's binding. */
void team_stop(struct team *team);

/** Have @p threads threads call fn(arg, thread); returns when all have. */
void team_run(struct team *team, unsigned threads, void (*fn)(void *arg, unsigned thread), void *arg);

/** From inside a run: wait until all of its threads are here. */
void team_barrier(struct team *team);

#endif /* PCPU_STAT_BENCH_TEAM_H */
