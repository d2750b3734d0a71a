/* SPDX-License-Identifier: MIT */
/*
 * Limits.
 *
 * The ledger (limit/ledger.h) knows for every limit its max, its usage (units taken by it and those below),
 * and what part of that is its own. It changes in steps that are atomic over all levels. A step alone would
 * do: a charge that does not come from a stock is one. Stocks make it cheap:
 *
 *	given	 in the ledger, per (limit, CPU): units the ledger has given to the CPU's slot, ever
 *	total	 in the slot: units charged through it, ever, less those uncharged
 *
 * given - total is the slot's stock.
 *
 * usage counts what was given, so a charge within the stock needs no look at any level: total += n, in a
 * section that commits by one store. All units there are, are these:
 *
 *	own = (direct charges) + sum of given	usage = own + usage of the children		(books)
 *	truth = own - sum of (given - total)
 *
 * Never over. usage <= max at every level after every step, because a step that adds checks it at the moment
 * at which it begins; truth <= usage, because no slot charges beyond what it was given. The latter is where
 * stocks are taken back: that must not meet a charge from them. So what a slot has been given changes only
 * while the slot is closed, and each grant opens it once:
 *
 *	- Open means: slot.epoch is the limit's, which the section checks beside the stock. To close a slot its
 *	  own CPU clears slot.epoch; or somebody makes limit.epoch odd and fences (membarrier aborts the
 *	  sections in flight, and later ones see the epoch). In both cases total stands still afterwards.
 *	- The number of the step that last changed `given` is its generation. A slot remembers the generation it
 *	  was opened with; to close it is to remember the present one; to open it takes a younger one. So
 *	  between closing and a step that changes `given` nobody opens the slot, and if the step does not go
 *	  through because another came first, all is looked at afresh.
 *	- An odd epoch becomes even by a step (thaw), which also leaves its number at every level. Whoever made
 *	  it odd and fenced takes stocks back by steps that check that no thaw came since. A slot can not be
 *	  opened, nor a grant begin, while the epoch is odd; one that began before is seen by whoever takes
 *	  back.
 *
 * Where slots are not written by sections, total and generation are one pair, and every charge replaces it.
 * Closing is then to replace the generation, from any CPU, and there is no fence.
 *
 * A charge that is forced above max first takes back all stocks at the levels that it passes, or try_charge
 * would go on from them; there are no new ones while a level has no room.
 *
 * Never falsely refused. Before a refusal at a level, all stocks from there down are taken back in a pass:
 * make the epochs odd, invalidate what was decided before that, fence, take. If no thaw came from the
 * beginning of the pass on (quiet), there is no stock below the level: usage there is the truth. A refusal is
 * decided by reading usage, max and that it is quiet at one moment of the ledger, so at this moment the
 * charge did not fit. The next refusal needs no pass: quiet lasts until somebody thaws. New limits are born
 * with an odd epoch. Nothing that is on its way between two words can be overlooked, since in the ledger
 * nothing ever is.
 *
 * Near the ceiling. A grant brings the stock to half of the batch, but not to more than the room at the
 * tightest level divided by twice the CPUs: with the room, stocks shrink to nothing, and grow again. After a
 * refusal, stocks stay void for HYSTERESIS steps at least, and while there is no room at all; each charge is
 * then a step. So a pass and its fence are paid by that many steps, however tight it gets.
 *
 * Underflow. own < 0 would mean that more was uncharged than charged: a step that would bring it about is cut
 * short, and counted. Stocks hide it as long as they hold the units that there never were; a stock larger
 * than own proves it, and what is too much is struck off without any level getting it.
 *
 * Lifetime. Limits lie in the ledger's mapping; a destroyed one keeps its place, its slots and all numbers,
 * and is given out again, so a pass that wanders through it does no harm. Links are changed by one store
 * each, under a lock that only create, destroy and close take; a pass notices when what it stands on was
 * moved.
 */
#define _GNU_SOURCE
#define PCPU_STAT_INLINE
#include <stdbool.h>
#include <stddef.h>

/* The exported functions are the inline bodies, compiled here. */
#include <pcpu_stat/common.h>
#undef PCPU_INLINE_UPDATES
#define PCPU_INLINE_UPDATES 0
#include <pcpu_stat/limit.h>
#include "arch/rseq.h"
#include <pcpu_stat/limit_inline.h>

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arch/area.h"
#include "cpu/cpu.h"
#include "cpu/fence.h"
#include "limit/ledger.h"
#include "region/region.h"

