/* SPDX-License-Identifier: MIT */
/*
 * 10 000 nodes x 20 statistics leave in one pass, without an allocation, and memory stays flat. The program
 * brings its own malloc family, which counts calls.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pcpu_stat/pcpu_stat.h>

#include "tap.h"

#define NODES	   10000u
#define STATISTICS 20u

static long calls;

/* A heap that only grows: 10 000 nodes of some KiB. */
static char heap[256 << 20] __attribute__((aligned(4096)));
static size_t used;

static void *take(size_t align, size_t bytes)
{
	size_t at;

	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
	if (align < 16)
		align = 16;
	at = __atomic_fetch_add(&used, bytes + align + 16, __ATOMIC_RELAXED) + 16;
	at = (at + align - 1) / align * align;
	if (at + bytes > sizeof(heap))
		return NULL;
	memcpy(heap + at - 16, &bytes, sizeof(bytes));
	return heap + at;
}

void *malloc(size_t bytes)
{
	return take(16, bytes);
}

void *calloc(size_t n, size_t bytes)
{
	return take(16, n * bytes); /* never given back, so still zero */
}

void free(void *p)
{
	(void)p;
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
}

void *realloc(void *p, size_t bytes)
{
	void *q = take(16, bytes);
	size_t old;

	if (p && q) {
		memcpy(&old, (char *)p - 16, sizeof(old));
		memcpy(q, p, old < bytes ? old : bytes);
	}
	return q;
}

int posix_memalign(void **p, size_t align, size_t bytes)
{
	*p = take(align, bytes);
	return *p ? 0 : ENOMEM;
}

void *aligned_alloc(size_t align, size_t bytes)
{
	return take(align, bytes);
}

/* Pages of the process that are in memory. */
static long resident(void)
{
	long pages = -1;
	FILE *file = fopen("/proc/self/statm", "r");

	if (file) {
		if (fscanf(file, "%*d %ld", &pages) != 1)
			pages = -1;
		fclose(file);
	}
	return pages;
}

struct seen {
	uint64_t bytes, lines, pieces;
	size_t longest;
};

static int count(void *ctx, const char *buf, size_t len)
{
	struct seen *seen = ctx;

	seen->bytes += len;
	seen->pieces++;
	if (len > seen->longest)
		seen->longest = len;
	for (size_t i = 0; i < len; i++)
		seen->lines += buf[i] == '\n';
	return 0;
}

static struct pcpu_tree *build(void)
{
	static char names[STATISTICS][8];
	static struct pcpu_stat_desc stats[STATISTICS];
	struct pcpu_tree_attr attr = {.size = sizeof(attr), .stats = stats, .nr_stats = STATISTICS};
	struct pcpu_tree *tree;
	struct pcpu_node *node, *parent = NULL;
	char name[16];

	for (unsigned i = 0; i < STATISTICS; i++) {
		snprintf(names[i], sizeof(names[i]), "s%u", i);
		stats[i] = (struct pcpu_stat_desc){names[i], NULL, NULL,
						   i % 2 ? PCPU_STAT_GAUGE : PCPU_STAT_COUNTER};
	}
	if (pcpu_tree_create(&tree, &attr))
		return NULL;
	/* The root, 99 groups, and what makes it 10 000. */
	for (unsigned i = 0; i < NODES - 1; i++) {
		snprintf(name, sizeof(name), "node%u", i);
		if (pcpu_node_create(&node, i % 101 ? parent : pcpu_tree_root(tree), name))
			return NULL;
		if (i % 101 == 0)
			parent = node; /* held to the end */
		for (unsigned stat = 0; stat < STATISTICS; stat++)
			pcpu_node_add(node, stat, (int64_t)i * stat);
	}
	return tree;
}

static void measure(const char *name, struct pcpu_tree *tree,
		    int (*export)(struct pcpu_tree *, pcpu_write_fn, void *), uint64_t lines)
{
	struct seen seen = {0};
	long before, after, allocations, pages = resident();
	int r;

	before = __atomic_load_n(&calls, __ATOMIC_RELAXED);
	r = export(tree, count, &seen);
	after = __atomic_load_n(&calls, __ATOMIC_RELAXED);
	pages = resident() - pages;
	allocations = after - before;
	tap_ok(r == 0 && seen.lines == lines, "%s: %llu lines, %llu bytes in %llu pieces of at most %zu",
	       name, (unsigned long long)seen.lines, (unsigned long long)seen.bytes,
	       (unsigned long long)seen.pieces, seen.longest);
	tap_ok(allocations == 0, "%s: %ld calls of malloc and its kin", name, allocations);
	tap_ok(pages < 64, "%s: %ld more pages in memory", name, pages);
}

int main(void)
{
	struct pcpu_tree *tree = build();

	if (!tap_ok(tree != NULL, "a tree of %u nodes", NODES))
		return tap_done();
	resident();
	pcpu_node_flush(pcpu_tree_root(tree)); /* whose first touch of shadow pages is its own */
	measure("openmetrics", tree, pcpu_export_openmetrics, (uint64_t)NODES * STATISTICS + STATISTICS + 1);
	measure("prometheus", tree, pcpu_export_prometheus, (uint64_t)NODES * STATISTICS + STATISTICS);
	measure("json", tree, pcpu_export_json, 1);
	pcpu_tree_destroy(tree);
	return tap_done();
}
