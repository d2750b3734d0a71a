/* SPDX-License-Identifier: MIT */
/*
 * Names, references, destroying, walking.
 *
 * A node is referenced by whoever made or found it, by the tree while it is not destroyed, and by each of its
 * children. Names are changed under the names lock and read under RCU; a node's memory is given out again
 * only after a grace period without the lock.
 *
 * A destroyed node has no name and is not walked to, but stays its parent's child until nobody holds it: adds
 * by those who still do go to the nearest living ancestor, and those that were under way when it died are
 * found by flushes as ever. So nothing has to wait for updaters, and no total ever falls (I1).
 */
#include "tree/tree.h"

#include <errno.h>
#include <string.h>

#include "cpu/rcu.h"
#include "tree/schema.h"

/* FNV-1a over the name, started from the parent's address: siblings differ by name, cousins by parent. */
static uint32_t hash_of(const struct pcpu_node *parent, const char *name, size_t bytes)
{
	uint64_t hash = 0xcbf29ce484222325u ^ ((uint64_t)(uintptr_t)parent >> 7);

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ (unsigned char)name[i]) * 0x100000001b3u;
	return (uint32_t)(hash ^ hash >> 32);
}

static struct pcpu_node **chain_of(const struct pcpu_tree *tree, uint32_t hash)
{
	return &tree->hash[hash & (tree->hash_size - 1)];
}

/* The living child of that name. Under RCU or the names lock. */
static struct pcpu_node *lookup(const struct pcpu_node *parent, const char *name, size_t bytes)
{
	uint32_t hash = hash_of(parent, name, bytes);
	struct pcpu_node *node = __atomic_load_n(chain_of(parent->tree, hash), __ATOMIC_ACQUIRE);

	for (; node; node = __atomic_load_n(&node->next_hash, __ATOMIC_ACQUIRE))
		if (node->hash == hash && node->parent == parent && strlen(node->name) == bytes &&
		    memcmp(node->name, name, bytes) == 0)
			return node;
	return NULL;
}

/* ---- references ---- */

static void hold(struct pcpu_node *node)
{
	__atomic_fetch_add(&node->references, 1, __ATOMIC_RELAXED);
}

