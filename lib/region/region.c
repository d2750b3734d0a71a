/* SPDX-License-Identifier: MIT */
/* Making regions, placing their memory, and the default ones: see region.h. */
#define _GNU_SOURCE
#include "region/region.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu/cpu.h"

#define DEFAULT_BYTES_PER_CPU (1u << 20)
/*
 * A default region holds 16384 counters; a full one is followed by another. Small, because a reader's page
 * tables cover what it walks: 512 CPUs at 256 KiB are 64 of their pages.
 */
#define DEFAULT_REGION_BYTES (256u << 10)
/* A node's chunk for every counter of a full CPU chunk would be 8 times its size: a quarter is plenty. */
#define NODE_BYTES_PER_CPU_BYTE 2u
#define MAP_BYTES_MAX		((size_t)1 << 46) /* half of the smallest user address space we run in */

static struct pcpu_region *defaults; /* a list that only grows */

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

static size_t odd_pages(size_t bytes, size_t page)
{
	return bytes / page % 2 ? bytes : bytes + page;
}

static int memory_of_node(const struct pcpu_topology *t, unsigned i)
{
	return t->node_memory[i];
}

/*
 * Prefer the node that @memory_of says for each chunk, before the first touch. One call per run of chunks on
 * the same node: CPUs are numbered node by node, or all first threads before all second ones, so runs are
 * few.
 */
static void place(const struct pcpu_zone *zone, int (*memory_of)(const struct pcpu_topology *, unsigned))
{
	const struct pcpu_topology *t = &pcpu_cpu.topology;

	if (__atomic_load_n(&pcpu_cpu.numa, __ATOMIC_RELAXED) != PCPU_NUMA_PLACED)
		return;
	for (unsigned first = 0, end; first < zone->chunks; first = end) {
		int node = memory_of(t, first);

		for (end = first + 1; end < zone->chunks && memory_of(t, end) == node; end++)
			;
		if (node >= 0 && pcpu_cpu.os->prefer_node(zone->base + first * zone->stride,
							  (end - first) * zone->stride, node) < 0) {
			/* First touch by the owning CPU places pages as well, if no policy says otherwise. */
			__atomic_store_n(&pcpu_cpu.numa, PCPU_NUMA_REFUSED, __ATOMIC_RELAXED);
			return;
		}
	}
}

static size_t bitmap_bytes(size_t chunk_bytes)
{
	return round_up(chunk_bytes / PCPU_GRANULE / 8, 8);
}

static void zone_init(struct pcpu_zone *zone, char *base, size_t bytes, size_t stride, unsigned chunks,
		      char *bitmap)
{
	zone->base = base;
	zone->bytes = bytes;
	zone->stride = stride;
	zone->chunks = chunks;
	zone->granted = (uint64_t *)bitmap;
	zone->words = bitmap_bytes(bytes) / 8;
}

/* Map a private region of @bytes per CPU (whole pages). */
static int create_private(struct pcpu_region **region, size_t bytes)
{
	const struct pcpu_topology *t = &pcpu_cpu.topology;
	size_t page = page_size(), stride = odd_pages(bytes, page), node_bytes, node_stride, head, total;
	size_t bitmap_at = round_up(sizeof(struct pcpu_region), PCPU_LINE_PAIR), node_bitmap_at;
	struct pcpu_region *r;
	int saved = errno;
	char *map;

	if (bytes > MAP_BYTES_MAX / t->slots / 4)
		return -EINVAL;
	node_bytes = round_up(NODE_BYTES_PER_CPU_BYTE * bytes, page);
	node_stride = odd_pages(node_bytes, page);
	node_bitmap_at = bitmap_at + bitmap_bytes(bytes);
	head = round_up(node_bitmap_at + bitmap_bytes(node_bytes), page);
	total = head + 2 * t->slots * stride + t->nodes * node_stride;

	map = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED) {
		errno = saved;
		return -ENOMEM;
	}
	/* A huge page would span the chunks of several CPUs, on the node of whoever came first. */
	madvise(map, total, MADV_NOHUGEPAGE); /* fails where there are no huge pages: as good */
	errno = saved;

	r = (struct pcpu_region *)map;
	r->map_bytes = total;
	r->shadow = t->slots * stride + t->nodes * node_stride;
	r->users = 1;
	r->sections = pcpu_cpu.sections;
	zone_init(&r->cpu, map + head, bytes, stride, t->slots, map + bitmap_at);
	zone_init(&r->node, map + head + t->slots * stride, node_bytes, node_stride, t->nodes,
		  map + node_bitmap_at);
	place(&r->cpu, pcpu_memory_of_cpu);
	place(&r->node, memory_of_node);
	*region = r;
	return 0;
}

