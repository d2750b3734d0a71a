/* SPDX-License-Identifier: MIT */
/*
 * A model of lib/limit/limit.c: charge, uncharge, drain and set_max on two CPUs, for a limit with stocks below a
 * root. Invariants: I8 (never over, never falsely refused) and I1 (nothing lost or twice).
 *
 * The ledger's steps are atomic, and decided on at a number that must still hold (lib/limit/ledger.h says why that
 * is so). What is spelled out is what happens outside of the ledger: the section that charges from a stock, which
 * reads first and commits later and may be aborted in between; closing and opening a slot; making the epoch odd;
 * the fence; and the order of a pass. When stocks are allowed, and how large they are made, is any choice, so the
 * policy is not part of what is shown.
 *
 * Bounded: two actors with so many calls, passes, thaws and refills each; what would need more is not looked at.
 * Each call of the second beside charges and uncharges of the first:
 *
 * VARIANTS: CHARGE DRAIN MAX ROOT REFUSED
 *
 * MUTANTS: NO_FENCE NO_RECHECK NO_INVALIDATE NO_GENERATION NO_PASS NO_CLOSE
 *
 * NO_FENCE	sections in flight are not aborted before stocks are taken back
 * NO_RECHECK	stocks are taken without looking whether a thaw came since the pass began
 * NO_INVALIDATE	what was decided on before the epoch was odd may still begin
 * NO_GENERATION	a slot may be opened again with a grant that it was opened with before
 * NO_PASS	a refusal is taken from usage as it is, stocks and all
 * NO_CLOSE	what a slot was given is changed while the slot is open
 */
#define CPUS	2
#define ACTORS	2

/* Calls of the first actor and of the second, and what the second's are. */
#define SECOND_CHARGES false
#define SECOND_REFUSED false
#define SECOND_ROOT    false
#define SECOND_DRAINS  false
#define SECOND_SETS    false
#define CALLS(me)      (me == 0 -> 2 : 1)
#if defined(REFUSED)
#undef SECOND_REFUSED
#define SECOND_REFUSED true
#elif defined(ROOT)
#undef SECOND_ROOT
#define SECOND_ROOT true
#elif defined(DRAIN)
#undef SECOND_DRAINS
#define SECOND_DRAINS true
#elif defined(MAX)
#undef SECOND_SETS
#define SECOND_SETS true
#else
#undef SECOND_CHARGES
#define SECOND_CHARGES true
#define NO_STOPS
#endif

#define BATCH	 2
#define ROOT_MAX 2
#define LEAF_MAX 2

/* the ledger */
byte number = 2;	/* of the last step */
short usage_root, usage_leaf;
short max_root = ROOT_MAX, max_leaf = LEAF_MAX;
short given[CPUS];
byte given_at[CPUS];		/* its generation */
byte thawed, quiet, quiet_root; /* a thaw of the leaf is one at both levels */

/* the leaf's slots and epoch */
byte epoch = 1;
short total[CPUS], ceiling[CPUS];
byte generation[CPUS], slot_epoch[CPUS];

/* sections in flight: where, and whether something aborted them */
bool in_section[ACTORS], aborted[ACTORS];
byte at_cpu[ACTORS];

bool cut; /* an actor wanted more passes than it has: not looked at further */

/* what is charged past the slots */
short direct_leaf, direct_root;

#define TRUTH_LEAF (total[0] + total[1] + direct_leaf)
#define TRUTH_ROOT (TRUTH_LEAF + direct_root)

inline never_over()
{
	assert(TRUTH_LEAF <= max_leaf);
	assert(TRUTH_ROOT <= max_root);
	assert(TRUTH_LEAF >= 0 && TRUTH_ROOT >= 0)
}

/* This actor begins a section: whoever was in one on this CPU has been preempted. */
inline enter()
{
	if
	:: in_section[1 - me] && at_cpu[1 - me] == at_cpu[me] -> aborted[1 - me] = true
	:: else
	fi;
	in_section[me] = true;
	aborted[me] = false
}

inline leave()
{
	in_section[me] = false;
	aborted[me] = false
}

/* Threads move between any two sections. */
inline go_somewhere()
{
	if
	:: at_cpu[me] = 0
	:: at_cpu[me] = 1
	fi;
	c = at_cpu[me]
}

/* Charge n (negative: uncharge) within the stock; done tells whether that was possible. */
inline charge_stock(n)
{
	atomic {
		go_somewhere();
		enter();
		seen = total[c];
		stock = ceiling[c] - (total[c] + n);
		fits = slot_epoch[c] == epoch && stock >= 0 && stock <= BATCH;
		stock = 0
	}
	atomic {
		if
		:: fits && !aborted[me] ->
			total[c] = seen + n;
			done = true
		:: else
		fi;
		leave();
		never_over();
		fits = false;
		seen = 0;
		c = 0
	}
}

