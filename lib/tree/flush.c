/* SPDX-License-Identifier: MIT */
/*
 * How changes reach the totals.
 *
 * A flush of node X has one flusher, under the tree's flush lock, and goes
 *
 *	take	from X downwards along the lists of changed children: pop the node off its parent's list, set
 *		dirty to FLUSHING, take the bits of `changed`, then move the node's epoch on;
 *	fence	once for all of them;
 *	fold	children before parents: read the values of the taken slots, add what is new since the slot's
 *		shadow to the node's totals and to what its parent has pending, set dirty from FLUSHING to
 * CLEAN.
 *
 * Exactness (I2). Consider an add to a slot: store the value V, then load the node's epoch E, and mark if it
 * differs from the slot's (mark.c). The flusher: take the bit, store E, fence, load V. The fence makes every
 * thread pass a full barrier between the flusher's store of E and its load of V (membarrier; where slots are
 * changed by atomic operations, all four accesses are sequentially consistent instead). So for each add
 * either its V is seen by the flusher, or its load of E comes after the flusher's store: then it marks, and
 * the pair is found again. No add is neither.
 *
 *	Why the bit is taken before E moves: a mark that began under the old E and sets its bit after the take
 *	notes the old E in the slot, so that the next add there marks again; and its bit stays. The other way
 *	round, it could note the new E, have its bit taken, and leave a slot that counts as noticed and is on
 *	no list: adds to it would never be found.
 *
 *	Why CLEAN is believed: dirty goes to CLEAN by compare-and-swap from FLUSHING, after the totals are
 *	written; an add that is not in them has set DIRTY in between, or is about to and has not returned. A
 *	reader that loads CLEAN therefore sees totals with every add that happened before (I6: it stores
 *	nothing). While a flush of an ancestor is under way the node is FLUSHING, and the reader waits.
 *
 * Without a working fence (sections, but membarrier refused) nothing can be forgotten: bits and DIRTY stay
 * once set, and every flush reads every pair that was ever used. Loads alone are exact: an add that happened
 * before the flush is visible by coherence, and its mark was complete when it returned.
 *
 * The same holds for a pair that is hot, one that was found changed anew at the end of some flushes in a row:
 * its updater runs at the same time, and would pay for the fence and for a mark each time it is forgotten. Such
 * a pair stays on the list, noticed, is read without a fence, and keeps its node DIRTY. The first flush that
 * finds it as it was forgets it as any other; so a node that was hot is CLEAN one flush later than it might be.
 *
 * Nothing is counted twice (I1): shadow, totals, pending and up are only touched under the lock, and what is
 * added is always the difference between the value and its shadow.
 *
 * Sharing. Flushes are numbered when they begin. A reader notes the number of the last one that has begun,
 * gets the lock, and goes home if meanwhile a flush with a larger number was completed at its node or above.
 * So all who come while a flush runs are served by the next one together.
 *
 * Bounded holding. After PAIRS_PER_HOLD pairs the flusher marks the path it stands on as unfinished, lets go
 * of the lock, and later walks down that path again. A node it is done with is not visited again in the same
 * flush, however busy its updaters: each flush ends. Going down depth first keeps what is unfinished to one
 * path. On the way down again, nodes of the path that had become DIRTY between the holds become FLUSHING: so
 * where the flush meets what changed since it was there and leaves it for later (bits of the path's nodes,
 * children that it is done with), it raises the path anew.
 */
#include "tree/tree.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#include "cpu/cpu.h"
#include "cpu/fence.h"

/*
 * Pairs per hold of the lock: at about 100 ns for a line from another CPU some 200 us. Holding it for
 * everything kept the kernel's readers waiting 45 ms on 400 threads.
 */
#ifndef PAIRS_PER_HOLD /* tests make it small */
#define PAIRS_PER_HOLD 2048u
#endif

uint64_t pcpu_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* One hold of the lock. */
struct pass {
	struct pcpu_tree *tree;
	struct pcpu_node *top;
	struct pcpu_node *done; /* visited, the last one first: children before parents; by next_done */
	uint64_t number;	/* of the flush */
	unsigned pairs;		/* taken, and nodes visited for the first time */
	bool forget;		/* what is taken is off the lists until it changes again */
	bool took;		/* any bits */
};

