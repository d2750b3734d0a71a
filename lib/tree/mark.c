/* SPDX-License-Identifier: MIT */
/*
 * How a change becomes known.
 *
 * A (node, slot) pair is *unnoticed* when its slot's epoch differs from its node's. The add that finds that,
 * after its store, comes here and
 *
 *	1. loads the node's epoch,
 *	2. sets the slot's bit in node.changed,
 *	3. for the node and each ancestor: sets dirty, and puts it on its parent's list of changed children,
 *	4. stores the epoch of step 1 in the slot, so that the next adds there have nothing to do.
 *
 * Afterwards every flush that starts at the node or above finds the pair, until one takes the bit; and that
 * one moves the node's epoch on *after* taking it (flush.c), so a bit is never gone while the slot counts as
 * noticed.
 *
 * Each step is idempotent, none waits, and the order is bottom-up without an early end, for this reason: when
 * an add returns, its change must be findable, even if some other thread had begun the same steps before and
 * is stopped halfway (I2). A bit or a DIRTY that is already set is as good as set by us, since a flusher takes
 * what is on the way down: what it has not taken yet, it will find. Only putting a node on a list takes two
 * steps, and somebody may be between them:
 *
 *	IDLE --claim--> LINKING by thread T --pushed--> QUEUED --a flusher pops it--> IDLE
 *
 * Whoever finds LINKING cannot know whether the push is done. It does not wait; it sets parent.scan, which
 * makes the next flusher look at all children, and goes on. T ends with LINKING by T -> QUEUED by
 * compare-and-swap: a flusher may have popped the node already, and somebody else may be linking it anew.
 *
 * All of these accesses are sequentially consistent: the argument is over one order of them (tests/models).
 */
#include "tree/tree.h"

#include "arch/rseq.h"
/* The exported functions are the inline bodies, compiled here. */
#include <pcpu_stat/tree_inline.h>

#include "cpu/cpu.h"

#define SECTION_TRIES 100 /* see counter.c */

/* A word that only this thread has; aligned, so that the low bits are free. */
static uint64_t linking_by_me(void)
{
	return ((uint64_t)(uintptr_t)pcpu_thread_pointer() & ~(uint64_t)3) | LINKING;
}

