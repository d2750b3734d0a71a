/* SPDX-License-Identifier: MIT */
/**
 * @file counter.h
 * Counters: one number, added to from every CPU, read from anywhere.
 *
 * An add goes to the slot of the CPU it runs on and touches nothing that another CPU writes. When a slot has
 * strayed from what it last reported by the batch, the difference is carried to the shared value. So `read`
 * is one load and at most a known error away from `sum`, which walks all slots and is exact. This is the
 * shape of the kernel's percpu_counter; unlike there, slots are never emptied, so that `sum` takes no lock,
 * and the error of `read` is a promise (see pcpu_counter_error).
 */
#ifndef PCPU_STAT_COUNTER_H
#define PCPU_STAT_COUNTER_H

#include <pcpu_stat/common.h>

PCPU_BEGIN_DECLS

struct pcpu_region;

/**
 * A counter. The contents belong to the library; the type is complete so that it can be embedded and
 * initialised statically. It needs no particular alignment and must not be moved or copied while in use.
 * Updates only read the first 64 bytes: keep words that your program writes often off that line.
 */
struct pcpu_counter {
	/* Read by every add, written by init, set_batch and destroy. Offsets are part of the ABI. */
	char *slots;	     /* slot of CPU 0; that of CPU i lies i * stride bytes further */
	uint64_t stride;     /* bytes */
	uint32_t fast_slots; /* CPU ids below this may use the fast path; 0: none yet */
	uint32_t batch;	     /* in force; 0 in a counter that never got its slots */
	int64_t bias;	     /* batch - 1 */
	uint64_t reserved_hot;
	/* Read by slow paths and readers. */
	struct pcpu_region *region;
	char *node_words; /* word of node index 0, or NULL: no node level */
	uint32_t nr_slots;
	uint32_t state;
	/* 64 */
	uint64_t reserved_cold[8];
	uint64_t gap[8]; /* two lines between words that everybody reads and words that everybody writes */
	/* 192: written by carries, direct adds, set and drain. Accessed with atomics only. */
	int64_t value;	 /* what read returns: all that was carried or added directly, less base */
	int64_t direct;	 /* adds that went past the slots */
	int64_t base;	 /* sum = slots + direct - base */
	uint32_t widest; /* the largest bias that any slot may have been filled under */
	uint32_t reserved_word;
	uint64_t reserved_shared[4];
};

/**
 * Static initialiser: an automatic batch, the default region, value 0. Usable before main() and never fails.
 * (Every member has its 0, as compilers warn of those left out.)
 */
/* clang-format off */
#define PCPU_COUNTER_INIT                                                                                    \
	{                                                                                                    \
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0},            \
		0, 0, 0, 0, 0, {0, 0, 0, 0}                                                                  \
	}
/* clang-format on */

/** Carry by way of one word per NUMA node, also where that is not the default (machines with one node). */
#define PCPU_COUNTER_NODE_LEVEL 1u
/** Carry straight to the shared value, also on machines with several nodes. */
#define PCPU_COUNTER_NO_NODE_LEVEL 2u

/** How to make a counter. NULL in place of the struct, and zero in any field, mean the default. */
struct pcpu_counter_attr {
	size_t size;		    /**< sizeof(struct pcpu_counter_attr) */
	struct pcpu_region *region; /**< where the slots live; NULL: the default region */
	int64_t initial;	    /**< first value */
	uint32_t batch;	  /**< carry when a slot has changed by this much; 0: automatic, see below */
	uint32_t flags;	  /**< PCPU_COUNTER_NODE_LEVEL or PCPU_COUNTER_NO_NODE_LEVEL */
	const char *name; /**< for shared regions; ignored in a private one */
};

/**
 * Make a counter.
 *
 * The automatic batch is max(2048, 16 * CPUs online): so large that carries, which wait for a line that
 * another CPU wrote, are a small part of what adds cost, and that this line, which all CPUs share, has time
 * for all of them. Choose a smaller one where read must be close without asking for sum; pcpu_counter_compare
 * is exact at any batch.
 *
 * @param c     the counter, in any state
 * @param attr  attributes, or NULL
 * @return 0; -EINVAL (no @p c, size, flags, batch above INT32_MAX), -E2BIG (unknown trailing bytes), -ENOSPC
 * (the region given is full). A counter without a region of its own does not fail for want of memory: it
 * counts in its shared words instead, exactly but more slowly.
 *
 * Context: any thread; inside malloc; after fork. Not a signal handler. Cost: a compare-and-swap in a bitmap
 * of what is free, with a node level another one; system calls when a default region is full.
 */
PCPU_API int pcpu_counter_init(struct pcpu_counter *c, const struct pcpu_counter_attr *attr);

/**
 * End a counter: its slots go back to the region. No add may be under way or come later. A counter from
 * PCPU_COUNTER_INIT may be destroyed or left alone; destroying twice is harmless.
 *
 * Context: any thread; inside malloc; after fork. Not a signal handler. Cost: O(slots).
 */
PCPU_API void pcpu_counter_destroy(struct pcpu_counter *c);

#if PCPU_INLINE_UPDATES
#define PCPU_COUNTER_UPDATE static inline __attribute__((always_inline, unused))
#else
#define PCPU_COUNTER_UPDATE PCPU_API __attribute__((aligned(64), noinline))
#endif