/* Unless nobody holds it any more. Under RCU. */
static bool try_hold(struct pcpu_node *node)
{
	uint32_t references = __atomic_load_n(&node->references, __ATOMIC_RELAXED);

	while (references)
		if (__atomic_compare_exchange_n(&node->references, &references, references + 1, true,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return true;
	return false;
}

/* Under both locks: flushers look through children with theirs alone. */
static void unlink_sibling(struct pcpu_node *node)
{
	struct pcpu_node *parent = node->parent;

	/* Release, as everywhere here: a walker that gets there sees the node it gets to. */
	if (node->previous)
		__atomic_store_n(&node->previous->next, node->next, __ATOMIC_RELEASE);
	else
		__atomic_store_n(&parent->first_child, node->next, __ATOMIC_RELEASE);
	if (node->next)
		node->next->previous = node->previous;
	else
		parent->last_child = node->previous;
}

/* The end of a node that nobody refers to. */
static void release(struct pcpu_node *node)
{
	struct pcpu_tree *tree = node->tree;

	/* A walk may have lent it to somebody who is in the middle of an add: after that none is found. */
	pcpu_rcu_synchronize();
	pcpu_flush(node);
	pthread_mutex_lock(&tree->names_lock);
	pthread_mutex_lock(&tree->flush_lock);
	pcpu_flush_last(node);
	unlink_sibling(node);
	pthread_mutex_unlock(&tree->flush_lock);
	pthread_mutex_unlock(&tree->names_lock);
	/* Walks pass over it still. */
	pcpu_rcu_synchronize();
	pthread_mutex_lock(&tree->names_lock);
	pcpu_node_recycle(node);
	pthread_mutex_unlock(&tree->names_lock);
}

void pcpu_node_put(struct pcpu_node *node)
{
	int saved = errno;

	/* Acquire and release: what each holder did comes before the end. */
	while (node && __atomic_sub_fetch(&node->references, 1, __ATOMIC_ACQ_REL) == 0) {
		struct pcpu_node *parent = node->parent;

		release(node);
		node = parent; /* the reference of its child */
	}
	errno = saved;
}

/* ---- making ---- */

int pcpu_node_create_root(struct pcpu_tree *tree)
{
	int r = pcpu_node_alloc(&tree->root, tree);

	if (r == 0)
		tree->root->references = 1;
	return r;
}

static int create_locked(struct pcpu_node **out, struct pcpu_node *parent, const char *name, size_t bytes)
{
	struct pcpu_tree *tree = parent->tree;
	struct pcpu_node *node, **chain;
	int r;

	if (parent->dead)
		return -ENOENT;
	if (lookup(parent, name, bytes))
		return -EEXIST;
	r = pcpu_node_alloc(&node, tree);
	if (r)
		return r;
	node->parent = parent;
	node->references = 2; /* the caller's and the tree's */
	node->depth = parent->depth + 1;
	node->born = tree->made + 1;
	node->hash = hash_of(parent, name, bytes);
	memcpy(node->name, name, bytes);
	hold(parent);
	parent->nr_children++;

	node->previous = parent->last_child;
	if (parent->last_child)
		__atomic_store_n(&parent->last_child->next, node, __ATOMIC_RELEASE);
	else
		__atomic_store_n(&parent->first_child, node, __ATOMIC_RELEASE);
	parent->last_child = node;
	chain = chain_of(tree, node->hash);
	node->next_hash = *chain;
	__atomic_store_n(chain, node, __ATOMIC_RELEASE);
	__atomic_store_n(&tree->made, node->born, __ATOMIC_RELEASE);
	*out = node;
	return 0;
}

int pcpu_node_create(struct pcpu_node **node, struct pcpu_node *parent, const char *name)
{
	size_t bytes = name ? strnlen(name, PCPU_NAME_MAX + 1) : 0;
	int saved = errno, r;

	if (!node || !parent || !name || !pcpu_node_name_ok(name, bytes))
		return -EINVAL;
	pthread_mutex_lock(&parent->tree->names_lock);
	r = create_locked(node, parent, name, bytes);
	pthread_mutex_unlock(&parent->tree->names_lock);
	errno = saved;
	return r;
}

int pcpu_node_create_owned(struct pcpu_node **node, struct pcpu_node *parent, const char *name)
{
	/* A private region ends with its process: there is nothing to note. */
	return pcpu_node_create(node, parent, name);
}

/* ---- destroying ---- */

static void unlink_name(struct pcpu_node *node)
{
	struct pcpu_node **link = chain_of(node->tree, node->hash);

	while (*link != node)
		link = &(*link)->next_hash;
	__atomic_store_n(link, node->next_hash, __ATOMIC_RELEASE);
}

static int destroy_locked(struct pcpu_node *node)
{
	if (node->dead)
		return -ENOENT;
	if (node->nr_children)
		return -EBUSY;
	unlink_name(node);
	node->parent->nr_children--;
	/* From here on adds take the slow path, and from there go to the parent. */
	__atomic_store_n(&node->dead, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&node->fast.fast_slots, 0, __ATOMIC_RELEASE);
	return 0;
}

int pcpu_node_destroy(struct pcpu_node *node)
{
	int r;

	if (!node)
		return -EINVAL;
	if (!node->parent)
		return -EPERM;
	pthread_mutex_lock(&node->tree->names_lock);
	r = destroy_locked(node);
	pthread_mutex_unlock(&node->tree->names_lock);
	if (r)
		return r;
	pcpu_node_flush(node);
	pcpu_node_put(node); /* the tree's */
	pcpu_node_put(node); /* the caller's */
	return 0;
}

/* ---- finding and walking ---- */

static int find(struct pcpu_node **out, struct pcpu_node *node, const char *path)
{
	while (*path) {
		size_t bytes = strcspn(path, "/");

		if (!pcpu_node_name_ok(path, bytes))
			return -EINVAL;
		if (node)
			node = lookup(node, path, bytes);
		path += bytes;
		if (*path == '/' && !*++path)
			return -EINVAL; /* a trailing slash */
	}
	if (!node || !try_hold(node))
		return -ENOENT;
	*out = node;
	return 0;
}

int pcpu_node_find(struct pcpu_node **node, struct pcpu_tree *tree, const char *path)
{
	int r;

	if (!node || !tree || !path)
		return -EINVAL;
	pcpu_rcu_read_lock();
	r = find(node, tree->root, path);
	pcpu_rcu_read_unlock();
	return r;
}

static struct pcpu_node *next_living(struct pcpu_node *node)
{
	while (node && __atomic_load_n(&node->dead, __ATOMIC_ACQUIRE))
		node = __atomic_load_n(&node->next, __ATOMIC_ACQUIRE);
	return node;
}

int pcpu_tree_walk(struct pcpu_tree *tree, int (*fn)(struct pcpu_node *node, unsigned depth, void *ctx),
		   void *ctx)
{
	struct pcpu_node *node = tree->root, *next;
	int r = 0;

	/* New children come last, and a child that goes keeps its link: each that stays is met once. */
	pcpu_rcu_read_lock();
	while (node) {
		r = fn(node, node->depth, ctx);
		if (r)
			break;
		next = next_living(__atomic_load_n(&node->first_child, __ATOMIC_ACQUIRE));
		while (!next && node->parent) {
			next = next_living(__atomic_load_n(&node->next, __ATOMIC_ACQUIRE));
			node = node->parent;
		}
		node = next;
	}
	pcpu_rcu_read_unlock();
	return r;
}

uint64_t pcpu_tree_made(struct pcpu_tree *tree)
{
	/* Pairs with the release in create_locked(): the links to a node that is counted here are seen. */
	return __atomic_load_n(&tree->made, __ATOMIC_ACQUIRE);
}

/* The first of @node and its later siblings to be met, held. Under RCU. */
static struct pcpu_node *hold_first(struct pcpu_node *node, uint64_t made)
{
	/* What lies below a destroyed or younger node is destroyed or younger too. */
	for (node = next_living(node); node;
	     node = next_living(__atomic_load_n(&node->next, __ATOMIC_ACQUIRE)))
		if (node->born <= made && try_hold(node))
			return node;
	return NULL;
}

struct pcpu_node *pcpu_tree_next(struct pcpu_tree *tree, struct pcpu_node *node, uint64_t made)
{
	struct pcpu_node *from = node, *next;

	if (!node) {
		hold(tree->root);
		return tree->root;
	}
	/* Our reference keeps the node linked among its siblings, and thereby its ancestors, even if destroyed. */
	pcpu_rcu_read_lock();
	next = hold_first(__atomic_load_n(&node->first_child, __ATOMIC_ACQUIRE), made);
	while (!next && from->parent) {
		next = hold_first(__atomic_load_n(&from->next, __ATOMIC_ACQUIRE), made);
		from = from->parent;
	}
	pcpu_rcu_read_unlock();
	pcpu_node_put(node);
	return next;
}

int pcpu_node_path(struct pcpu_node *node, char *buffer, size_t size)
{
	size_t length = 0, bytes;

	if (!node || !buffer)
		return -EINVAL;
	for (const struct pcpu_node *at = node; at->parent; at = at->parent)
		length += strlen(at->name) + (at->parent->parent != NULL);
	if (length >= size)
		return -ERANGE;
	buffer[length] = '\0';
	for (; node->parent; node = node->parent) {
		bytes = strlen(node->name);
		length -= bytes;
		memcpy(buffer + length, node->name, bytes);
		if (length)
			buffer[--length] = '/';
	}
	return 0;
}

struct pcpu_node *pcpu_node_parent(struct pcpu_node *node)
{
	return node->parent;
}

const char *pcpu_node_name(struct pcpu_node *node)
{
	return node->name;
}
