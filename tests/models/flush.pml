/* SPDX-License-Identifier: MIT */
/*
 * How changes in a tree become known, are taken, and reach the totals: lib/tree/mark.c and flush.c over three
 * nodes in a line, root - mid - leaf.
 *
 *	Updater	 stores to its own slot through a store buffer (the fast path is a plain store), compares epochs,
 *		 marks: bit, then dirty and the parent's list, upwards. Two of them, each on a CPU of its own.
 *	Reader	 waits for nothing, notes which adds it was told of, and reads EXACT: a load where the node is
 *		 CLEAN, else a flush, in one hold of the lock or in two. One at the root, one at the mid node.
 *	Remover	 (-DREMOVE) destroys the leaf: grace period, flush, last flush.
 *	Drain	 empties store buffers at any time.
 *
 * What holds: I1, nothing is counted twice or lost, not by removal; I2, an EXACT reader sees the adds it was
 * told of. A slot's epoch is read and written on its own CPU alone: a variable of the updater.
 *
 * Each mutant below takes one step of the argument out, and has to fail in one of the variants.
 *
 * Steps that touch one shared word, or words under the lock alone, are one step here. So are a load and the
 * store that follows it where the store is right whatever the word has become.
 *
 * VARIANTS: AGAIN LINKING PATH ASIDE REMOVE
 * MUTANTS: NO_FENCE EPOCH_FIRST NOTE_LATE STOP_EARLY LOSE_LINKING LOOK_ONCE LOSE_SCAN LOSE_BITS LOSE_ASIDE TWICE
 * MUTANTS: NO_GRACE KEEP_LISTED
 */
#define LEAF 0
#define MID  1
#define ROOT 2

#define CLEAN	 0
#define DIRTY	 1
#define FLUSHING 2

#define IDLE	0
#define QUEUED	9 /* in between: the thread that is linking, 1 .. 5 */

/* Adds of each updater and where; EXACT reads at the root and at the mid node; holds of the lock a flush. */
#if defined(LINKING)		/* two meet at one node that gets linked */
#define ADDS0  1
#define ADDS1  1
#define HOME1  LEAF
#define READS  2
#define MREADS 0
#define HOLDS  1
#elif defined(PATH)		/* adds to a node on the unfinished path */
#define ADDS0  1
#define ADDS1  2
#define HOME1  MID
#define READS  1
#define MREADS 0
#define HOLDS  2
#elif defined(ASIDE)		/* and below one that was done, with half linked ones among them */
#define ADDS0  2
#define ADDS1  1
#define HOME1  LEAF
#define READS  1
#define MREADS 0
#define HOLDS  2
#elif defined(REMOVE)
#define ADDS0  1
#define ADDS1  1
#define HOME1  LEAF
#define READS  1
#define MREADS 0
#define HOLDS  1
#else				/* AGAIN: the slot is noticed, or is it? with flushes at two levels */
#define ADDS0  3
#define ADDS1  0
#define HOME1  LEAF
#define READS  2
#define MREADS 1
#define HOLDS  1
#endif

/* Slots: 2 a node, one for each updater. */
byte val[6], shadow[6];
bool marked[6];

byte epoch[3] = 1, epochs = 1;
byte dirty[3], queued[3];
bool onlist[3]; /* on the parent's list; each node has one child at most */
bool scan[3];
byte total[3], up[3], pending[3];
byte visited[3], unfinished[3], covered[3];
bool aside[3]; /* the child was popped in vain */
byte begun;
bool lock;

/* Store buffers: the newest value for the slot is enough. */
bool pend[2];
byte pend_slot[2], pend_value[2];

byte told[2];	/* adds that are over: whoever reads this was told */
byte issued;	/* adds that have begun */
byte finished;	/* updaters */
bool dead;	/* the leaf */
bool borrowed[2]; /* an updater that walked to the leaf is inside */
bool removed;

inline drain(u)
{
	d_step {
		if
		:: pend[u] -> val[pend_slot[u]] = pend_value[u]; pend[u] = false
		:: else
		fi
	}
}

/* Readers and the remover have no plain stores that matter. */
#define OWN_DRAIN(me) if :: me <= 2 -> drain(me - 1) :: else fi

inline queue(me, n)
{
	if
	:: atomic { queued[n] == IDLE -> OWN_DRAIN(me); queued[n] = me }
		onlist[n] = true;
		atomic {
			if
			:: queued[n] == me -> queued[n] = QUEUED
			:: else
			fi
		}
	:: queued[n] == QUEUED
	:: queued[n] != IDLE && queued[n] != QUEUED
#ifndef LOSE_LINKING
		-> atomic { OWN_DRAIN(me); scan[n + 1] = true }
#endif
	fi
}

inline raise_one(me, n)
{
	atomic {
		if
		:: dirty[n] != DIRTY -> OWN_DRAIN(me); dirty[n] = DIRTY
		:: else ->
#ifdef STOP_EARLY
			stop = true
#else
			skip
#endif
		fi
	}
}

