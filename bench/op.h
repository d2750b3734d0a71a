/* SPDX-License-Identifier: MIT */
/**
 * @file op.h
 * What the benchmarks measure: an operation, as a set of loops that repeat it.
 *
 * One description serves every way of measuring: google-benchmark (shim.h), interleaved slices (paired.h) and
 * throughput windows (throughput.h). The loop belongs to the operation, so that its body is compiled the way
 * a program would compile it; whoever measures only says how often.
 *
 * The cost of a loop of a nanosecond or two depends on where the linker puts it: branch targets, fetch
 * blocks, and on recent cores whether a load right after a store to the same address is forwarded by register
 * name. So BENCH_LOOPS compiles the same loop BENCH_PLACEMENTS times, each copy pushed a different distance
 * past a 64-byte boundary, and the measuring side can tell the operation's cost from the luck of its
 * placement.
 */
#ifndef PCPU_STAT_BENCH_OP_H
#define PCPU_STAT_BENCH_OP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Repeat an operation.
 *
 * @param ctx     the operation's context
 * @param n       how often
 * @param thread  0 .. threads - 1, the same number for the same thread throughout
 */
typedef void (*bench_loop)(void *ctx, uint64_t n, unsigned thread);

/** An operation to measure. Zero in any field but name and loops is a sensible default. */
struct bench_op {
	const char *name;	 /**< for filters and JSON: lower case, no spaces */
	const char *label;	 /**< for people; NULL: the name */
	const bench_loop *loops; /**< the same loop at nr_loops placements */
	unsigned nr_loops;
	unsigned items; /**< single operations in one turn of the loop; 0 means 1. Costs are per turn */
	void *ctx;
	/**
	 * Called once before, and once after, any thread runs the loop. No two operations that are measured
	 * in one run may share a context. May be NULL.
	 */
	void (*setup)(void *ctx, unsigned threads);
	void (*teardown)(void *ctx, unsigned threads);
	/** Called by every thread that is going to run the loop, between setup and teardown. May be NULL. */
	void (*enter)(void *ctx, unsigned thread);
	void (*leave)(void *ctx, unsigned thread);
};

#define BENCH_PLACEMENTS 8

/** The compiler may neither keep memory in registers across this nor merge what stands before and after. */
#define BENCH_BARRIER() __asm__ volatile("" ::: "memory")

/** The compiler must assume that @p x has an unknown value from here on. */
#define BENCH_OPAQUE(x) __asm__ volatile("" : "+r"(x))

/** The compiler must compute @p x. */
#define BENCH_USE(x) __asm__ volatile("" ::"r"(x))

/* The padding is executed once per call. Loops must be compiled with -falign-loops=1, or it has no effect. */
#define BENCH_LOOP_AT(name, offset, prologue, body)                                                          \
	__attribute__((noinline, aligned(64))) static void name##_at_##offset(void *ctx, uint64_t n,         \
									      unsigned thread)               \
	{                                                                                                    \
		prologue;                                                                                    \
		(void)ctx;                                                                                   \
		(void)thread;                                                                                \
		__asm__ volatile(".balign 64\n\t.fill " #offset ", 1, 0x90");                                \
		for (; n; n--) {                                                                             \
			body;                                                                                \
		}                                                                                            \
	}

/**
 * Define the loops of an operation: the array `name`, for bench_op.loops.
 *
 * @param name      a new identifier
 * @param prologue  statements before the loop; `ctx` and `thread` are in scope
 * @param body      the operation
 */
#define BENCH_LOOPS(name, prologue, body)                                                                    \
	BENCH_LOOP_AT(name, 0, prologue, body)                                                               \
	BENCH_LOOP_AT(name, 8, prologue, body)                                                               \
	BENCH_LOOP_AT(name, 16, prologue, body)                                                              \
	BENCH_LOOP_AT(name, 24, prologue, body)                                                              \
	BENCH_LOOP_AT(name, 32, prologue, body)                                                              \
	BENCH_LOOP_AT(name, 40, prologue, body)                                                              \
	BENCH_LOOP_AT(name, 48, prologue, body)                                                              \
	BENCH_LOOP_AT(name, 56, prologue, body)                                                              \
	static const bench_loop name[BENCH_PLACEMENTS] = {                                                   \
		name##_at_0,  name##_at_8,  name##_at_16, name##_at_24,                                      \
		name##_at_32, name##_at_40, name##_at_48, name##_at_56,                                      \
	}

/** One loop, for operations that are too slow for their placement to matter. */
#define BENCH_LOOP(name, prologue, body)                                                                     \
	BENCH_LOOP_AT(name, 0, prologue, body)                                                               \
	static const bench_loop name[1] = {name##_at_0}

#ifdef __cplusplus
}
#endif

#endif /* PCPU_STAT_BENCH_OP_H */
