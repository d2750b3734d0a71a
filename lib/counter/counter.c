/* SPDX-License-Identifier: MIT */
/*
 * Counters.
 *
 * A slot is two words on its CPU's line:
 *
 *	total	 every amount ever added here; grows by the adds of this CPU and is never taken back
 *	carried	 what of total has been reported to the next level
 *
 * and the counter has, on a line that everybody writes but rarely:
 *
 *	value	 the sum of all `carried`, and of all direct adds, less base: what read returns
 *	direct	 amounts added past the slots, by threads that may not write one; big ones where slots are atomic
 *	base	 what set and drain took away
 *
 * The truth is sum = (sum of total) + direct - base. Nothing moves from word to word on its way there, so no
 * interruption between two steps can lose an amount or count it twice (I1), and readers only read (I4). `value`
 * alone is derived. It lags sum by the sum of (total - carried) over all slots, and
 *
 *	|total - carried| < batch		whenever no set_batch came in between		(bound)
 *
 * because an add commits only if that still holds afterwards. Otherwise it takes the slow path, where one commit
 * changes both words: total grows by n, and carried becomes the same, whatever n was. What carried has moved by
 * is then the adder's to add to value. So no thread ever writes another CPU's slot, the bound needs no second
 * look, and read is off by slots * (batch - 1) at most, reached when each slot holds batch - 1. After a carry
 * the lag is 0: a +1/-1 loop carries once, whatever it starts from.
 *
 * Where there are no restartable sections, `total` and `carried` are changed by atomic operations, see
 * add_atomic for how the bound comes about there.
 *
 * With a node level, reports go to a word of the CPU's node first, and from there to value when that word has
 * gathered a node batch: transfers between nodes become rarer by that factor.
 *
 * A static counter (PCPU_COUNTER_INIT) starts without slots: all its adds are direct. The first add after the
 * library's start gives it slots, by compare-and-swap on `state`; whoever comes meanwhile adds directly.
 */
#include <stdbool.h>
#include <stddef.h>

#include <pcpu_stat/counter.h>
#include "arch/rseq.h"
/* The exported functions are the inline bodies, compiled here. */
#include <pcpu_stat/counter_inline.h>

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "cpu/cpu.h"
#include "region/region.h"

/* pcpu_counter.state */
enum {
	NEW,	   /* no slots yet: static, and not added to since the start */
	ATTACHING, /* somebody is getting slots */
	ATTACHED,
	DIRECT, /* there was no memory for slots */
};

struct slot {
	int64_t total;
	int64_t carried;
};

/* Offsets and sizes that callers have compiled in, and the distance between the kinds of line (S0). */
_Static_assert(sizeof(struct slot) <= PCPU_GRANULE, "a slot is a granule");
_Static_assert(sizeof(struct pcpu_counter) == 256, "part of the ABI");
_Static_assert(offsetof(struct pcpu_counter, slots) == 0 && offsetof(struct pcpu_counter, stride) == 8 &&
		       offsetof(struct pcpu_counter, fast_slots) == 16 &&
		       offsetof(struct pcpu_counter, bias) == 24,
	       "part of the ABI");
_Static_assert(offsetof(struct pcpu_counter, value) - offsetof(struct pcpu_counter, state) >= PCPU_LINE_PAIR,
	       "what everybody writes is two lines from what everybody reads");

/* Sections are aborted by interrupts, each of which let somebody run; a debugger that steps aborts them all. */
#define SECTION_TRIES 100
/* A sum that met this many sets and drains in a row takes the last one as having come first. */
#define SUM_TRIES 8

/* A node's word gathers this many batches, or a quarter of its CPUs' worth if that is more. */
#define NODE_BATCHES_MIN 4u

/*
 * How many batches a node's word may gather. With a quarter of the node's CPUs the node level adds a quarter to
 * the error of the slots, and divides the traffic between nodes by the same number.
 */
static uint64_t node_batches(void)
{
	const struct pcpu_topology *t = &pcpu_cpu.topology;
	unsigned largest = 0;

	for (unsigned i = 0; i < t->nodes; i++)
		if (t->node_slots[i] > largest)
			largest = t->node_slots[i];
	return largest / 4 > NODE_BATCHES_MIN ? largest / 4 : NODE_BATCHES_MIN;
}

/* What a node's word may hold at most, either way; nothing under a batch of 1, which makes read exact. */
static uint64_t node_bound(uint32_t batch)
{
	return batch > 1 ? node_batches() * batch - 1 : 0;
}