inline raise(me, from)
{
	stop = false;
	if
	:: from <= LEAF -> raise_one(me, LEAF); if :: !stop -> queue(me, LEAF) :: else fi
	:: else
	fi;
	if
	:: !stop && from <= MID -> raise_one(me, MID); if :: !stop -> queue(me, MID) :: else fi
	:: else
	fi;
	if
	:: !stop -> raise_one(me, ROOT)
	:: else
	fi
}

#define NOTED (node == home -> noted : noted_mid)

proctype Updater(byte u; byte home; byte adds)
{
	byte node, slot, old, noted, noted_mid, count, count_mid;
	bool stop;

	do
	:: adds == 0 -> break
	:: else ->
		/* The section looks whether the node is alive, and stores later. */
		d_step {
			node = home;
			adds--;
#ifdef REMOVE
			borrowed[u] = !dead;
			if
			:: dead -> node = MID
			:: else
			fi;
#endif
			slot = 2 * node + u
		}
		/* Slots of two nodes are never pending at once: every add waits for the one before to be told. */
		d_step {
			issued++;
			if
			:: node == home -> count++; pend_value[u] = count
			:: else -> count_mid++; pend_value[u] = count_mid
			fi;
			pend_slot[u] = slot;
			pend[u] = true
		}
		if
		:: epoch[node] != NOTED ->
			old = epoch[node];
			atomic {
				if
				:: !marked[slot] -> drain(u); marked[slot] = true
				:: else
				fi
			}
			raise(u + 1, node);
#ifdef NOTE_LATE
			old = epoch[node];
#endif
			if
			:: node == home -> noted = old
			:: else -> noted_mid = old
			fi
		:: epoch[node] == NOTED
		fi;
		/* A store behind the add's, or anything else that tells. */
		d_step { !pend[u] -> told[u]++; borrowed[u] = false }
	od;
	finished++
}

active proctype Drain()
{
end:
	do
	:: pend[0] -> drain(0)
	:: pend[1] -> drain(1)
	od
}

#define IS_DONE(n) (visited[n] == number && unfinished[n] != number)

inline move_epoch(n)
{
	d_step { epochs++; epoch[n] = epochs }
}

/* Both bits are in one word. */
inline take_bits(n)
{
	d_step {
		taken[2 * n] = marked[2 * n];
		taken[2 * n + 1] = marked[2 * n + 1];
		marked[2 * n] = false;
		marked[2 * n + 1] = false;
		any = taken[2 * n] || taken[2 * n + 1];
		took = took || any
	}
}

inline visit(me, n)
{
	d_step {
		done[n] = true;
		again = visited[n] == number;
		visited[n] = number;
		unfinished[n] = 0;
		if
		:: dirty[n] != CLEAN -> dirty[n] = FLUSHING
		:: else
		fi
	}
	if
	:: again ->
		if
		:: marked[2 * n] || marked[2 * n + 1] ->
#ifndef LOSE_BITS
			raise(me, n)
#else
			dirty[n] = DIRTY
#endif
		:: else
		fi
	:: else ->
#ifdef EPOCH_FIRST
		move_epoch(n);
#endif
		take_bits(n);
#ifndef EPOCH_FIRST
		if
		:: any -> move_epoch(n)
		:: else
		fi
#endif
	fi
}

/* child is NONE or the one to visit. */
#define NONE 7
inline pop_child(me, n)
{
	d_step {
		child = NONE;
		again = false;
		if
		:: n > LEAF && onlist[n - 1] ->
			onlist[n - 1] = false;
			if
			:: IS_DONE(n - 1) -> aside[n] = true; again = true
			:: else -> child = n - 1
			fi
		:: else
		fi
	}
	if
	:: child != NONE -> queued[n - 1] = IDLE
	:: else
	fi;
#ifndef LOSE_ASIDE
	if
	:: again -> raise(me, n)
	:: else
	fi
#endif
}

inline next_child(me, n)
{
	pop_child(me, n);
	if
	:: n > LEAF && child == NONE ->
		d_step { again = scan[n]; scan[n] = false }
		if
		:: again ->
			again = false;
			if
			:: queued[n - 1] != IDLE && queued[n - 1] != QUEUED ->
				if
				:: !IS_DONE(n - 1) -> scan[n] = true; child = n - 1
				:: else ->
#ifndef LOSE_SCAN
					if
					:: dirty[n - 1] == DIRTY -> scan[n] = true; raise(me, n)
					:: dirty[n - 1] != DIRTY
					fi
#else
					skip
#endif
				fi
			:: queued[n - 1] == IDLE || queued[n - 1] == QUEUED
			fi;
#ifndef LOOK_ONCE
			if
			:: child == NONE -> pop_child(me, n)
			:: else
			fi
#endif
		:: else
		fi
	:: else
	fi
}

inline leave(n)
{
	if
	:: aside[n] -> d_step { aside[n] = false; onlist[n - 1] = true }
	:: else
	fi
}

inline fence()
{
#ifndef NO_FENCE
	if
	:: took -> drain(0); drain(1)
	:: else
	fi
#else
	skip
#endif
}

