/* SPDX-License-Identifier: MIT */
/*
 * limit: what each call promises, on machines of our making where a test decides on which CPU it runs.
 * Invariants: I1 (nothing lost or twice), I8 (never over, never falsely refused), I9 (no set-up, odd CPU
 * ids). What needs real threads is in limit_stress.c.
 */
#define _GNU_SOURCE
#include "unit.h"

#include <errno.h>
#include <string.h>

#include <pcpu_stat/pcpu_stat.h>

#include "cpu/cpu.h"
#include "limit/ledger.h"
#include "os_fake.h"
#include "region/region.h"
#include "tools.h"

static void start(const char *cpus)
{
	fake_machine(cpus, cpus);
	fake_start();
	fake_cpu(0);
}

static struct pcpu_limit *make(struct pcpu_limit *parent, int64_t max, uint32_t batch)
{
	struct pcpu_limit_attr attr = {.size = sizeof(attr), .max = max, .batch = batch};
	struct pcpu_limit *l = NULL;

	expect_eq(pcpu_limit_create(&l, parent, &attr), 0);
	expect(l != NULL);
	return l;
}

static bool try_on(int cpu, struct pcpu_limit *l, int64_t n)
{
	fake_cpu(cpu);
	return pcpu_limit_try_charge(l, n, NULL);
}

static void uncharge_on(int cpu, struct pcpu_limit *l, int64_t n)
{
	fake_cpu(cpu);
	pcpu_limit_uncharge(l, n);
}

/* Units taken at every level: usage and what lies in stocks. */
static int64_t taken(struct pcpu_limit *l)
{
	return ((struct limit *)l)->usage.value;
}

/* What lies in the limit's own stock on a CPU. */
static int64_t stock_on(struct pcpu_limit *l, unsigned cpu)
{
	struct limit *limit = (struct limit *)l;

	return limit_given(limit, cpu)->value - limit_slot(limit, cpu)->total;
}

/* ---- arguments ---- */

Test(limit, arguments)
{
	struct {
		struct pcpu_limit_attr attr;
		char more[8];
	} future = {.attr = {.size = sizeof(future), .max = 5}};
	struct pcpu_limit_attr attr = {.size = sizeof(attr), .max = 5};
	struct pcpu_limit *untouched = (struct pcpu_limit *)&attr, *l = untouched;

	start("0-3");
	expect_eq(pcpu_limit_create(NULL, NULL, &attr), -EINVAL);
	attr.max = -1;
	expect_eq(pcpu_limit_create(&l, NULL, &attr), -EINVAL);
	attr.max = 5;
	attr.batch = (uint32_t)INT32_MAX + 1;
	expect_eq(pcpu_limit_create(&l, NULL, &attr), -EINVAL);
	attr.batch = 0;
	attr.size = sizeof(attr) - 1;
	expect_eq(pcpu_limit_create(&l, NULL, &attr), -EINVAL);
	attr.size = 0;
	expect_eq(pcpu_limit_create(&l, NULL, &attr), -EINVAL);
	future.more[3] = 1;
	expect_eq(pcpu_limit_create(&l, NULL, &future.attr), -E2BIG);
	expect(l == untouched);
	future.more[3] = 0;
	expect_eq(pcpu_limit_create(&l, NULL, &future.attr), 0);
	expect_eq(pcpu_limit_set_max(l, -1), -EINVAL);
	expect(pcpu_limit_try_charge(l, 5, NULL));
	expect(!pcpu_limit_try_charge(l, 1, NULL));
	pcpu_limit_uncharge(l, 5);
	expect_eq(pcpu_limit_destroy(l), 0);
	expect_eq(pcpu_limit_destroy(NULL), 0);
	pcpu_limit_close(NULL);
}

Test(limit, defaults_are_no_limit)
{
	struct pcpu_limit *l;

	start("0-3");
	expect_eq(pcpu_limit_create(&l, NULL, NULL), 0);
	expect_eq(l->batch, 64);
	expect(pcpu_limit_try_charge(l, INT64_MAX, NULL));
	expect_eq(pcpu_limit_usage(l), INT64_MAX);
	pcpu_limit_uncharge(l, INT64_MAX);
	expect_eq(pcpu_limit_destroy(l), 0);
	fake_machine("0-99", "0-99");
	fake_start();
	fake_cpu(0);
	expect_eq(pcpu_limit_create(&l, NULL, NULL), 0);
	expect_eq(l->batch, 200);
	expect_eq(pcpu_limit_destroy(l), 0);
}

