/* SPDX-License-Identifier: MIT */
/* Making and ending a tree: schema, memory, fork. */
#define _GNU_SOURCE
#include "tree/tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cpu/cpu.h"
#include "cpu/fence.h"
#include "cpu/rcu.h"
#include "tree/schema.h"

#define DEFAULT_BATCH	  64u
#define DEFAULT_MAX_NODES 65536u
#define MAX_NODES	  (1u << 24) /* 16 million: more would not fit the hash's reservation */
/* Slots of one slab; enough for what is left over at its end not to matter. */
#define SLOTS_PER_SLAB 32u

_Static_assert(sizeof(struct pcpu_node_fast) == 32 && offsetof(struct pcpu_node_fast, fast_slots) == 16 &&
		       offsetof(struct pcpu_node_fast, epoch) == 24 &&
		       offsetof(struct pcpu_node_slot, values) == 8,
	       "part of the ABI");
/* S0: what updaters read, what they write now and then, and what flushers write, lie two lines apart. */
_Static_assert(offsetof(struct pcpu_node, fast) == 0 &&
		       offsetof(struct pcpu_node, dirty) % PCPU_LINE_PAIR == 0 &&
		       offsetof(struct pcpu_node, dirty) >= PCPU_LINE_PAIR &&
		       offsetof(struct pcpu_node, visited) % PCPU_LINE_PAIR == 0 &&
		       offsetof(struct pcpu_node, visited) > offsetof(struct pcpu_node, dirty),
	       "the kinds of line do not mix");
_Static_assert(offsetof(struct pcpu_tree, fenced) < PCPU_LINE_PAIR &&
		       offsetof(struct pcpu_tree, names_lock) >= PCPU_LINE_PAIR &&
		       offsetof(struct pcpu_tree, flush_lock) % PCPU_LINE_PAIR == 0,
	       "what marking reads lies apart from what flushes write");

/* ---- fork: nobody may be in the middle of anything when the child gets its copy ---- */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pcpu_tree *trees;

static void fork_prepare(void)
{
	/* First, while we hold nothing that a walker could be waiting for: it may wait for a grace period. */
	pcpu_rcu_fork_prepare();
	pthread_mutex_lock(&list_lock);
	for (struct pcpu_tree *tree = trees; tree; tree = tree->next_tree) {
		pthread_mutex_lock(&tree->names_lock);
		pthread_mutex_lock(&tree->flush_lock);
		pthread_mutex_lock(&tree->flusher_lock);
	}
}

static void unlock_all(void)
{
	for (struct pcpu_tree *tree = trees; tree; tree = tree->next_tree) {
		pthread_mutex_unlock(&tree->flusher_lock);
		pthread_mutex_unlock(&tree->flush_lock);
		pthread_mutex_unlock(&tree->names_lock);
	}
	pthread_mutex_unlock(&list_lock);
}

static void fork_parent(void)
{
	unlock_all();
	pcpu_rcu_fork_parent();
}

static void fork_child(void)
{
	for (struct pcpu_tree *tree = trees; tree; tree = tree->next_tree) {
		tree->forked = true;
		pcpu_flusher_forked(tree);
	}
	unlock_all();
	pcpu_rcu_fork_child();
}

static void register_fork(void)
{
	/* Without memory for it, forking in the middle of a flush is unsafe; nothing else is. */
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

static void add_to_list(struct pcpu_tree *tree)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_fork);
	pthread_mutex_lock(&list_lock);
	tree->next_tree = trees;
	if (trees)
		trees->previous_tree = tree;
	trees = tree;
	pthread_mutex_unlock(&list_lock);
}

static void remove_from_list(struct pcpu_tree *tree)
{
	pthread_mutex_lock(&list_lock);
	if (tree->previous_tree)
		tree->previous_tree->next_tree = tree->next_tree;
	else
		trees = tree->next_tree;
	if (tree->next_tree)
		tree->next_tree->previous_tree = tree->previous_tree;
	pthread_mutex_unlock(&list_lock);
}

