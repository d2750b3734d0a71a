/* SPDX-License-Identifier: MIT */
/*
 * I10, I5: libpcpu_stat_core calls no malloc, ever. This program brings its own malloc family, which counts
 * calls, and does nothing else that could call it until it has looked.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <pcpu_stat/pcpu_stat.h>

#include "tap.h"

static long calls;

/* A heap that only grows: enough for stdio, which comes last, and for what starting a thread takes. */
static char heap[1 << 20] __attribute__((aligned(4096)));
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

void *memalign(size_t align, size_t bytes);
void *memalign(size_t align, size_t bytes)
{
	return take(align, bytes);
}

static long now(void)
{
	return __atomic_load_n(&calls, __ATOMIC_RELAXED);
}

static struct pcpu_counter fixed = PCPU_COUNTER_INIT;

/* Every call there is; how often malloc was called. */
static long everything(void)
{
	struct pcpu_region_attr region_attr = {.size = sizeof(region_attr), .bytes_per_cpu = 4096};
	struct pcpu_counter_attr attr = {.size = sizeof(attr), .flags = PCPU_COUNTER_NODE_LEVEL};
	struct pcpu_info info = {.size = sizeof(info)};
	struct pcpu_counter mine;
	int64_t below, above;
	long before = now();

	pcpu_get_info(&info);
	pcpu_backend_name(0);
	pcpu_slot_node(0);
	pcpu_version();
	if (pcpu_region_create(&attr.region, &region_attr) || pcpu_counter_init(&mine, &attr))
		return -1;
	for (int i = 0; i < 10000; i++) {
		pcpu_counter_add(&mine, i);
		pcpu_counter_sub(&fixed, 3);
		pcpu_counter_inc(&fixed);
		pcpu_counter_dec(&mine);
	}
	pcpu_counter_set_batch(&mine, 5);
	pcpu_counter_read(&mine);
	pcpu_counter_read_positive(&mine);
	pcpu_counter_sum_positive(&mine);
	pcpu_counter_error(&mine, &below, &above);
	pcpu_counter_compare(&mine, 7);
	pcpu_counter_set(&mine, 9);
	if (pcpu_counter_drain(&mine) != 9)
		return -1;
	pcpu_counter_destroy(&mine);
	pcpu_region_close(attr.region);
	pcpu_region_create(NULL, NULL);
	return now() - before;
}

/* Default regions, one after the other. */
static long many(void)
{
	static struct pcpu_counter all[20000];
	long before = now();

	for (int i = 0; i < 20000; i++)
		pcpu_counter_add(&all[i], 1);
	for (int i = 0; i < 20000; i++)
		pcpu_counter_destroy(&all[i]);
	return now() - before;
}

static void *in_thread(void *arg)
{
	*(long *)arg = everything();
	return NULL;
}

int main(void)
{
	long at_start = now(), by_everything = everything(), by_many = many(), by_thread = -1;
	pthread_t thread;

	if (pthread_create(&thread, NULL, in_thread, &by_thread) == 0)
		pthread_join(thread, NULL);
	tap_ok(at_start == 0, "%ld calls of the malloc family before main", at_start);
	tap_ok(by_everything == 0, "%ld by every call of the library", by_everything);
	tap_ok(by_many == 0, "%ld by 20000 counters", by_many);
	tap_ok(by_thread == 0, "%ld in a thread", by_thread);
	return tap_done();
}