_Static_assert(sizeof(struct pcpu_limit) == 64, "part of the ABI");
_Static_assert(offsetof(struct pcpu_limit, slots) == 0 && offsetof(struct pcpu_limit, stride) == 8 &&
		       offsetof(struct pcpu_limit, fast_slots) == 16 &&
		       offsetof(struct pcpu_limit, batch) == 24 && offsetof(struct pcpu_limit, epoch) == 32,
	       "part of the ABI");
_Static_assert(sizeof(struct limit) == LIMIT_BYTES, "limits lie side by side");
_Static_assert(offsetof(struct limit, usage) == PCPU_LINE_PAIR,
	       "what everybody writes is apart from what charges read");
_Static_assert(sizeof(struct limit_slot) == 32 && sizeof(struct limit_grant) == sizeof(struct limit_slot),
	       "a grant lies in the shadow of its slot");
_Static_assert(offsetof(struct limit_slot, generation) == 8, "total and generation are a pair");

/* Positions in a ledger are multiples of LIMIT_BYTES in 40 bits; this is what one mapping has room for. */
#define CAPACITY       65536u
#define FIRST	       ((sizeof(struct ledger) + LIMIT_BYTES - 1) / LIMIT_BYTES * LIMIT_BYTES)
#define AUTO_BATCH_MIN 64u
#define AUTO_BATCH_CPU 2u
/*
 * Sections are aborted by interrupts, each of which let somebody run; a debugger that steps aborts them all.
 */
#define SECTION_TRIES 100
/*
 * Steps between a refusal and the next stock. A pass costs about 2 us for its fence, a step about 50 ns: a
 * pass at most doubles the cost of the steps that go with it.
 */
#define HYSTERESIS 64u
/*
 * Looks at one limit that usage takes, hoping for a quiet moment; the last one is as good as reads without a
 * lock get.
 */
#define READ_TRIES 8

static struct limit *limit_of(struct pcpu_limit *l)
{
	return (struct limit *)l;
}

