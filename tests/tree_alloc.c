/* SPDX-License-Identifier: MIT */
/*
 * I1, I9: a malloc that adds to the tree whose calls use it: nothing twice, nothing lost, no recursion, no
 * deadlock, whatever call allocates, and in a thread's first instructions.
 */
#include <pthread.h>
#include <stdlib.h>

#include <pcpu_stat/pcpu_stat.h>

#include "tap.h"
#include "tools.h"

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);
void __libc_free(void *p);

static struct pcpu_node *hook; /* what the wrappers add to */
static int64_t calls;
static _Thread_local int inside; /* an add that allocates would come back here */
static int recursions;

static void count(void)
{
	struct pcpu_node *node = __atomic_load_n(&hook, __ATOMIC_ACQUIRE);

	if (!node)
		return;
	if (inside++)
		__atomic_fetch_add(&recursions, 1, __ATOMIC_RELAXED);
	pcpu_node_add(node, 0, 1);
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
	inside--;
}

void *malloc(size_t bytes)
{
	count();
	return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
	count();
	return __libc_calloc(n, bytes);
}

void *realloc(void *p, size_t bytes)
{
	count();
	return __libc_realloc(p, bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
	count();
	return __libc_memalign(align, bytes);
}

void free(void *p)
{
	count();
	__libc_free(p);
}

static struct pcpu_node *root;

static void live(unsigned number, void *arg)
{
	(void)arg;
	for (long i = 0; i < scaled(2000); i++) {
		struct pcpu_node *node;
		char name[8];

		free(malloc(100));
		snprintf(name, sizeof(name), "%u", number);
		if (pcpu_node_create(&node, root, name))
			abort();
		pcpu_node_read(root, 0, PCPU_READ_EXACT);
		pcpu_node_destroy(node);
	}
}

int main(void)
{
	static const struct pcpu_stat_desc stats[] = {{"calls", NULL, NULL, PCPU_STAT_COUNTER}};
	struct pcpu_tree_attr attr = {.size = sizeof(attr), .stats = stats, .nr_stats = 1};
	struct pcpu_node *kept[200];
	struct pcpu_tree *tree;
	char name[16];
	int64_t got;

	if (pcpu_tree_create(&tree, &attr))
		abort();
	root = pcpu_tree_root(tree);
	__atomic_store_n(&hook, root, __ATOMIC_RELEASE);
	/* New memory for each: allocation with locks of the tree held. */
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "kept%d", i);
		if (pcpu_node_create(&kept[i], root, name))
			abort();
	}
	run_threads(3, live, NULL);
	__atomic_store_n(&hook, NULL, __ATOMIC_RELEASE);
	got = pcpu_node_read(root, 0, PCPU_READ_EXACT);
	tap_ok(got == calls && calls > 200, "I1: %lld of %lld calls of malloc and others", (long long)got,
	       (long long)calls);
	tap_ok(recursions == 0, "no add allocates");
	pcpu_tree_destroy(tree);
	return tap_done();
}
