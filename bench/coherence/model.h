/* SPDX-License-Identifier: MIT */
/**
 * @file model.h
 * Caches of many CPUs kept coherent by MESI, and what that cost, by the name of the field that was accessed.
 *
 * Words used throughout:
 *
 *	transfer	a line came from another CPU's cache
 *	remote		a transfer that had to wait for a cache on another node
 *	upgrade		a CPU that shared a line had to make the others give it up before it could write: no data
 *			moved, but it waited as long
 *	invalidation	one other CPU's copy of a line that a write made worthless
 *	cold		an access to a line that no cache held
 *
 * Caches are as large as need be: a line leaves one only when another CPU wants it. So every transfer counted
 * here is one that the program asked for.
 */
#ifndef PCPU_BENCH_COHERENCE_MODEL_H
#define PCPU_BENCH_COHERENCE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MODEL_MAX_CPUS = 512, MODEL_MAX_NODES = 64, MODEL_LINE = 64 };

/** Costs in nanoseconds. Constants of the model: no claim about any machine. */
enum {
	COST_HIT = 1,
	COST_LOCKED_HIT = 5,
	COST_COLD = 90,
	COST_SAME_NODE = 40,
	COST_OTHER_NODE = 120,
};

enum model_kind { MODEL_READ, MODEL_WRITE, MODEL_LOCKED };

struct model_count {
	uint64_t reads, writes; /**< accesses */
	uint64_t transfers;
	uint64_t remote;
	uint64_t upgrades;
	uint64_t invalidations;
	uint64_t cold;
	uint64_t foreign; /**< writes to a CPU's own words by another CPU */
	uint64_t shared;  /**< transfers of a line that another field's writing had taken away */
};

/** Forget everything; @p nodes divide @p cpus evenly. @p pairs: a miss brings the neighbouring line as well. */
void model_start(unsigned cpus, unsigned nodes, bool pairs);

unsigned model_node(unsigned cpu);

/** Name a range. Names given later win. @p object and @p field are kept, not copied. */
void model_name(const void *start, size_t bytes, const char *object, const char *field);

/** The same for @p copies ranges @p stride bytes apart; copy i belongs to CPU i, and to nobody if @p owned is 0. */
void model_name_copies(const void *start, size_t bytes, size_t stride, unsigned copies, int owned,
		       const char *object, const char *field);

/** Would this access find its line in the CPU's cache? */
bool model_hits(unsigned cpu, const void *address, enum model_kind kind);

/** Do it at time @p now; returns when it is done. An access may not reach across lines. */
uint64_t model_access(unsigned cpu, uint64_t now, const void *address, enum model_kind kind);

/** Set all counts to 0; caches stay as they are. */
void model_reset_counts(void);

struct model_count model_total(void);
/** The counts of one name; field NULL: of all of that object. */
struct model_count model_count_of(const char *object, const char *field);

/** Of the transfers of one name, those for which the writing of another is to blame. */
uint64_t model_blame(const char *object, const char *field, const char *by_object, const char *by_field);

/** One line per name that had a transfer, an upgrade or a cold miss, most transfers first, each divided by @p operations. */
void model_print_fields(uint64_t operations);

#endif /* PCPU_BENCH_COHERENCE_MODEL_H */
