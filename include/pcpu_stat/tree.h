/* SPDX-License-Identifier: MIT */
/**
 * @file tree.h
 * Trees: many statistics over a hierarchy of nodes, exact when a reader asks for it.
 *
 * An add goes to one word on the line of the CPU it runs on, whatever the depth of the node and whoever
 * reads. The first add to a node on a CPU since the last flush also notes that this pair has changed. Readers
 * choose: what the last flush left, at most a known amount off, no older than so long, or everything that
 * happened before the call; the latter flushes, visiting only the pairs that changed. This is what the kernel
 * does for memory cgroups (rstat, per-subtree thresholds); unlike there, an exact read misses nothing.
 */
#ifndef PCPU_STAT_TREE_H
#define PCPU_STAT_TREE_H

#include <pcpu_stat/common.h>

PCPU_BEGIN_DECLS

struct pcpu_region;
struct pcpu_tree;
struct pcpu_node;

/** What a statistic is to an exporter. Both may be added to with either sign. */
enum pcpu_stat_kind {
	PCPU_STAT_COUNTER, /**< only grows as a rule: a rate is worth taking */
	PCPU_STAT_GAUGE,   /**< a level */
};

/** One statistic of a tree. */
struct pcpu_stat_desc {
	const char *name; /**< [a-zA-Z_][a-zA-Z0-9_]*, at most 63 bytes, unique in the tree */
	const char *unit; /**< the same form, or NULL */
	const char *help; /**< a sentence in UTF-8, or NULL */
	enum pcpu_stat_kind kind;
};

/** The most statistics that a tree can have. */
#define PCPU_STATS_MAX 1024

/** How to make a tree. Zero in a field other than size, stats and nr_stats means the default. */
struct pcpu_tree_attr {
	size_t size;	  /**< sizeof(struct pcpu_tree_attr) */
	const char *name; /**< as a statistic's; first part of exported names; NULL: "tree" */
	const struct pcpu_stat_desc *stats; /**< copied */
	uint32_t nr_stats;		    /**< 1 .. PCPU_STATS_MAX */
	uint32_t batch;			    /**< pcpu_node_threshold per CPU; 0: 64 */
	uint32_t max_nodes;		    /**< the root counts; address space alone; 0: 65536 */
	struct pcpu_region *region;	    /**< where the slots live; NULL: a region of the tree's own */
};

/**
 * Make a tree with a root.
 *
 * @param tree  out
 * @param attr  attributes
 * @return 0; -EINVAL (attr NULL or wrong size, a bad or repeated name, help that is not UTF-8, two statistics
 *         that would clash in an export, nr_stats out of range, batch above INT32_MAX, max_nodes above 2^24),
 *         -E2BIG, -ENOMEM, -ENOSPC (no room for the root in the region)
 *
 * Context: any thread; not a signal handler, not inside malloc. Cost: some system calls.
 */
PCPU_API int pcpu_tree_create(struct pcpu_tree **tree, const struct pcpu_tree_attr *attr);

/**
 * Find a tree of a shared region by name.
 *
 * @param tree    out
 * @param region  the region
 * @param name    the tree's
 * @return 0; -EINVAL (an argument is NULL); -ENOENT: no such tree, or the region is private
 *
 * Context: any thread; not a signal handler. Cost: a look-up.
 */
PCPU_API int pcpu_tree_open(struct pcpu_tree **tree, struct pcpu_region *region, const char *name);

/**
 * End a tree: its flusher, all its nodes, its statistics. No call on it or its nodes may be under way or
 * follow.
 *
 * @param tree  the tree, or NULL
 *
 * Context: any thread; not a signal handler, not inside malloc. Cost: O(nodes), and a grace period.
 */
PCPU_API void pcpu_tree_destroy(struct pcpu_tree *tree);

/** Give a handle up. In a private region the same as pcpu_tree_destroy, also in context and cost. */
PCPU_API void pcpu_tree_close(struct pcpu_tree *tree);

/** The name it was created with. Valid as long as the tree. Context: anywhere. Cost: a load. */
PCPU_API const char *pcpu_tree_name(struct pcpu_tree *tree);

