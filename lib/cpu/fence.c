/* SPDX-License-Identifier: MIT */
/* membarrier: what the kernel has, and the calls. */
#define _GNU_SOURCE
#include "cpu/fence.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpu/topology.h"

/* Kernel: uapi/linux/membarrier.h; repeated since older headers lack the last two. */
#define QUERY				0
#define GLOBAL_EXPEDITED		(1 << 1)
#define PRIVATE_EXPEDITED		(1 << 3)
#define REGISTER_PRIVATE_EXPEDITED	(1 << 4)
#define PRIVATE_EXPEDITED_RSEQ		(1 << 7)
#define REGISTER_PRIVATE_EXPEDITED_RSEQ (1 << 8)

static const struct pcpu_os *fence_os;
static unsigned kinds;

void pcpu_fence_start(const struct pcpu_os *os)
{
	long commands = os->membarrier(QUERY);

	fence_os = os;
	kinds = 0;
	if (commands < 0)
		return;
	if ((commands & PRIVATE_EXPEDITED) && os->membarrier(REGISTER_PRIVATE_EXPEDITED) == 0)
		kinds |= PCPU_FENCE_PROCESS;
	if ((commands & PRIVATE_EXPEDITED_RSEQ) && os->membarrier(REGISTER_PRIVATE_EXPEDITED_RSEQ) == 0)
		kinds |= PCPU_FENCE_RSEQ;
	if (commands & GLOBAL_EXPEDITED)
		kinds |= PCPU_FENCE_GLOBAL;
}

unsigned pcpu_fence_kinds(void)
{
	return kinds;
}

static bool fence(unsigned kind, int command, int registration)
{
	long r;

	if (!(kinds & kind))
		return false;
	r = fence_os->membarrier(command);
	/* Kernels that do not hand the registration to a forked child say so here. */
	if (r == -EPERM && fence_os->membarrier(registration) == 0)
		r = fence_os->membarrier(command);
	return r == 0;
}

bool pcpu_fence_process(void)
{
	return fence(PCPU_FENCE_PROCESS, PRIVATE_EXPEDITED, REGISTER_PRIVATE_EXPEDITED);
}

bool pcpu_fence_sections(void)
{
	return fence(PCPU_FENCE_RSEQ, PRIVATE_EXPEDITED_RSEQ, REGISTER_PRIVATE_EXPEDITED_RSEQ);
}

/* The kernel's masks, not the C library's: those end at 1024 CPUs. */
#define BITS_PER_LONG (8 * sizeof(unsigned long))

bool pcpu_fence_sections_by_visit(unsigned cpus)
{
	unsigned long before[PCPU_MAX_SLOTS / BITS_PER_LONG], here[PCPU_MAX_SLOTS / BITS_PER_LONG];
	int saved = errno;
	long bytes = syscall(SYS_sched_getaffinity, 0, sizeof(before), before);
	bool ok = bytes > 0;

	for (unsigned cpu = 0; ok && cpu < cpus && cpu < PCPU_MAX_SLOTS; cpu++) {
		memset(here, 0, sizeof(here));
		here[cpu / BITS_PER_LONG] = 1UL << cpu % BITS_PER_LONG;
		/* EINVAL: offline, or outside of our cpuset. */
		if (syscall(SYS_sched_setaffinity, 0, sizeof(here), here) < 0 && errno != EINVAL)
			ok = false;
	}
	if (bytes > 0 && syscall(SYS_sched_setaffinity, 0, (size_t)bytes, before) < 0)
		ok = false;
	errno = saved;
	return ok;
}
