/* SPDX-License-Identifier: MIT */
/*
 * The operating system as the cpu and region floors see it: the root of /sys and one table of functions.
 * Tests replace the table to show the library machines that are not there.
 */
#ifndef PCPU_LIB_CPU_OS_H
#define PCPU_LIB_CPU_OS_H

#include <stdbool.h>
#include <stddef.h>

/* The most that Linux can be configured for. */
#define PCPU_MAX_SLOTS 8192 /* CPUs: CONFIG_MAXSMP */
#define PCPU_MAX_NODES 1024 /* NUMA nodes: CONFIG_NODES_SHIFT <= 10 */

struct pcpu_os {
	const char *sysfs; /* "/sys" */
	/* The CPU this thread runs on, or a negative errno; must not be a system call. */
	int (*current_cpu)(void);
	/* The affinity mask, one bit per CPU; returns bytes filled or a negative errno. */
	long (*get_affinity)(unsigned long *mask, size_t bytes);
	/* Configured processors according to the C library, or <= 0. */
	long (*nr_configured)(void);
	/* Prefer @node for [addr, addr + bytes): 0 or a negative errno. */
	long (*prefer_node)(void *addr, size_t bytes, int node);
	/* Nodes that this process may take memory from, one bit each: 0 or a negative errno. */
	long (*allowed_nodes)(unsigned long *mask, size_t bytes);
	/* membarrier(command, 0, 0) */
	long (*membarrier)(int command);
	/* Should restartable sequences be looked for at all? */
	bool use_rseq;
};

/* The real one. */
extern const struct pcpu_os pcpu_linux;

#endif /* PCPU_LIB_CPU_OS_H */
