/* SPDX-License-Identifier: MIT */
/**
 * @file limit.h
 * Limits: usage with a ceiling at every level of a hierarchy.
 *
 * A limit has a parent or is a root. What is charged to it is charged to every limit from it to the root, and
 * a charge that asks first (try_charge) goes through at all of them or changes nothing. The common case
 * touches only memory of the CPU it runs on: each limit keeps a small stock of units per CPU that have been
 * taken from all levels already, and a charge or uncharge within the stock costs what adding to a counter
 * costs, at any depth.
 *
 * This is the shape of the kernel's page_counter and its per-CPU stock. Unlike there, usage never passes max
 * for an instant, a refusal never comes from units that sit unused in another CPU's stock, a charge that
 * fails at one level is never seen at another, and usage counts what is charged, not what is stocked.
 */
#ifndef PCPU_STAT_LIMIT_H
#define PCPU_STAT_LIMIT_H

#ifndef __cplusplus
#include <stdbool.h>
#endif

#include <pcpu_stat/common.h>

PCPU_BEGIN_DECLS

struct pcpu_region;

/** No limit: the ceiling of a limit that was given none. Usage does not pass this one either. */
#define PCPU_LIMIT_MAX INT64_MAX

/**
 * A limit, as far as charging code that is compiled into the caller reads it: written when the limit is made,
 * and when its stocks are taken back. The contents belong to the library, which alone makes these; offsets
 * are part of the ABI.
 */
struct pcpu_limit {
	int64_t slots;	 /* from here to the slot of CPU 0, bytes; that of CPU i lies i * stride further */
	uint64_t stride; /* bytes */
	uint32_t fast_slots; /* CPU ids below this may use the fast path */
	uint32_t flags;
	int64_t batch;	/* no stock is larger, units */
	uint64_t epoch; /* stocks of another epoch are void; odd: there are none */
	uint64_t reserved[3];
};

/** How to make a limit. NULL in place of the struct, and zero in any field but max, mean the default. */
struct pcpu_limit_attr {
	size_t size;	/**< sizeof(struct pcpu_limit_attr) */
	int64_t max;	/**< the ceiling, units; 0 allows nothing; PCPU_LIMIT_MAX: none */
	uint32_t batch; /**< largest stock per CPU, units; 0: automatic, max(64, 2 * CPUs online) */
	struct pcpu_region *region; /**< where the slots live; NULL: the parent's, or the default region */
	const char *name;	    /**< for shared regions; ignored in a private one */
};

/**
 * Make a limit.
 *
 * The limits of one hierarchy lie in a mapping that the root makes (16 MiB of address space for 65536 limits,
 * memory page by page as they are made), their slots in the region: 32 bytes and as many again in its shadow.
 * No malloc. A destroyed limit's place and slots are kept for the next child of any limit in the hierarchy.
 *
 * @param limit   out: the limit
 * @param parent  its parent, or NULL for a root
 * @param attr    attributes, or NULL: no limit, an automatic batch
 * @return 0; -EINVAL (no @p limit, size, negative max, batch above INT32_MAX, a region other than the
 *         parent's), -E2BIG (unknown trailing bytes), -ENOSPC (the region is full, or 65536 limits),
 *         -ENOMEM, -ENOTSUP (a machine without 16-byte compare-and-swap)
 *
 * Context: any thread; not a signal handler. Takes a lock that no charge, uncharge or read takes.
 * Cost: for a root a system call.
 */
PCPU_API int pcpu_limit_create(struct pcpu_limit **limit, struct pcpu_limit *parent,
			       const struct pcpu_limit_attr *attr);

/**
 * Find a limit of a shared region by its name.
 *
 * @return -EINVAL without all three arguments; else -ENOTSUP: regions are private in this version
 *
 * Context: any thread; not a signal handler.
 */
PCPU_API int pcpu_limit_open(struct pcpu_limit **limit, struct pcpu_region *region, const char *name);

/**
 * End a limit. No charge or uncharge of it may be under way or come later, and no call on any limit under way
 * when it is a root.
 *
 * @param limit  the limit, or NULL
 * @return 0; -EBUSY and unchanged with children or with usage
 *
 * Context: any thread; not a signal handler. Cost: that of pcpu_limit_drain of this limit; for a root system
 * calls.
 */
PCPU_API int pcpu_limit_destroy(struct pcpu_limit *limit);

/**
 * Give the handle up and leave the limit, with its usage, to its parent. In a private region it can then not
 * be reached any more; its memory goes when the hierarchy's last handle is given up or destroyed.
 *
 * Context: any thread; not a signal handler. Cost: a few loads; system calls for the last handle.
 */
PCPU_API void pcpu_limit_close(struct pcpu_limit *limit);

#if PCPU_INLINE_UPDATES
#define PCPU_LIMIT_UPDATE static inline __attribute__((always_inline, unused))
#else
#define PCPU_LIMIT_UPDATE PCPU_API
#endif