/* ---- memory ---- */

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

/* Arrays behind a node: bitmaps, written by adders and by flushers, then values for readers. */
static size_t node_layout(const struct pcpu_tree *tree, struct pcpu_node *node)
{
	size_t bitmap = round_up(tree->bitmap_words * sizeof(uint64_t), PCPU_LINE_PAIR);
	size_t values = tree->nr_stats * sizeof(int64_t);
	char *at = (char *)(node + 1);
	size_t taken = bitmap, hot = taken + tree->bitmap_words * sizeof(uint64_t);
	size_t total = hot + tree->bitmap_words * sizeof(uint64_t);

	if (node) {
		node->changed = (uint64_t *)(void *)at;
		node->taken = (uint64_t *)(void *)(at + taken);
		node->hot = (uint64_t *)(void *)(at + hot);
		node->total = (int64_t *)(void *)(at + total);
		node->local = (int64_t *)(void *)(at + total + values);
		node->pending = (int64_t *)(void *)(at + total + 2 * values);
		node->up = (int64_t *)(void *)(at + total + 3 * values);
		node->direct = (int64_t *)(void *)(at + total + 4 * values);
		node->direct_seen = (int64_t *)(void *)(at + total + 5 * values);
	}
	return round_up(sizeof(*node) + total + 6 * values, PCPU_LINE_PAIR);
}

/*
 * Slots for one more node. Shadows have no epochs and lie close together, at the beginning of their run. Slabs
 * that happen to follow each other, as they do in a region of the tree's own, are one run: nothing is left over
 * between them, whatever the size of a slot.
 */
static bool cut_slots(struct pcpu_node *node, struct pcpu_tree *tree)
{
	struct slab *slab;
	int64_t offset;
	char *begin;

	if (tree->slab_left < tree->slot_bytes) {
		slab = malloc(sizeof(*slab));
		if (!slab)
			return false;
		offset = pcpu_slots_alloc(&tree->region->cpu, tree->slab_bytes, PCPU_GRANULE);
		if (offset < 0) {
			free(slab);
			return false;
		}
		slab->offset = offset;
		slab->next = tree->slabs;
		tree->slabs = slab;
		begin = pcpu_zone_at(&tree->region->cpu, offset, 0);
		if (begin != tree->slab + tree->slab_left) {
			tree->run = tree->slab = begin;
			tree->slab_left = 0;
		}
		tree->slab_left += tree->slab_bytes;
	}
	node->fast.slots = tree->slab;
	node->shadows = pcpu_shadow_of(tree->region, tree->run) + (size_t)(tree->slab - tree->run) /
									  tree->slot_bytes * tree->nr_stats *
									  sizeof(int64_t);
	tree->slab += tree->slot_bytes;
	tree->slab_left -= tree->slot_bytes;
	return true;
}

int pcpu_node_alloc(struct pcpu_node **node, struct pcpu_tree *tree)
{
	struct pcpu_node *n = tree->spare;
	char *slots, *shadows;

	if (n) {
		/* Its slots hold old values, which its last flush has brought into the shadow: they count as
		 * 0. */
		tree->spare = n->next_work;
	} else {
		if (tree->nr_nodes == tree->max_nodes)
			return -ENOSPC;
		n = aligned_alloc(PCPU_LINE_PAIR, tree->node_bytes);
		if (!n)
			return -ENOMEM;
		if (!cut_slots(n, tree)) {
			free(n);
			return -ENOSPC;
		}
		tree->nr_nodes++;
	}
	slots = n->fast.slots;
	shadows = n->shadows;
	memset(n, 0, tree->node_bytes);
	node_layout(tree, n);
	n->tree = tree;
	n->fast.slots = slots;
	n->shadows = shadows;
	n->fast.stride = tree->region->cpu.stride;
	n->fast.fast_slots = tree->region->sections ? tree->region->cpu.chunks : 0;
	n->fast.nr_stats = tree->nr_stats;
	/* An epoch that no slot has noted yet, not even for an earlier owner. */
	pthread_mutex_lock(&tree->flush_lock);
	n->fast.epoch = ++tree->epoch;
	pthread_mutex_unlock(&tree->flush_lock);
	*node = n;
	return 0;
}

