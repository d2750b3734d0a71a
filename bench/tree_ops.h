/* SPDX-License-Identifier: MIT */
/**
 * @file tree_ops.h
 * The tree's calls as operations to measure. As with the counter, a file either has the update path inline or
 * calls it: tree_inline.c and tree_calls.c.
 */
#ifndef PCPU_STAT_BENCH_TREE_OPS_H
#define PCPU_STAT_BENCH_TREE_OPS_H

#include "op.h"

#include <pcpu_stat/pcpu_stat.h>

enum { TREE_STATS = 8, TREE_DEPTHS = 8 };

struct tree_flusher;

/** Context of all of them: a tree of its own, and a node at its end to add to. */
struct tree_case {
	unsigned depth; /**< of the node; 0: TREE_DEPTH */
	struct pcpu_tree *tree;
	struct pcpu_node *node;
	struct tree_flusher *flusher; /**< set where somebody flushes meanwhile */
};

enum { TREE_DEPTH = 3 };

/** Make a tree of TREE_STATS statistics; ends the program if that fails. @p max_nodes as in the attributes.
 */
struct pcpu_tree *tree_make(uint32_t max_nodes);

void tree_case_setup(void *ctx, unsigned threads);
void tree_case_teardown(void *ctx, unsigned threads);

/* Adds of an amount that the compiler does not know, to a node that is TREE_DEPTH deep. */
extern const struct bench_op tree_add_inline;	/**< compiled into the loop; a constant statistic */
extern const struct bench_op tree_add_function; /**< exported function of the shared library */
extern const struct bench_op tree_add_variable; /**< inline, a statistic that the compiler does not know */
extern const struct bench_op tree_add_second;	/**< inline, to the second statistic */
extern const struct bench_op tree_add_eighth;	/**< inline, to the eighth */

/** Inline, to nodes at depth i + 1. */
extern const struct bench_op *const tree_add_depth[TREE_DEPTHS];

/** i + 1 statistics of a node in a row: by one add each, by add_many, and by add_many called. */
extern const struct bench_op *const tree_add_singly[TREE_STATS];
extern const struct bench_op *const tree_add_many[TREE_STATS];
extern const struct bench_op tree_add_many_function; /**< four */

/** Inline, while another thread flushes the tree without pause. */
extern const struct bench_op tree_add_flushed;

/** What programs do without a tree: an atomic add to the node and to each of its ancestors, depth i + 1. */
extern const struct bench_op *const tree_rival_path[TREE_DEPTHS];

/* Reads of a node in which nothing changed. */
extern const struct bench_op tree_read_cached;
extern const struct bench_op tree_read_bounded;
extern const struct bench_op tree_read_exact;
extern const struct bench_op tree_read_within;
extern const struct bench_op tree_snapshot; /**< EXACT, all statistics */

/* One add, then a read: the costs of both, and of what the add has to do once per flush. */
extern const struct bench_op tree_dirty_cached;
extern const struct bench_op tree_dirty_bounded; /**< 1: below the threshold */
extern const struct bench_op tree_dirty_beyond;	 /**< more than the threshold: flushes */
extern const struct bench_op tree_dirty_exact;	 /**< flushes */

/** A node made and destroyed. */
extern const struct bench_op tree_node_create_destroy;

#endif /* PCPU_STAT_BENCH_TREE_OPS_H */
