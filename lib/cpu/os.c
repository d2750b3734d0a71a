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

/* Kernel: uapi/linux/mempolicy.h, repeated here because that header comes with libnuma on some systems. */
#define MPOL_PREFERRED	    1
#define MPOL_F_MEMS_ALLOWED 4

#define BITS_PER_LONG (8 * sizeof(unsigned long))

/* What a call returned, with the error in place of -1; errno is again what it was before. */
static long result(long r, int saved)
{
	if (r < 0)
		r = -errno;
	errno = saved;
	return r;
}

/*
 * getcpu without a system call, or not at all: under emulators and where the kernel gives no vDSO it would be
 * a trap per add, and a sandbox may kill for it. Callers then spread by thread.
 */
static int linux_current_cpu(void)
{
#if defined(__x86_64__)
	static int has_vdso; /* 0 unknown, 1 yes, -1 no; every thread finds the same */
	int saved = errno, known = __atomic_load_n(&has_vdso, __ATOMIC_RELAXED);

	if (known == 0) {
		known = getauxval(AT_SYSINFO_EHDR) ? 1 : -1;
		__atomic_store_n(&has_vdso, known, __ATOMIC_RELAXED);
	}
	if (known < 0)
		return -ENOSYS;
	return (int)result(sched_getcpu(), saved);
#else
	return -ENOSYS; /* aarch64's vDSO has no getcpu */
#endif
}

static long linux_get_affinity(unsigned long *mask, size_t bytes)
{
	int saved = errno;

	return result(syscall(SYS_sched_getaffinity, 0, bytes, mask), saved);
}

static long linux_nr_configured(void)
{
	int saved = errno;

	return result(sysconf(_SC_NPROCESSORS_CONF), saved);
}

static long linux_prefer_node(void *addr, size_t bytes, int node)
{
	unsigned long mask[PCPU_MAX_NODES / BITS_PER_LONG] = {0};
	int saved = errno;

	if (node < 0 || node >= PCPU_MAX_NODES)
		return -EINVAL;
	mask[(unsigned)node / BITS_PER_LONG] = 1UL << ((unsigned)node % BITS_PER_LONG);
	/* The kernel reads one bit less than it is told. */
	return result(syscall(SYS_mbind, addr, bytes, MPOL_PREFERRED, mask, PCPU_MAX_NODES + 1UL, 0), saved);
}

static long linux_allowed_nodes(unsigned long *mask, size_t bytes)
{
	int saved = errno;

	return result(syscall(SYS_get_mempolicy, NULL, mask, 8 * bytes, NULL, MPOL_F_MEMS_ALLOWED), saved);
}

static long linux_membarrier(int command)
{
	int saved = errno;

	return result(syscall(SYS_membarrier, command, 0, 0), saved);
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
