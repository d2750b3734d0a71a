/* SPDX-License-Identifier: MIT */
/*
 * 50 adds compiled into one function, in every way that check_sections.sh has compilers do it: they must count,
 * and every restartable section must have what the kernel demands, a descriptor of version 0 and an abort
 * handler right behind the signature.
 */
#define PCPU_STAT_INLINE
#include <stdio.h>
#include <string.h>

#include <pcpu_stat/pcpu_stat.h>

static struct pcpu_counter a = PCPU_COUNTER_INIT, b = PCPU_COUNTER_INIT;

#define TEN(c, n)                                                                                            \
	pcpu_counter_add(c, n);                                                                              \
	pcpu_counter_sub(c, 2);                                                                              \
	pcpu_counter_inc(c);                                                                                 \
	pcpu_counter_dec(&b);                                                                                \
	pcpu_counter_add(&b, (n) + 5);                                                                       \
	pcpu_counter_add(c, 1000);                                                                           \
	pcpu_counter_add(c, -(n));                                                                           \
	pcpu_counter_sub(&b, n);                                                                             \
	pcpu_counter_inc(&b);                                                                                \
	pcpu_counter_dec(c);

__attribute__((noinline)) static void fifty(struct pcpu_counter *c, int64_t n)
{
	TEN(c, n)
	TEN(c, 7)
	TEN(&a, n)
	TEN(c, INT64_C(0x123456789))
	TEN(&a, 0)
}

#if defined(__x86_64__)
struct descriptor {
	uint32_t version, flags;
	uint64_t start, length, abort;
};

/* The linker's names for the ends of the section that all descriptors are in. */
extern const struct descriptor __start___rseq_cs[] __attribute__((visibility("hidden")));
extern const struct descriptor __stop___rseq_cs[] __attribute__((visibility("hidden")));
extern const char __executable_start[], etext[];

static int bad_descriptors(void)
{
	static const unsigned char signature[] = {0x0f, 0xb9, 0x3d, 0x53, 0x30, 0x05, 0x53};
	int n = 0, bad = 0;

	for (const struct descriptor *d = __start___rseq_cs; d < __stop___rseq_cs; d++, n++) {
		uint64_t low = (uint64_t)(uintptr_t)__executable_start, high = (uint64_t)(uintptr_t)etext;

		if (d->version || d->flags || d->length == 0 || d->length > 200 || (uintptr_t)d % 32 ||
		    d->start < low || d->start + d->length > high || d->abort < low || d->abort > high ||
		    d->abort - d->start < d->length ||
		    memcmp((const char *)(uintptr_t)d->abort - sizeof(signature), signature,
			   sizeof(signature)))
			bad++;
	}
	printf("%d sections, %d bad\n", n, bad);
	return bad || n < 50;
}
#else
static int bad_descriptors(void)
{
	return 0;
}
#endif

int main(void)
{
	int64_t sum_a, sum_b;

	for (int i = 0; i < 1000; i++)
		fifty(&a, i);
	sum_a = pcpu_counter_sum(&a);
	sum_b = pcpu_counter_sum(&b);
	printf("%lld %lld\n", (long long)sum_a, (long long)sum_b);
	return bad_descriptors() || sum_a != 1000 * 5 * 998 || sum_b != 1000 * 5 * 5;
}