Test(limit, open_is_for_shared_regions)
{
	struct pcpu_region *region;
	struct pcpu_limit *l;

	start("0-3");
	expect_eq(pcpu_region_create(&region, NULL), 0);
	expect_eq(pcpu_limit_open(&l, region, "pool"), -ENOTSUP);
	expect_eq(pcpu_limit_open(NULL, region, "pool"), -EINVAL);
	expect_eq(pcpu_limit_open(&l, NULL, "pool"), -EINVAL);
	expect_eq(pcpu_limit_open(&l, region, NULL), -EINVAL);
	pcpu_region_close(region);
}

Test(limit, amounts_of_zero_and_less_change_nothing)
{
	struct pcpu_limit *l, *failed = NULL;

	start("0-3");
	l = make(NULL, 10, 8);
	for (int full = 0; full < 2; full++) {
		expect(pcpu_limit_try_charge(l, 0, &failed));
		expect(pcpu_limit_try_charge(l, -1, &failed));
		expect(pcpu_limit_try_charge(l, INT64_MIN, &failed));
		pcpu_limit_charge(l, 0);
		pcpu_limit_charge(l, -5);
		pcpu_limit_charge(l, INT64_MIN);
		pcpu_limit_uncharge(l, 0);
		pcpu_limit_uncharge(l, -5);
		pcpu_limit_uncharge(l, INT64_MIN);
		expect_eq(pcpu_limit_usage(l), full ? 10 : 0);
		if (!full)
			for (int i = 0; i < 10; i++)
				expect(pcpu_limit_try_charge(l, 1, &failed));
	}
	expect(failed == NULL);
	expect_eq(pcpu_limit_underflows(l), 0);
	expect_eq(pcpu_limit_failures(l), 0);
}

/* ---- the cases that must come out right ---- */

/* I8. Root 100, mid 50: a charge of 60 is refused by mid and leaves nothing; then 50 fits. */
Test(limit, refused_by_mid)
{
	struct pcpu_limit *root, *mid, *leaf, *failed = NULL;

	start("0-3");
	root = make(NULL, 100, 0);
	mid = make(root, 50, 0);
	leaf = make(mid, PCPU_LIMIT_MAX, 0);
	expect(!pcpu_limit_try_charge(leaf, 60, &failed));
	expect(failed == mid);
	expect_eq(pcpu_limit_usage(root) + pcpu_limit_usage(mid) + pcpu_limit_usage(leaf), 0);
	expect_eq(taken(root), 0);
	expect_eq(pcpu_limit_failures(mid), 1);
	expect_eq(pcpu_limit_failures(root) + pcpu_limit_failures(leaf), 0);
	expect(pcpu_limit_try_charge(leaf, 50, &failed));
	expect_eq(pcpu_limit_usage(root), 50);
	expect_eq(pcpu_limit_usage(mid), 50);
	expect_eq(pcpu_limit_usage(leaf), 50);
}

/* The first level that refuses, from the node up, is named and counts. */
Test(limit, first_refuser_counts)
{
	struct pcpu_limit *root, *mid, *leaf, *failed = NULL;

	start("0-3");
	root = make(NULL, 5, 0);
	mid = make(root, 7, 0);
	leaf = make(mid, 9, 0);
	expect(!pcpu_limit_try_charge(leaf, 6, &failed) && failed == root);
	expect(!pcpu_limit_try_charge(leaf, 8, &failed) && failed == mid);
	expect(!pcpu_limit_try_charge(leaf, 10, &failed) && failed == leaf);
	expect(!pcpu_limit_try_charge(leaf, 10, NULL));
	expect_eq(pcpu_limit_failures(root), 1);
	expect_eq(pcpu_limit_failures(mid), 1);
	expect_eq(pcpu_limit_failures(leaf), 2);
}

/* I8. One CPU stocked 63 idle units, the limit is 64 with 1 charged; another CPU charges 63: granted. */
Test(limit, idle_stock_of_another_cpu_is_no_refusal)
{
	struct pcpu_limit *l, *failed = NULL;

	start("0-3");
	l = make(NULL, 64, 128);
	expect(try_on(0, l, 1));
	for (int i = 0; i < 63; i++)
		expect(try_on(0, l, 1));
	/* After a refusal units go straight back, so no refusal yet: the stock comes from uncharging. */
	uncharge_on(0, l, 63);
	expect_eq(pcpu_limit_usage(l), 1);
	expect_eq(stock_on(l, 0), 63);
	fake_cpu(1);
	expect(pcpu_limit_try_charge(l, 63, &failed));
	expect_eq(pcpu_limit_usage(l), 64);
	expect(!pcpu_limit_try_charge(l, 1, &failed));
	expect_eq(pcpu_limit_failures(l), 1);
}

