/* SPDX-License-Identifier: MIT */
/* See ledger.h for what this is and why it is right. */
#include "limit/ledger.h"

/*
 * How often to look whether a rival who wrote the operand goes on: about what a compare-and-swap and a miss
 * take.
 */
#define PATIENCE 64

/* A step as turn holds it. Limits lie at multiples of LIMIT_BYTES. */
static int64_t encode(enum ledger_kind kind, const struct limit *limit, unsigned cpu)
{
	return (int64_t)((uint64_t)kind << 56 | (uint64_t)cpu << 40 | limit->at / LIMIT_BYTES);
}

static enum ledger_kind kind_of(int64_t step)
{
	return (enum ledger_kind)((uint64_t)step >> 56);
}

static unsigned cpu_of(int64_t step)
{
	return (uint64_t)step >> 40 & UINT16_MAX;
}

static uint64_t at_of(int64_t step)
{
	return ((uint64_t)step & (((uint64_t)1 << 40) - 1)) * LIMIT_BYTES;
}

bool ledger_holds(struct ledger *ledger, uint64_t number)
{
	/*
	 * What was read is ordered before this by acquire loads; pairs with the replacement of turn that
	 * begins a step.
	 */
	return limit_load(&ledger->turn.tag) == number;
}

void ledger_raise(uint64_t *word, uint64_t value)
{
	uint64_t old = limit_load(word);

	while (old < value &&
	       !__atomic_compare_exchange_n(word, &old, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		;
}

/*
 * Apply step @number to a pair, once: add @n, or make it @n. False when the step is over: there is nothing
 * more to do.
 */
static bool apply(struct ledger *ledger, uint64_t number, struct pcpu_pair *pair, int64_t n, bool add)
{
	for (;;) {
		struct pcpu_pair old = pcpu_pair_load(pair), new = {n, number};

		if (old.tag == number)
			return true;
		if (!ledger_holds(ledger, number))
			return false;
		if (add)
			new.value = (int64_t)((uint64_t)old.value + (uint64_t)n);
		if (pcpu_pair_replace(pair, old, new))
			return true;
	}
}

/*
 * The usage that step @number left is the peak if it is the highest. Before turn goes on, so that none is
 * missed.
 */
static bool apply_peak(struct ledger *ledger, uint64_t number, struct limit *limit)
{
	for (;;) {
		struct pcpu_pair usage = pcpu_pair_load(&limit->usage), peak = pcpu_pair_load(&limit->peak);

		if (!ledger_holds(ledger, number))
			return false;
		if (peak.value >= usage.value ||
		    pcpu_pair_replace(&limit->peak, peak, (struct pcpu_pair){usage.value, number}))
			return true;
	}
}

static bool apply_move(struct ledger *ledger, uint64_t number, struct limit *limit, int64_t n)
{
	if (!apply(ledger, number, &limit->own, n, true))
		return false;
	for (struct limit *l = limit; l; l = limit_parent(l))
		if (!apply(ledger, number, &l->usage, n, true) || (n > 0 && !apply_peak(ledger, number, l)))
			return false;
	return true;
}

static bool apply_thaw(struct ledger *ledger, uint64_t number, struct limit *limit, uint64_t epoch)
{
	/* The levels first: whoever sees the epoch even, or a stock, sees that the levels are not quiet. */
	for (struct limit *l = limit; l; l = limit_parent(l)) {
		if (!ledger_holds(ledger, number))
			return false;
		ledger_raise(&l->thawed, number);
	}
	if (!ledger_holds(ledger, number))
		return false;
	ledger_raise(&limit->head.epoch, epoch);
	return true;
}

/* Carry out step @number, which is under way or over. */
static void finish(struct ledger *ledger, uint64_t number)
{
	struct pcpu_pair turn = pcpu_pair_load(&ledger->turn), operand = pcpu_pair_load(&ledger->operand);
	struct limit *limit;
	unsigned cpu;
	bool ok = true;

	/* Held by turn until the step is over: the operand, and that the limit and those above it exist. */
	if (turn.tag != number || !ledger_holds(ledger, number))
		return;
	limit = ledger_at(ledger, at_of(turn.value));
	cpu = cpu_of(turn.value);
	switch (kind_of(turn.value)) {
	case LEDGER_MOVE:
		if (cpu != LEDGER_OWN)
			ok = apply(ledger, number, limit_given(limit, cpu), operand.value, true);
		ok = ok && apply_move(ledger, number, limit, operand.value);
		break;
	case LEDGER_VOID:
		ok = apply(ledger, number, limit_given(limit, cpu), operand.value, true);
		break;
	case LEDGER_THAW:
		ok = apply_thaw(ledger, number, limit, (uint64_t)operand.value);
		break;
	case LEDGER_MAX:
		ok = apply(ledger, number, &limit->max, operand.value, false);
		break;
	}
	if (ok)
		__atomic_compare_exchange_n(&ledger->turn.tag, &number, number + 1, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_RELAXED);
}

uint64_t ledger_begin(struct ledger *ledger)
{
	uint64_t number;

	while ((number = limit_load(&ledger->turn.tag)) & 1)
		finish(ledger, number);
	return number;
}

bool ledger_step(struct ledger *ledger, uint64_t number, enum ledger_kind kind, struct limit *limit,
		 unsigned cpu, int64_t n)
{
	struct pcpu_pair turn = pcpu_pair_load(&ledger->turn), operand = pcpu_pair_load(&ledger->operand);

	if (turn.tag != number || operand.tag > number + 1)
		return false;
	if (operand.tag == number + 1) {
		for (int i = 0; i < PATIENCE; i++)
			if (!ledger_holds(ledger, number))
				return false;
		ledger_invalidate(ledger);
		return false;
	}
	/* A stale operand carries an older number; nobody replaces one of this number while turn stays. */
	if (!pcpu_pair_replace(&ledger->operand, operand, (struct pcpu_pair){n, number + 1}))
		return false;
	if (!pcpu_pair_replace(&ledger->turn, turn, (struct pcpu_pair){encode(kind, limit, cpu), number + 1}))
		return false;
	finish(ledger, number + 1);
	return true;
}

void ledger_invalidate(struct ledger *ledger)
{
	uint64_t number = ledger_begin(ledger);

	/* If somebody else moved it, that does as well. */
	__atomic_compare_exchange_n(&ledger->turn.tag, &number, number + 2, false, __ATOMIC_ACQ_REL,
				    __ATOMIC_RELAXED);
}