static int64_t load(const int64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* ---- taking stocks back ---- */

/* The slot as a pair, where it is not written by sections. */
static struct pcpu_pair *slot_pair(struct limit_slot *slot)
{
	return (struct pcpu_pair *)(void *)slot;
}

/*
 * Where slots are pairs, a slot closed at a generation remembers the even number that follows it: never one
 * of a step.
 */
static uint64_t closed_at(uint64_t generation)
{
	return generation + 1;
}

/* Close a slot that is a pair. Returns its total, which stands still until the given pair changes. */
static int64_t close_pair(struct limit_slot *slot, uint64_t generation)
{
	for (;;) {
		struct pcpu_pair now = pcpu_pair_load(slot_pair(slot));

		if (now.tag >= closed_at(generation) ||
		    pcpu_pair_replace(slot_pair(slot), now,
				      (struct pcpu_pair){now.value, closed_at(generation)}))
			return now.value;
	}
}

static unsigned nr_slots(const struct limit *l)
{
	return l->region->cpu.chunks;
}

/* Were all stocks from here down taken back, and none allowed since? */
static bool is_quiet(const struct limit *l)
{
	return limit_load(&l->thawed) < limit_load(&l->quiet);
}

/*
 * A slot holds @excess units more than its limit has ever had: they came from uncharging too much. Strike
 * them off.
 */
static void strike_off(struct limit *l, uint64_t number, unsigned cpu, int64_t excess)
{
	if (ledger_step(ledger_of(l), number, LEDGER_VOID, l, cpu, -excess))
		__atomic_fetch_add(&l->underflows, 1, __ATOMIC_RELAXED);
}

/*
 * Take the stock of one closed slot back, unless a thaw came since number @start. Looked at without a step
 * under way in mind: no grant begins while the epoch is odd, so the stock can only shrink.
 */
static void take_slot(struct limit *l, unsigned cpu, uint64_t start)
{
	struct limit_slot *slot = limit_slot(l, cpu);
	struct pcpu_pair *given_at = limit_given(l, cpu);

	for (;;) {
		struct pcpu_pair given = pcpu_pair_load(given_at);
		int64_t total = limit_has_sections(l) ? load(&slot->total) : close_pair(slot, given.tag);
		int64_t stock, own;
		uint64_t number;

		if (given.value == total)
			return;
		number = ledger_begin(ledger_of(l));
		given = pcpu_pair_load(given_at);
		own = pcpu_pair_load(&l->own).value;
		stock = (int64_t)((uint64_t)given.value - (uint64_t)total);
		/* Part of what the step is decided on: the slot is as it was fenced. */
		if (limit_load(&l->thawed) >= start)
			return;
		if (stock > own)
			strike_off(l, number, cpu, stock - own);
		else if (stock != 0)
			ledger_step(ledger_of(l), number, LEDGER_MOVE, l, cpu, -stock);
	}
}

static void take_slots(struct limit *l, uint64_t start)
{
	for (unsigned cpu = 0; cpu < nr_slots(l); cpu++)
		take_slot(l, cpu, start);
}

static void freeze(struct limit *l)
{
	uint64_t epoch = limit_load(&l->head.epoch);

	while (!(epoch & 1) && !__atomic_compare_exchange_n(&l->head.epoch, &epoch, epoch + 1, false,
							    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		;
}

/*
 * The limit after @l in the subtree of @top, parents first; NULL at the end. A destroyed limit keeps its
 * links until its place is used again, so a walk that stands on it goes on where it was. Whether places were
 * used again meanwhile tells `reused`: the walk may have gone astray then. A limit linked behind our back may
 * be missed: it has no stock unless it thaws, and then its levels know.
 */
static struct limit *next_below(struct limit *top, struct limit *l)
{
	struct ledger *ledger = ledger_of(top);
	uint64_t at = limit_load(&l->first_child);

	if (at)
		return ledger_at(ledger, at);
	for (; l && l != top; l = limit_parent(l)) {
		at = limit_load(&l->next);
		if (at)
			return ledger_at(ledger, at);
	}
	return NULL;
}

/* Take back all stocks from @top down. False, and nothing was taken, if sections cannot be aborted. */
static bool take_back(struct limit *top)
{
	struct ledger *ledger = ledger_of(top);
	uint64_t start = ledger_begin(ledger), reused;

	do {
		bool sections = false;

		reused = limit_load(&ledger->reused);
		for (struct limit *l = top; l; l = next_below(top, l)) {
			freeze(l);
			sections |= limit_has_sections(l);
		}
		/* A grant that was decided on while an epoch was even has begun by now, or will not. */
		ledger_invalidate(ledger);
		/*
		 * Pairs with the sections' load of epoch and store of total: they see it odd, or we see what
		 * they stored.
		 */
		if (sections && !pcpu_fence_sections() && !pcpu_fence_sections_by_visit(nr_slots(top)))
			return false;
		for (struct limit *l = top; l; l = next_below(top, l))
			take_slots(l, start);
	} while (reused != limit_load(&ledger->reused));
	ledger_raise(&top->quiet, start);
	return true;
}

/* ---- charging ---- */

/* What the levels from a limit to the root say to a charge. */
struct verdict {
	struct limit *first; /* level with too little room, from the limit up, or NULL: it fits */
	struct limit *last;
	int64_t room; /* the least of all levels; negative where usage was forced above max */
	int64_t most; /* what usage of the root can still take before it leaves int64_t */
};

static struct verdict ask(struct limit *l, int64_t n)
{
	struct verdict v = {.room = INT64_MAX};

	for (; l; l = limit_parent(l)) {
		int64_t usage = pcpu_pair_load(&l->usage).value, room = pcpu_pair_load(&l->max).value - usage;

		v.most = INT64_MAX - usage;
		if (room < v.room)
			v.room = room;
		if (room < n) {
			v.last = l;
			if (!v.first)
				v.first = l;
		}
	}
	return v;
}

/* A charge did not fit at @l. Half a term late is early enough, and spares the line. */
static void press(struct limit *l, uint64_t number)
{
	if (number - limit_load(&l->pressed) >= HYSTERESIS)
		ledger_raise(&l->pressed, number);
}

/* May stocks be given again? Not soon after a refusal, and not while there is nothing to give. */
static bool may_thaw(struct limit *l, uint64_t number, int64_t room)
{
	if (room < 1)
		return false;
	for (; l; l = limit_parent(l)) {
		uint64_t pressed = limit_load(&l->pressed);

		if (pressed && number - pressed < 2 * HYSTERESIS) /* a step is two numbers */
			return false;
	}
	return true;
}

/* The stock to leave on a CPU when there are @room units at the tightest level. */
static int64_t stock_for(const struct limit *l, int64_t room)
{
	int64_t share = room / (2 * (int64_t)pcpu_cpu.topology.online), half = l->head.batch / 2;

	return share < 0 ? 0 : share < half ? share : half;
}

#if PCPU_ARCH_SECTIONS
static bool close_here(struct limit *l, unsigned cpu, struct pcpu_pair given, int64_t *total)
{
	if (!limit_has_sections(l)) {
		*total = close_pair(limit_slot(l, cpu), given.tag);
		return true;
	}
	return pcpu_x86_limit_close((char *)limit_slot(l, cpu), cpu, given.tag, total);
}
#else
static bool close_here(struct limit *l, unsigned cpu, struct pcpu_pair given, int64_t *total)
{
	*total = close_pair(limit_slot(l, cpu), given.tag);
	return true;
}
#endif

/* Open the slot that was closed at @old with what it was given since, and charge @n from it. */
static bool open_here(struct limit *l, unsigned cpu, uint64_t epoch, int64_t total, struct pcpu_pair old,
		      struct pcpu_pair given, int64_t n)
{
#if PCPU_ARCH_SECTIONS
	if (limit_has_sections(l))
		return pcpu_x86_limit_open(&l->head, (char *)limit_slot(l, cpu), cpu, epoch, given.value,
					   given.tag, n);
#endif
	(void)epoch; /* a pass closes such a slot itself, which the replacement below notices */
	return pcpu_pair_replace(slot_pair(limit_slot(l, cpu)), (struct pcpu_pair){total, closed_at(old.tag)},
				 (struct pcpu_pair){(int64_t)((uint64_t)total + (uint64_t)n), given.tag});
}

/*
 * Charge @n (to uncharge: negative) through this CPU's slot, after bringing its stock to what it should be,
 * all as decided at @number. A charge has been found to fit, with @room at the tightest level. The caller
 * looks afresh when that fails.
 */
static bool charge_refilled(struct limit *l, uint64_t number, int64_t n, int64_t room)
{
	unsigned cpu = pcpu_current_slot();
	uint64_t epoch = limit_load(&l->head.epoch);
	struct pcpu_pair *given_at, given, own;
	int64_t total, stock, more;

	if (cpu >= nr_slots(l))
		cpu %= nr_slots(l);
	given_at = limit_given(l, cpu);
	given = pcpu_pair_load(given_at);
	own = pcpu_pair_load(&l->own);
	if ((epoch & 1) || !close_here(l, cpu, given, &total))
		return false;
	stock = (int64_t)((uint64_t)given.value - (uint64_t)total);
	if (stock > own.value) {
		strike_off(l, number, cpu, stock - own.value);
		return false;
	}
	/*
	 * So that the stock is right afterwards. Uncharging never takes more from the levels: that might not
	 * fit.
	 */
	more = stock_for(l, n > 0 ? room - n : room) + n - stock;
	if (n < 0 && more > 0)
		more = 0;
	if (n < 0 && more < -stock)
		more = -stock;
	if (!ledger_step(ledger_of(l), number, more ? LEDGER_MOVE : LEDGER_VOID, l, cpu, more))
		return false;
	return open_here(l, cpu, epoch, total, given,
			 (struct pcpu_pair){(int64_t)((uint64_t)given.value + (uint64_t)more), number + 1},
			 n);
}

/* Charge within the stock, as the inline part does: false if that is not possible. */
static bool charge_stock(struct limit *l, int64_t n)
{
	unsigned cpu;
	struct limit_slot *slot;
	struct pcpu_pair *given_at;

#if PCPU_ARCH_SECTIONS
	if (limit_has_sections(l)) {
		if (!PCPU_X86_OFFSET)
			return false;
		if (n > 0)
			PCPU_X86_LIMIT_CHARGE(&l->head, n, no);
		else
			PCPU_X86_LIMIT_UNCHARGE(&l->head, -n, no);
		return true;
	no:
		return false;
	}
#endif
	cpu = pcpu_current_slot() % nr_slots(l);
	slot = limit_slot(l, cpu);
	given_at = limit_given(l, cpu);
	for (;;) {
		struct pcpu_pair given = pcpu_pair_load(given_at), now = pcpu_pair_load(slot_pair(slot));
		int64_t after = (int64_t)((uint64_t)given.value - (uint64_t)now.value - (uint64_t)n);

		/*
		 * Generations are equal while the slot is open (0: never given anything), and then nothing is
		 * taken from it.
		 */
		if (given.tag == 0 || now.tag != given.tag || after < 0 || after > l->head.batch)
			return false;
		if (pcpu_pair_replace(
			    slot_pair(slot), now,
			    (struct pcpu_pair){(int64_t)((uint64_t)now.value + (uint64_t)n), now.tag}))
			return true;
	}
}

/* May this thread write slots at all? */
static bool has_slot(const struct limit *l)
{
#if PCPU_ARCH_SECTIONS
	if (limit_has_sections(l))
		return PCPU_X86_OFFSET != 0 &&
		       __atomic_load_n(
			       &((const struct pcpu_rseq_area *)(pcpu_thread_pointer() + PCPU_X86_OFFSET))
					->cpu_id,
			       __ATOMIC_RELAXED) < nr_slots(l);
#endif
	(void)l;
	return true;
}

/* What a slow path does next. */
enum next { DONE, AGAIN, DIRECT };

/*
 * Charge @n (to uncharge: negative) through a slot, if amount, thread and epoch allow: DONE. AGAIN: something
 * changed, @number is stale. DIRECT: not by way of a slot.
 */
static enum next charge_slot(struct limit *l, uint64_t number, int64_t n, int64_t room, int *tries)
{
	int64_t half = l->head.batch / 2;
	uint64_t epoch = limit_load(&l->head.epoch);

	/* Larger amounts would go through whole: no use in a stock for them. */
	if (n > half || n < -half || *tries >= SECTION_TRIES || !has_slot(l))
		return DIRECT;
	if (epoch & 1) {
		if (!may_thaw(l, number, n > 0 ? room - n : room))
			return DIRECT;
		ledger_step(ledger_of(l), number, LEDGER_THAW, l, LEDGER_OWN, (int64_t)(epoch + 1));
		return AGAIN;
	}
	++*tries;
	return charge_refilled(l, number, n, room) ? DONE : AGAIN;
}

/* The level that refused, or NULL: charged. */
static struct limit *charge_slow(struct limit *l, int64_t n, bool force)
{
	struct ledger *ledger = ledger_of(l);
	int tries = 0;

	if (n <= 0)
		return NULL;
	for (;;) {
		enum next next = DIRECT;
		struct verdict v;
		uint64_t number;
		int64_t fits;

		if (charge_stock(l, n))
			return NULL;
		number = ledger_begin(ledger);
		v = ask(l, n);
		fits = v.most < n ? v.most : n;
		if (v.first) {
			/*
			 * Above max there must be no stock, or try_charge would go on from it: all levels
			 * that are passed.
			 */
			struct limit *tight = force ? v.last : v.first;
			bool quiet = is_quiet(tight);

			if (!ledger_holds(ledger, number))
				continue;
			press(tight, number);
			/* In a sandbox where stocks cannot be reached, this is the best there is. */
			if (!quiet && take_back(tight))
				continue;
			if (!force)
				return tight;
		} else {
			if (!ledger_holds(ledger, number))
				continue;
			next = charge_slot(l, number, n, v.room, &tries);
		}
		if (next == DONE)
			return NULL;
		if (next == DIRECT && ledger_step(ledger, number, LEDGER_MOVE, l, LEDGER_OWN, fits))
			return NULL;
	}
}

static void uncharge_slow(struct limit *l, int64_t n)
{
	struct ledger *ledger = ledger_of(l);
	int tries = 0;

	if (n <= 0)
		return;
	for (;;) {
		uint64_t number;
		int64_t room, own;
		bool quiet;
		enum next next;

		if (charge_stock(l, -n))
			return;
		number = ledger_begin(ledger);
		room = ask(l, 0).room;
		own = pcpu_pair_load(&l->own).value;
		quiet = is_quiet(l);
		if (!ledger_holds(ledger, number))
			continue;
		next = charge_slot(l, number, -n, room, &tries);
		if (next == DONE)
			return;
		if (next == AGAIN)
			continue;
		if (n <= own) {
			if (ledger_step(ledger, number, LEDGER_MOVE, l, LEDGER_OWN, -n))
				return;
		} else if (!quiet && take_back(l)) {
			/* With stocks in it, own is not yet the truth, by which the underflow is counted. */
			press(l, number);
		} else if (ledger_step(ledger, number, LEDGER_MOVE, l, LEDGER_OWN, -own)) {
			__atomic_fetch_add(&l->underflows, 1, __ATOMIC_RELAXED);
			return;
		}
	}
}

/* Callers that may be unloaded count on this: see PCPU_STAT_UNLOADABLE. */
static void disarm(void)
{
#if PCPU_ARCH_SECTIONS
	pcpu_x86_disarm();
#endif
}

bool pcpu_limit_try_charge_slow(struct pcpu_limit *limit, int64_t n, struct pcpu_limit **failed)
{
	struct limit *refused = charge_slow(limit_of(limit), n, false);

	disarm();
	if (!refused)
		return true;
	__atomic_fetch_add(&refused->failures, 1, __ATOMIC_RELAXED);
	if (failed)
		*failed = &refused->head;
	return false;
}

void pcpu_limit_charge_slow(struct pcpu_limit *limit, int64_t n)
{
	charge_slow(limit_of(limit), n, true);
	disarm();
}

void pcpu_limit_uncharge_slow(struct pcpu_limit *limit, int64_t n)
{
	uncharge_slow(limit_of(limit), n);
	disarm();
}

int pcpu_limit_set_max(struct pcpu_limit *limit, int64_t max)
{
	struct limit *l = limit_of(limit);
	struct ledger *ledger = ledger_of(l);

	if (max < 0)
		return -EINVAL;
	for (;;) {
		uint64_t number = ledger_begin(ledger);
		int64_t usage = pcpu_pair_load(&l->usage).value;
		bool quiet = is_quiet(l);

		if (usage <= max) {
			if (ledger_step(ledger, number, LEDGER_MAX, l, LEDGER_OWN, max))
				return 0;
		} else if (ledger_holds(ledger, number)) {
			if (quiet || !take_back(l))
				return -EBUSY;
			press(l, number);
		}
	}
}

int pcpu_limit_drain(struct pcpu_limit *limit)
{
	return take_back(limit_of(limit)) ? 0 : -EPERM;
}

/* ---- reading ---- */

/* What is charged to the limit itself. */
static int64_t truth(struct limit *l)
{
	uint64_t sum, number;

	for (int i = 0; i < READ_TRIES; i++) {
		number = ledger_begin(ledger_of(l));
		sum = (uint64_t)pcpu_pair_load(&l->own).value;
		for (unsigned cpu = 0; cpu < nr_slots(l); cpu++)
			sum += (uint64_t)load(&limit_slot(l, cpu)->total) -
			       (uint64_t)pcpu_pair_load(limit_given(l, cpu)).value;
		if (ledger_holds(ledger_of(l), number))
			break;
	}
	return (int64_t)sum < 0 ? 0 : (int64_t)sum;
}

int64_t pcpu_limit_usage(struct pcpu_limit *limit)
{
	struct limit *top = limit_of(limit);
	struct ledger *ledger = ledger_of(top);
	int64_t sum, most;
	uint64_t reused;

	do {
		reused = limit_load(&ledger->reused);
		sum = 0;
		for (struct limit *l = top; l; l = next_below(top, l))
			if (__builtin_add_overflow(sum, truth(l), &sum))
				sum = INT64_MAX;
	} while (reused != limit_load(&ledger->reused));
	/*
	 * Totals of different moments can add up to more than there ever was. No less than now is given out
	 * now.
	 */
	ledger_begin(ledger);
	most = pcpu_pair_load(&top->usage).value;
	return sum < most ? sum : most;
}

int64_t pcpu_limit_peak(struct pcpu_limit *limit)
{
	return pcpu_pair_load(&limit_of(limit)->peak).value;
}

void pcpu_limit_reset_peak(struct pcpu_limit *limit)
{
	struct limit *l = limit_of(limit);

	take_back(l);
	for (;;) {
		uint64_t number = ledger_begin(ledger_of(l));
		struct pcpu_pair usage = pcpu_pair_load(&l->usage), peak = pcpu_pair_load(&l->peak);

		/* A step that began since has put its own number there if it went higher. */
		if (ledger_holds(ledger_of(l), number) &&
		    pcpu_pair_replace(&l->peak, peak, (struct pcpu_pair){usage.value, number}))
			return;
	}
}

int64_t pcpu_limit_failures(struct pcpu_limit *limit)
{
	return load(&limit_of(limit)->failures);
}

uint64_t pcpu_limit_underflows(struct pcpu_limit *limit)
{
	return limit_load(&limit_of(limit)->underflows);
}

/* ---- making and unmaking ---- */

/*
 * A forked child may find the lock held by a thread that it does not have; links are whole after every store.
 */
static void lock(struct ledger *ledger)
{
	uint64_t self = (uint64_t)getpid(), holder = 0;

	while (!__atomic_compare_exchange_n(&ledger->lock, &holder, self, false, __ATOMIC_ACQUIRE,
					    __ATOMIC_RELAXED)) {
		if (holder == self) {
			holder = 0;
			sched_yield();
		}
	}
}

static void unlock(struct ledger *ledger)
{
	__atomic_store_n(&ledger->lock, 0, __ATOMIC_RELEASE);
}

static void store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static int map_ledger(struct ledger **ledger)
{
	size_t bytes = FIRST + (size_t)CAPACITY * LIMIT_BYTES;
	int saved = errno;
	void *map =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (map == MAP_FAILED) {
		errno = saved;
		return -ENOMEM;
	}
	madvise(map, bytes,
		MADV_NOHUGEPAGE); /* most of it is never used; fails where there are no huge pages */
	errno = saved;
	*ledger = map;
	(*ledger)->bytes = bytes;
	(*ledger)->capacity = CAPACITY;
	(*ledger)->turn.tag =
		2; /* so that no step is the number after the generation 0 of a new slot, see closed_at */
	return 0;
}

/* Nobody is left that could use anything of it. */
static void unmap_ledger(struct ledger *ledger)
{
	int saved = errno;

	for (uint32_t i = 0; i < ledger->used; i++) {
		struct limit *l = ledger_at(ledger, FIRST + (size_t)i * LIMIT_BYTES);
		struct pcpu_region *region = l->region;

		for (unsigned cpu = 0; cpu < nr_slots(l); cpu++) {
			struct limit_grant *grant = (struct limit_grant *)(void *)limit_given(l, cpu);

			if (grant->given.tag)
				memset(grant, 0, sizeof(*grant));
		}
		pcpu_slots_free(&region->cpu, (char *)limit_slot(l, 0) - region->cpu.base,
				sizeof(struct limit_slot), sizeof(struct limit_slot));
		pcpu_region_close(region);
	}
	munmap(ledger, ledger->bytes);
	errno = saved;
}

/* A place never used before, with slots in @region, or in a default one. */
static int make_place(struct ledger *ledger, struct pcpu_region *region, struct limit **place)
{
	const size_t bytes = sizeof(struct limit_slot);
	bool in_default = !region;
	struct limit *l;
	int64_t offset;

	if (ledger->used == ledger->capacity)
		return -ENOSPC;
	if (region) {
		offset = pcpu_slots_alloc(&region->cpu, bytes, bytes);
		if (offset >= 0)
			pcpu_region_hold(region);
	} else {
		offset = pcpu_region_default_slots(&region, bytes, bytes);
	}
	if (offset < 0)
		return (int)offset;
	l = ledger_at(ledger, FIRST + (size_t)ledger->used * LIMIT_BYTES);
	l->at = FIRST + (size_t)ledger->used * LIMIT_BYTES;
	l->region = region;
	l->head.flags = in_default ? LIMIT_IN_DEFAULT : 0;
	l->head.slots = (int64_t)((uintptr_t)pcpu_zone_at(&region->cpu, offset, 0) - (uintptr_t)l);
	l->head.stride = region->cpu.stride;
	l->head.epoch = 1;
	/* Without the fence stocks could not be taken back from sections: then slots are pairs. */
	if (region->sections && (pcpu_fence_kinds() & PCPU_FENCE_RSEQ)) {
		l->head.flags |= LIMIT_SECTIONS;
		l->head.fast_slots = region->cpu.chunks;
	}
	ledger->used++;
	*place = l;
	return 0;
}

static void link_below(struct ledger *ledger, struct limit *parent, struct limit *l, int64_t max,
		       uint32_t batch)
{
	uint64_t number;

	/* Nobody else uses it, and no step is about it: plain numbers, but tags only grow. */
	number = ledger_begin(ledger);
	pcpu_pair_replace(&l->max, l->max, (struct pcpu_pair){max, number});
	pcpu_pair_replace(&l->peak, l->peak, (struct pcpu_pair){0, number});
	l->head.batch = batch;
	l->failures = 0;
	l->underflows = 0;
	store(&l->next, parent ? limit_load(&parent->first_child) : 0);
	store(&l->parent, parent ? parent->at : 0);
	if (parent)
		store(&parent->first_child, l->at);
}

static void unlink_from(struct ledger *ledger, struct limit *parent, struct limit *l)
{
	uint64_t *link = &parent->first_child;

	while (*link != l->at)
		link = &ledger_at(ledger, *link)->next;
	store(link, l->next);
}

int pcpu_limit_create(struct pcpu_limit **limit, struct pcpu_limit *parent,
		      const struct pcpu_limit_attr *attr)
{
	struct pcpu_limit_attr a = {.max = PCPU_LIMIT_MAX};
	struct limit *above = parent ? limit_of(parent) : NULL, *l;
	struct ledger *ledger;
	int r = 0;

	if (!limit)
		return -EINVAL;
	if (attr) {
		r = pcpu_copy_attr(&a, sizeof(a), sizeof(a), attr);
		if (r)
			return r;
	}
	if (above && !(above->head.flags & LIMIT_IN_DEFAULT) && !a.region)
		a.region = above->region;
	if (a.max < 0 || a.batch > INT32_MAX || (above && a.region && a.region != above->region))
		return -EINVAL;
	if (!PCPU_ARCH_PAIR)
		return -ENOTSUP;
	pcpu_cpu_start();
	if (a.batch == 0) {
		a.batch = AUTO_BATCH_CPU * pcpu_cpu.topology.online;
		if (a.batch < AUTO_BATCH_MIN)
			a.batch = AUTO_BATCH_MIN;
	}
	if (above)
		ledger = ledger_of(above);
	else
		r = map_ledger(&ledger);
	if (r)
		return r;
	lock(ledger);
	l = ledger_at(ledger, ledger->free);
	if (l) {
		ledger->free = l->next_free;
		/*
		 * Before its links change: who finds the count as it was has not come to the place by old
		 * links.
		 */
		store(&ledger->reused, ledger->reused + 1);
	} else {
		r = make_place(ledger, a.region, &l);
	}
	if (r == 0) {
		link_below(ledger, above, l, a.max, a.batch);
		ledger->handles++;
	}
	unlock(ledger);
	if (r) {
		if (!above)
			unmap_ledger(ledger);
		return r;
	}
	*limit = &l->head;
	return 0;
}

int pcpu_limit_open(struct pcpu_limit **limit, struct pcpu_region *region, const char *name)
{
	return limit && region && name ? -ENOTSUP : -EINVAL;
}

int pcpu_limit_destroy(struct pcpu_limit *limit)
{
	struct limit *l = limit ? limit_of(limit) : NULL, *parent;
	struct ledger *ledger;
	bool last;

	if (!l)
		return 0;
	ledger = ledger_of(l);
	lock(ledger);
	if (!l->first_child)
		take_back(l);
	if (l->first_child || pcpu_pair_load(&l->usage).value) {
		unlock(ledger);
		return -EBUSY;
	}
	parent = limit_parent(l);
	if (parent) {
		unlink_from(ledger, parent, l);
		l->next_free = ledger->free;
		ledger->free = l->at;
	}
	last = --ledger->handles == 0;
	unlock(ledger);
	if (last)
		unmap_ledger(ledger);
	return 0;
}

void pcpu_limit_close(struct pcpu_limit *limit)
{
	struct ledger *ledger;
	bool last;

	if (!limit)
		return;
	ledger = ledger_of(limit_of(limit));
	lock(ledger);
	last = --ledger->handles == 0;
	unlock(ledger);
	if (last)
		unmap_ledger(ledger);
}