/* I8. The same with the stock in a sibling, below the level that would refuse. */
Test(limit, idle_stock_of_a_sibling_is_no_refusal)
{
	struct pcpu_limit *root, *a, *b;

	start("0-3");
	root = make(NULL, 1000, 64);
	a = make(root, PCPU_LIMIT_MAX, 64);
	b = make(root, PCPU_LIMIT_MAX, 64);
	for (int cpu = 0; cpu < 4; cpu++) {
		expect(try_on(cpu, a, 1));
		expect(stock_on(a, (unsigned)cpu) > 0);
	}
	expect(try_on(2, b, 996));
	expect_eq(pcpu_limit_usage(root), 1000);
	expect(!try_on(2, b, 1));
	expect(!try_on(1, a, 1));
	expect_eq(pcpu_limit_failures(root), 2);
}

/* Charge 11, uncharge 66: usage 0, one underflow (of 55), and the parent is the sum of its children. */
Test(limit, underflow)
{
	struct pcpu_limit *root, *a, *b;

	start("0-3");
	root = make(NULL, 100, 64);
	a = make(root, PCPU_LIMIT_MAX, 64);
	b = make(root, PCPU_LIMIT_MAX, 64);
	pcpu_limit_charge(b, 7);
	pcpu_limit_charge(a, 11);
	pcpu_limit_uncharge(a, 66);
	for (int i = 0; i < 2; i++) {
		expect_eq(pcpu_limit_usage(a), 0);
		expect_eq(pcpu_limit_usage(root), 7);
		expect_eq(pcpu_limit_underflows(a), 1);
		expect_eq(pcpu_limit_underflows(root), 0);
		expect_eq(pcpu_limit_drain(root), 0);
	}
	expect_eq(taken(root), 7);
	/* What was never there can't be had. */
	expect(pcpu_limit_try_charge(a, 93, NULL));
	expect(!pcpu_limit_try_charge(a, 1, NULL));
}

/* An underflow that a stock hides shows after drain, and never gives anybody more than there is. */
Test(limit, underflow_in_stocks)
{
	struct pcpu_limit *root, *a, *b;

	start("0-3");
	root = make(NULL, 100, 64);
	a = make(root, PCPU_LIMIT_MAX, 64);
	b = make(root, PCPU_LIMIT_MAX, 64);
	expect(try_on(0, b, 7));
	for (int cpu = 0; cpu < 4; cpu++)
		uncharge_on(cpu, a, 3);
	uncharge_on(1, a, 5);
	expect_eq(pcpu_limit_usage(a), 0);
	expect_eq(pcpu_limit_usage(root), 7);
	expect_eq(pcpu_limit_drain(root), 0);
	expect(pcpu_limit_underflows(a) >= 1);
	expect_eq(pcpu_limit_usage(a), 0);
	expect_eq(pcpu_limit_usage(root), 7);
	expect_eq(taken(root), 7);
	expect(try_on(2, a, 93));
	expect(!try_on(3, a, 1));
	expect_eq(pcpu_limit_usage(root), 100);
	uncharge_on(0, a, 93);
	expect_eq(pcpu_limit_usage(a), 0);
}

/* What was charged below a limit is not the limit's own to uncharge. */
Test(limit, underflow_of_a_parent)
{
	struct pcpu_limit *root, *a;

	start("0-3");
	root = make(NULL, 100, 0);
	a = make(root, PCPU_LIMIT_MAX, 0);
	pcpu_limit_charge(a, 40);
	pcpu_limit_uncharge(root, 50);
	expect_eq(pcpu_limit_underflows(root), 1);
	expect_eq(pcpu_limit_usage(root), 40);
	expect_eq(pcpu_limit_usage(a), 40);
}

/* Unlimited child and child of 5 under a parent of 10: the parent refuses the eleventh. */
Test(limit, parent_refuses_the_eleventh)
{
	struct pcpu_limit *parent, *open, *five, *failed = NULL;

	start("0-3");
	parent = make(NULL, 10, 0);
	open = make(parent, PCPU_LIMIT_MAX, 0);
	five = make(parent, 5, 0);
	for (int i = 0; i < 5; i++) {
		expect(try_on(i % 4, open, 1));
		expect(try_on((i + 1) % 4, five, 1));
	}
	fake_cpu(3);
	expect(!pcpu_limit_try_charge(five, 1, &failed) && failed == five);
	expect(!pcpu_limit_try_charge(open, 1, &failed) && failed == parent);
	expect_eq(pcpu_limit_usage(parent), 10);
}

/* Holder of 10 of 10 gives one back: exactly one fits, wherever it is tried. */
Test(limit, one_gets_in)
{
	struct pcpu_limit *l;
	int got = 0;

	start("0-7");
	l = make(NULL, 10, 64);
	for (int i = 0; i < 10; i++)
		expect(try_on(0, l, 1));
	expect(!try_on(1, l, 1));
	uncharge_on(0, l, 1);
	for (int cpu = 1; cpu < 8; cpu++)
		got += try_on(cpu, l, 1);
	expect_eq(got, 1);
	expect_eq(pcpu_limit_usage(l), 10);
}