static void add_to(int64_t *word, int64_t n)
{
	/* Wrapping; atomic for those who read without the lock; release: after version became odd. */
	__atomic_store_n(word, (int64_t)((uint64_t)*word + (uint64_t)n), __ATOMIC_RELEASE);
}

/* ---- take ---- */

/*
 * A flush of nodes that were not flushed lately is all cache misses, each with little to do beside it. These
 * begin them early: the first lines of what fold() works on while the rest of the tree is taken and the fence
 * goes round; and the line of the next child while this one is dealt with. Not the slots: they belong to CPUs
 * that may be writing them.
 */
#define PREFETCH_LINES 8u

static void prefetch(const void *from, size_t bytes)
{
	for (size_t i = 0; i < bytes && i < (size_t)64 * PREFETCH_LINES; i += 64)
		__builtin_prefetch((const char *)from + i, 1);
}

static void prefetch_for_fold(const struct pcpu_node *node, const struct pcpu_tree *tree)
{
	size_t values = node->fast.nr_stats * sizeof(int64_t);

	prefetch(node->total, 4 * values); /* and local, pending, up: see node_layout() */
	for (uint32_t i = 0; i < tree->bitmap_words; i++)
		for (uint64_t bits = node->taken[i]; bits; bits &= bits - 1) {
			unsigned cpu = 64 * i + (unsigned)__builtin_ctzll(bits);

			if (cpu != direct_slot(tree))
				prefetch(shadow_of(node, cpu), values);
		}
}

/* The head of the list. Only the holder of the lock pops, so the node below the head stays where it is. */
static struct pcpu_node *pop(struct pcpu_node *parent)
{
	struct pcpu_node *head = __atomic_load_n(&parent->changed_children, __ATOMIC_SEQ_CST);

