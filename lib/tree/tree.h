/* SPDX-License-Identifier: MIT */
/*
 * What the files of the tree floor share.
 *
 *	tree.c	   making and ending a tree: schema, memory, fork
 *	node.c	   names, references, destroying, walking
 *	mark.c	   the slow part of an add, and how a change becomes known
 *	flush.c	   how changes reach the totals, and reading
 *	flusher.c  the background thread
 *
 * Locks, in the order they are taken: tree list, names (one a tree), flush (one a tree). No updater takes
 * any. A grace period is waited for with none held.
 */
#ifndef PCPU_LIB_TREE_TREE_H
#define PCPU_LIB_TREE_TREE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pcpu_stat/tree.h>
#include <pcpu_stat/tree_layout.h>

#include "region/region.h"

#define PCPU_NAME_MAX 63u /* bytes of a name, the NUL not counted */

/* Between two steps that others may come between. Tests let it take time. */
#ifndef PCPU_TREE_PAUSE
#define PCPU_TREE_PAUSE() ((void)0)
#endif

/* pcpu_node.dirty: has something below (or in) this node changed since it was flushed? */
enum { CLEAN, DIRTY, FLUSHING };

/*
 * pcpu_node.queued: is the node on its parent's list of changed children? While a thread is putting it there,
 * the word holds that thread's pointer, with LINKING or-ed in: see mark.c.
 */
enum { IDLE, LINKING, QUEUED };

/*
 * A node. Three kinds of line: what updaters read; what those write who find a change unnoticed; what
 * flushers and name changes write. Arrays of nr_stats words, and bitmaps of one bit per slot and one more for
 * direct adds, follow in the same allocation.
 */
struct pcpu_node {
	/* Read by every add; written when the node is made, flushed (epoch) or destroyed. */
	struct pcpu_node_fast fast;
	struct pcpu_tree *tree;
	struct pcpu_node *parent; /* never changes; a child holds a reference */
	uint64_t *changed;	  /* slots with changes that no flusher has taken yet */
	int64_t *total;		  /* what readers see: this node and all below, as last flushed */
	int64_t *local;		  /* the same, this node alone */
	int64_t *direct;	  /* adds by threads that may not write slots: the slot after the last */
	char *shadows;		  /* shadow of the slot of CPU 0: what flushes have seen of its values */
	uint32_t dead;		  /* destroyed; a reference or a child still exists */
	uint32_t unused;
	uint64_t pad0[3];

	/* Written once per slot and flush, by whoever makes the first add. */
	uint32_t dirty __attribute__((aligned(PCPU_LINE_PAIR)));
	uint32_t scan;	 /* a child may be missing from changed_children: look at all of them */
	uint64_t queued; /* on the parent's list? */
	struct pcpu_node *next_changed; /* on that list */
	struct pcpu_node *changed_children;

	/* Under the flush lock. */
	uint64_t visited
		__attribute__((aligned(PCPU_LINE_PAIR))); /* number of the flush that came here last */
	uint64_t unfinished;				  /* number of the flush that has to come again */
	uint64_t version;				  /* of the values; odd while they change */
	uint64_t covered;    /* number of the last flush that was asked for here and is complete */
	uint64_t covered_at; /* when that one began, ns */
	struct pcpu_node *next_work, *next_done;
	struct pcpu_node *aside; /* children popped in vain; by next_work */
	uint64_t *taken;	 /* slots to be read by the flush under way */
	uint64_t *hot;		 /* slots that change during every flush: not taken off the list (flush.c) */
	uint32_t amid;		 /* flushes in a row during which something changed here */
	uint32_t kept;		 /* hot slots changed: the node stays on the lists */
	int64_t *pending;	 /* for total: from slots and children */
	int64_t *up;		 /* in total, and the parent does not know yet */
	int64_t *direct_seen;	 /* shadow of direct */

	/* Under the names lock; read under RCU. */
	uint32_t references;
	uint32_t hash;
	uint32_t nr_children; /* living ones */
	uint32_t depth;
	struct pcpu_node *first_child, *last_child; /* destroyed ones that are still referenced included */
	struct pcpu_node *previous, *next;	    /* siblings */
	struct pcpu_node *next_hash;
	uint64_t born; /* the tree's `made` with this one; the root's is 0 */
	char name[PCPU_NAME_MAX + 1];
};