/* A refusal costs one pass; those after it read a few words, until stocks are allowed again. */
Test(limit, repeated_refusals_need_no_fence)
{
	struct pcpu_limit *l;

	start("0-3");
	l = make(NULL, 10, 64);
	for (int i = 0; i < 10; i++)
		expect(try_on(i % 4, l, 1));
	fake.asked_fence = 0;
	for (int i = 0; i < 1000; i++)
		expect(!try_on(i % 4, l, 1));
	expect(fake.asked_fence <= 1);
	/* In and out at the brim: a pass is paid by many steps. */
	fake.asked_fence = 0;
	for (int i = 0; i < 1000; i++) {
		uncharge_on(i % 4, l, 1);
		expect(try_on((i + 1) % 4, l, 1));
		expect(!try_on((i + 2) % 4, l, 1));
	}
	expect(fake.asked_fence <= 1000 / 16);
	expect_eq(pcpu_limit_failures(l), 2000);
}

/* ---- max ---- */

Test(limit, max_0_allows_nothing)
{
	struct pcpu_limit *root, *l, *failed = NULL;

	start("0-3");
	root = make(NULL, 0, 0);
	l = make(root, PCPU_LIMIT_MAX, 0);
	expect(!pcpu_limit_try_charge(l, 1, &failed));
	expect(failed == root);
	pcpu_limit_charge(l, 1);
	expect_eq(pcpu_limit_usage(root), 1);
	expect(!pcpu_limit_try_charge(l, 1, &failed));
	pcpu_limit_uncharge(l, 1);
	expect_eq(pcpu_limit_usage(root), 0);
}

/* Any amount, near the end of the numbers. */
Test(limit, no_limit_never_overflows)
{
	struct pcpu_limit *root, *l, *failed = NULL;

	start("0-3");
	root = make(NULL, PCPU_LIMIT_MAX, 0);
	l = make(root, PCPU_LIMIT_MAX, 0);
	expect(try_on(0, l, 1));
	expect(!pcpu_limit_try_charge(l, INT64_MAX, &failed));
	expect(failed == l);
	expect(pcpu_limit_try_charge(l, INT64_MAX - 1, &failed));
	expect_eq(pcpu_limit_usage(root), INT64_MAX);
	for (int cpu = 0; cpu < 4; cpu++)
		expect(!try_on(cpu, l, 1));
	/* Forced beyond: usage stops there. */
	pcpu_limit_charge(l, 5);
	pcpu_limit_charge(l, INT64_MAX);
	expect_eq(pcpu_limit_usage(root), INT64_MAX);
	expect_eq(pcpu_limit_usage(l), INT64_MAX);
	pcpu_limit_uncharge(l, INT64_MAX);
	expect_eq(pcpu_limit_usage(root), 0);
	expect_eq(pcpu_limit_underflows(l), 0);
	expect(pcpu_limit_peak(root) == INT64_MAX);
	pcpu_limit_uncharge(l, INT64_MAX);
	expect_eq(pcpu_limit_usage(root), 0);
	expect_eq(pcpu_limit_underflows(l), 1);
	expect(try_on(1, l, INT64_MAX));
	uncharge_on(2, l, INT64_MAX);
	expect_eq(pcpu_limit_destroy(l), 0);
	expect_eq(pcpu_limit_destroy(root), 0);
}

Test(limit, set_max)
{
	struct pcpu_limit *root, *l;

	start("0-3");
	root = make(NULL, PCPU_LIMIT_MAX, 64);
	l = make(root, PCPU_LIMIT_MAX, 64);
	/* Idle stocks do not keep a lower max away. */
	for (int cpu = 0; cpu < 4; cpu++)
		expect(try_on(cpu, l, 5));
	expect(taken(root) > 20);
	expect_eq(pcpu_limit_set_max(root, 19), -EBUSY);
	expect(try_on(0, l, 1000)); /* unchanged */
	uncharge_on(0, l, 1000);
	expect_eq(pcpu_limit_set_max(root, 20), 0);
	expect(!try_on(0, l, 1));
	expect_eq(pcpu_limit_set_max(root, 21), 0);
	expect(try_on(1, l, 1));
	expect(!try_on(0, l, 1));
	expect_eq(pcpu_limit_set_max(l, 20), -EBUSY);
	expect_eq(pcpu_limit_set_max(l, INT64_MAX), 0);
	expect_eq(pcpu_limit_set_max(root, 22), 0);
	expect(try_on(2, l, 1));
	expect_eq(pcpu_limit_set_max(root, 0), -EBUSY);
	uncharge_on(3, l, 22);
	expect_eq(pcpu_limit_set_max(root, 0), 0);
	expect(!try_on(3, l, 1));
}