/* A pass: all stocks of the leaf are taken back. */
inline take_back()
{
	atomic {
		if
		:: passes > 0 -> passes--; begun = number
		:: else -> cut = true; goto over
		fi
	}
	atomic {
		if
		:: epoch % 2 == 0 -> epoch++
		:: else
		fi
	}
#ifndef NO_INVALIDATE
	atomic { number++ }
#endif
#ifndef NO_FENCE
	atomic {
		if
		:: in_section[1 - me] -> aborted[1 - me] = true
		:: else
		fi
	}
#endif
	do
	:: k < CPUS ->
		/* Look ... */
		atomic {
			view = number;
			stock = given[k] - total[k];
			stale = thawed >= begun
#ifdef NO_RECHECK
			; stale = false
#endif
		}
		/* ... and take what was seen, if no step came between. */
		atomic {
			if
			:: stale || stock == 0 -> k++
			:: !stale && stock != 0 && number == view ->
				number++;
				given[k] = given[k] - stock;
				given_at[k] = number;
				usage_leaf = usage_leaf - stock;
				usage_root = usage_root - stock;
				k++
			:: else
			fi;
			stock = 0;
			stale = false;
			view = 0
		}
	:: else -> break
	od;
	atomic {
		k = 0;
		/* Told to the level that the pass began at. */
		if
		:: refuses_leaf && quiet < begun -> quiet = begun
		:: !refuses_leaf && quiet_root < begun -> quiet_root = begun
		:: else
		fi;
		begun = 0
	}
}

/* Bring this CPU's stock to what it should be and charge n through it, as decided at view. */
inline charge_refilled(n)
{
	atomic {
		view_epoch = epoch;
		go_somewhere();
		old_at = given_at[c];
		fits = view_epoch % 2 == 0
	}
	/* close: one section, seen by nobody but sections of the same CPU, so one step */
	atomic {
		enter();
		fits = fits && generation[c] <= old_at;
		if
		:: fits ->
#ifndef NO_CLOSE
			generation[c] = old_at;
			slot_epoch[c] = 0;
#endif
			seen = total[c]
		:: else
		fi;
		leave()
	}
	/* the step: to any stock that fits */
	atomic {
		if
		:: fits && number == view && given_at[c] == old_at ->
			stock = given[c] - seen;
			if
			:: more = n - stock
			:: more = n - stock + 1
			fi;
			if
			:: n < 0 && more > 0 -> more = 0
			:: n < 0 && more < -stock -> more = -stock
			:: else
			fi;
			fits = more <= 0 || (more <= max_leaf - usage_leaf && more <= max_root - usage_root);
			if
			:: fits ->
				number++;
				given[c] = given[c] + more;
				given_at[c] = number;
				usage_leaf = usage_leaf + more;
				usage_root = usage_root + more;
				old_at = number;
				seen_given = given[c]
			:: else
			fi
		:: else -> fits = false
		fi;
		more = 0;
		stock = 0;
		seen = 0
	}
	/* open, with the charge: only here, only in this epoch, only with a younger generation */
	atomic {
		enter();
#ifdef NO_GENERATION
		fits = fits && epoch == view_epoch;
#else
		fits = fits && epoch == view_epoch && generation[c] < old_at;
#endif
		seen = total[c];
		/* Any number of the stores before the commit may be all that is done when it is aborted. */
		if
		:: fits -> ceiling[c] = seen_given;
			if
			:: generation[c] = old_at;
				if
				:: slot_epoch[c] = view_epoch
				:: true
				fi
			:: true
			fi
		:: true
		fi
	}
	atomic {
		if
		:: fits && !aborted[me] ->
			ceiling[c] = seen_given;
			generation[c] = old_at;
			slot_epoch[c] = view_epoch;
			total[c] = seen + n;
			done = true
		:: else
		fi;
		leave();
		never_over();
		fits = false;
		old_at = 0;
		seen_given = 0;
		view_epoch = 0;
		c = 0;
		seen = 0
	}
}

/* What does a charge of n meet, of the leaf or of the root alone? */
inline look(n)
{
	atomic {
		view = number;
		refuses_leaf = !at_root && n > max_leaf - usage_leaf;
		refuses_root = n > max_root - usage_root;
		is_quiet = (refuses_leaf && thawed < quiet) || (!refuses_leaf && thawed < quiet_root);
#ifdef NO_PASS
		is_quiet = true;
#endif
		if
		:: (refuses_leaf || refuses_root) && is_quiet ->
			/* The refusal: it must be real at this moment. */
			assert((refuses_leaf && TRUTH_LEAF + n > max_leaf) ||
			       (!refuses_leaf && TRUTH_ROOT + n > max_root));
			refused = true
		:: else
		fi;
		is_quiet = false
	}
}

