/* SPDX-License-Identifier: MIT */
/**
 * @file cpu.h
 * Library facts: what the library found out about this machine and process at start-up.
 */
#ifndef PCPU_STAT_CPU_H
#define PCPU_STAT_CPU_H

#include <pcpu_stat/common.h>

PCPU_BEGIN_DECLS

/** How updates find and change the memory of the CPU they run on. */
enum pcpu_backend {
	PCPU_BACKEND_RSEQ,   /**< restartable sequences: plain stores (x86-64); the CPU id alone (aarch64) */
	PCPU_BACKEND_ATOMIC, /**< atomic adds to the slot that getcpu names, or a hash of the thread */
};

/** What became of NUMA placement (pcpu_info.numa). */
enum pcpu_numa {
	PCPU_NUMA_SINGLE,  /**< one node: there is nothing to place */
	PCPU_NUMA_PLACED,  /**< chunks are bound to the node of their CPU, or the nearest one with memory */
	PCPU_NUMA_REFUSED, /**< several nodes, but the system refused a policy call: placed by first touch */
};

/** Why updates do not use restartable sequences (pcpu_info.rseq). */
enum pcpu_rseq {
	PCPU_RSEQ_USED,	       /**< in use */
	PCPU_RSEQ_ABSENT,      /**< the C library has no registered area: too old, switched off, or refused */
	PCPU_RSEQ_UNSUPPORTED, /**< no section for this machine, or the library is built for a sanitizer */
	PCPU_RSEQ_BROKEN,      /**< the start-up self-test failed */
	PCPU_RSEQ_OVERRIDDEN,  /**< PCPU_STAT_BACKEND=atomic */
};

/**
 * Facts about the machine, the process and the library. Set size to sizeof(struct pcpu_info) before the call:
 * a newer library fills what fits, and zeroes what it does not know.
 */
struct pcpu_info {
	size_t size;
	unsigned slots;	       /**< slots per region: highest possible CPU id + 1 */
	unsigned slots_online; /**< CPUs online at start-up */
	unsigned nodes;	       /**< NUMA nodes, at least 1 */
	int backend;	       /**< enum pcpu_backend, the one in use */
	int numa;	       /**< enum pcpu_numa */
	int rseq;	       /**< enum pcpu_rseq */
	unsigned fences;       /**< bit 0: membarrier for this process, bit 1: across processes */
	unsigned batch;	       /**< the automatic batch (see struct pcpu_counter_attr) */
	uint64_t bad_stats;    /**< tree updates with a statistic out of range, ignored */
};

/**
 * Fill @p info with the facts found at start-up.
 *
 * @param info  out; info->size is the caller's sizeof(struct pcpu_info)
 * @return 0; -EINVAL if @p info is NULL or info->size is smaller than the first published struct; -EAGAIN in a
 * signal handler that interrupts the library's start, when there are no facts yet
 *
 * Context: any thread, signal handler, inside malloc, after fork. Cost: a copy.
 */
PCPU_API int pcpu_get_info(struct pcpu_info *info);

/**
 * The name of a backend as PCPU_STAT_BACKEND takes it.
 *
 * @param backend  enum pcpu_backend
 * @return "rseq" or "atomic"; "unknown" for any other value; never NULL
 *
 * Context: anywhere. Cost: none.
 */
PCPU_API const char *pcpu_backend_name(int backend);

/**
 * The NUMA node that a slot belongs to.
 *
 * @param slot  slot number = CPU id, 0 .. pcpu_info.slots - 1
 * @return node id; -ENXIO for no such slot, or a CPU id that is a hole in the possible list; -EAGAIN in a signal
 * handler that interrupts the library's start
 *
 * Context: anywhere. Cost: a load.
 */
PCPU_API int pcpu_slot_node(unsigned slot);

/**
 * The library's version, "major.minor.patch".
 *
 * Context: anywhere. Cost: none.
 */
PCPU_API const char *pcpu_version(void);

PCPU_END_DECLS

#endif /* PCPU_STAT_CPU_H */
