/* SPDX-License-Identifier: MIT */
/*
 * The ledger of a hierarchy of limits: who has how many units, changed in steps that are seen whole or not at
 * all.
 *
 * A step moves units between the outside and one account (a limit's own word, or what it has given to a CPU's
 * slot), at every level from there to the root. It takes several words, and no lock: charging must work in a
 * signal handler that interrupted another charge, after a fork, and, once ledgers are shared, beside a
 * process that was killed half way.
 *
 * How: one step at a time, and everybody can finish it. `turn` holds a number and the step of that number.
 * Even: nothing is under way. To begin, a thread writes the amount into `operand` for the next number, then
 * replaces {even, old} by {odd, step} in one compare-and-swap, and then carries the step out: each word
 * involved is a pair of value and the number of the step that last changed it, so {v, t} becomes {v + n,
 * number} unless t is that number already. When all are done, turn goes to the next even number. Whoever
 * finds a step under way does the same first.
 *
 * Why a step is applied exactly once to each word: a pair is only replaced as it was read; it was read while
 * turn still held the number (checked after the reading); as long as turn holds it the word carries an older
 * number exactly if the step has not reached it. Numbers only grow, 64 bits wide. So a thread that slept
 * through any number of steps finds its compare-and-swap fail.
 *
 * Why a decision is atomic: ledger_begin returns an even number. Words read after that are of one moment if
 * turn still is that number afterwards, because only steps change them. And a step begun from that number
 * begins at a moment at which all that was read still held. A charge that does not fit therefore writes
 * nothing anywhere: there is no transient for a neighbour to trip over.
 *
 * Somebody who wrote the operand and then sleeps would hold up the rest: after a little patience they move
 * turn to the next even number, which makes the operand stale, and try their own. Some step always goes
 * through.
 */
#ifndef PCPU_LIB_LIMIT_LEDGER_H
#define PCPU_LIB_LIMIT_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pcpu_stat/limit.h>

#include "arch/pair.h"
#include "region/region.h"

/* On a CPU's line: written by that CPU alone where there are sections, by compare-and-swap elsewhere. */
struct limit_slot {
	int64_t total;	     /* net units charged through this slot, ever: truth, never taken back */
	uint64_t generation; /* the step that granted what the slot was last opened or closed with */
	int64_t ceiling;     /* sections alone: units given to the slot, ever, as of that step */
	uint64_t epoch;	     /* sections alone: the limit's when the slot was opened; 0: closed */
};

/* In the slot's shadow: units given to the slot, ever, and the step that last changed that. Pair: ledger. */
struct limit_grant {
	struct pcpu_pair given;
	uint64_t unused[2];
};

#define LIMIT_BYTES 256u

/* pcpu_limit.flags; fixed while the limit lives */
enum {
	LIMIT_SECTIONS = 1,   /* slots are written by sections; else by compare-and-swap */
	LIMIT_IN_DEFAULT = 2, /* the region is a default one, and children may be in another */
};

/* Positions are in bytes from the ledger, 0: none; so they hold in any mapping of it. */
struct limit {
	/* Read by every charge. */
	struct pcpu_limit head;
	/* Read by slow paths; rarely written. */
	struct pcpu_pair max; /* ledger */
	uint64_t at;
	uint64_t parent;
	uint64_t first_child;
	uint64_t next; /* sibling */
	uint64_t next_free;
	struct pcpu_region *region;
	/* Written by slow paths of all CPUs. */
	struct pcpu_pair usage
		__attribute__((aligned(PCPU_LINE_PAIR))); /* ledger: here and below, stocks too */
	struct pcpu_pair own;				  /* ledger: this limit alone, stocks too */
	struct pcpu_pair peak;				  /* ledger: the highest usage */
	uint64_t thawed;  /* ledger: the last step that allowed stocks here or below */
	uint64_t quiet;	  /* stocks here and below were all taken back in a pass that began at this number */
	uint64_t pressed; /* the last number at which a charge did not fit here */
	int64_t failures;
	uint64_t underflows;
};

struct ledger {
	/* Read-mostly. */
	size_t bytes; /* of the mapping */
	uint32_t capacity;
	/* Written by slow paths of all CPUs. */
	struct pcpu_pair turn __attribute__((aligned(PCPU_LINE_PAIR)));
	struct pcpu_pair operand;
	/* Written by create, destroy and close. */
	uint64_t lock __attribute__((aligned(PCPU_LINE_PAIR))); /* the process that holds it, 0: nobody */
	uint64_t free;						/* a list of destroyed limits, by next_free */
	uint64_t reused; /* how often one of them was given out again */
	uint32_t used;	 /* limits that were ever made */
	uint32_t handles;
};

enum ledger_kind {
	LEDGER_MOVE, /* n more in the account, in own, and in usage at every level */
	LEDGER_VOID, /* n more in the account alone */
	LEDGER_THAW, /* the limit's epoch is n, and every level knows */
	LEDGER_MAX,  /* the limit's max is n */
};

#define LEDGER_OWN UINT16_MAX /* in place of a CPU: no slot's account, just own */

/* A number at which nothing is under way; what was, is finished. */
uint64_t ledger_begin(struct ledger *ledger);

/* Is all that was read since ledger_begin of one moment, and still so now? */
bool ledger_holds(struct ledger *ledger, uint64_t number);

/*
 * Do the step at @number, if nothing has happened since it was taken: true, and it is done. Its own number,
 * which the words carry, is @number + 1.
 */
bool ledger_step(struct ledger *ledger, uint64_t number, enum ledger_kind kind, struct limit *limit,
		 unsigned cpu, int64_t n);

/* No step that was decided on before this call begins after it. */
void ledger_invalidate(struct ledger *ledger);

/* Make @word at least @value. */
void ledger_raise(uint64_t *word, uint64_t value);

static inline struct ledger *ledger_of(const struct limit *l)
{
	return (struct ledger *)((uintptr_t)l - l->at);
}

static inline struct limit *ledger_at(struct ledger *ledger, uint64_t at)
{
	return at ? (struct limit *)((char *)ledger + at) : NULL;
}

static inline uint64_t limit_load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline struct limit *limit_parent(const struct limit *l)
{
	return ledger_at(ledger_of(l), limit_load(&l->parent));
}

static inline bool limit_has_sections(const struct limit *l)
{
	return l->head.flags & LIMIT_SECTIONS;
}

static inline struct limit_slot *limit_slot(const struct limit *l, unsigned cpu)
{
	return (struct limit_slot *)((uintptr_t)l + (uint64_t)l->head.slots + cpu * l->head.stride);
}

static inline struct pcpu_pair *limit_given(const struct limit *l, unsigned cpu)
{
	return &((struct limit_grant *)(void *)pcpu_shadow_of(l->region, (char *)limit_slot(l, cpu)))->given;
}

#endif /* PCPU_LIB_LIMIT_LEDGER_H */