/* I8. Forced above max, no stock may serve try_charge on. */
Test(limit, forced_over_leaves_no_stock)
{
	struct pcpu_limit *root, *a, *b;

	start("0-3");
	root = make(NULL, 1000, 64);
	a = make(root, 500, 64);
	b = make(root, PCPU_LIMIT_MAX, 64);
	for (int cpu = 0; cpu < 4; cpu++) {
		expect(try_on(cpu, a, 1));
		expect(try_on(cpu, b, 1));
	}
	fake_cpu(0);
	pcpu_limit_charge(b, 2000);
	expect_eq(pcpu_limit_usage(root), 2008);
	for (int cpu = 0; cpu < 4; cpu++) {
		expect(!try_on(cpu, a, 1));
		expect(!try_on(cpu, b, 1));
	}
	pcpu_limit_charge(a, 1);
	expect_eq(pcpu_limit_usage(root), 2009);
	expect_eq(pcpu_limit_peak(root), 2009);
	uncharge_on(1, b, 1010);
	expect(try_on(2, a, 1));
	expect(!try_on(2, a, 1));
	expect_eq(pcpu_limit_usage(root), 1000);
}

/* ---- stocks ---- */

/* No more than the batch lies idle on a CPU, whatever is charged and uncharged. */
Test(limit, stock_is_at_most_the_batch)
{
	struct pcpu_limit *l;
	uint64_t random = seed(7);
	int64_t held = 0;

	start("0-3");
	for (uint32_t batch = 1; batch < 200; batch = batch * 3 + 1) {
		l = make(NULL, PCPU_LIMIT_MAX, batch);
		for (int i = 0; i < 5000; i++) {
			int64_t n = (int64_t)(next_random(&random) % (2 * batch));
			int cpu = (int)(next_random(&random) % 4);

			if (next_random(&random) % 2 && held >= n) {
				uncharge_on(cpu, l, n);
				held -= n;
			} else {
				expect(try_on(cpu, l, n));
				held += n;
			}
			for (unsigned k = 0; k < 4; k++)
				expect(stock_on(l, k) >= 0 && stock_on(l, k) <= batch);
			expect_eq(pcpu_limit_usage(l), held);
		}
		uncharge_on(0, l, held);
		held = 0;
		expect_eq(pcpu_limit_underflows(l), 0);
		expect_eq(pcpu_limit_destroy(l), 0);
	}
}

Test(limit, drain_takes_all_stocks)
{
	struct pcpu_limit *root, *a, *b;

	start("0-3");
	root = make(NULL, PCPU_LIMIT_MAX, 0);
	a = make(root, PCPU_LIMIT_MAX, 0);
	b = make(a, PCPU_LIMIT_MAX, 0);
	for (int cpu = 0; cpu < 4; cpu++) {
		expect(try_on(cpu, root, 1));
		expect(try_on(cpu, a, 1));
		expect(try_on(cpu, b, 1));
	}
	expect(taken(root) > 12);
	expect_eq(pcpu_limit_drain(b), 0);
	expect_eq(taken(b), 4);
	expect(taken(a) > 8);
	expect_eq(pcpu_limit_drain(root), 0);
	expect_eq(taken(root), 12);
	expect_eq(taken(a), 8);
	/* And the next charges bring new ones. */
	expect(try_on(2, b, 1));
	expect(stock_on(b, 2) > 0);
}

/* The ramp: with less room the stocks shrink to nothing, and grow again. */
Test(limit, stocks_follow_the_room)
{
	struct pcpu_limit *l;
	int64_t last = 64;

	start("0-3");
	l = make(NULL, 10000, 64);
	for (int64_t room = 600; room >= 0; room -= 50) {
		int64_t used = pcpu_limit_usage(l), stock;

		fake_cpu(0);
		pcpu_limit_charge(l, 10000 - room - used);
		pcpu_limit_drain(l);
		stock = 0;
		if (room > 0) {
			expect(try_on(0, l, 1));
			stock = stock_on(l, 0);
			expect(stock <= last);
			expect(stock <= room / 8);
			expect(room < 400 || stock == 32);
			last = stock;
			uncharge_on(0, l, 1);
			pcpu_limit_drain(l);
		}
	}
	expect_eq(pcpu_limit_usage(l), 10000);
	expect(!try_on(0, l, 1));
	uncharge_on(0, l, 5000);
	/* The pressure is gone, and after a while so is its memory. */
	for (int i = 0; i < 100; i++) {
		expect(try_on(1, l, 1));
		uncharge_on(1, l, 1);
	}
	expect(try_on(1, l, stock_on(l, 1) + 1));
	expect_eq(stock_on(l, 1), 32);
}