	while (head && !__atomic_compare_exchange_n(&parent->changed_children, &head,
						    __atomic_load_n(&head->next_changed, __ATOMIC_RELAXED),
						    false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	return head;
}

/* Nodes popped and not visited, chained by next_work, go back onto the list: they have stayed QUEUED. */
static void push_back(struct pcpu_node *parent, struct pcpu_node *nodes)
{
	struct pcpu_node *head = __atomic_load_n(&parent->changed_children, __ATOMIC_SEQ_CST), *next;

	for (; nodes; nodes = next) {
		next = nodes->next_work;
		do
			__atomic_store_n(&nodes->next_changed, head, __ATOMIC_RELAXED);
		while (!__atomic_compare_exchange_n(&parent->changed_children, &head, nodes, false,
						    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
		head = nodes;
	}
}

static bool is_done(const struct pass *p, const struct pcpu_node *node)
{
	return node->visited == p->number && node->unfinished != p->number;
}

/* The next one off the list that this flush is not done with. */
static struct pcpu_node *pop_child(struct pass *p, struct pcpu_node *node)
{
	struct pcpu_node *child;

	while ((child = pop(node))) {
		if (!is_done(p, child)) {
			struct pcpu_node *after = __atomic_load_n(&node->changed_children, __ATOMIC_RELAXED);

			if (after)
				__builtin_prefetch(&after->visited, 1);
			PCPU_TREE_PAUSE();
			/* From here on a change puts it on the list anew. */
			__atomic_store_n(&child->queued, IDLE, __ATOMIC_SEQ_CST);
			return child;
		}
		/* Changed again since: for a later flush, which must find the way. */
		child->next_work = node->aside;
		node->aside = child;
		pcpu_node_raise(node);
	}
	return NULL;
}

/*
 * A child that is half linked, and that this flush is not done with. Sets scan again where another look is
 * needed: for the next one, or by a later flush if a child changed again since it was done.
 */
static struct pcpu_node *half_linked_child(struct pass *p, struct pcpu_node *node)
{
	struct pcpu_node *child;

	/* Unlinking needs the lock that we hold (pcpu_flush_last): what we stand on stays. */
	for (child = __atomic_load_n(&node->first_child, __ATOMIC_ACQUIRE); child;
	     child = __atomic_load_n(&child->next, __ATOMIC_ACQUIRE)) {
		uint64_t state = __atomic_load_n(&child->queued, __ATOMIC_SEQ_CST);

		if (state == IDLE || state == QUEUED)
			continue;
		if (!is_done(p, child)) {
			__atomic_store_n(&node->scan, 1, __ATOMIC_SEQ_CST);
			return child;
		}
		if (__atomic_load_n(&child->dirty, __ATOMIC_SEQ_CST) == DIRTY) {
			__atomic_store_n(&node->scan, 1, __ATOMIC_SEQ_CST);
			pcpu_node_raise(node);
		}
	}
	return NULL;
}

/* The next child to go down to, or NULL. */
static struct pcpu_node *next_child(struct pass *p, struct pcpu_node *node)
{
	struct pcpu_node *child = pop_child(p, node);

	PCPU_TREE_PAUSE();
	if (child || !__atomic_exchange_n(&node->scan, 0, __ATOMIC_SEQ_CST))
		return child;
	child = half_linked_child(p, node);
	/* One that was half linked when scan was set may have been pushed since we looked at the list. */
	return child ? child : pop_child(p, node);
}

static void leave(struct pcpu_node *node)
{
	push_back(node, node->aside);
	node->aside = NULL;
}

/* The values change between these two; snapshots that see `version` odd, or moved, try again. */
static void begin_write(struct pcpu_node *node)
{
	__atomic_store_n(&node->version, node->version + 1, __ATOMIC_SEQ_CST);
}

static void end_write(struct pcpu_node *node)
{
	__atomic_store_n(&node->version, node->version + 1, __ATOMIC_RELEASE);
}

/* What the values of a slot have more than its shadow goes to the node, and into the shadow. Was there any? */
static bool fold_slot(struct pcpu_node *node, unsigned cpu)
{
	bool direct = cpu == direct_slot(node->tree), changed = false;
	const int64_t *values = direct ? node->direct : slot_of(node, cpu)->values;
	int64_t *shadow = direct ? node->direct_seen : shadow_of(node, cpu);

	node->tree->visits++;
	for (uint32_t i = 0; i < node->fast.nr_stats; i++) {
		/* Sequentially consistent for the sake of the atomic backend; a plain load on x86. */
		int64_t value = __atomic_load_n(&values[i], __ATOMIC_SEQ_CST);
		uint64_t n = (uint64_t)value - (uint64_t)shadow[i];

		if (n == 0)
			continue;
		shadow[i] = value;
		add_to(&node->local[i], (int64_t)n);
		node->pending[i] = (int64_t)((uint64_t)node->pending[i] + n);
		changed = true;
	}
	return changed;
}

/* Read the hot ones among @bits of word @i. Returns those that changed; the others are hot no more. */
static uint64_t keep_hot(struct pcpu_node *node, uint32_t i, uint64_t bits)
{
	uint64_t kept = 0;

	begin_write(node);
	for (bits &= node->hot[i]; bits; bits &= bits - 1)
		if (fold_slot(node, 64 * i + (unsigned)__builtin_ctzll(bits)))
			kept |= bits & -bits;
	end_write(node);
	node->hot[i] = kept;
	return kept;
}

/* Take the slots that changed in @node itself. */
static void take_bits(struct pass *p, struct pcpu_node *node)
{
	bool any = false;

	node->kept = 0;
	for (uint32_t i = 0; i < p->tree->bitmap_words; i++) {
		uint64_t bits = __atomic_load_n(&node->changed[i], __ATOMIC_SEQ_CST);

		p->pairs += (unsigned)__builtin_popcountll(bits);
		if (p->forget && (bits & node->hot[i])) {
			uint64_t kept = keep_hot(node, i, bits);

			if (kept) {
				node->kept = 1;
				p->tree->hot_read = p->tree->hold_began;
			}
			bits &= ~kept;
		}
		if (bits && p->forget)
			bits &= __atomic_fetch_and(&node->changed[i], ~bits, __ATOMIC_SEQ_CST);
		node->taken[i] = bits;
		any |= bits != 0;
	}
	PCPU_TREE_PAUSE();
	/* After the bits, see above. Pairs with the load of the epoch that follows the store of an add. */
	if (any && p->forget)
		__atomic_store_n(&node->fast.epoch, ++p->tree->epoch, __ATOMIC_SEQ_CST);
	p->took |= any;
}

/* On the way down an unfinished path: the node's own slots were taken in an earlier hold. */
static void visit_again(struct pass *p, struct pcpu_node *node)
{
	bool any = false;

	for (uint32_t i = 0; i < p->tree->bitmap_words; i++) {
		any |= __atomic_load_n(&node->changed[i], __ATOMIC_SEQ_CST) != 0;
		node->taken[i] = 0;
	}
	node->kept = 0; /* as are all that have changed: */
	node->unfinished = 0;
	/* For a later flush. It must find the way here, and those above are FLUSHING already. */
	if (any)
		pcpu_node_raise(node);
}

static void visit(struct pass *p, struct pcpu_node *node)
{
	node->next_done = p->done;
	p->done = node;
	if (__atomic_load_n(&node->dirty, __ATOMIC_SEQ_CST) != CLEAN)
		/* Before anything is taken: what is marked from now on makes it DIRTY again. */
		__atomic_store_n(&node->dirty, FLUSHING, __ATOMIC_SEQ_CST);
	if (node->visited == p->number) {
		visit_again(p, node);
		return;
	}
	node->visited = p->number;
	node->unfinished = 0;
	p->pairs++;
	/* A clean node is on the list for what an earlier flush, of it alone, left in `up`; its bits are 0.
	 */
	take_bits(p, node);
	prefetch_for_fold(node, p->tree);
}

/* Returns whether it ended before everything was taken. */
static bool take(struct pass *p)
{
	struct pcpu_node *node = p->top, *child;

	visit(p, node);
	for (;;) {
		if (p->pairs >= PAIRS_PER_HOLD)
			break;
		child = next_child(p, node);
		if (child) {
			visit(p, child);
			node = child;
			continue;
		}
		leave(node);
		if (node == p->top)
			return false;
		node = node->parent;
	}
	/* Everything on the path may have more below, and has to be found again. */
	pcpu_node_raise(node);
	for (;; node = node->parent) {
		leave(node);
		node->unfinished = p->number;
		if (node == p->top)
			return true;
	}
}

/* ---- fence ---- */

/* Nothing may be forgotten after all: put the bits back, and do so for ever. */
static void remember(struct pass *p)
{
	p->tree->fenced = false;
	p->forget = false;
	for (struct pcpu_node *node = p->done; node; node = node->next_done)
		for (uint32_t i = 0; i < p->tree->bitmap_words; i++)
			if (node->taken[i])
				__atomic_fetch_or(&node->changed[i], node->taken[i], __ATOMIC_SEQ_CST);
}

static void fence(struct pass *p)
{
	PCPU_TREE_PAUSE();
	if (!p->took || !p->forget || p->tree->atomic)
		return;
	if (!pcpu_fence_process())
		remember(p);
}

/* ---- fold ---- */

/* After so many flushes in a row during which a node changed, what changed in it is hot. */
#define HOT_AFTER 4u

static void fold(struct pass *p, struct pcpu_node *node)
{
	const struct pcpu_tree *tree = p->tree;
	struct pcpu_node *parent = node == p->top ? NULL : node->parent;
	uint32_t state = FLUSHING;

	begin_write(node);
	for (uint32_t i = 0; i < tree->bitmap_words; i++)
		for (uint64_t bits = node->taken[i]; bits; bits &= bits - 1)
			if (fold_slot(node, 64 * i + (unsigned)__builtin_ctzll(bits)) &&
			    node->amid >= HOT_AFTER)
				node->hot[i] |= bits & -bits;
	for (uint32_t i = 0; i < node->fast.nr_stats; i++) {
		uint64_t n = (uint64_t)node->pending[i], up = n + (uint64_t)node->up[i];

		if (n) {
			add_to(&node->total[i], (int64_t)n);
			node->pending[i] = 0;
		}
		if (parent)
			parent->pending[i] = (int64_t)((uint64_t)parent->pending[i] + up);
		node->up[i] = parent ? 0 : (int64_t)up;
	}
	end_write(node);
	PCPU_TREE_PAUSE();
	if (!p->forget || node->kept)
		pcpu_node_raise(node);
	/* Release: who sees CLEAN sees the totals. Fails where a change came in. */
	else if (__atomic_compare_exchange_n(&node->dirty, &state, CLEAN, false, __ATOMIC_SEQ_CST,
					     __ATOMIC_RELAXED))
		node->amid = 0;
	else if (node->amid < HOT_AFTER)
		node->amid++;
}

/* One hold of the lock. Returns whether something is left to do. */
static bool flush_some(struct pcpu_node *top, uint64_t number)
{
	struct pass p = {.tree = top->tree, .top = top, .number = number, .forget = top->tree->fenced};
	bool rest = take(&p);

	fence(&p);
	for (struct pcpu_node *node = p.done, *next; node; node = next) {
		next = node->next_done;
		fold(&p, node);
	}
	return rest;
}

/* Was a flush with a number above @number asked for here or above, and is complete? */
static bool covered_since(const struct pcpu_node *node, uint64_t number)
{
	for (; node; node = node->parent)
		if (__atomic_load_n(&node->covered, __ATOMIC_ACQUIRE) > number)
			return true;
	return false;
}

/*
 * A line that its CPU is writing all the time costs it some 150 ns each time that it is read. Readers in a loop
 * could take half of its time that way; not more often than this, they take less than a third.
 */
#define HOT_PAUSE_NS 500u

/* Let some time go by since hot slots were last read. Returns the time. */
static uint64_t spare_hot(const struct pcpu_tree *tree, uint64_t now)
{
	while (now - tree->hot_read < HOT_PAUSE_NS)
		now = pcpu_now();
	return now;
}

void pcpu_flush(struct pcpu_node *node)
{
	struct pcpu_tree *tree = node->tree;
	uint64_t begun = __atomic_load_n(&tree->begun, __ATOMIC_SEQ_CST), mine = 0, began = 0;
	bool rest = true;

	while (rest) {
		uint64_t held;

		pthread_mutex_lock(&tree->flush_lock);
		held = pcpu_now();
		if (!mine && (pcpu_node_is_clean(node) || covered_since(node, begun))) {
			pthread_mutex_unlock(&tree->flush_lock);
			return;
		}
		held = spare_hot(tree, held);
		if (!mine) {
			mine = tree->begun + 1;
			__atomic_store_n(&tree->begun, mine, __ATOMIC_SEQ_CST);
			began = held;
		}
		tree->hold_began = held;
		rest = flush_some(node, mine);
		if (!rest) {
			__atomic_store_n(&node->covered_at, began, __ATOMIC_RELEASE);
			__atomic_store_n(&node->covered, mine, __ATOMIC_RELEASE);
		}
		held = pcpu_now() - held;
		if (held > tree->longest_hold)
			tree->longest_hold = held;
		pthread_mutex_unlock(&tree->flush_lock);
		if (rest)
			sched_yield(); /* the lock is not fair: let those in who wait */
	}
}

/* ---- the last flush of a node ---- */

/* Only holders of the lock take nodes off the list, so all but its head stays where it is. */
static void unlist(struct pcpu_node *node)
{
	struct pcpu_node *after = __atomic_load_n(&node->next_changed, __ATOMIC_RELAXED);
	struct pcpu_node *before = node, *next;

	if (__atomic_load_n(&node->queued, __ATOMIC_SEQ_CST) != IDLE &&
	    !__atomic_compare_exchange_n(&node->parent->changed_children, &before, after, false,
					 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
		/* Not the head: that is in `before`. Not there at all if it was being linked when we forked. */
		for (; before; before = next) {
			next = __atomic_load_n(&before->next_changed, __ATOMIC_RELAXED);
			if (next == node) {
				__atomic_store_n(&before->next_changed, after, __ATOMIC_RELAXED);
				break;
			}
		}
	}
	__atomic_store_n(&node->queued, IDLE, __ATOMIC_SEQ_CST);
}

void pcpu_flush_last(struct pcpu_node *node)
{
	struct pcpu_node *parent = node->parent;

	/* Nobody adds to the node any more: it is on the list, or not, and stays so. */
	unlist(node);
	begin_write(parent);
	for (uint32_t i = 0; i < node->fast.nr_stats; i++) {
		add_to(&parent->total[i], node->up[i]);
		add_to(&parent->up[i], node->up[i]);
		node->up[i] = 0;
	}
	end_write(parent);
	/* The parent's own parent learns of it in its next flush. */
	pcpu_node_raise(parent);
}

/* ---- reading ---- */

static uint64_t magnitude(int64_t n)
{
	return n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
}

/* Sums stop at the largest number: a wrapped one could pass for small. */
static uint64_t plus(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

static uint64_t slot_magnitude(const int64_t *values, const int64_t *shadow, uint32_t nr)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < nr; i++) {
		uint64_t value = (uint64_t)__atomic_load_n(&values[i], __ATOMIC_RELAXED);

		sum = plus(sum, magnitude((int64_t)(value - (uint64_t)shadow[i])));
	}
	return sum;
}

/* What the node's own slots hold unflushed; @pairs is how many were looked at. */
static uint64_t node_magnitude(const struct pcpu_node *node, unsigned *pairs)
{
	const struct pcpu_tree *tree = node->tree;
	uint64_t sum = 0;

	++*pairs;
	for (uint32_t i = 0; i < tree->bitmap_words; i++) {
		for (uint64_t bits = __atomic_load_n(&node->changed[i], __ATOMIC_SEQ_CST); bits;
		     bits &= bits - 1) {
			unsigned cpu = 64 * i + (unsigned)__builtin_ctzll(bits);
			const int64_t *values = node->direct, *shadow = node->direct_seen;

			++*pairs;
			if (cpu != direct_slot(tree)) {
				values = slot_of(node, cpu)->values;
				shadow = shadow_of(node, cpu);
			}
			sum = plus(sum, slot_magnitude(values, shadow, tree->nr_stats));
		}
	}
	return sum;
}

/*
 * Is a child being linked right now? If not, whoever set `scan` was told of one that has been linked since: then
 * it is on the list, and the next reader need not ask. Under the flush lock, as in next_child.
 */
static bool is_being_linked(struct pcpu_node *node)
{
	struct pass none = {.number = UINT64_MAX};

	if (!__atomic_exchange_n(&node->scan, 0, __ATOMIC_SEQ_CST) || !half_linked_child(&none, node))
		return false;
	__atomic_store_n(&node->scan, 1, __ATOMIC_SEQ_CST);
	return true;
}

/*
 * Is more than the threshold missing from the node's total? Looks through what changed, and no further than
 * needed. The kernel keeps a running sum for this decision, which made every update pay for it (S2); a look
 * costs the reader at most what the flush that it may save would have. Where much changed by little, it does
 * not go on for longer than the lock may be held: then the flush decides, and the next look is short.
 */
static bool beyond_threshold(struct pcpu_node *top)
{
	struct pcpu_tree *tree = top->tree;
	struct pcpu_node *work = top, *node, *child;
	uint64_t sum = 0, limit = pcpu_node_threshold(top);
	unsigned pairs = 0;
	bool beyond = false;

	pthread_mutex_lock(&tree->flush_lock);
	top->next_work = NULL;
	while (work && !beyond) {
		node = work;
		work = node->next_work;
		if (__atomic_load_n(&node->scan, __ATOMIC_SEQ_CST) && is_being_linked(node)) {
			beyond = true; /* leave it to a flush */
			break;
		}
		sum = plus(sum, node_magnitude(node, &pairs));
		for (uint32_t i = 0; node != top && i < tree->nr_stats; i++)
			sum = plus(sum, magnitude(node->up[i]));
		beyond = sum > limit || pairs > PAIRS_PER_HOLD;
		for (child = __atomic_load_n(&node->changed_children, __ATOMIC_SEQ_CST); child;
		     child = __atomic_load_n(&child->next_changed, __ATOMIC_RELAXED)) {
			child->next_work = work;
			work = child;
		}
	}
	pthread_mutex_unlock(&tree->flush_lock);
	return beyond;
}

static void refresh(struct pcpu_node *node, enum pcpu_read how)
{
	if (how == PCPU_READ_CACHED || pcpu_node_is_clean(node))
		return;
	if (how == PCPU_READ_BOUNDED && !beyond_threshold(node))
		return;
	pcpu_flush(node);
}

static int64_t value_of(const int64_t *values, const struct pcpu_node *node, uint32_t stat)
{
	return stat < node->fast.nr_stats ? __atomic_load_n(&values[stat], __ATOMIC_RELAXED) : 0;
}

int64_t pcpu_node_read(struct pcpu_node *node, uint32_t stat, enum pcpu_read how)
{
	refresh(node, how);
	return value_of(node->total, node, stat);
}

int64_t pcpu_node_read_local(struct pcpu_node *node, uint32_t stat, enum pcpu_read how)
{
	refresh(node, how);
	return value_of(node->local, node, stat);
}

int64_t pcpu_node_read_within(struct pcpu_node *node, uint32_t stat, uint64_t max_age_ns)
{
	uint64_t latest = 0, now;

	if (max_age_ns && !pcpu_node_is_clean(node)) {
		for (const struct pcpu_node *above = node; above; above = above->parent) {
			/* Acquire: what that flush left is seen. */
			uint64_t at = __atomic_load_n(&above->covered_at, __ATOMIC_ACQUIRE);

			latest = at > latest ? at : latest;
		}
		now = pcpu_now();
		if (latest && now - latest <= max_age_ns)
			return value_of(node->total, node, stat);
	}
	refresh(node, PCPU_READ_EXACT);
	return value_of(node->total, node, stat);
}

/* A flush writes a node's values in less than a microsecond, if it is not interrupted. */
#define SNAPSHOT_TRIES 100

static bool try_copy(const struct pcpu_node *node, const int64_t *from, int64_t *values, uint32_t nr)
{
	uint64_t version = __atomic_load_n(&node->version, __ATOMIC_SEQ_CST);

	for (uint32_t i = 0; i < nr; i++)
		values[i] =
			__atomic_load_n(&from[i], __ATOMIC_ACQUIRE); /* before the second look at version */
	return version % 2 == 0 && __atomic_load_n(&node->version, __ATOMIC_SEQ_CST) == version;
}

/* The first @nr of @from, all as one flush left them. */
static int snapshot(struct pcpu_node *node, const int64_t *from, int64_t *values, uint32_t nr,
		    enum pcpu_read how)
{
	if (nr > node->fast.nr_stats || (nr && !values))
		return -EINVAL;
	refresh(node, how);
	for (int i = 0; i < SNAPSHOT_TRIES; i++)
		if (try_copy(node, from, values, nr))
			return 0;
	pthread_mutex_lock(&node->tree->flush_lock);
	try_copy(node, from, values, nr);
	pthread_mutex_unlock(&node->tree->flush_lock);
	return 0;
}

int pcpu_node_snapshot(struct pcpu_node *node, int64_t *values, uint32_t nr, enum pcpu_read how)
{
	return snapshot(node, node->total, values, nr, how);
}

int pcpu_node_snapshot_local(struct pcpu_node *node, int64_t *values, uint32_t nr, enum pcpu_read how)
{
	return snapshot(node, node->local, values, nr, how);
}

int pcpu_node_flush(struct pcpu_node *node)
{
	refresh(node, PCPU_READ_EXACT);
	return 0;
}

uint64_t pcpu_node_threshold(struct pcpu_node *node)
{
	return (uint64_t)node->tree->batch * node->tree->region->cpu.chunks;
}
