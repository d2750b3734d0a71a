/* SPDX-License-Identifier: MIT */
/**
 * @file tree_flush.h
 * What flushes cost, how many there are, and what updaters notice of them. Its .c file is the only one of the
 * benchmarks that looks into a tree: at its counts of flushes and of pairs visited, and the longest hold of
 * its lock.
 */
#ifndef PCPU_STAT_BENCH_TREE_FLUSH_H
#define PCPU_STAT_BENCH_TREE_FLUSH_H

#include "op.h"

/** What the library has counted of a tree. */
struct flush_counts {
	uint64_t flushes;      /**< begun */
	uint64_t visits;       /**< (node, CPU) pairs read */
	uint64_t longest_hold; /**< of the lock, ns */
};

/**
 * A tree of two levels below the root, with as many leaves as asked for, and what is to change in it before
 * each flush. The changed leaves lie spread over the groups of the first level.
 */
struct flush_case {
	/* Given. */
	unsigned nr_nodes; /**< about so many, in groups of equal size */
	unsigned nr_dirty; /**< leaves to change before each flush */
	unsigned cpus;	   /**< on how many CPUs each is changed; 0: one */
	unsigned readers;  /**< threads that demand EXACT at once; 0: one */
	int moving;	   /**< other leaves each time, as far as there are any */

	/* Its own. */
	struct pcpu_tree *tree;
	struct pcpu_node **leaves;
	unsigned nr_leaves, nr_groups;
	unsigned next;
	uint64_t rounds;
};

/** Ends the program if there is no memory. */
void flush_case_make(struct flush_case *fc);
void flush_case_end(struct flush_case *fc);
struct flush_counts flush_case_counts(const struct flush_case *fc);

struct team;

/**
 * One round: change the leaves, then have all readers read the root EXACT.
 *
 * @return nanoseconds from the moment that all readers are there until the last one has its value
 */
double flush_case_round(struct flush_case *fc, struct team *team);

/**
 * +1 and -1 in turn on one node, a BOUNDED read of the root after every @p read_every of them.
 *
 * @return flushes begun
 */
uint64_t flushes_of_to_and_fro(uint64_t turns, uint64_t read_every);

/**
 * Does a clean EXACT read store anything? In a child in which nothing but the stack can be written. Returns
 * 1 for no, 0 for yes, -1 for cannot tell.
 */
int exact_read_stores_nothing(void);

/** Resident bytes per (node, CPU) pair beyond 16 per statistic, measured; below 0: cannot tell. */
double tree_memory_per_pair(void);

/* For tree_add_flushed: context struct tree_case, and a thread that flushes between enter and leave. */
void tree_flushed_setup(void *ctx, unsigned threads);
void tree_flushed_teardown(void *ctx, unsigned threads);
void tree_flushed_enter(void *ctx, unsigned thread);
void tree_flushed_leave(void *ctx, unsigned thread);

/** Adds alone and amid flushes, ns each. */
struct amid_flushes {
	double alone_min, alone_median;
	double amid_min, amid_median;
	double every_ns;    /**< a flush began that often, in the median */
	unsigned kept, all; /**< stretches amid flushes: counted, and measured */
};

/**
 * Measure adds in stretches of some 50 microseconds, in turn alone and amid flushes. Where the flusher did not
 * get a CPU for all of a stretch, it does not count: only those do that saw at least half as many flushes as
 * the best tenth.
 */
void measure_amid_flushes(struct amid_flushes *result, double seconds);

/** Ten changed leaves of 100 and of 20 000 nodes, and the flush; for tables. */
extern const struct bench_op flush_10_of_100;
extern const struct bench_op flush_10_of_20000;

#endif /* PCPU_STAT_BENCH_TREE_FLUSH_H */