/** The number of statistics, at least 1. Context: anywhere. Cost: a load. */
PCPU_API uint32_t pcpu_tree_nr_stats(struct pcpu_tree *tree);

/**
 * What was said of a statistic when the tree was created.
 *
 * @param tree  the tree
 * @param stat  its index
 * @return the library's copy, valid as long as the tree; NULL for an index out of range
 *
 * Context: anywhere. Cost: a load.
 */
PCPU_API const struct pcpu_stat_desc *pcpu_tree_stat(struct pcpu_tree *tree, uint32_t stat);

/** The root: name "", no parent. Borrowed: valid as long as the tree. Context: anywhere. Cost: a load. */
PCPU_API struct pcpu_node *pcpu_tree_root(struct pcpu_tree *tree);

/**
 * Make a node. Its statistics begin at 0, also where a node of that name was destroyed before.
 *
 * @param node    out: a reference, to be given back by pcpu_node_put or pcpu_node_destroy
 * @param parent  where
 * @param name    1 .. 63 bytes of UTF-8 without '/', unique among the siblings
 * @return 0; -EINVAL (name), -EEXIST, -ENOENT (parent was destroyed), -ENOSPC (max_nodes, or the region is
 *         full), -ENOMEM
 *
 * Context: any thread; not a signal handler, not inside malloc. Waits for other creators of the tree only.
 */
PCPU_API int pcpu_node_create(struct pcpu_node **node, struct pcpu_node *parent, const char *name);

/**
 * As pcpu_node_create. In a shared region the node goes with this process; in a private one everything does.
 */
PCPU_API int pcpu_node_create_owned(struct pcpu_node **node, struct pcpu_node *parent, const char *name);

/**
 * Destroy a node and give the caller's reference back. What was counted stays in the ancestors' subtree
 * values. Others that hold a reference may go on using the node: what they add goes to its parent.
 *
 * @param node  the node
 * @return 0; -EINVAL (NULL), -EBUSY with children, -EPERM for the root, -ENOENT if it was destroyed already
 *         (the reference stays the caller's in these cases)
 *
 * Context: any thread; not a signal handler, not inside malloc, not inside a walk. Cost: a flush of the node;
 * a grace period if this was the last reference.
 */
PCPU_API int pcpu_node_destroy(struct pcpu_node *node);

/**
 * Find a node.
 *
 * @param node  out: a reference, to be given back by pcpu_node_put or pcpu_node_destroy
 * @param tree  where
 * @param path  names joined by '/'; "" is the root
 * @return 0; -ENOENT; -EINVAL (leading, trailing or double slash, a name too long)
 *
 * Context: any thread; not a signal handler. Waits for nobody. Cost: a hash look-up per name.
 */
PCPU_API int pcpu_node_find(struct pcpu_node **node, struct pcpu_tree *tree, const char *path);

/**
 * Give back a reference from pcpu_node_create or pcpu_node_find; NULL is allowed.
 *
 * Context: any thread; not a signal handler, not inside malloc. Cost: an atomic operation; a flush of the
 * node and a grace period when it was the last reference to a destroyed node.
 */
PCPU_API void pcpu_node_put(struct pcpu_node *node);

/**
 * The parent, or NULL for the root. Borrowed: valid as long as @p node is.
 *
 * Context: anywhere. Cost: a load.
 */
PCPU_API struct pcpu_node *pcpu_node_parent(struct pcpu_node *node);

/** The name; "" for the root. Valid as long as @p node is. Context: anywhere. Cost: none. */
PCPU_API const char *pcpu_node_name(struct pcpu_node *node);

/**
 * The names from below the root down to a node, joined by '/': what pcpu_node_find takes.
 *
 * @param node    the node
 * @param buffer  out
 * @param size    of it, bytes, with the NUL
 * @return 0; -EINVAL (an argument is NULL); -ERANGE: does not fit, and @p buffer is untouched
 *
 * Context: anywhere. Cost: O(depth).
 */