/**
 * Charge @p n units to a limit and all above it, or nothing at all if one of them would pass its max.
 *
 * A refusal is real: at some instant during the call the charge did not fit at `*failed`, with every stock
 * below that taken back. It counts one failure there, and leaves no trace elsewhere, not even for an instant.
 *
 * @param limit   the limit
 * @param n       units; 0 and less: nothing changes, true
 * @param failed  out on refusal: the first limit that refused, from @p limit up; may be NULL
 * @return true if charged
 *
 * Context: any thread, signal handler, inside malloc, after fork. Cost: about that of pcpu_counter_add within
 * the stock, at any depth. Without the stock an atomic operation per level and three more; on a refusal,
 * unless stocks have been void since the last, one expedited membarrier and a walk over the slots below the
 * limit.
 */
PCPU_LIMIT_UPDATE bool pcpu_limit_try_charge(struct pcpu_limit *limit, int64_t n, struct pcpu_limit **failed);

/**
 * Charge @p n units to a limit and all above it, also beyond max.
 *
 * Usage stops at INT64_MAX: of a charge that would pass it, the part that fits is charged.
 *
 * @param limit  the limit
 * @param n      units; 0 and less: nothing
 *
 * Context, cost: as pcpu_limit_try_charge without refusals.
 */
PCPU_LIMIT_UPDATE void pcpu_limit_charge(struct pcpu_limit *limit, int64_t n);

/**
 * Take @p n charged units back from a limit and all above it; any thread may uncharge what another charged.
 *
 * Taking more than was charged to this very limit (not to those below it) is an error of the caller: the
 * limit stops at 0 and counts an underflow, at once or when its stocks are next taken back, and its ancestors
 * are only relieved of what it had. So a parent's usage always is its own and that of its children.
 *
 * @param limit  the limit
 * @param n      units; 0 and less: nothing
 *
 * Context, cost: as pcpu_limit_try_charge without refusals.
 */
PCPU_LIMIT_UPDATE void pcpu_limit_uncharge(struct pcpu_limit *limit, int64_t n);

/**
 * Change the ceiling, up or down, while charges go on.
 *
 * @param limit  the limit
 * @param max    units; PCPU_LIMIT_MAX: none
 * @return 0; -EINVAL (negative); -EBUSY and unchanged if usage is above @p max
 *
 * Context: any thread, signal handler, inside malloc, after fork. Cost: a few atomic operations; that of
 * pcpu_limit_drain when usage and stocks together are above @p max.
 */
PCPU_API int pcpu_limit_set_max(struct pcpu_limit *limit, int64_t max);

/**
 * Units charged to the limit and those below it, and not uncharged; units that only lie in a stock do not
 * count. Holds every charge and uncharge that happened before the call; while others are under way it is
 * never negative, nor above max unless `charge` forced it.
 *
 * Context: any thread, signal handler, inside malloc, after fork. Cost: O(slots) loads for each limit from
 * here down.
 */
PCPU_API int64_t pcpu_limit_usage(struct pcpu_limit *limit);

/**
 * The highest usage since the limit was made or its peak was reset.
 *
 * Never less than it was; above it by no more than the units that lay in stocks then (batch units per CPU and
 * limit from here down), so exact when all charges were of more than half a batch; above max only
 * if `charge` forced it.
 *
 * Context: any thread, signal handler, inside malloc, after fork. Cost: a load.
 */
PCPU_API int64_t pcpu_limit_peak(struct pcpu_limit *limit);

/**
 * Make the present usage the peak.
 *
 * Context: any thread, inside malloc, after fork. Cost: that of pcpu_limit_drain.
 */
PCPU_API void pcpu_limit_reset_peak(struct pcpu_limit *limit);

/**
 * Charges refused because they did not fit at this very limit.
 *
 * Context: any thread, signal handler, inside malloc, after fork. Cost: a load.
 */
PCPU_API int64_t pcpu_limit_failures(struct pcpu_limit *limit);

/**
 * How often more was found to have been uncharged from this limit than had been charged to it. Underflows
 * that hide in stocks show after the next drain, several together as one.
 *
 * Context: any thread, signal handler, inside malloc, after fork. Cost: a load.
 */
PCPU_API uint64_t pcpu_limit_underflows(struct pcpu_limit *limit);

/**
 * Take back all stocks of this limit and those below it. The next charges bring new ones.
 *
 * @return 0
 *
 * Context: any thread, signal handler, inside malloc, after fork. Cost: an expedited membarrier, O(slots)
 * loads for each limit from here down, and for each stock what a charge without stock costs.
 */
PCPU_API int pcpu_limit_drain(struct pcpu_limit *limit);

/** The parts of charging that inline code does not hold. For pcpu_stat/limit.h alone. */
PCPU_API bool pcpu_limit_try_charge_slow(struct pcpu_limit *limit, int64_t n, struct pcpu_limit **failed);
PCPU_API void pcpu_limit_charge_slow(struct pcpu_limit *limit, int64_t n);
PCPU_API void pcpu_limit_uncharge_slow(struct pcpu_limit *limit, int64_t n);

PCPU_END_DECLS

#if PCPU_INLINE_UPDATES
#include <pcpu_stat/arch/x86_64.h>
#include <pcpu_stat/limit_inline.h>
#endif

#endif /* PCPU_STAT_LIMIT_H */