int pcpu_region_create(struct pcpu_region **region, const struct pcpu_region_attr *attr)
{
	struct pcpu_region_attr a = {0};
	size_t page = page_size();
	int r;

	if (!region)
		return -EINVAL;
	r = pcpu_copy_attr(&a, sizeof(a), sizeof(a), attr);
	if (r)
		return r;
	if (a.flags)
		return -EINVAL;
	if (a.path)
		return -ENOTSUP;
	if (a.bytes_per_cpu == 0)
		a.bytes_per_cpu = DEFAULT_BYTES_PER_CPU;
	if (a.bytes_per_cpu > MAP_BYTES_MAX)
		return -EINVAL;
	if (!pcpu_cpu_start())
		return -EAGAIN;
	return create_private(region, round_up(a.bytes_per_cpu, page));
}

void pcpu_region_hold(struct pcpu_region *region)
{
	__atomic_fetch_add(&region->users, 1, __ATOMIC_RELAXED);
}

void pcpu_region_close(struct pcpu_region *region)
{
	int saved = errno;

	/* Release and acquire pair with each other: what each user did here comes before the unmapping. */
	if (region && __atomic_sub_fetch(&region->users, 1, __ATOMIC_ACQ_REL) == 0)
		munmap(region, region->map_bytes);
	errno = saved;
}

/* Put one more region in front of the list that began with @seen; somebody else's if they were faster. */
static struct pcpu_region *add_default(struct pcpu_region *seen)
{
	size_t bytes = round_up(DEFAULT_REGION_BYTES, page_size());
	struct pcpu_region *mine;

	if (create_private(&mine, bytes) && create_private(&mine, page_size())) /* address space is short */
		return NULL;
	mine->next = seen;
	/* Release pairs with the acquire in pcpu_region_default_slots: a region is seen made. */
	if (__atomic_compare_exchange_n(&defaults, &seen, mine, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return mine;
	pcpu_region_close(mine);
	return seen;
}

int64_t pcpu_region_default_slots(struct pcpu_region **region, size_t bytes, size_t align)
{
	/* Acquire pairs with the release in add_default. */
	struct pcpu_region *first = __atomic_load_n(&defaults, __ATOMIC_ACQUIRE);

	for (;;) {
		for (struct pcpu_region *r = first; r; r = r->next) {
			int64_t offset = pcpu_slots_alloc(&r->cpu, bytes, align);

			if (offset != -ENOSPC) {
				if (offset >= 0) {
					pcpu_region_hold(r);
					*region = r;
				}
				return offset;
			}
		}
		first = add_default(first);
		if (!first || first->cpu.bytes < bytes)
			return -ENOMEM;
	}
}

void pcpu_region_start(void)
{
	pcpu_cpu_start();
	if (pcpu_cpu.numa == PCPU_NUMA_PLACED && !__atomic_load_n(&defaults, __ATOMIC_ACQUIRE))
		add_default(NULL);
}

__attribute__((constructor)) static void start_early(void)
{
	pcpu_region_start();
}

void pcpu_region_forget_defaults(void)
{
	struct pcpu_region *r = __atomic_exchange_n(&defaults, NULL, __ATOMIC_ACQ_REL), *next;

	for (; r; r = next) {
		next = r->next;
		pcpu_region_close(r);
	}
}