/*
 * A thread that was in the middle of an add when the process forked is not in the child. What it had stored and
 * not made known must not show up as the next owner's.
 */
static void forget_orphans(struct pcpu_node *node)
{
	for (unsigned cpu = 0; cpu < direct_slot(node->tree); cpu++) {
		const int64_t *values = slot_of(node, cpu)->values;
		int64_t *seen = shadow_of(node, cpu);

		for (uint32_t i = 0; i < node->fast.nr_stats; i++)
			if (seen[i] != values[i])
				seen[i] = values[i];
	}
}

void pcpu_node_recycle(struct pcpu_node *node)
{
	if (node->tree->forked)
		forget_orphans(node);
	node->next_work = node->tree->spare;
	node->tree->spare = node;
}

/* Shadows are the tree's to clear; the slots themselves are cleared when they are given back. */
static void free_slabs(struct pcpu_tree *tree)
{
	struct pcpu_zone *zone = &tree->region->cpu;
	struct slab *next;

	for (struct slab *slab = tree->slabs; slab; slab = next) {
		next = slab->next;
		for (unsigned cpu = 0; cpu < zone->chunks; cpu++) {
			int64_t *words = (int64_t *)(void *)pcpu_shadow_of(
				tree->region, pcpu_zone_at(zone, slab->offset, cpu));

			for (size_t i = 0; i < tree->slab_bytes / sizeof(*words); i++)
				if (words[i])
					words[i] = 0;
		}
		pcpu_slots_free(zone, slab->offset, tree->slab_bytes, PCPU_GRANULE);
		free(slab);
	}
}

static size_t power_of_two(size_t n)
{
	size_t power = 1024;

	while (power < n)
		power *= 2;
	return power;
}

/* A region with room for max_nodes nodes. */
static int own_region(struct pcpu_tree *tree)
{
	struct pcpu_region_attr attr = {.size = sizeof(attr)};
	size_t slots_per_slab = tree->slab_bytes / tree->slot_bytes;

	attr.bytes_per_cpu = (tree->max_nodes + slots_per_slab - 1) / slots_per_slab * tree->slab_bytes;
	return pcpu_region_create(&tree->region, &attr);
}

static void measure(struct pcpu_tree *tree)
{
	tree->slot_bytes = offsetof(struct pcpu_node_slot, values) + tree->nr_stats * sizeof(int64_t);
	tree->slab_bytes = SLOTS_PER_SLAB * tree->slot_bytes;
	if (tree->slab_bytes > PCPU_SLOT_MAX)
		tree->slab_bytes = PCPU_SLOT_MAX;
	tree->slab_bytes = tree->slab_bytes / tree->slot_bytes * tree->slot_bytes;
	/* In whole words of the region's bitmap: any number of slabs then lies without gaps. */
	tree->slab_bytes = round_up(tree->slab_bytes, 64 * PCPU_GRANULE);
}

static void destroy(struct pcpu_tree *tree)
{
	if (tree->region) {
		free_slabs(tree);
		pcpu_region_close(tree->region);
	}
	if (tree->hash)
		munmap(tree->hash, tree->hash_size * sizeof(*tree->hash));
	free(tree->stats);
	free(tree);
}