struct pcpu_tree {
	/* Read when a change is made known; never written after the start, but for `fenced`. */
	uint32_t nr_stats;
	uint32_t batch;
	uint32_t max_nodes;
	uint32_t bitmap_words;
	bool atomic; /* slots are changed by atomic operations: no fence on others is needed */
	bool fenced; /* a fence on others works, so that what was flushed can be forgotten */
	size_t slot_bytes, slab_bytes, node_bytes;
	struct pcpu_region *region;
	struct pcpu_node *root;
	char *name;
	struct pcpu_stat_desc *stats; /* one allocation with its strings */

	/* Names. */
	pthread_mutex_t names_lock __attribute__((aligned(PCPU_LINE_PAIR)));
	struct pcpu_node **hash; /* hash_size chains; a reservation of address space */
	size_t hash_size;
	uint32_t nr_nodes;	 /* given out */
	uint64_t made;		 /* nodes ever created; read without the lock */
	struct pcpu_node *spare; /* nodes with slots, to be given out again; by next_work */
	char *run;	    /* slabs one behind the other, of which the last has slots left: their start */
	char *slab;	    /* slots not given out yet */
	size_t slab_left;   /* bytes */
	struct slab *slabs; /* for the end */

	/* Flushing. */
	pthread_mutex_t flush_lock __attribute__((aligned(PCPU_LINE_PAIR)));
	uint64_t epoch;	       /* the last one given to a node */
	uint64_t hold_began;   /* when the lock was last taken for a flush, ns */
	uint64_t hot_read;     /* the same of the last hold in which hot slots were read */
	uint64_t begun;	       /* number of the last flush that began; read without the lock */
	bool forked;	       /* in a child of the process that made it */
	uint64_t longest_hold; /* of the flush lock, ns; for the bench */
	uint64_t visits;       /* pairs read by flushes; for tests and the bench */

	/* The flusher thread, under a lock of its own. */
	pthread_mutex_t flusher_lock;
	pthread_cond_t flusher_wake;
	pthread_t flusher;
	unsigned flusher_period_ms;
	bool flusher_runs; /* `flusher` is a thread, and shall go on */

	struct pcpu_tree *next_tree, *previous_tree;
};

/* A piece of the region that slots are cut from. */
struct slab {
	struct slab *next;
	int64_t offset;
};

static inline struct pcpu_node_slot *slot_of(const struct pcpu_node *node, unsigned cpu)
{
	return (struct pcpu_node_slot *)(void *)(node->fast.slots + cpu * node->fast.stride);
}

static inline int64_t *shadow_of(const struct pcpu_node *node, unsigned cpu)
{
	return (int64_t *)(void *)(node->shadows + cpu * node->fast.stride);
}

/* The number of the direct slot, behind the real ones. */
static inline unsigned direct_slot(const struct pcpu_tree *tree)
{
	return tree->region->cpu.chunks;
}

/* mark.c: make known up to the root that something at @node changed. */
void pcpu_node_raise(struct pcpu_node *node);
/* mark.c: put @node on its parent's list. */
void pcpu_node_queue(struct pcpu_node *node);

/* flush.c: bring @node and all below up to date with what happened before the call. */
void pcpu_flush(struct pcpu_node *node);
/* flush.c: hand what a node without references counted, and flushed, to its parent; take it off the list. Under
 * the flush lock. */
void pcpu_flush_last(struct pcpu_node *node);
/* flush.c: is there anything to flush? */
static inline bool pcpu_node_is_clean(const struct pcpu_node *node)
{
	/* Acquire pairs with the release that ends a flush: whoever sees CLEAN sees its totals. */
	return __atomic_load_n(&node->dirty, __ATOMIC_ACQUIRE) == CLEAN;
}

/* tree.c: memory and slots for a node, all zero but what never changes; -ENOSPC, -ENOMEM. Under the names
 * lock. */
int pcpu_node_alloc(struct pcpu_node **node, struct pcpu_tree *tree);
/* tree.c: for the next one. Under the names lock. */
void pcpu_node_recycle(struct pcpu_node *node);

/* flusher.c: there is none yet; and in a forked child: there is none any more. */
void pcpu_flusher_init(struct pcpu_tree *tree);
void pcpu_flusher_forked(struct pcpu_tree *tree);

/* node.c: the root, which has no name to check. */
int pcpu_node_create_root(struct pcpu_tree *tree);

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t pcpu_now(void);

#endif /* PCPU_LIB_TREE_TREE_H */