/**
 * Add @p n to the slot of the CPU that this thread runs on.
 *
 * @param c  the counter
 * @param n  amount, may be negative; sums wrap at 64 bits
 *
 * Context: any thread, also one the library never saw; signal handler; inside malloc; before constructors;
 * after fork. Not where a thread borrows another one's thread pointer, or made one up: the child of vfork, or of
 * a bare clone without the C library. The kernel updates no CPU id there, and adds can be lost.
 *
 * Cost: two fifths (inline) to three fifths (called) of `thread_local += n` where the CPU forwards stores by
 * register name, more elsewhere (bench_counter --bars prints the ratios); one atomic add to a shared word per
 * batch, and for each amount of the batch or more: choose a batch well above the usual amount. Called, it is
 * fastest while the thread runs no other section in between (adds compiled in, or to a tree).
 */
PCPU_COUNTER_UPDATE void pcpu_counter_add(struct pcpu_counter *c, int64_t n);
/** pcpu_counter_add(c, -n), also for INT64_MIN (which wraps to itself). */
PCPU_COUNTER_UPDATE void pcpu_counter_sub(struct pcpu_counter *c, int64_t n);
/** pcpu_counter_add(c, 1). */
PCPU_COUNTER_UPDATE void pcpu_counter_inc(struct pcpu_counter *c);
/** pcpu_counter_add(c, -1). */
PCPU_COUNTER_UPDATE void pcpu_counter_dec(struct pcpu_counter *c);

/**
 * The value, approximately: see pcpu_counter_error for how far off it may be.
 *
 * Context: any thread, signal handler, inside malloc, after fork. Cost: a load.
 */
PCPU_API int64_t pcpu_counter_read(const struct pcpu_counter *c);

/**
 * The value, exactly: holds every add that happened before the call, in the sense of C11, whichever thread
 * made it. Adds made meanwhile may be in it or not.
 *
 * Context: any thread, signal handler, inside malloc, after fork. Cost: O(slots) loads, no store.
 */
PCPU_API int64_t pcpu_counter_sum(const struct pcpu_counter *c);

/**
 * pcpu_counter_read, or 0 if that is negative: for numbers that cannot be negative at rest.
 *
 * Context, cost: the same.
 */
PCPU_API int64_t pcpu_counter_read_positive(const struct pcpu_counter *c);
/**
 * pcpu_counter_sum, or 0 if that is negative, as it can be while adds are under way.
 *
 * Context, cost: the same.
 */
PCPU_API int64_t pcpu_counter_sum_positive(const struct pcpu_counter *c);

/**
 * How far pcpu_counter_read may be off: sum - below <= read <= sum + above whenever no add is under way.
 *
 * Both are slots * (batch - 1), and with a node level nodes * (node batch - 1) more. They depend neither on
 * the number of threads nor on that of adds, and some sequence of adds reaches them. After the batch was
 * made smaller, slots that still hold more than it allows count with what they hold. In a child forked while
 * another thread was in the middle of an add, that add stays under way for good: sum is exact there, while read,
 * the bounds and what compare concludes from them may be off by its amount.
 *
 * @param c      the counter
 * @param below  out, >= 0; saturates at INT64_MAX
 * @param above  out, >= 0; saturates at INT64_MAX
 *
 * Context: any thread, signal handler, inside malloc, after fork. Cost: a few loads; O(slots) once the batch
 * was ever lowered.
 */
PCPU_API void pcpu_counter_error(const struct pcpu_counter *c, int64_t *below, int64_t *above);

/**
 * Compare the counter with @p value: never wrong when no add is under way.
 *
 * @param c      the counter
 * @param value  what to compare with
 * @return -1, 0 or 1 as the counter is below, at or above @p value
 *
 * Context: any thread, signal handler, inside malloc, after fork. Cost: a few loads when read is further from
 * @p value than the error; else that of pcpu_counter_sum.
 */
PCPU_API int pcpu_counter_compare(const struct pcpu_counter *c, int64_t value);

/**
 * Make the sum @p value. Adds made meanwhile are kept or overwritten, each as a whole.
 *
 * @param c      the counter
 * @param value  what the sum becomes
 *
 * Context: any thread, signal handler, inside malloc, after fork. Cost: O(slots) loads and two atomic
 * operations; again for each set or drain that comes in between.
 */
PCPU_API void pcpu_counter_set(struct pcpu_counter *c, int64_t value);

/**
 * Return the sum and take it away. Every add is in the result of exactly one drain, or still in the counter.
 *
 * @param c  the counter
 * @return what was taken away
 *
 * Context, cost: the same. Slots are only read.
 */
PCPU_API int64_t pcpu_counter_drain(struct pcpu_counter *c);

/**
 * Change the batch while adds go on.
 *
 * @param c      the counter
 * @param batch  1 .. INT32_MAX; 0: automatic again; 1 makes read exact at rest, once each slot was used
 * @return 0; -EINVAL above INT32_MAX; -EAGAIN in a signal handler that interrupts the library's start
 *
 * Context: any thread, inside malloc, after fork. Cost: a few stores to a line that every add reads;
 * with a node level an atomic exchange per node.
 */
PCPU_API int pcpu_counter_set_batch(struct pcpu_counter *c, uint32_t batch);

/** The part of pcpu_counter_add that inline code does not hold. For pcpu_stat/counter_inline.h alone. */
PCPU_API void pcpu_counter_add_slow(struct pcpu_counter *c, int64_t n);

PCPU_END_DECLS

#if PCPU_INLINE_UPDATES
#include <pcpu_stat/arch/x86_64.h>
#include <pcpu_stat/counter_inline.h>
#endif

#endif /* PCPU_STAT_COUNTER_H */