/* ---- reading ---- */

Test(limit, usage_counts_no_stock)
{
	struct pcpu_limit *root, *l;

	start("0-3");
	root = make(NULL, PCPU_LIMIT_MAX, 0);
	l = make(root, PCPU_LIMIT_MAX, 0);
	for (int cpu = 0; cpu < 4; cpu++)
		expect(try_on(cpu, l, 1));
	uncharge_on(2, l, 1);
	expect_eq(pcpu_limit_usage(root), 3);
	expect_eq(pcpu_limit_usage(l), 3);
	expect(taken(root) > 3);
}

Test(limit, peak)
{
	struct pcpu_limit *root, *l;

	start("0-3");
	root = make(NULL, 1000, 1);
	l = make(root, PCPU_LIMIT_MAX, 1);
	/* Without stocks: exact. */
	for (int i = 0; i < 70; i++)
		expect(try_on(i % 4, l, 1));
	for (int i = 0; i < 20; i++)
		uncharge_on(i % 4, l, 1);
	expect(try_on(0, l, 15));
	expect_eq(pcpu_limit_usage(root), 65);
	expect(pcpu_limit_peak(root) >= 70 && pcpu_limit_peak(root) <= 74);
	pcpu_limit_reset_peak(root);
	expect_eq(pcpu_limit_peak(root), 65);
	expect(pcpu_limit_peak(l) >= 70);
	uncharge_on(1, l, 65);
	expect_eq(pcpu_limit_peak(root), 65);
	pcpu_limit_reset_peak(root);
	expect_eq(pcpu_limit_peak(root), 0);
	expect(try_on(3, l, 1000));
	expect(!try_on(3, l, 1));
	expect_eq(pcpu_limit_peak(root), 1000);
	pcpu_limit_charge(l, 1);
	expect_eq(pcpu_limit_peak(root), 1001);
}

/* ---- lifetime ---- */

Test(limit, destroy)
{
	struct pcpu_limit *root, *a;

	start("0-3");
	root = make(NULL, PCPU_LIMIT_MAX, 0);
	a = make(root, PCPU_LIMIT_MAX, 0);
	expect_eq(pcpu_limit_destroy(root), -EBUSY);
	expect(try_on(1, a, 1));
	expect_eq(pcpu_limit_destroy(a), -EBUSY);
	expect(try_on(1, a, 1)); /* unchanged: still there */
	uncharge_on(2, a, 2);
	expect(try_on(1, root, 1));
	expect_eq(pcpu_limit_destroy(a), 0);
	expect_eq(pcpu_limit_destroy(root), -EBUSY);
	uncharge_on(3, root, 1);
	expect_eq(pcpu_limit_destroy(root), 0);
}

/* A destroyed limit's place is used again, and nothing of it is seen. */
Test(limit, places_are_used_again)
{
	struct pcpu_region_attr small = {.size = sizeof(small), .bytes_per_cpu = 4096};
	struct pcpu_limit_attr attr = {.size = sizeof(attr), .max = 50, .batch = 10};
	struct pcpu_limit *root, *a, *b, *all[200];
	struct pcpu_region *region;
	int made = 0, r;

	start("0-3");
	expect_eq(pcpu_region_create(&region, &small), 0);
	attr.region = region;
	expect_eq(pcpu_limit_create(&root, NULL, &attr), 0);
	for (int i = 0; i < 1000; i++) {
		expect_eq(pcpu_limit_create(&a, root, i % 2 ? &attr : NULL), 0);
		expect_eq(pcpu_limit_create(&b, a, NULL), 0);
		expect_eq(pcpu_limit_usage(a), 0);
		expect_eq(pcpu_limit_peak(a), 0);
		expect_eq(pcpu_limit_failures(a), 0);
		expect_eq(pcpu_limit_underflows(a), 0);
		expect(try_on(i % 4, b, 3));
		expect(!try_on(i % 3, a, 60));
		uncharge_on(i % 2, a, 8);
		pcpu_limit_drain(a);
		expect_eq(pcpu_limit_underflows(a), 1);
		uncharge_on(i % 4, b, 3);
		expect_eq(pcpu_limit_destroy(b), 0);
		expect_eq(pcpu_limit_destroy(a), 0);
	}
	/* The region's room is what ends it, and -ENOSPC changes nothing. */
	while ((r = pcpu_limit_create(&all[made], root, NULL)) == 0)
		expect(++made < 200);
	expect_eq(r, -ENOSPC);
	expect_eq(pcpu_limit_create(&a, NULL, &attr), -ENOSPC);
	while (made)
		expect_eq(pcpu_limit_destroy(all[--made]), 0);
	expect_eq(pcpu_limit_destroy(root), 0);
	/* All slots went back, cleared. */
	expect_eq(pcpu_limit_create(&root, NULL, &attr), 0);
	while (pcpu_limit_create(&all[made], root, NULL) == 0)
		expect(++made < 200);
	for (int i = 0; i < made; i++)
		for (unsigned cpu = 0; cpu < 4; cpu++)
			expect(limit_slot((struct limit *)all[i], cpu)->generation == 0 &&
			       limit_given((struct limit *)all[i], cpu)->tag == 0);
	pcpu_region_close(region);
}

