/* SPDX-License-Identifier: MIT */
/*
 * A value and the tag of its last change, replaced together by a 16-byte compare-and-swap.
 *
 * Machines: x86-64 (cmpxchg16b, in every one since 2006) and aarch64. The compiler's builtin, so that
 * sanitizers see it; in a function of its own, since x86-64's baseline lacks the instruction and it must not
 * be inlined into code that is compiled for that.
 */
#ifndef PCPU_LIB_ARCH_PAIR_H
#define PCPU_LIB_ARCH_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#if (defined(__x86_64__) || defined(__aarch64__)) && defined(__SIZEOF_INT128__)
#define PCPU_ARCH_PAIR 1
#else
#define PCPU_ARCH_PAIR 0
#endif

struct pcpu_pair {
	int64_t value;
	uint64_t tag;
} __attribute__((aligned(16)));

/* Replace @old by @new if it is still there; a full barrier either way. */
bool pcpu_pair_replace(struct pcpu_pair *pair, struct pcpu_pair old, struct pcpu_pair new);

/*
 * Both words of one moment, given that a tag never comes back once it was replaced. Acquire: what was written
 * before the pair is seen.
 */
static inline struct pcpu_pair pcpu_pair_load(const struct pcpu_pair *pair)
{
	struct pcpu_pair now;
	uint64_t again;

	do {
		now.tag = __atomic_load_n(&pair->tag, __ATOMIC_ACQUIRE);
		now.value = __atomic_load_n(&pair->value, __ATOMIC_ACQUIRE);
		again = __atomic_load_n(&pair->tag, __ATOMIC_RELAXED);
	} while (again != now.tag);
	return now;
}

#endif /* PCPU_LIB_ARCH_PAIR_H */
