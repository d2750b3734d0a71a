/* SPDX-License-Identifier: MIT */
/*
 * I9: an allocator that counts with us. This program's malloc and free add to counters, from the first call of
 * the loader on, inside whatever calls them; at the end the numbers must be those of plain atomics.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <pcpu_stat/pcpu_stat.h>

#include "tap.h"
#include "tools.h"

static struct pcpu_counter blocks = PCPU_COUNTER_INIT, bytes_held = PCPU_COUNTER_INIT;
static int64_t true_blocks, true_bytes;
static size_t used;

#define HEAP ((size_t)1 << 30)

static void count(int64_t n, int64_t bytes)
{
	pcpu_counter_add(&blocks, n);
	pcpu_counter_add(&bytes_held, bytes);
	__atomic_fetch_add(&true_blocks, n, __ATOMIC_RELAXED);
	__atomic_fetch_add(&true_bytes, bytes, __ATOMIC_RELAXED);
}

static char *heap(void)
{
	static char *made;
	char *seen = __atomic_load_n(&made, __ATOMIC_ACQUIRE), *mine;

	if (seen)
		return seen;
	mine = mmap(NULL, HEAP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (__atomic_compare_exchange_n(&made, &seen, mine, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return mine;
	munmap(mine, HEAP);
	return seen;
}

static void *take(size_t align, size_t bytes)
{
	size_t at;

	if (align < 16)
		align = 16;
	at = __atomic_fetch_add(&used, bytes + align + 16, __ATOMIC_RELAXED) + 16;
	at = (at + align - 1) / align * align;
	if (at + bytes > HEAP)
		return NULL;
	memcpy(heap() + at - 16, &bytes, sizeof(bytes));
	count(1, (int64_t)bytes);
	return heap() + at;
}

void *malloc(size_t bytes)
{
	return take(16, bytes);
}

void *calloc(size_t n, size_t bytes)
{
	return take(16, n * bytes);
}

static size_t size_of(void *p)
{
	size_t bytes;

	memcpy(&bytes, (char *)p - 16, sizeof(bytes));
	return bytes;
}

void free(void *p)
{
	if (p)
		count(-1, -(int64_t)size_of(p));
}

void *realloc(void *p, size_t bytes)
{
	void *q = take(16, bytes);

	if (p && q) {
		memcpy(q, p, size_of(p) < bytes ? size_of(p) : bytes);
		free(p);
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

void *memalign(size_t align, size_t bytes);
void *memalign(size_t align, size_t bytes)
{
	return take(align, bytes);
}

static void allocate(unsigned number, void *arg)
{
	uint64_t random = number + 1;
	char *volatile held[16] = {0};

	(void)arg;
	for (long i = 0; i < scaled(50000); i++) {
		unsigned k = next_random(&random) % 16;

		free(held[k]);
		held[k] = malloc(next_random(&random) % 200);
	}
	for (int k = 0; k < 16; k++)
		free(held[k]);
}

int main(void)
{
	int64_t n, b;

	run_threads(8, allocate, NULL);
	n = pcpu_counter_sum(&blocks);
	tap_ok(n == true_blocks, "%lld blocks of %lld", (long long)n, (long long)true_blocks);
	b = pcpu_counter_sum(&bytes_held);
	tap_ok(b == true_bytes, "%lld bytes of %lld", (long long)b, (long long)true_bytes);
	return tap_done();
}
