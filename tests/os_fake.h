/* SPDX-License-Identifier: MIT */
/*
 * A machine that is not there: a tree like /sys in a temporary directory, and an operating system whose
 * answers tests choose.
 *
 *	fake_machine("0-3", "0-3");	four CPUs, one node
 *	fake_node(1, "2-3", "20 10");	... two of them on node 1
 *	fake_start();			the library now believes in it
 *	fake_cpu(2);			and that this thread runs on CPU 2
 *
 * The CPU is chosen by an rseq area of our own that the kernel never sees: sections run in it unaborted, on
 * whatever CPU it names. Where the library has no sections, its question for the CPU gets the same answer.
 */
#ifndef PCPU_TESTS_OS_FAKE_H
#define PCPU_TESTS_OS_FAKE_H

#include <stdbool.h>
#include <stddef.h>

#include "cpu/os.h"

/* What the operating system answers, and how often it was asked. Change it before fake_start. */
struct fake {
	struct pcpu_os os; /* what the library is given; single functions may be replaced */
	char sysfs[64];
	unsigned long affinity; /* mask of the first CPUs; 0: refused */
	long configured;	/* what sysconf says */
	unsigned long allowed;	/* mask of nodes; 0: refused */
	long placing;		/* result of prefer_node */
	long membarriers;	/* commands that there are; negative: refused */
	bool no_area;		/* leave the real rseq area in use */
	unsigned asked_cpu, asked_place, asked_fence;
	struct {
		char *addr;
		size_t bytes;
		int node;
	} placed[64];
};

extern struct fake fake;

/* A machine of these CPUs on one node, with everything granted. NULL: the file is not there. */
void fake_machine(const char *possible, const char *online);
/* Put CPUs on a node; call for all nodes, in order, then fake_nodes. */
void fake_node(unsigned id, const char *cpus, const char *distances);
void fake_nodes(const char *online, const char *has_memory);
/* Any file below the root. */
void fake_file(const char *path, const char *text);
/* Restart the library on it, with fresh default regions and the backend of the environment. */
void fake_start(void);
/* This thread runs on @cpu from now on; negative: on none that is known, as an unregistered thread. */
void fake_cpu(int cpu);

#endif /* PCPU_TESTS_OS_FAKE_H */