/* Closing leaves the usage where it is; the last handle takes the memory along. */
Test(limit, close)
{
	struct pcpu_limit *root, *a;

	start("0-3");
	for (int i = 0; i < 100; i++) {
		root = make(NULL, 10, 0);
		a = make(root, PCPU_LIMIT_MAX, 0);
		expect(try_on(i % 4, a, 7));
		pcpu_limit_close(a);
		expect_eq(pcpu_limit_usage(root), 7);
		expect(!try_on(0, root, 4));
		expect(try_on(0, root, 3));
		expect_eq(pcpu_limit_destroy(root), -EBUSY);
		pcpu_limit_close(root);
	}
}

Test(limit, region_of_another)
{
	struct pcpu_limit_attr attr = {.size = sizeof(attr), .max = 50};
	struct pcpu_region *one, *two;
	struct pcpu_limit *root, *a;

	start("0-3");
	expect_eq(pcpu_region_create(&one, NULL), 0);
	expect_eq(pcpu_region_create(&two, NULL), 0);
	attr.region = one;
	expect_eq(pcpu_limit_create(&root, NULL, &attr), 0);
	expect_eq(pcpu_limit_create(&a, root, &attr), 0);
	attr.region = two;
	expect_eq(pcpu_limit_create(&a, root, &attr), -EINVAL);
	pcpu_region_close(one);
	pcpu_region_close(two);
	/* A region lives until the last limit in it is gone. */
	expect(try_on(0, root, 5));
	expect_eq(pcpu_limit_usage(root), 5);
}

/* I9. Threads without a CPU, CPU ids with holes and beyond the slots. */
Test(limit, odd_cpus)
{
	static const int odd[] = {-1, -2, 100, 8191, 1 << 20, 3, 8};
	struct pcpu_limit *root, *l;
	int64_t held = 0;

	fake_machine("0-3,8", "0,3,8");
	fake_start();
	root = make(NULL, 1000, 16);
	l = make(root, PCPU_LIMIT_MAX, 16);
	for (int i = 0; i < 1000; i++) {
		if (try_on(odd[i % 7], l, i % 5 + 1))
			held += i % 5 + 1;
		expect_eq(pcpu_limit_usage(root), held);
		if (i % 3 == 0) {
			uncharge_on(odd[i * 5 % 7], l, i % 5 + 1);
			held -= i % 5 + 1;
		}
	}
	expect(held == 1000 || pcpu_limit_failures(root) > 0);
	expect_eq(pcpu_limit_usage(root), held);
}

/* Without the fence there are no sections to fence: exact all the same. */
Test(limit, without_membarrier)
{
	struct pcpu_limit *l;

	fake_machine("0-3", "0-3");
	fake.membarriers = -EPERM;
	fake_start();
	l = make(NULL, 100, 64);
	expect_eq(l->fast_slots, 0);
	for (int cpu = 0; cpu < 4; cpu++)
		expect(try_on(cpu, l, 1));
	expect(stock_on(l, 0) > 0);
	expect(try_on(1, l, 96));
	expect(!try_on(2, l, 1));
}

/* Membarrier taken away later: stocks are reached by visiting every CPU. */
Test(limit, membarrier_taken_away)
{
	struct pcpu_limit *l;

	start("0-3");
	l = make(NULL, 100, 64);
	for (int cpu = 0; cpu < 4; cpu++)
		expect(try_on(cpu, l, 1));
	fake.membarriers = -EPERM;
	expect(try_on(1, l, 96));
	expect(!try_on(2, l, 1));
	expect_eq(pcpu_limit_drain(l), 0);
}

/* ---- against a plain model ---- */

#define NODES 10

static struct {
	struct pcpu_limit *limit;
	int parent;
	bool live, forced;
	int64_t max, own, peak, failures;
} model[NODES];

static int64_t model_usage(int node)
{
	int64_t sum = model[node].own;

	for (int i = 1; i < NODES; i++)
		if (model[i].live && model[i].parent == node)
			sum += model_usage(i);
	return sum;
}