static int create(struct pcpu_tree **out, const struct pcpu_tree_attr *attr)
{
	int saved = errno, r;
	struct pcpu_tree *tree = aligned_alloc(PCPU_LINE_PAIR, sizeof(*tree));
	void *map;

	errno = saved;
	if (!tree)
		return -ENOMEM;
	memset(tree, 0, sizeof(*tree));
	tree->nr_stats = attr->nr_stats;
	tree->batch = attr->batch ? attr->batch : DEFAULT_BATCH;
	tree->max_nodes = attr->max_nodes ? attr->max_nodes : DEFAULT_MAX_NODES;
	r = pcpu_schema_copy(&tree->name, &tree->stats, attr);
	if (r)
		goto fail;
	measure(tree);
	tree->hash_size = power_of_two(tree->max_nodes);
	map = mmap(NULL, tree->hash_size * sizeof(*tree->hash), PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	r = -ENOMEM;
	if (map == MAP_FAILED)
		goto fail;
	tree->hash = map;
	if (attr->region) {
		tree->region = attr->region;
		pcpu_region_hold(tree->region);
	} else {
		r = own_region(tree);
		if (r)
			goto fail;
	}
	tree->bitmap_words = (tree->region->cpu.chunks + 1 + 63) / 64;
	tree->node_bytes = node_layout(tree, NULL);
	tree->atomic = !tree->region->sections;
	tree->fenced = tree->atomic || (pcpu_fence_kinds() & PCPU_FENCE_PROCESS);
	pthread_mutex_init(&tree->names_lock, NULL);
	pthread_mutex_init(&tree->flush_lock, NULL);
	pthread_mutex_init(&tree->flusher_lock, NULL);
	pcpu_flusher_init(tree);
	r = pcpu_node_create_root(tree);
	if (r)
		goto fail;
	add_to_list(tree);
	errno = saved;
	*out = tree;
	return 0;
fail:
	destroy(tree);
	errno = saved;
	return r;
}

int pcpu_tree_create(struct pcpu_tree **tree, const struct pcpu_tree_attr *attr)
{
	struct pcpu_tree_attr a = {0};
	int r;

	if (!tree || !attr)
		return -EINVAL;
	r = pcpu_copy_attr(&a, sizeof(a), sizeof(a), attr);
	if (r)
		return r;
	if (a.batch > INT32_MAX || a.max_nodes > MAX_NODES)
		return -EINVAL;
	r = pcpu_schema_check(&a);
	if (r)
		return r;
	if (!pcpu_cpu_start())
		return -EAGAIN;
	return create(tree, &a);
}

int pcpu_tree_open(struct pcpu_tree **tree, struct pcpu_region *region, const char *name)
{
	if (!tree || !region || !name)
		return -EINVAL;
	return -ENOENT; /* regions without a path know no names */
}

/* Free @node and all below; nobody uses the tree any more. */
static void free_nodes(struct pcpu_node *node)
{
	struct pcpu_node *up;

	while (node) {
		if (node->first_child) {
			node = node->first_child;
			continue;
		}
		up = node->parent;
		if (up)
			up->first_child = node->next;
		free(node);
		node = up;
	}
}

void pcpu_tree_destroy(struct pcpu_tree *tree)
{
	struct pcpu_node *spare, *next;
	int saved = errno;

	if (!tree)
		return;
	pcpu_tree_flusher_stop(tree);
	remove_from_list(tree);
	pcpu_rcu_synchronize();
	free_nodes(tree->root);
	for (spare = tree->spare; spare; spare = next) {
		next = spare->next_work;
		free(spare);
	}
	pthread_mutex_destroy(&tree->names_lock);
	pthread_mutex_destroy(&tree->flush_lock);
	pthread_mutex_destroy(&tree->flusher_lock);
	pthread_cond_destroy(&tree->flusher_wake);
	destroy(tree);
	errno = saved;
}

void pcpu_tree_close(struct pcpu_tree *tree)
{
	pcpu_tree_destroy(tree);
}

struct pcpu_node *pcpu_tree_root(struct pcpu_tree *tree)
{
	return tree->root;
}

const char *pcpu_tree_name(struct pcpu_tree *tree)
{
	return tree->name;
}

uint32_t pcpu_tree_nr_stats(struct pcpu_tree *tree)
{
	return tree->nr_stats;
}

const struct pcpu_stat_desc *pcpu_tree_stat(struct pcpu_tree *tree, uint32_t stat)
{
	return stat < tree->nr_stats ? &tree->stats[stat] : NULL;
}
