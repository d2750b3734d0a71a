/* SPDX-License-Identifier: MIT */
/* The start, and the facts it found: see cpu.h. */
#define _GNU_SOURCE
#include "cpu/cpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arch/area.h"
#include "arch/rseq.h"
#include "cpu/fence.h"
#include "cpu/rseq.h"
#include "version.h"

/*
 * The automatic batch. A carry that two CPUs contend for costs about as much as 100 adds that stay on their
 * CPU: at 2048 it hardly shows (bench_counter --bars measures it). And with N CPUs the shared line, which
 * changes hands in about 100 ns, must not become the bottleneck when each of them adds every 10 ns: 16 * N
 * adds leave it idle a third of the time.
 */
#define MIN_AUTO_BATCH	   2048u
#define AUTO_BATCH_PER_CPU 16u

struct pcpu_cpu pcpu_cpu;

/*
 * Exported as a datum, not for callers: where both products are loaded, the first one answers pcpu_get_info, and
 * the other one counts here as well.
 */
PCPU_API extern uint64_t pcpu_bad_stats;
uint64_t pcpu_bad_stats;

/* The area that updates use names the CPU we run on; negative in an unregistered thread. */
static int32_t area_cpu(void)
{
	const struct pcpu_rseq_area *area =
		(const struct pcpu_rseq_area *)(pcpu_thread_pointer() + pcpu_area_offset);

	return (int32_t)__atomic_load_n(&area->cpu_id, __ATOMIC_RELAXED);
}

/* Would the system place memory if asked? Asked on a page of its own, so that no policy stays behind. */
static int probe_numa(const struct pcpu_os *os, const struct pcpu_topology *t)
{
	unsigned long allowed[PCPU_MAX_NODES / (8 * sizeof(unsigned long))];
	int saved = errno, node = t->node_memory[0] < 0 ? t->node_id[0] : t->node_memory[0];
	long refused = os->allowed_nodes(allowed, sizeof(allowed));
	void *page = mmap(NULL, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page != MAP_FAILED) {
		if (refused >= 0)
			refused = os->prefer_node(page, 1, node);
		munmap(page, 1);
	}
	errno = saved;
	if (refused < 0)
		return PCPU_NUMA_REFUSED;
	return t->nodes_online > 1 ? PCPU_NUMA_PLACED : PCPU_NUMA_SINGLE;
}

static void start(const struct pcpu_os *os, int backend)
{
	struct pcpu_cpu *p = &pcpu_cpu;
	ptrdiff_t offset = 0;
	uint32_t batch;

	p->os = os;
	pcpu_topology_read(&p->topology, os);
	pcpu_fence_start(os);
	p->numa = probe_numa(os, &p->topology);
	p->rseq = backend == PCPU_BACKEND_ATOMIC ? PCPU_RSEQ_OVERRIDDEN : pcpu_rseq_find(os, &offset);
	p->sections = PCPU_ARCH_SECTIONS && p->rseq == PCPU_RSEQ_USED;
	p->area_has_cpu = offset != 0;
	/* Without sections but with the area, adds still find their slot by a load: that is rseq to users. */
	p->backend = p->area_has_cpu ? PCPU_BACKEND_RSEQ : PCPU_BACKEND_ATOMIC;
	if (!PCPU_ARCH_SECTIONS && p->area_has_cpu && !PCPU_SANITIZED)
		p->rseq = PCPU_RSEQ_USED;
	batch = AUTO_BATCH_PER_CPU * p->topology.online;
	p->auto_batch = batch < MIN_AUTO_BATCH ? MIN_AUTO_BATCH : batch;
	pcpu_area_use(offset);
}

static int backend_from_environment(void)
{
	const char *name = secure_getenv("PCPU_STAT_BACKEND");

	for (int backend = PCPU_BACKEND_RSEQ; name && backend <= PCPU_BACKEND_ATOMIC; backend++)
		if (strcmp(name, pcpu_backend_name(backend)) == 0)
			return backend;
	return -1;
}

/* This thread, process and all: a forked child has another number than the thread that called fork. */
static uint64_t this_thread(void)
{
	return (uint64_t)(uint32_t)getpid() << 32 | (uint32_t)syscall(SYS_gettid);
}