PCPU_API int pcpu_node_path(struct pcpu_node *node, char *buffer, size_t size);

/** One change of add_many. */
struct pcpu_delta {
	uint32_t stat; /**< index into the tree's statistics */
	int64_t n;     /**< amount, may be negative */
};

#if PCPU_INLINE_UPDATES && defined(__GCC_ASM_FLAG_OUTPUTS__)
#define PCPU_NODE_INLINE 1
#define PCPU_NODE_UPDATE static inline __attribute__((always_inline, unused))
#else
#define PCPU_NODE_INLINE 0
#define PCPU_NODE_UPDATE PCPU_API
#endif

/**
 * Add @p n to a statistic of a node, and thereby to the subtree values of the node and all its ancestors.
 *
 * @param node  a node that is referenced or borrowed
 * @param stat  index into the tree's statistics; out of range: counted in pcpu_info.bad_stats, else ignored
 * @param n     amount in the statistic's unit, may be negative; sums wrap at 64 bits
 *
 * Context: any thread, also one the library never saw; signal handler; inside malloc; after fork. Cost: as
 * pcpu_counter_add, at any depth; once per node, CPU and flush a few atomic operations more, and a load or
 * two per ancestor.
 */
PCPU_NODE_UPDATE void pcpu_node_add(struct pcpu_node *node, uint32_t stat, int64_t n);

/**
 * Add to several statistics of one node, each on its own: a reader may see some before others.
 *
 * @param node    as for pcpu_node_add
 * @param deltas  the changes
 * @param nr      how many
 *
 * Context: as pcpu_node_add. Cost: less than as many calls of it.
 */
PCPU_NODE_UPDATE void pcpu_node_add_many(struct pcpu_node *node, const struct pcpu_delta *deltas,
					 unsigned nr);

/** How fresh a value must be. */
enum pcpu_read {
	PCPU_READ_CACHED,  /**< what the last flush left: a load */
	PCPU_READ_BOUNDED, /**< flush first if more than pcpu_node_threshold may be missing */
	PCPU_READ_EXACT,   /**< every add that happened before the call; a load when nothing changed */
};

/**
 * A statistic of the node and all below it.
 *
 * EXACT: every add that happened before the call, in the sense of C11, whoever made it. BOUNDED looks through
 * what changed and is not flushed yet, and flushes if it is more than the threshold.
 *
 * @param node  the node
 * @param stat  index into the tree's statistics
 * @param how   how fresh
 * @return the value; 0 for a statistic out of range
 *
 * Context: CACHED: anywhere. The others: any thread, also in a walk; not a signal handler, not inside malloc.
 * Cost: CACHED, or nothing changed: two loads. Else a flush: a line per (node, CPU) pair that changed, and
 * one membarrier. Readers that need the same flush share it.
 */
PCPU_API int64_t pcpu_node_read(struct pcpu_node *node, uint32_t stat, enum pcpu_read how);

/**
 * The same of the node alone: what was added to it, without its children, living or destroyed.
 *
 * Context, cost: the same.
 */
PCPU_API int64_t pcpu_node_read_local(struct pcpu_node *node, uint32_t stat, enum pcpu_read how);

/**
 * A statistic of the node and all below, as of a flush that began at most @p max_age_ns ago.
 *
 * @param node        the node
 * @param stat        index into the tree's statistics
 * @param max_age_ns  nanoseconds of CLOCK_MONOTONIC; 0 is PCPU_READ_EXACT
 * @return the value; 0 for a statistic out of range
 *
 * Context: as an EXACT pcpu_node_read. Cost: a look at the clock and at each ancestor; an EXACT read where no
 * flush was that recent.
 */
PCPU_API int64_t pcpu_node_read_within(struct pcpu_node *node, uint32_t stat, uint64_t max_age_ns);

/**
 * The first @p nr statistics at once, all from the same flush.
 *
 * @param node    the node
 * @param values  out
 * @param nr      at most the tree's number of statistics
 * @param how     how fresh
 * @return 0; -EINVAL (nr, or no @p values)
 *
 * Context: any thread, also in a walk; not a signal handler, not inside malloc. Cost: as pcpu_node_read, and
 * one pass over the values.
 */