inline step_direct(n)
{
	atomic {
		if
		:: number == view ->
			number++;
			usage_root = usage_root + n;
			if
			:: at_root -> direct_root = direct_root + n
			:: else ->
				direct_leaf = direct_leaf + n;
				usage_leaf = usage_leaf + n
			fi;
			done = true;
			never_over()
		:: else
		fi
	}
}

inline step_thaw()
{
	atomic {
		if
		:: number == view && epoch % 2 == 1 ->
			number++;
			thawed = number;
			epoch++
		:: else
		fi
	}
}

inline try_charge(n)
{
	do
	:: done || refused -> break
	:: else ->
		if
		:: !at_root -> charge_stock(n)
		:: else
		fi;
		if
		:: done
		:: else ->
			look(n);
			if
			:: refused
			:: !refused && (refuses_leaf || refuses_root) -> take_back()
			:: else ->
				if
				:: step_direct(n)
				:: !at_root && n < BATCH && epoch % 2 == 1 && thaws > 0 -> thaws--; step_thaw()
				:: !at_root && n < BATCH && epoch % 2 == 0 && refills > 0 -> refills--; charge_refilled(n)
				fi
			fi
		fi
	od;
	atomic { view = 0; refuses_leaf = false; refuses_root = false }
}

inline uncharge(n)
{
	do
	:: done -> break
	:: else ->
		if
		:: !at_root -> charge_stock(-n)
		:: else
		fi;
		if
		:: done
		:: else ->
			view = number;
			if
			:: step_direct(-n)
			:: !at_root && n < BATCH && epoch % 2 == 0 && refills > 0 -> refills--; charge_refilled(-n)
			fi
		fi
	od;
	view = 0
}

inline set_max(m)
{
	do
	:: done -> break
	:: else ->
		atomic {
			view = number;
			refuses_root = usage_root > m;
			if
			:: refuses_root && thawed < quiet_root ->
				/* -EBUSY must be real. */
				assert(TRUTH_ROOT > m);
				done = true
			:: else
			fi
		}
		if
		:: done
		:: !done && refuses_root -> take_back()
		:: else ->
			atomic {
				if
				:: number == view ->
					number++;
					max_root = m;
					done = true;
					never_over()
				:: else
				fi
			}
		fi
	od;
	atomic { view = 0; refuses_root = false }
}

proctype actor(bit me)
{
	byte c, k, ops, view, view_epoch, old_at, begun;
#ifdef NO_STOPS
	byte passes, thaws, refills = 1; /* two that charge, and stocks are there or not */
#else
	byte passes = 1, thaws = 1, refills = 1;
#endif
	short seen, seen_given, stock, more;
	byte held_leaf, held_root;
	bool fits, stale, done, refused, at_root, refuses_leaf, refuses_root, is_quiet;

	do
	:: ops < CALLS(me) ->
		ops++;
		if
		:: me == 0 || SECOND_CHARGES -> try_charge(1); held_leaf = held_leaf + 1 - refused
		:: me == 0 && held_leaf > 0 -> uncharge(1); held_leaf--
		:: me == 1 && SECOND_REFUSED -> try_charge(2); held_leaf = held_leaf + 2 - 2 * refused
		:: me == 1 && SECOND_ROOT -> at_root = true; try_charge(1); held_root = held_root + 1 - refused
		:: me == 1 && SECOND_DRAINS -> take_back()
		:: me == 1 && SECOND_SETS -> set_max(1)
		fi;
		atomic { at_root = false; done = false; refused = false }
	:: else -> break
	od;
over:	leave()
}

/* Where to begin: nothing yet, or a stock of 1 on CPU 0 and one unit charged or not. */
init {
	atomic {
		if
		:: true
		:: epoch = 2; thawed = 1; given[0] = 1; given_at[0] = 2; usage_leaf = 1; usage_root = 1;
			ceiling[0] = 1; generation[0] = 2; slot_epoch[0] = 2
		:: epoch = 2; thawed = 1; given[0] = 2; given_at[0] = 2; usage_leaf = 2; usage_root = 2;
			ceiling[0] = 2; generation[0] = 2; slot_epoch[0] = 2; total[0] = 1; at_cpu[0] = 0
		fi;
		run actor(0);
		run actor(1)
	}
	(_nr_pr == 1);
	/* The books at rest: usage is what is charged and what lies in stocks. */
	assert(cut || usage_leaf == TRUTH_LEAF + given[0] - total[0] + given[1] - total[1]);
	assert(cut || usage_root == usage_leaf + direct_root)
}