static uint32_t load_batch(const struct pcpu_counter *c)
{
	return __atomic_load_n(&c->batch, __ATOMIC_RELAXED);
}

static uint32_t load_state(const struct pcpu_counter *c)
{
	/* Acquire pairs with the release in publish: whoever sees ATTACHED sees the slots. */
	return __atomic_load_n(&c->state, __ATOMIC_ACQUIRE);
}

static struct slot *slot_of(const struct pcpu_counter *c, unsigned cpu)
{
	return (struct slot *)(c->slots + cpu * c->stride);
}

static int64_t *node_word(const struct pcpu_counter *c, unsigned index)
{
	return (int64_t *)(c->node_words + index * c->region->node.stride);
}

static uint64_t load(const int64_t *word)
{
	/* Acquire, for the walks between two looks at base: the second comes after them. */
	return (uint64_t)__atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static uint64_t add_word(int64_t *word, uint64_t n)
{
	return (uint64_t)__atomic_add_fetch(word, (int64_t)n, __ATOMIC_RELAXED);
}

/* ---- making and unmaking ---- */

/*
 * Put bias in step with batch. Changes may meet: who stores last looks at batch last. The exchanges pair with
 * each other, so that who overwrites the word of another change also sees its batch.
 */
static void follow_batch(struct pcpu_counter *c)
{
	uint32_t batch = load_batch(c), seen;

	for (;; batch = seen) {
		__atomic_exchange_n(&c->bias, (int64_t)batch - 1, __ATOMIC_ACQ_REL);
		seen = load_batch(c);
		if (seen == batch)
			return;
	}
}

static void raise_widest(struct pcpu_counter *c, uint32_t wanted)
{
	uint32_t widest = __atomic_load_n(&c->widest, __ATOMIC_RELAXED);

	while (widest < wanted && !__atomic_compare_exchange_n(&c->widest, &widest, wanted, false,
							       __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

/* The counter gets the slots at @offset in @region. */
static void publish(struct pcpu_counter *c, struct pcpu_region *region, int64_t offset, uint32_t flags)
{
	bool level = (pcpu_cpu.topology.nodes > 1 || (flags & PCPU_COUNTER_NODE_LEVEL)) &&
		     !(flags & PCPU_COUNTER_NO_NODE_LEVEL);
	int64_t node_offset =
		level ? pcpu_slots_alloc(&region->node, PCPU_LINE_PAIR, PCPU_LINE_PAIR) : -ENOSPC;

	c->region = region;
	c->slots = pcpu_zone_at(&region->cpu, offset, 0);
	c->stride = region->cpu.stride;
	c->nr_slots = region->cpu.chunks;
	/* A full node zone costs traffic, not correctness. */
	c->node_words = node_offset < 0 ? NULL : pcpu_zone_at(&region->node, node_offset, 0);
	/* Release pairs with load_state, and with the section's load of fast_slots before those of the others. */
	__atomic_store_n(&c->state, ATTACHED, __ATOMIC_RELEASE);
	if (region->sections)
		__atomic_store_n(&c->fast_slots, c->nr_slots, __ATOMIC_RELEASE);
}

/* Slots from the region given, or from a default one. */
static int64_t grant(struct pcpu_region **region)
{
	int64_t offset;

	if (!*region)
		return pcpu_region_default_slots(region, sizeof(struct slot), sizeof(struct slot));
	offset = pcpu_slots_alloc(&(*region)->cpu, sizeof(struct slot), sizeof(struct slot));
	if (offset >= 0)
		pcpu_region_hold(*region);
	return offset;
}

/* First add to a static counter: any thread, signal handlers included, and never waits. */
static void attach(struct pcpu_counter *c)
{
	struct pcpu_region *region = NULL;
	uint32_t state = NEW, batch = 0;
	int64_t offset;

	if (!pcpu_cpu_started() || !__atomic_compare_exchange_n(&c->state, &state, ATTACHING, false,
								__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	offset = grant(&region);
	if (offset < 0) {
		__atomic_store_n(&c->state, DIRECT, __ATOMIC_RELEASE);
		return;
	}
	if (load_batch(c) == batch) {
		raise_widest(c, pcpu_cpu.auto_batch - 1);
		/* Unless set_batch comes in between, which then has the say. */
		__atomic_compare_exchange_n(&c->batch, &batch, pcpu_cpu.auto_batch, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
		follow_batch(c);
	}
	publish(c, region, offset, 0);
}

int pcpu_counter_init(struct pcpu_counter *c, const struct pcpu_counter_attr *attr)
{
	struct pcpu_counter_attr a = {0};
	struct pcpu_region *region;
	int64_t offset;
	int r;

	if (!c)
		return -EINVAL;
	r = pcpu_copy_attr(&a, sizeof(a), sizeof(a), attr);
	if (r)
		return r;
	if (a.batch > INT32_MAX || (a.flags & ~(PCPU_COUNTER_NODE_LEVEL | PCPU_COUNTER_NO_NODE_LEVEL)) ||
	    a.flags == (PCPU_COUNTER_NODE_LEVEL | PCPU_COUNTER_NO_NODE_LEVEL))
		return -EINVAL;
	if (!pcpu_cpu_start())
		return -EAGAIN;
	region = a.region;
	offset = grant(&region);
	if (offset < 0 && a.region)
		return (int)offset;

	memset(c, 0, sizeof(*c));
	c->batch = a.batch ? a.batch : pcpu_cpu.auto_batch;
	follow_batch(c);
	c->widest = load_batch(c) - 1;
	c->value = c->direct = a.initial;
	if (offset < 0)
		c->state = DIRECT;
	else
		publish(c, region, offset, a.flags);
	return 0;
}

void pcpu_counter_destroy(struct pcpu_counter *c)
{
	if (load_state(c) == ATTACHED) {
		struct pcpu_region *region = c->region;

		__atomic_store_n(&c->fast_slots, 0, __ATOMIC_RELAXED);
		pcpu_slots_free(&region->cpu, c->slots - region->cpu.base, sizeof(struct slot),
				sizeof(struct slot));
		if (c->node_words)
			pcpu_slots_free(&region->node, c->node_words - region->node.base, PCPU_LINE_PAIR,
					PCPU_LINE_PAIR);
		pcpu_region_close(region);
	}
	memset(c, 0, sizeof(*c));
}

/* Carry what the nodes' words hold: under a smaller batch, adds might go past them and leave it there. */
static void empty_nodes(struct pcpu_counter *c)
{
	if (load_state(c) != ATTACHED || !c->node_words)
		return;
	for (unsigned i = 0; i < c->region->node.chunks; i++)
		add_word(&c->value, (uint64_t)__atomic_exchange_n(node_word(c, i), 0, __ATOMIC_RELEASE));
}

/*
 * An add under way judges by the old bias or by the new one, so slots stay within the widest that ever was, and
 * error looks at the slots themselves while that is not the one in force.
 */
int pcpu_counter_set_batch(struct pcpu_counter *c, uint32_t batch)
{
	if (batch > INT32_MAX)
		return -EINVAL;
	if (!pcpu_cpu_start())
		return -EAGAIN;
	if (batch == 0)
		batch = pcpu_cpu.auto_batch;
	if (batch == load_batch(c))
		return 0;
	raise_widest(c, batch - 1);
	__atomic_store_n(&c->batch, batch, __ATOMIC_RELAXED);
	follow_batch(c);
	empty_nodes(c);
	return 0;
}

/* ---- adding ---- */

/* Report @diff of the slot of @cpu to its node's word; returns what is to go on to value. */
static __attribute__((noinline)) uint64_t report_to_node(struct pcpu_counter *c, unsigned cpu, uint64_t diff)
{
	const struct pcpu_topology *t = &pcpu_cpu.topology;
	uint64_t now, bias;
	int64_t *word;

	if (cpu >= t->slots || t->slot_index[cpu] < 0)
		return diff;
	word = node_word(c, (unsigned)t->slot_index[cpu]);
	/* Acquire pairs with the release in empty_nodes: who adds after it judges by the new batch. */
	now = (uint64_t)__atomic_add_fetch(word, (int64_t)diff, __ATOMIC_ACQUIRE);
	bias = node_bound(load_batch(c));
	/* Whoever adds last sees all of it: at rest the word is below the node batch. */
	if (now + bias <= 2 * bias)
		return 0;
	return (uint64_t)__atomic_exchange_n(word, 0, __ATOMIC_RELAXED);
}

/* Report @diff of the slot of @cpu upwards: without a node level, by one atomic add. */
static inline void report(struct pcpu_counter *c, unsigned cpu, uint64_t diff)
{
	if (c->node_words)
		diff = report_to_node(c, cpu, diff);
	if (diff)
		add_word(&c->value, diff);
}

/* Past the slots: two atomic adds to shared words. */
static void add_direct(struct pcpu_counter *c, uint64_t n)
{
	add_word(&c->direct, n);
	add_word(&c->value, n);
}

#if PCPU_ARCH_SECTIONS
static inline enum pcpu_x86_outcome settle(struct pcpu_counter *c, int64_t n)
{
	enum pcpu_x86_outcome outcome;
	int64_t carry;
	uint32_t cpu;

	if (!PCPU_X86_OFFSET)
		return PCPU_X86_NO_CPU;
	outcome = pcpu_x86_counter_settle(c, n, &carry, &cpu);
	if (outcome == PCPU_X86_DONE && carry)
		report(c, cpu, (uint64_t)carry);
	return outcome;
}

/* False if this thread may not write slots, or could not in SECTION_TRIES: nothing was added then. */
static bool add_in_section(struct pcpu_counter *c, int64_t n)
{
	enum pcpu_x86_outcome outcome = PCPU_X86_ABORTED;

	for (int i = 0; outcome == PCPU_X86_ABORTED && i < SECTION_TRIES; i++)
		outcome = settle(c, n);
	return outcome == PCPU_X86_DONE;
}
#else
static bool add_in_section(struct pcpu_counter *c, int64_t n)
{
	(void)c;
	(void)n;
	return false;
}
#endif

/*
 * Slots changed by atomic operations. Here the report comes after the add, by whoever finds the lag too large.
 * The last add in the order of `total` either finds it so and reports, or finds that it is not; a report that
 * comes in between looks at `total` again after its exchange, and so sees what that add did not see it doing:
 * hence the sequentially consistent order of the four accesses, and at rest the same bound.
 */
static void add_atomic(struct pcpu_counter *c, uint64_t n)
{
	unsigned cpu = pcpu_current_slot();
	struct slot *slot = slot_of(c, cpu % c->nr_slots);
	uint64_t bias = (uint64_t)load_batch(c) - 1;
	int64_t total =
		(int64_t)((uint64_t)__atomic_fetch_add(&slot->total, (int64_t)n, __ATOMIC_SEQ_CST) + n);
	int64_t carried = __atomic_load_n(&slot->carried, __ATOMIC_SEQ_CST);

	while ((uint64_t)total - (uint64_t)carried + bias > 2 * bias) {
		if (__atomic_compare_exchange_n(&slot->carried, &carried, total, false, __ATOMIC_SEQ_CST,
						__ATOMIC_SEQ_CST)) {
			report(c, cpu, (uint64_t)total - (uint64_t)carried);
			carried = total;
		}
		total = __atomic_load_n(&slot->total, __ATOMIC_SEQ_CST);
	}
}

/* Whatever a carry is not: first adds, aborted ones, and those that no section makes. */
static __attribute__((noinline, cold)) void add_slower(struct pcpu_counter *c, int64_t n)
{
	uint64_t bias;

	if (load_state(c) == NEW)
		attach(c);
	if (load_state(c) == ATTACHED && c->region->sections) {
		if (add_in_section(c, n))
			return;
	} else if (load_state(c) == ATTACHED) {
		bias = (uint64_t)load_batch(c) - 1;
		/* Amounts of the batch or more would be reported whole at once: no use going through a slot. */
		if ((uint64_t)n + bias <= 2 * bias) {
			add_atomic(c, (uint64_t)n);
			return;
		}
		/* But under a changed batch the slot may hold more than this one allows: report it. */
		if (__atomic_load_n(&c->widest, __ATOMIC_RELAXED) != bias)
			add_atomic(c, 0);
	}
	add_direct(c, (uint64_t)n);
}

/*
 * Nearly always a carry, so that is tried before anything is looked at. Not to be inlined: pcpu_counter_add would
 * save registers for it in every call.
 */
__attribute__((noinline)) void pcpu_counter_add_slow(struct pcpu_counter *c, int64_t n)
{
#if PCPU_ARCH_SECTIONS
	if (pcpu_unlikely(settle(c, n) != PCPU_X86_DONE))
		add_slower(c, n);
#else
	add_slower(c, n);
#endif
}

/* ---- reading ---- */

/* All that was ever added: sum before base is taken off. */
static uint64_t added(const struct pcpu_counter *c)
{
	uint64_t sum = load(&c->direct);

	if (load_state(c) == ATTACHED)
		for (unsigned cpu = 0; cpu < c->nr_slots; cpu++)
			sum += load(&slot_of(c, cpu)->total);
	return sum;
}

int64_t pcpu_counter_read(const struct pcpu_counter *c)
{
	return (int64_t)load(&c->value);
}

int64_t pcpu_counter_sum(const struct pcpu_counter *c)
{
	int64_t base = __atomic_load_n(&c->base, __ATOMIC_ACQUIRE), again;
	uint64_t sum;

	/* A set or drain during the walk would be seen by half: take what was added under one base. */
	for (int i = 0;; i++) {
		sum = added(c);
		again = __atomic_load_n(&c->base, __ATOMIC_ACQUIRE);
		if (again == base || i == SUM_TRIES)
			return (int64_t)(sum - (uint64_t)base);
		base = again;
	}
}

int64_t pcpu_counter_read_positive(const struct pcpu_counter *c)
{
	int64_t value = pcpu_counter_read(c);

	return value < 0 ? 0 : value;
}

int64_t pcpu_counter_sum_positive(const struct pcpu_counter *c)
{
	int64_t value = pcpu_counter_sum(c);

	return value < 0 ? 0 : value;
}

static int64_t saturating_add(int64_t a, int64_t b)
{
	int64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/*
 * The larger of a bound and what is held now, in the direction given by the sign of @held. While adds are under
 * way that may be anything: half of an add of INT64_MIN too.
 */
static void widen(int64_t bound, int64_t held, int64_t *below, int64_t *above)
{
	int64_t against = held == INT64_MIN ? INT64_MAX : -held;

	*below = saturating_add(*below, held > bound ? held : bound);
	*above = saturating_add(*above, against > bound ? against : bound);
}

void pcpu_counter_error(const struct pcpu_counter *c, int64_t *below, int64_t *above)
{
	int64_t slot_bound, bound, under = 0, over = 0;

	if (load_state(c) == ATTACHED) {
		const struct pcpu_zone *nodes = &c->region->node;

		slot_bound = (int64_t)load_batch(c) - 1;
		bound = (int64_t)node_bound(load_batch(c));
		if (__atomic_load_n(&c->widest, __ATOMIC_ACQUIRE) == slot_bound) {
			under = over = c->nr_slots * slot_bound + (c->node_words ? nodes->chunks * bound : 0);
		} else {
			for (unsigned cpu = 0; cpu < c->nr_slots; cpu++) {
				const struct slot *slot = slot_of(c, cpu);

				widen(slot_bound, (int64_t)(load(&slot->total) - load(&slot->carried)),
				      &under, &over);
			}
			for (unsigned i = 0; c->node_words && i < nodes->chunks; i++)
				widen(bound, (int64_t)load(node_word(c, i)), &under, &over);
		}
	}
	*below = under;
	*above = over;
}

/* A bound on |read - sum| that never needs a walk: every slot as wide as it may ever have been filled. */
static uint64_t widest_error(const struct pcpu_counter *c)
{
	uint64_t widest = __atomic_load_n(&c->widest, __ATOMIC_ACQUIRE), error;

	if (load_state(c) != ATTACHED)
		return 0;
	error = c->nr_slots * widest;
	if (c->node_words)
		error += c->region->node.chunks * node_batches() * (widest + 1);
	return error;
}

int pcpu_counter_compare(const struct pcpu_counter *c, int64_t value)
{
	int64_t read = pcpu_counter_read(c), sum, edge, error = (int64_t)widest_error(c);

	if (!__builtin_sub_overflow(read, error, &edge) && edge > value &&
	    !__builtin_add_overflow(read, error, &edge))
		return 1;
	if (!__builtin_add_overflow(read, error, &edge) && edge < value &&
	    !__builtin_sub_overflow(read, error, &edge))
		return -1;
	sum = pcpu_counter_sum(c);
	return (sum > value) - (sum < value);
}

/* ---- taking away ---- */

/* Make the sum @value; returns what it was. */
static int64_t replace(struct pcpu_counter *c, int64_t value)
{
	int64_t base = __atomic_load_n(&c->base, __ATOMIC_ACQUIRE);
	uint64_t all, old;

	/* The walk comes after the load of base, so what one drain returned no later one returns again. */
	do {
		all = added(c);
		old = all - (uint64_t)base;
	} while (!__atomic_compare_exchange_n(&c->base, &base, (int64_t)(all - (uint64_t)value), false,
					      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	add_word(&c->value, (uint64_t)value - old);
	return (int64_t)old;
}

void pcpu_counter_set(struct pcpu_counter *c, int64_t value)
{
	replace(c, value);
}

int64_t pcpu_counter_drain(struct pcpu_counter *c)
{
	return replace(c, 0);
}