bool pcpu_cpu_start(void)
{
	static uint64_t starter; /* the thread that starts, or did; 0: none yet */
	uint64_t self, other = 0;

	if (pcpu_cpu_started())
		return true;
	self = this_thread();
	while (!__atomic_compare_exchange_n(&starter, &other, self, false, __ATOMIC_ACQUIRE,
					    __ATOMIC_ACQUIRE)) {
		if (pcpu_cpu_started())
			return true;
		/* A signal handler in the middle of it must not wait for what it interrupts. */
		if (other == self)
			return false;
		/* A thread of the process that we were forked from never finishes here: begin anew in its place. */
		if (other >> 32 != self >> 32)
			continue;
		sched_yield();
		other = 0;
	}
	start(&pcpu_linux, backend_from_environment());
	__atomic_store_n(&pcpu_cpu.started, true, __ATOMIC_RELEASE);
	return true;
}

__attribute__((constructor)) static void start_early(void)
{
	pcpu_cpu_start();
}

void pcpu_cpu_restart(const struct pcpu_os *os, int backend)
{
	start(os, backend < 0 ? backend_from_environment() : backend);
	__atomic_store_n(&pcpu_cpu.started, true, __ATOMIC_RELEASE);
}

unsigned pcpu_current_slot(void)
{
	const struct pcpu_cpu *p = &pcpu_cpu;
	int cpu = p->area_has_cpu ? area_cpu() : -1;
	uint64_t hash;

	if (cpu < 0)
		cpu = p->os->current_cpu();
	if (cpu >= 0)
		return (unsigned)cpu % p->topology.slots;
	/* Thread blocks lie whole pages apart: spread by a multiplicative hash (Knuth's golden ratio). */
	hash = ((uint64_t)(uintptr_t)pcpu_thread_pointer() >> 6) * 0x9e3779b97f4a7c15u;
	return (unsigned)(hash >> 32) % p->topology.slots;
}

void pcpu_cpu_count_bad_stat(void)
{
	__atomic_fetch_add(&pcpu_bad_stats, 1, __ATOMIC_RELAXED);
}

int pcpu_copy_attr(void *to, size_t size, size_t oldest, const void *from)
{
	size_t given;

	if (!from)
		return 0;
	given = *(const size_t *)from;
	if (given < oldest)
		return -EINVAL;
	for (size_t i = size; i < given; i++)
		if (((const char *)from)[i])
			return -E2BIG;
	memcpy(to, from, given < size ? given : size);
	*(size_t *)to = size;
	return 0;
}

void pcpu_copy_facts(void *to, size_t given, const void *from, size_t size)
{
	memset(to, 0, given);
	memcpy(to, from, given < size ? given : size);
	*(size_t *)to = given;
}

int pcpu_get_info(struct pcpu_info *info)
{
	/* The first published struct ended here; later fields go behind. */
	const size_t oldest = offsetof(struct pcpu_info, bad_stats) + sizeof(info->bad_stats);
	struct pcpu_info facts = {0};
	const struct pcpu_cpu *p = &pcpu_cpu;
	size_t given;

	if (!info || info->size < oldest)
		return -EINVAL;
	if (!pcpu_cpu_start())
		return -EAGAIN;
	given = info->size;
	facts.slots = p->topology.slots;
	facts.slots_online = p->topology.online;
	facts.nodes = p->topology.nodes_online;
	facts.backend = p->backend;
	facts.numa = __atomic_load_n(&p->numa, __ATOMIC_RELAXED);
	facts.rseq = p->rseq;
	facts.fences = pcpu_fence_kinds() & (PCPU_FENCE_PROCESS | PCPU_FENCE_GLOBAL);
	facts.batch = p->auto_batch;
	facts.bad_stats = __atomic_load_n(&pcpu_bad_stats, __ATOMIC_RELAXED);
	pcpu_copy_facts(info, given, &facts, sizeof(facts));
	return 0;
}

const char *pcpu_backend_name(int backend)
{
	switch (backend) {
	case PCPU_BACKEND_RSEQ:
		return "rseq";
	case PCPU_BACKEND_ATOMIC:
		return "atomic";
	default:
		return "unknown";
	}
}

int pcpu_slot_node(unsigned slot)
{
	const struct pcpu_topology *t = &pcpu_cpu.topology;

	if (!pcpu_cpu_start())
		return -EAGAIN;
	if (slot >= t->slots || t->slot_index[slot] < 0)
		return -ENXIO;
	return t->node_id[t->slot_index[slot]];
}

const char *pcpu_version(void)
{
	return PCPU_VERSION;
}