void pcpu_node_queue(struct pcpu_node *node)
{
	struct pcpu_node *parent = node->parent, *head;
	uint64_t mine = linking_by_me(), state = __atomic_load_n(&node->queued, __ATOMIC_SEQ_CST);

	while (state == IDLE) {
		if (!__atomic_compare_exchange_n(&node->queued, &state, mine, false, __ATOMIC_SEQ_CST,
						 __ATOMIC_SEQ_CST))
			continue;
		PCPU_TREE_PAUSE();
		head = __atomic_load_n(&parent->changed_children, __ATOMIC_SEQ_CST);
		do
			__atomic_store_n(&node->next_changed, head, __ATOMIC_RELAXED);
		while (!__atomic_compare_exchange_n(&parent->changed_children, &head, node, false,
						    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
		PCPU_TREE_PAUSE();
		__atomic_compare_exchange_n(&node->queued, &mine, QUEUED, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_SEQ_CST);
		return;
	}
	/* Many may be here at once, after a flush: one of them takes the line from the others. */
	if (state != QUEUED && !__atomic_load_n(&parent->scan, __ATOMIC_SEQ_CST))
		__atomic_store_n(&parent->scan, 1, __ATOMIC_SEQ_CST);
}

void pcpu_node_raise(struct pcpu_node *node)
{
	for (; node; node = node->parent) {
		PCPU_TREE_PAUSE();
		if (__atomic_load_n(&node->dirty, __ATOMIC_SEQ_CST) != DIRTY)
			__atomic_store_n(&node->dirty, DIRTY, __ATOMIC_SEQ_CST);
		if (node->parent)
			pcpu_node_queue(node);
	}
}

static void note_epoch(struct pcpu_node *node, unsigned cpu, uint64_t epoch)
{
	struct pcpu_node_slot *slot = slot_of(node, cpu);

	if (node->tree->atomic) {
		__atomic_store_n(&slot->epoch, epoch, __ATOMIC_SEQ_CST);
		return;
	}
#if PCPU_ARCH_SECTIONS
	/* From another CPU the slot is not ours to write (I4): its next add will come here again. */
	if (PCPU_X86_OFFSET)
		pcpu_x86_node_note(&slot->epoch, cpu, epoch);
#endif
}

/* The four steps above, for slot number @cpu or the direct slot. */
static void mark(struct pcpu_node *node, unsigned cpu)
{
	uint64_t epoch = __atomic_load_n(&node->fast.epoch, __ATOMIC_SEQ_CST);
	uint64_t *word = &node->changed[cpu / 64], bit = (uint64_t)1 << (cpu % 64);

	PCPU_TREE_PAUSE();
	/*
	 * A slot's bit is hardly ever set already, and a look before would fetch the line twice: once to read, once
	 * to write. Direct adds come here every time.
	 */
	if (cpu != direct_slot(node->tree) || !(__atomic_load_n(word, __ATOMIC_SEQ_CST) & bit))
		__atomic_fetch_or(word, bit, __ATOMIC_SEQ_CST);
	pcpu_node_raise(node);
	PCPU_TREE_PAUSE();
	if (cpu != direct_slot(node->tree))
		note_epoch(node, cpu, epoch);
}

/* All four accesses (this add, this load; a flusher's store of the epoch, its load) are in one order: no
 * fence. */
static void add_atomic(struct pcpu_node *node, uint32_t stat, int64_t n)
{
	unsigned cpu = pcpu_current_slot() % node->tree->region->cpu.chunks;
	struct pcpu_node_slot *slot = slot_of(node, cpu);

	__atomic_fetch_add(&slot->values[stat], n, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&slot->epoch, __ATOMIC_SEQ_CST) !=
	    __atomic_load_n(&node->fast.epoch, __ATOMIC_SEQ_CST))
		mark(node, cpu);
}

#if PCPU_ARCH_SECTIONS
static bool add_in_section(struct pcpu_node *node, uint32_t stat, int64_t n)
{
	for (int i = 0; PCPU_X86_OFFSET && i < SECTION_TRIES; i++) {
		void *slot;
		int unnoticed;

		PCPU_X86_NODE_ADD(&node->fast, stat, n, slot, unnoticed);
		if (!slot)
			continue;
		if (unnoticed)
			mark(node,
			     (unsigned)(((char *)slot - node->fast.slots) / (ptrdiff_t)node->fast.stride));
		return true;
	}
	return false;
}
#else
static bool add_in_section(struct pcpu_node *node, uint32_t stat, int64_t n)
{
	(void)node;
	(void)stat;
	(void)n;
	return false;
}
#endif

static void add_slow(struct pcpu_node *node, uint32_t stat, int64_t n)
{
	if (stat >= node->fast.nr_stats) {
		pcpu_cpu_count_bad_stat();
		return;
	}
	while (__atomic_load_n(&node->dead, __ATOMIC_ACQUIRE))
		node = node->parent;
	if (node->tree->atomic) {
		add_atomic(node, stat, n);
		return;
	}
	if (add_in_section(node, stat, n))
		return;
	__atomic_fetch_add(&node->direct[stat], n, __ATOMIC_SEQ_CST);
	mark(node, direct_slot(node->tree));
}

void pcpu_node_add_slow(struct pcpu_node *node, uint32_t stat, int64_t n, void *slot)
{
	if (slot)
		mark(node, (unsigned)(((char *)slot - node->fast.slots) / (ptrdiff_t)node->fast.stride));
	else
		add_slow(node, stat, n);
#if PCPU_ARCH_SECTIONS
	/* Callers that may be unloaded count on this: see PCPU_STAT_UNLOADABLE. */
	pcpu_x86_disarm();
#endif
}
