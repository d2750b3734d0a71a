/* SPDX-License-Identifier: MIT */
/* Linux by raw system calls: no libnuma (its constructor calls malloc), no allocation, errno left alone. */
#define _GNU_SOURCE
#include "cpu/os.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BITS_PER_LONG (8 * sizeof(unsigned long))
/* Kernel: uapi/linux/mempolicy.h, repeated here because that header comes with libnuma on some systems. */
#define MPOL_PREFERRED	    1
#define MPOL_F_MEMS_ALLOWED 4
/* Kernel: the largest node mask that any configuration needs (CONFIG_NODES_SHIFT <= 10). */
#define MAX_NODES 1024

static long result(long r)
{
	return r < 0 ? -errno : r;
}

/*
 * getcpu without a system call, or not at all: under emulators and where the kernel gives no vDSO it would be
 * a trap per add, and a sandbox may kill for it. Callers then spread by thread.
 */
static int linux_current_cpu(void)
{
#if defined(__x86_64__)
	static int has_vdso; /* 0 unknown, 1 yes, -1 no; every thread finds the same */
	int saved = errno, cpu, known = __atomic_load_n(&has_vdso, __ATOMIC_RELAXED);

	if (known == 0) {
		known = getauxval(AT_SYSINFO_EHDR) ? 1 : -1;
		__atomic_store_n(&has_vdso, known, __ATOMIC_RELAXED);
	}
	if (known < 0)
		return -ENOSYS;
	cpu = sched_getcpu();
	errno = saved;
	return cpu < 0 ? -ENOSYS : cpu;
#else
	return -ENOSYS; /* aarch64's vDSO has no getcpu */
#endif
}

static long linux_get_affinity(unsigned long *mask, size_t bytes)
{
	int saved = errno;
	long r = result(syscall(SYS_sched_getaffinity, 0, bytes, mask));

	errno = saved;
	return r;
}

static long linux_nr_configured(void)
{
	int saved = errno;
	long r = sysconf(_SC_NPROCESSORS_CONF);

	errno = saved;
	return r;
}

static long linux_prefer_node(void *addr, size_t bytes, int node)
{
	unsigned long mask[MAX_NODES / BITS_PER_LONG] = {0};
	int saved = errno;
	long r;

	if (node < 0 || node >= MAX_NODES)
		return -EINVAL;
	mask[(unsigned)node / BITS_PER_LONG] = 1UL << ((unsigned)node % BITS_PER_LONG);
	/* The kernel reads one bit less than it is told. */
	r = result(syscall(SYS_mbind, addr, bytes, MPOL_PREFERRED, mask, (unsigned long)MAX_NODES + 1, 0));
	errno = saved;
	return r;
}

static long linux_allowed_nodes(unsigned long *mask, size_t bytes)
{
	int saved = errno;
	long r = result(syscall(SYS_get_mempolicy, NULL, mask, 8 * bytes, NULL, MPOL_F_MEMS_ALLOWED));

	errno = saved;
	return r;
}

static long linux_membarrier(int command)
{
	int saved = errno;
	long r = result(syscall(SYS_membarrier, command, 0, 0));

	errno = saved;
	return r;
}

const struct pcpu_os pcpu_linux = {
	.sysfs = "/sys",
	.current_cpu = linux_current_cpu,
	.get_affinity = linux_get_affinity,
	.nr_configured = linux_nr_configured,
	.prefer_node = linux_prefer_node,
	.allowed_nodes = linux_allowed_nodes,
	.membarrier = linux_membarrier,
	.use_rseq = true,
};