PCPU_API int pcpu_node_snapshot(struct pcpu_node *node, int64_t *values, uint32_t nr, enum pcpu_read how);
/** The same of the node alone. Context, cost: the same. */
PCPU_API int pcpu_node_snapshot_local(struct pcpu_node *node, int64_t *values, uint32_t nr,
				      enum pcpu_read how);

/**
 * Bring the cached values of the node and all below it up to date.
 *
 * @param node  the node
 * @return 0
 *
 * Context: any thread; not a signal handler, not inside malloc. Cost: as an EXACT read.
 */
PCPU_API int pcpu_node_flush(struct pcpu_node *node);

/** What BOUNDED may leave out, summed over all statistics: batch * slots. Context: anywhere. Cost: none. */
PCPU_API uint64_t pcpu_node_threshold(struct pcpu_node *node);

/**
 * Call @p fn for every node, parents first. A node that exists all the while is visited exactly once.
 *
 * @param tree  the tree
 * @param fn    may read and add, not create, destroy or give back references; a value other than 0 ends the
 *              walk; its node is borrowed
 * @param ctx   handed to fn
 * @return 0, or what fn returned
 *
 * Context: any thread; not a signal handler, not inside malloc. Destroyers wait for a walk to end; nobody
 * else does. Cost: a few loads per node.
 */
PCPU_API int pcpu_tree_walk(struct pcpu_tree *tree,
			    int (*fn)(struct pcpu_node *node, unsigned depth, void *ctx), void *ctx);

/**
 * How many nodes were made so far, destroyed ones too, for pcpu_tree_next.
 *
 * Context: anywhere. Cost: a load.
 */
PCPU_API uint64_t pcpu_tree_made(struct pcpu_tree *tree);

/**
 * The node after @p node in the order of pcpu_tree_walk: for walks that wait for something in between, such
 * as a socket. Nobody waits for the walker, and it may create and destroy. A node that exists all the while
 * is met exactly once, one that is destroyed meanwhile at most once.
 *
 * @param tree  the tree
 * @param node  a reference, which is given back; NULL: to begin with the root
 * @param made  what pcpu_tree_made said before the walk: nodes that are younger are left out, so that no path
 *              is met twice, not even that of a node which is destroyed and made again behind the walker
 * @return a reference; NULL after the last. A walk that ends early gives its reference back by pcpu_node_put
 *
 * Context, cost: as pcpu_node_put, and two atomic operations.
 */
PCPU_API struct pcpu_node *pcpu_tree_next(struct pcpu_tree *tree, struct pcpu_node *node, uint64_t made);

/**
 * Start a thread that flushes the tree every @p period_ms milliseconds when something changed. Optional:
 * readers flush what they need themselves. The kernel flushes the statistics of memory cgroups the same way.
 *
 * @param tree       the tree
 * @param period_ms  milliseconds, at least 1
 * @return 0; -EALREADY; -EINVAL (period 0); the error of pthread_create
 *
 * Context: any thread; not a signal handler, not inside malloc. All signals are blocked in the flusher. It
 * does not run in a forked child. Cost: a thread; a look at the tree per period.
 */
PCPU_API int pcpu_tree_flusher_start(struct pcpu_tree *tree, unsigned period_ms);

/** Stop it and wait for it. @return 0, also when there is none. Context: any thread but the flusher. */
PCPU_API int pcpu_tree_flusher_stop(struct pcpu_tree *tree);

/**
 * The part of an add that inline code does not hold. For pcpu_stat/tree_inline.h alone.
 *
 * @param slot  where the add was made and has to be noted; NULL: it was not made yet
 */
PCPU_API void pcpu_node_add_slow(struct pcpu_node *node, uint32_t stat, int64_t n, void *slot);

PCPU_END_DECLS

#if PCPU_NODE_INLINE
#include <pcpu_stat/arch/x86_64.h>
#include <pcpu_stat/tree_inline.h>
#endif

#endif /* PCPU_STAT_TREE_H */