/* From @node up, the first level where @n does not fit; -1: it fits. */
static int model_refuser(int node, int64_t n)
{
	for (; node >= 0; node = model[node].parent)
		if (n > model[node].max - model_usage(node))
			return node;
	return -1;
}

static void model_peaks(int node)
{
	for (; node >= 0; node = model[node].parent) {
		if (model_usage(node) > model[node].peak)
			model[node].peak = model_usage(node);
		if (model_usage(node) > model[node].max)
			model[node].forced = true;
	}
}

static int children(int node)
{
	int n = 0;

	for (int i = 1; i < NODES; i++)
		n += model[i].live && model[i].parent == node;
	return n;
}

static void compare(int node, uint32_t batch)
{
	int64_t usage = model_usage(node), peak = pcpu_limit_peak(model[node].limit);

	expect_eq(pcpu_limit_usage(model[node].limit), usage);
	expect_eq(pcpu_limit_failures(model[node].limit), model[node].failures);
	expect_eq(pcpu_limit_underflows(model[node].limit), 0);
	expect(peak >= model[node].peak);
	expect(peak <= model[node].peak + (int64_t)batch * 4 * NODES);
	/* I8 */
	expect(model[node].forced || taken(model[node].limit) <= model[node].max);
}

static void random_against_model(uint64_t random, uint32_t batch, int64_t scale)
{
	memset(model, 0, sizeof(model));
	model[0].parent = -1;
	model[0].live = true;
	model[0].max = 20 * scale;
	model[0].limit = make(NULL, model[0].max, batch);
	for (long step = 0; step < scaled(20000); step++) {
		int node = (int)(next_random(&random) % NODES), refuser;
		int64_t n = (int64_t)(next_random(&random) % (uint64_t)scale) + 1;
		struct pcpu_limit *failed = NULL;

		fake_cpu((int)(next_random(&random) % 4));
		if (!model[node].live) {
			do
				model[node].parent = (int)(next_random(&random) % NODES);
			while (!model[model[node].parent].live);
			model[node].live = true;
			model[node].forced = false;
			model[node].own = model[node].peak = model[node].failures = 0;
			model[node].max = next_random(&random) % 3 ? PCPU_LIMIT_MAX : 5 * scale;
			model[node].limit = make(model[model[node].parent].limit, model[node].max, batch);
			continue;
		}
		switch (next_random(&random) % 16) {
		case 0: {
			int64_t max = (int64_t)(next_random(&random) % (uint64_t)(25 * scale));
			bool fits = model_usage(node) <= max;

			expect_eq(pcpu_limit_set_max(model[node].limit, max), fits ? 0 : -EBUSY);
			if (fits) {
				model[node].max = max;
				model[node].forced = false;
			}
			break;
		}
		case 1:
			if (next_random(&random) % 4 == 0) {
				pcpu_limit_charge(model[node].limit, n);
				model[node].own += n;
			}
			break;
		case 2:
			expect_eq(pcpu_limit_drain(model[node].limit), 0);
			expect_eq(taken(model[node].limit), model_usage(node));
			break;
		case 3:
			pcpu_limit_reset_peak(model[node].limit);
			model[node].peak = model_usage(node);
			break;
		case 4:
			if (node > 0 && next_random(&random) % 4 == 0) {
				bool can = model_usage(node) == 0 && children(node) == 0;

				expect_eq(pcpu_limit_destroy(model[node].limit), can ? 0 : -EBUSY);
				model[node].live = !can;
			}
			break;
		case 5:
		case 6:
		case 7:
		case 8:
			if (n > model[node].own)
				n = model[node].own;
			pcpu_limit_uncharge(model[node].limit, n);
			model[node].own -= n;
			break;
		default:
			refuser = model_refuser(node, n);
			expect_eq(pcpu_limit_try_charge(model[node].limit, n, &failed), refuser < 0);
			if (refuser < 0)
				model[node].own += n;
			else {
				expect(failed == model[refuser].limit);
				model[refuser].failures++;
			}
		}
		if (model[node].live) {
			model_peaks(node);
			compare(node, batch);
		}
		compare(0, batch);
	}
}

/* I1, I8. Long random lives of a small tree: every answer is the model's. */
Test(limit, random_small_amounts)
{
	start("0-3");
	random_against_model(seed(1), 16, 6);
}

Test(limit, random_large_amounts)
{
	start("0-3");
	random_against_model(seed(2), 16, 100);
}

Test(limit, random_default_batch)
{
	start("0-3");
	random_against_model(seed(3), 64, 40);
}

Test(limit, random_batch_1)
{
	start("0-3");
	random_against_model(seed(4), 1, 10);
}

Test(limit, random_without_membarrier)
{
	fake_machine("0-3", "0-3");
	fake.membarriers = -EPERM;
	fake_start();
	random_against_model(seed(5), 16, 12);
}