inline fold_slot(n, i)
{
	if
	:: taken[i] -> d_step {
			pending[n] = pending[n] + val[i] - shadow[i];
#ifndef TWICE
			shadow[i] = val[i];
#endif
			taken[i] = false
		}
	:: else
	fi
}

inline fold(n, top)
{
	if
	:: done[n] ->
		fold_slot(n, 2 * n);
		fold_slot(n, 2 * n + 1);
		d_step {
			done[n] = false;
			total[n] = total[n] + pending[n];
			up[n] = up[n] + pending[n];
			pending[n] = 0;
			if
			:: n != top && n < ROOT -> pending[n + 1] = pending[n + 1] + up[n]; up[n] = 0
			:: n == ROOT -> up[n] = 0
			:: else
			fi
		}
		d_step {
			if
			:: dirty[n] == FLUSHING -> dirty[n] = CLEAN
			:: else
			fi
		}
	:: else
	fi
}

/* Was a flush that began after number `since` asked for here or above, and is complete? */
#define COVERED(top)                                                                                         \
	(covered[ROOT] > since || (top <= MID && covered[MID] > since) ||                                    \
	 (top == LEAF && covered[LEAF] > since))

/* In one hold of the lock, or in two: who comes meanwhile gets in. */
inline flush(me, top)
{
	since = begun;
	do
	:: d_step { !lock -> lock = true; rest = true; took = false }
		if
		:: number == 0 && (COVERED(top) || dirty[top] == CLEAN) -> rest = false
		:: else ->
			d_step {
				if
				:: number == 0 -> begun++; number = begun
				:: else
				fi;
				at = top;
				holds++
			}
			visit(me, at);
			do
			:: holds < HOLDS ->
				/* Enough for one hold, on the way down or up again. */
				raise(me, at);
				do
				:: leave(at);
					unfinished[at] = number;
					if
					:: at == top -> break
					:: else -> at++
					fi
				od;
				break
			:: next_child(me, at);
				if
				:: child != NONE -> at = child; visit(me, at)
				:: else ->
					leave(at);
					if
					:: at == top -> rest = false; break
					:: else -> at++
					fi
				fi
			od;
			fence();
			fold(LEAF, top);
			fold(MID, top);
			fold(ROOT, top);
			if
			:: !rest -> covered[top] = number
			:: else
			fi
		fi;
		lock = false;
		if
		:: !rest -> break
		:: else
		fi
	od;
	atomic { number = 0; since = 0; holds = 0; at = 0; child = 0; any = false; took = false; again = false }
}

#define FLUSH_LOCALS                                                                                         \
	byte number, since, at, child, holds;                                                                \
	bool any, took, rest, again, stop;                                                                   \
	bool done[3], taken[6]

proctype Reader(byte me; byte top; byte rounds)
{
	FLUSH_LOCALS;
	byte heard, seen;

	do
	:: rounds == 0 -> break
	:: else ->
		rounds--;
		heard = told[0] + told[1];
		if
		:: dirty[top] == CLEAN
		:: dirty[top] != CLEAN -> flush(me, top)
		fi;
		d_step {
			seen = total[top];
			assert(seen >= heard);	/* I2 */
			assert(seen <= issued)	/* I1 */
		};
		heard = 0;
		seen = 0
	od;
	finished++
}

#ifdef REMOVE
proctype Remover()
{
	FLUSH_LOCALS;

	dead = true;
	/* A grace period: those who were inside, not those who come and find it dead. */
#ifndef NO_GRACE
	!borrowed[0];
	!borrowed[1];
#endif
	flush(5, LEAF);
	d_step { !lock -> lock = true };
#ifndef KEEP_LISTED
	onlist[LEAF] = false;
	queued[LEAF] = IDLE;
#endif
	d_step {
		total[MID] = total[MID] + up[LEAF];
		up[MID] = up[MID] + up[LEAF];
		up[LEAF] = 0
	};
	raise(5, MID);
	lock = false;
	/* Given out again: without a trace of what was. */
	removed = true;
	finished++
}
#define REMOVERS 1
#else
#define REMOVERS 0
#endif

init
{
	FLUSH_LOCALS;

	atomic {
		epoch[LEAF] = 1;
		epoch[MID] = 1;
		epoch[ROOT] = 1;
		run Updater(0, LEAF, ADDS0);
		run Updater(1, HOME1, ADDS1);
		run Reader(3, ROOT, READS);
		run Reader(4, MID, MREADS);
#ifdef REMOVE
		run Remover()
#endif
	};
	finished == 4 + REMOVERS;
	/* All is over: nothing is lost, also not for later. */
	if
	:: dirty[ROOT] != CLEAN -> flush(3, ROOT)
	:: else
	fi;
	assert(total[ROOT] == ADDS0 + ADDS1);
#ifdef REMOVE
	assert(!marked[0] && !marked[1] && !onlist[LEAF] && queued[LEAF] == IDLE);
	assert(val[0] == shadow[0] && val[1] == shadow[1])
#endif
}
