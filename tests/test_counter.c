/* SPDX-License-Identifier: MIT */
/*
 * counter: what each call promises, on machines of our making where a test decides on which CPU it runs.
 * Invariants: I1 (nothing lost or twice), I3 (bounds), I4 (own CPU alone writes), I6 (reading writes nothing),
 * I9 (no set-up, odd CPU ids). What needs real threads is in stress.c, signals.c and fork.c.
 */
#define _GNU_SOURCE
#include "unit.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <pcpu_stat/pcpu_stat.h>

#include "cpu/cpu.h"
#include "os_fake.h"
#include "region/region.h"
#include "tools.h"

static struct pcpu_counter c;

static void start(const char *cpus)
{
	fake_machine(cpus, cpus);
	fake_start();
	fake_cpu(0);
}

static void start_two_nodes(void)
{
	fake_machine("0-7", "0-7");
	fake_node(0, "0-3", "10 20");
	fake_node(1, "4-7", "20 10");
	fake_nodes("0-1", "0-1");
	fake_start();
	fake_cpu(0);
}

static void make(uint32_t batch, uint32_t flags)
{
	struct pcpu_counter_attr attr = {.size = sizeof(attr), .batch = batch, .flags = flags};

	expect_eq(pcpu_counter_init(&c, &attr), 0);
}

static void add_on(int cpu, int64_t n)
{
	fake_cpu(cpu);
	pcpu_counter_add(&c, n);
}

/* I3, at rest, in arithmetic modulo 2^64. */
static void check_bounds(void)
{
	int64_t below = -1, above = -1, lag;

	pcpu_counter_error(&c, &below, &above);
	expect(below >= 0 && above >= 0);
	lag = (int64_t)((uint64_t)pcpu_counter_sum(&c) - (uint64_t)pcpu_counter_read(&c));
	if (lag > below || -lag > above)
		unit_fail("sum %jd, read %jd, below %jd, above %jd", (intmax_t)pcpu_counter_sum(&c),
			  (intmax_t)pcpu_counter_read(&c), (intmax_t)below, (intmax_t)above);
}

/* ---- arguments ---- */

Test(counter, attributes)
{
	struct {
		struct pcpu_counter_attr attr;
		uint64_t newer;
	} big = {.attr = {.size = sizeof(big)}, .newer = 1};
	struct pcpu_counter_attr attr = {.size = 0};
	struct pcpu_counter before;

	start("0-3");
	memset(&c, 0x3c, sizeof(c));
	before = c;
	errno = 77;
	expect_eq(pcpu_counter_init(NULL, NULL), -EINVAL);
	expect_eq(pcpu_counter_init(&c, &attr), -EINVAL);
	attr.size = sizeof(attr) - 1;
	expect_eq(pcpu_counter_init(&c, &attr), -EINVAL);
	expect_eq(pcpu_counter_init(&c, &big.attr), -E2BIG);
	attr.size = sizeof(attr);
	attr.batch = (uint32_t)INT32_MAX + 1;
	expect_eq(pcpu_counter_init(&c, &attr), -EINVAL);
	attr.batch = UINT32_MAX;
	expect_eq(pcpu_counter_init(&c, &attr), -EINVAL);
	attr.batch = 0;
	attr.flags = 1u << 31;
	expect_eq(pcpu_counter_init(&c, &attr), -EINVAL);
	attr.flags = PCPU_COUNTER_NODE_LEVEL | PCPU_COUNTER_NO_NODE_LEVEL;
	expect_eq(pcpu_counter_init(&c, &attr), -EINVAL);
	expect_eq(memcmp(&c, &before, sizeof(c)), 0); /* on failure nothing has changed */
	attr.flags = 0;
	attr.batch = INT32_MAX;
	attr.initial = -5;
	attr.name = "ignored in a private region";
	expect_eq(pcpu_counter_init(&c, &attr), 0);
	expect_eq(pcpu_counter_read(&c), -5);
	expect_eq(pcpu_counter_sum(&c), -5);
	expect_eq(errno, 77);
	pcpu_counter_destroy(&c);
	big.newer = 0;
	big.attr.initial = 9;
	expect_eq(pcpu_counter_init(&c, &big.attr), 0);
	expect_eq(pcpu_counter_sum(&c), 9);
	pcpu_counter_destroy(&c);
}

Test(counter, batch_out_of_range)
{
	start("0-3");
	make(8, 0);
	errno = 77;
	expect_eq(pcpu_counter_set_batch(&c, (uint32_t)INT32_MAX + 1), -EINVAL);
	expect_eq(pcpu_counter_set_batch(&c, UINT32_MAX), -EINVAL);
	expect_eq(c.batch, 8);
	expect_eq(pcpu_counter_set_batch(&c, INT32_MAX), 0);
	expect_eq(pcpu_counter_set_batch(&c, 0), 0);
	expect_eq(c.batch, pcpu_cpu.auto_batch); /* automatic again */
	expect_eq(errno, 77);
}

Test(counter, layout)
{
	/* Objects compiled with an older header go on working: none of this may move. */
	expect_eq(sizeof(struct pcpu_counter), 256);
	expect_eq(offsetof(struct pcpu_counter, slots), 0);
	expect_eq(offsetof(struct pcpu_counter, stride), 8);
	expect_eq(offsetof(struct pcpu_counter, fast_slots), 16);
	expect_eq(offsetof(struct pcpu_counter, bias), 24);
	/* Read-mostly words and words that all write: two lines apart (S0). */
	expect(offsetof(struct pcpu_counter, value) - offsetof(struct pcpu_counter, state) >= 128);
	expect(sizeof(struct pcpu_counter_attr) == 40 && sizeof(struct pcpu_region_attr) == 32);
}

/* ---- slots and bounds ---- */

/* Batch 32, four slots with 31 each: read 0, sum 124; one more on one slot is carried. And the same negative. */
Test(counter, four_slots_below_the_batch)
{
	for (int sign = 1; sign >= -1; sign -= 2) {
		int64_t below, above;

		start("0-3");
		make(32, 0);
		for (int cpu = 0; cpu < 4; cpu++)
			add_on(cpu, sign * 31);
		expect_eq(pcpu_counter_read(&c), 0);
		expect_eq(pcpu_counter_sum(&c), sign * 124);
		pcpu_counter_error(&c, &below, &above);
		expect_eq(below, 124); /* tight: reached now */
		expect_eq(above, 124);
		check_bounds();
		add_on(2, sign);
		expect_eq(pcpu_counter_read(&c), sign * 32);
		expect_eq(pcpu_counter_sum(&c), sign * 125);
		check_bounds();
		pcpu_counter_destroy(&c);
	}
}

/* The bounds are reached by some sequence, in both directions, also through a node level (I3). */
Test(counter, bounds_are_tight)
{
	for (int nodes = 1; nodes <= 2; nodes++) {
		for (int sign = 1; sign >= -1; sign -= 2) {
			int64_t below, above, lag;

			if (nodes == 1)
				start("0-7");
			else
				start_two_nodes();
			make(16, 0);
			pcpu_counter_error(&c, &below, &above);
			/*
			 * Fill each node's word to its bound: a slot that holds 15 reports 15 + n when n is
			 * added, that is 16 to 30.
			 */
			for (int node = 0; node < 2 && nodes == 2; node++) {
				int64_t *word =
					(int64_t *)(c.node_words + (size_t)node * c.region->node.stride);
				int64_t left;

				while ((left = (below - 8 * 15) / 2 - *word * sign) > 0) {
					int64_t report = left <= 30 ? left : left - 30 < 16 ? 16 : 30;

					expect(report >= 16);
					add_on(node * 4, sign * 15);
					add_on(node * 4, sign * (report - 15));
				}
			}
			for (int cpu = 0; cpu < 8; cpu++)
				for (int i = 0; i < 15; i++) {
					struct {
						int64_t total, carried;
					} *slot = (void *)(c.slots + (size_t)cpu * c.stride);

					if ((slot->total - slot->carried) * sign < 15)
						add_on(cpu, sign);
				}
			lag = sign * (pcpu_counter_sum(&c) - pcpu_counter_read(&c));
			check_bounds();
			if (lag != below)
				unit_fail("%d nodes: lag %jd of %jd", nodes, (intmax_t)lag, (intmax_t)below);
			expect_eq(below, above);
			pcpu_counter_destroy(&c);
		}
	}
}

/* Bounds do not depend on how many threads there were or how much was added. */
Test(counter, bounds_do_not_grow)
{
	int64_t below, above, later_below, later_above;

	start("0-3");
	make(100, 0);
	pcpu_counter_error(&c, &below, &above);
	for (int i = 0; i < 100000; i++)
		add_on(i % 4, i % 200 - 50);
	pcpu_counter_error(&c, &later_below, &later_above);
	expect_eq(below, later_below);
	expect_eq(above, later_above);
	expect_eq(below, 4 * 99);
	check_bounds();
}

Test(counter, batch_of_one_is_exact)
{
	start("0-3");
	make(1, 0);
	for (int i = 0; i < 1000; i++) {
		add_on(i % 4, i % 7 - 3);
		expect_eq(pcpu_counter_read(&c), pcpu_counter_sum(&c));
	}
	check_bounds();
}

Test(counter, slot_of_an_offline_cpu)
{
	fake_machine("0-3", "0-3");
	fake_start();
	make(64, 0);
	add_on(3, 7);
	fake_file("/devices/system/cpu/online", "0-2");
	fake_cpu(0);
	expect_eq(pcpu_counter_sum(&c), 7);
	pcpu_cpu_restart(&fake.os, -1); /* also for a library that starts while CPU 3 is off */
	expect_eq(pcpu_counter_sum(&c), 7);
	fake_file("/devices/system/cpu/online", "0-3");
	pcpu_cpu_restart(&fake.os, -1);
	expect_eq(pcpu_counter_sum(&c), 7);
}

/* ---- amounts ---- */

Test(counter, amounts_beyond_32_bits)
{
	start("0-3");
	make(0, 0);
	pcpu_counter_add(&c, ((int64_t)1 << 31) - 1);
	pcpu_counter_add(&c, 1);
	pcpu_counter_add(&c, (int64_t)1 << 33);
	expect_eq(pcpu_counter_sum(&c), 10737418240);
	check_bounds();
}

Test(counter, extreme_amounts_wrap)
{
	for (int cpu = -1; cpu < 2; cpu++) {
		start("0-3");
		make(0, 0);
		fake_cpu(cpu);
		pcpu_counter_add(&c, INT64_MIN);
		expect_eq(pcpu_counter_sum(&c), INT64_MIN);
		pcpu_counter_add(&c, INT64_MAX);
		expect_eq(pcpu_counter_sum(&c), -1);
		pcpu_counter_sub(&c, INT64_MIN); /* wraps to itself */
		expect_eq(pcpu_counter_sum(&c), INT64_MAX);
		pcpu_counter_inc(&c);
		expect_eq(pcpu_counter_sum(&c), INT64_MIN);
		pcpu_counter_dec(&c);
		expect_eq(pcpu_counter_sum(&c), INT64_MAX);
		check_bounds();
		pcpu_counter_destroy(&c);
	}
}

Test(counter, add_sub_inc_dec)
{
	start("0-3");
	make(16, 0);
	pcpu_counter_add(&c, 10);
	pcpu_counter_sub(&c, 3);
	pcpu_counter_inc(&c);
	pcpu_counter_dec(&c);
	pcpu_counter_dec(&c);
	pcpu_counter_add(&c, 0);
	expect_eq(pcpu_counter_sum(&c), 6);
}

/* Amounts of 4x the batch, 1000 times: the residue stays below the batch. */
Test(counter, amounts_above_the_batch)
{
	for (int sign = 1; sign >= -1; sign -= 2) {
		start("0");
		make(32, 0);
		for (int i = 1; i <= 1000; i++) {
			int64_t residue;

			add_on(0, sign * 128);
			residue = pcpu_counter_sum(&c) - pcpu_counter_read(&c);
			expect_eq(pcpu_counter_sum(&c), sign * 128 * i);
			expect(residue < 32 && residue > -32);
		}
		pcpu_counter_destroy(&c);
	}
	start("0");
	make(32, 0);
	for (int i = 0; i < 5000; i++) { /* every amount around the batch, from any residue */
		add_on(0, i % 80 - 39);
		expect(llabs(pcpu_counter_sum(&c) - pcpu_counter_read(&c)) < 32);
	}
}

/* +1/-1 for ever, from any residue: at most one carry, which read would show. */
Test(counter, plus_and_minus_one)
{
	for (uint32_t batch = 2; batch <= 64; batch *= 2) {
		for (int residue = 1 - (int)batch; residue < (int)batch; residue++) {
			int64_t last;
			unsigned carries = 0;

			start("0");
			make(batch, 0);
			add_on(0, residue);
			expect_eq(pcpu_counter_read(&c), 0);
			last = 0;
			for (int i = 0; i < 200; i++) {
				add_on(0, i % 2 ? -1 : 1);
				carries += pcpu_counter_read(&c) != last;
				last = pcpu_counter_read(&c);
			}
			if (carries > 1)
				unit_fail("batch %u, residue %d: %u carries", batch, residue, carries);
			expect_eq(pcpu_counter_sum(&c), residue);
			pcpu_counter_destroy(&c);
		}
		if (batch == 8)
			batch = 32; /* 2, 4, 8, 64 */
	}
}

/* ---- reading ---- */

Test(counter, positive)
{
	start("0-3");
	make(4, 0);
	add_on(0, -100);
	expect_eq(pcpu_counter_sum(&c), -100);
	expect_eq(pcpu_counter_sum_positive(&c), 0);
	expect_eq(pcpu_counter_read_positive(&c), 0);
	add_on(1, 300);
	expect_eq(pcpu_counter_sum_positive(&c), 200);
	expect_eq(pcpu_counter_read_positive(&c), pcpu_counter_read(&c));
}

/* Never wrong at rest, at any distance; and no walk when the bounds decide. */
Test(counter, compare)
{
	static const int64_t offsets[] = {0, 1, 2, 100, 123, 124, 125, 248, 249, 1000, 1000000};

	start("0-3");
	make(32, 0);
	for (int round = 0; round < 200; round++) {
		int64_t sum;

		add_on(round % 4, round % 61 - 20);
		sum = pcpu_counter_sum(&c);
		for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
			expect_eq(pcpu_counter_compare(&c, sum + offsets[i]), offsets[i] ? -1 : 0);
			expect_eq(pcpu_counter_compare(&c, sum - offsets[i]), offsets[i] ? 1 : 0);
		}
		expect_eq(pcpu_counter_compare(&c, INT64_MAX), -1);
		expect_eq(pcpu_counter_compare(&c, INT64_MIN), 1);
	}
}

Test(counter, compare_at_the_ends)
{
	static const int64_t values[] = {INT64_MIN, INT64_MIN + 1,   INT64_MIN + 100, -1,	0,
					 1,	    INT64_MAX - 100, INT64_MAX - 1,   INT64_MAX};

	start("0-3");
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		make(64, 0);
		pcpu_counter_set(&c, values[i]);
		for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++)
			expect_eq(pcpu_counter_compare(&c, values[k]),
				  (values[i] > values[k]) - (values[i] < values[k]));
		for (int cpu = 0; cpu < 4; cpu++) /* off the value, but not over the edge */
			add_on(cpu, values[i] < 0 ? 60 : -60);
		for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
			int64_t sum = pcpu_counter_sum(&c);

			expect_eq(pcpu_counter_compare(&c, values[k]), (sum > values[k]) - (sum < values[k]));
		}
		pcpu_counter_destroy(&c);
	}
}

/* Slots that cannot be read would fault: compare does not look at them when the bounds decide. */
Test(counter, compare_without_a_walk)
{
	start("0-3");
	make(32, 0);
	add_on(1, 1000);
	expect_eq(mprotect(c.region->cpu.base, c.region->cpu.stride * 4, PROT_NONE), 0);
	expect_eq(pcpu_counter_compare(&c, 2000), -1);
	expect_eq(pcpu_counter_compare(&c, 500), 1);
	expect_eq(pcpu_counter_read(&c), 1000);
}

/* Changes of the batch that meet leave a batch that works, and bounds that hold. */
static void change_batch(unsigned number, void *arg)
{
	(void)arg;
	for (int i = 0; i < 20000; i++)
		pcpu_counter_set_batch(&c, number % 2 ? 1000 : 10);
}

Test(counter, batch_changed_from_two_sides)
{
	for (int round = 0; round < 5; round++) {
		start("0-3");
		make(64, 0);
		run_threads(4, change_batch, NULL);
		expect(c.batch == 10 || c.batch == 1000);
		expect_eq(c.bias, c.batch - 1);
		pcpu_counter_destroy(&c);
	}
}

Test(counter, node_words_under_a_changed_batch)
{
	start_two_nodes();
	make(100, 0);
	for (int i = 0; i < 1000; i++)
		add_on(i % 8, 7);
	expect_eq(pcpu_counter_set_batch(&c, 1), 0);
	check_bounds();
	for (int cpu = 0; cpu < 8; cpu++)
		add_on(cpu, 1000);
	expect_eq(pcpu_counter_sum(&c), 15000);
	expect_eq(pcpu_counter_read(&c), 15000);
	check_bounds();
}

/* A lowered batch takes hold of slots also where every amount is larger than it. */
Test(counter, lowered_batch_and_large_amounts)
{
	int64_t below, above;

	start("0-3");
	make(1000, 0);
	for (int cpu = 0; cpu < 4; cpu++)
		add_on(cpu, 500);
	expect_eq(pcpu_counter_set_batch(&c, 10), 0);
	for (int cpu = 0; cpu < 4; cpu++)
		add_on(cpu, 50);
	check_bounds();
	pcpu_counter_error(&c, &below, &above);
	expect(below == 36 && above == 36);
	expect_eq(pcpu_counter_sum(&c), 2200);
	expect_eq(pcpu_counter_read(&c), 2200);
}

/*
 * I4, I6: readers write nothing (the counter and all slots are read-only to them); set, drain and set_batch
 * write no slot.
 */
Test(counter, readers_only_read)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct pcpu_counter_attr attr = {.size = sizeof(attr), .batch = 32};
	struct pcpu_counter *p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int64_t below, above;

	start_two_nodes();
	expect(p != MAP_FAILED);
	expect_eq(pcpu_counter_init(p, &attr), 0);
	for (int i = 0; i < 1000; i++) {
		fake_cpu(i % 8);
		pcpu_counter_add(p, i % 50);
	}
	expect_eq(mprotect(p, page, PROT_READ), 0);
	expect_eq(mprotect(p->region, p->region->map_bytes, PROT_READ), 0);
	expect_eq(pcpu_counter_sum(p), 24500);
	expect_eq(pcpu_counter_sum_positive(p), 24500);
	expect(pcpu_counter_read_positive(p) == pcpu_counter_read(p));
	pcpu_counter_error(p, &below, &above);
	expect_eq(pcpu_counter_compare(p, 24500), 0);
	expect_eq(mprotect(p, page, PROT_READ | PROT_WRITE), 0);
	expect_eq(mprotect(p->region->node.base, p->region->node.stride * 2, PROT_READ | PROT_WRITE), 0);
	expect_eq(pcpu_counter_set_batch(p, 16), 0);
	pcpu_counter_error(p, &below, &above);
	pcpu_counter_set(p, 70);
	expect_eq(pcpu_counter_drain(p), 70);
	expect_eq(pcpu_counter_sum(p), 0);
}

/* I4: an add writes the chunk of its own CPU and no other's, carries included. */
Test(counter, adds_write_their_own_chunk)
{
	start("0-3");
	make(32, 0);
	for (int cpu = 0; cpu < 4; cpu++) {
		expect_eq(mprotect(c.region->cpu.base, c.region->cpu.stride * 4, PROT_READ), 0);
		expect_eq(mprotect(c.region->cpu.base + (size_t)cpu * c.region->cpu.stride,
				   c.region->cpu.bytes, PROT_READ | PROT_WRITE),
			  0);
		for (int i = 0; i < 500; i++)
			add_on(cpu, i % 40 - 10);
	}
	check_bounds();
}

/* ---- taking away ---- */

Test(counter, set_and_drain)
{
	start("0-3");
	make(32, 0);
	for (int cpu = 0; cpu < 4; cpu++)
		add_on(cpu, 20);
	expect_eq(pcpu_counter_drain(&c), 80);
	expect_eq(pcpu_counter_sum(&c), 0);
	check_bounds();
	expect_eq(pcpu_counter_drain(&c), 0);
	add_on(1, 5);
	pcpu_counter_set(&c, 1000);
	expect_eq(pcpu_counter_sum(&c), 1000);
	check_bounds();
	add_on(2, -1);
	expect_eq(pcpu_counter_drain(&c), 999);
	pcpu_counter_set(&c, INT64_MIN);
	expect_eq(pcpu_counter_drain(&c), INT64_MIN);
	pcpu_counter_set(&c, INT64_MAX);
	add_on(3, 1);
	expect_eq(pcpu_counter_drain(&c), INT64_MIN);
	expect_eq(pcpu_counter_sum(&c), 0);
	check_bounds();
}

Test(counter, static_counter_set_and_drained_before_any_add)
{
	static struct pcpu_counter fresh = PCPU_COUNTER_INIT;
	int64_t below, above;

	start("0-3");
	expect_eq(pcpu_counter_read(&fresh), 0);
	expect_eq(pcpu_counter_sum(&fresh), 0);
	expect_eq(pcpu_counter_compare(&fresh, 0), 0);
	pcpu_counter_error(&fresh, &below, &above);
	expect(below == 0 && above == 0);
	pcpu_counter_set(&fresh, 40);
	expect_eq(pcpu_counter_sum(&fresh), 40);
	pcpu_counter_add(&fresh, 2);
	expect_eq(pcpu_counter_drain(&fresh), 42);
	expect_eq(pcpu_counter_sum(&fresh), 0);
}

/* ---- the batch, changed while the counter is in use ---- */

Test(counter, lowered_batch)
{
	int64_t below, above;

	start("0-3");
	make(1000, 0);
	for (int cpu = 0; cpu < 4; cpu++)
		add_on(cpu, 900);
	expect_eq(pcpu_counter_read(&c), 0);
	expect_eq(pcpu_counter_set_batch(&c, 10), 0);
	pcpu_counter_error(&c, &below, &above); /* true at once: slots still hold 900 */
	expect_eq(below, 3600);
	check_bounds();
	expect_eq(pcpu_counter_compare(&c, 3599), 1);
	expect_eq(pcpu_counter_compare(&c, 3600), 0);
	for (int cpu = 0; cpu < 4; cpu++) {
		add_on(cpu, 1);
		check_bounds();
	}
	pcpu_counter_error(&c, &below, &above); /* and shrinks as the slots are used */
	expect_eq(below, 36);
	expect_eq(above, 36);
}

/* What a reader may see while extreme adds are under way (total new, carried old): bounds that are numbers (I3). */
Test(counter, bounds_saturate)
{
	int64_t below, above, *slots[2];

	start("0-3");
	make(100, 0);
	expect_eq(pcpu_counter_set_batch(&c, 10), 0);
	for (int i = 0; i < 2; i++)
		slots[i] = (int64_t *)(c.slots + (size_t)i * c.stride);
	*slots[0] = *slots[1] = INT64_MIN;
	pcpu_counter_error(&c, &below, &above);
	expect_eq(below, 36);
	expect_eq(above, INT64_MAX);
	*slots[0] = *slots[1] = INT64_MAX;
	pcpu_counter_error(&c, &below, &above);
	expect_eq(below, INT64_MAX);
	expect_eq(above, 36);
}

Test(counter, raised_batch)
{
	int64_t below, above;

	start("0-3");
	make(10, 0);
	add_on(0, 9);
	expect_eq(pcpu_counter_set_batch(&c, 1000), 0);
	pcpu_counter_error(&c, &below, &above);
	expect_eq(below, 4 * 999);
	for (int cpu = 0; cpu < 4; cpu++)
		add_on(cpu, 900);
	check_bounds();
	expect_eq(pcpu_counter_sum(&c), 3609);
}

Test(counter, batch_of_one_after_the_fact)
{
	start("0-3");
	make(1000, 0);
	for (int cpu = 0; cpu < 4; cpu++)
		add_on(cpu, 500);
	expect_eq(pcpu_counter_set_batch(&c, 1), 0);
	check_bounds();
	for (int cpu = 0; cpu < 4; cpu++)
		for (int i = 0; i < 2; i++)
			add_on(cpu, 1);
	check_bounds();
	expect_eq(pcpu_counter_sum(&c), 2008);
	expect_eq(pcpu_counter_read(&c), 2008); /* exact at rest, once each slot was used */
}

Test(counter, batch_of_a_static_counter)
{
	static struct pcpu_counter fresh = PCPU_COUNTER_INIT;

	start("0-3");
	expect_eq(pcpu_counter_set_batch(&fresh, 7), 0);
	pcpu_counter_add(&fresh, 1);
	expect_eq(fresh.batch, 7);
	pcpu_counter_add(&fresh, 6);
	expect_eq(pcpu_counter_sum(&fresh), 7);
}

Test(counter, any_batch_any_amount)
{
	uint64_t random = seed(1);

	for (int round = 0; round < 40; round++) {
		int64_t sum = 0;

		if (round % 2)
			start("0-3");
		else
			start_two_nodes();
		make(0, round % 4 < 2 ? 0 : PCPU_COUNTER_NODE_LEVEL);
		for (int i = 0; i < 500; i++) {
			int64_t n = (int64_t)next_random(&random) >> next_random(&random) % 64;

			if (i % 50 == 0)
				expect_eq(pcpu_counter_set_batch(
						  &c, (uint32_t)(next_random(&random) >>
								 (33 + next_random(&random) % 31))),
					  0);
			add_on((int)(next_random(&random) % 4), n);
			sum = (int64_t)((uint64_t)sum + (uint64_t)n);
			expect_eq(pcpu_counter_sum(&c), sum);
			check_bounds();
			expect_eq(pcpu_counter_compare(&c, sum), 0);
		}
		pcpu_counter_destroy(&c);
	}
}

/* ---- the node level ---- */

Test(counter, node_level)
{
	start_two_nodes();
	make(16, 0);
	expect(c.node_words);
	for (int i = 0; i < 16; i++)
		add_on(0, 1);
	expect_eq(pcpu_counter_read(&c), 0); /* the first carry stays at the node */
	for (int i = 0; i < 1000; i++) {
		add_on(i % 8, 3);
		check_bounds();
	}
	expect_eq(pcpu_counter_sum(&c), 3016);
	pcpu_counter_destroy(&c);
	make(16, PCPU_COUNTER_NO_NODE_LEVEL);
	expect(!c.node_words);
	for (int i = 0; i < 16; i++)
		add_on(0, 1);
	expect_eq(pcpu_counter_read(&c), 16);
	pcpu_counter_destroy(&c);
}

Test(counter, node_level_when_asked)
{
	start("0-3");
	make(16, 0);
	expect(!c.node_words);
	pcpu_counter_destroy(&c);
	make(16, PCPU_COUNTER_NODE_LEVEL);
	expect(c.node_words);
	for (int i = 0; i < 1000; i++) {
		add_on(i % 4, 7);
		check_bounds();
	}
	expect_eq(pcpu_counter_drain(&c), 7000);
	check_bounds();
	pcpu_counter_destroy(&c);
}

/* Carrying never stops short: read follows sum across the node level for as long as one likes. */
Test(counter, node_level_keeps_up)
{
	start_two_nodes();
	make(8, 0);
	for (int i = 0; i < 100000; i++)
		add_on(i % 8, 1);
	check_bounds();
	expect(pcpu_counter_read(&c) > 99000);
}

/* ---- CPU ids from outside ---- */

/* -1, -2, N, N + 1 and worse: exact, and nothing outside the slots is written (I9). */
Test(counter, odd_cpu_ids)
{
	static const int ids[] = {-1, -2, 4, 5, 63, 64, 8191, 8192, 1 << 20, INT32_MAX, INT32_MIN};
	struct pcpu_zone *cpu, *node;
	size_t slot;

	start("0-3");
	make(32, 0);
	cpu = &c.region->cpu;
	node = &c.region->node;
	slot = (size_t)(c.slots - cpu->base);
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
		for (int k = 0; k < 100; k++)
			add_on(ids[i], k % 50);
	expect_eq(pcpu_counter_sum(&c), 11 * 2450);
	check_bounds();
	for (unsigned chunk = 0; chunk < 4; chunk++)
		for (size_t i = 0; i < cpu->stride; i++)
			expect(cpu->base[chunk * cpu->stride + i] == 0 || (i >= slot && i < slot + 16));
	for (size_t i = 0; i < node->bytes; i++)
		expect_eq(node->base[i], 0);
}

/* At most one question for the CPU per add where there is no area, none where there is; none while reading. */
Test(counter, asks_for_the_cpu_once)
{
	struct pcpu_info info = {.size = sizeof(info)};

	start("0-3");
	make(1000000, 0);
	expect_eq(pcpu_get_info(&info), 0);
	fake.asked_cpu = 0;
	for (int i = 0; i < 1000; i++)
		add_on(i % 4, 1);
	if (info.backend == PCPU_BACKEND_RSEQ)
		expect_eq(fake.asked_cpu, 0);
	else
		expect(fake.asked_cpu <= 1000);
	fake.asked_cpu = 0;
	pcpu_counter_sum(&c);
	pcpu_counter_read(&c);
	pcpu_counter_drain(&c);
	expect_eq(fake.asked_cpu, 0);
}

/* A machine on which the library knows no CPU at all: spread by thread, exact. */
static struct pcpu_counter spread;

static void add_unknown(unsigned number, void *arg)
{
	(void)number;
	(void)arg;
	for (int i = 0; i < 10000; i++)
		pcpu_counter_add(&spread, 1);
}

Test(counter, no_cpu_is_known)
{
	start("0-63");
	expect_eq(pcpu_counter_init(&spread, NULL), 0);
	run_threads(16, add_unknown, NULL); /* each a thread whose area says -1 */
	expect_eq(pcpu_counter_sum(&spread), 160000);
}

/* ---- life ---- */

Test(counter, destroyed_and_made_again)
{
	struct pcpu_region *region;
	char *slots;

	start("0-3");
	make(32, 0);
	region = c.region;
	slots = c.slots;
	for (int cpu = 0; cpu < 4; cpu++)
		add_on(cpu, 31);
	pcpu_counter_destroy(&c);
	pcpu_counter_destroy(&c); /* twice is harmless */
	make(32, 0);
	expect(c.region == region && c.slots == slots); /* the same slots, and nothing left in them */
	expect_eq(pcpu_counter_sum(&c), 0);
	expect_eq(pcpu_counter_read(&c), 0);
	for (int cpu = 0; cpu < 4; cpu++)
		add_on(cpu, 31);
	expect_eq(pcpu_counter_read(&c), 0); /* nor reported ahead */
	pcpu_counter_destroy(&c);
}

Test(counter, node_words_are_given_back)
{
	char *words;

	start_two_nodes();
	make(4, 0);
	words = c.node_words;
	for (int i = 0; i < 100; i++)
		add_on(i % 8, 3);
	pcpu_counter_destroy(&c);
	make(4, 0);
	expect(c.node_words == words);
	expect_eq(*(int64_t *)words, 0);
	check_bounds();
	pcpu_counter_destroy(&c);
}

/* A machine without memory: the counter counts in its own words (I1). Sanitizers end where they get none. */
#ifndef UNIT_SANITIZED
Test(counter, out_of_memory)
{
	static struct pcpu_counter fresh = PCPU_COUNTER_INIT;
	int64_t below, above;

	struct rlimit none = {.rlim_max = RLIM_INFINITY};

	if (getenv("PCPU_TEST_EMULATED")) /* limits are not the program's there */
		return;
	start("0-3");
	expect_eq(setrlimit(RLIMIT_AS, &none), 0);
	expect(mmap(NULL, 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
	expect_eq(pcpu_counter_init(&c, NULL), 0);
	add_on(1, 5);
	add_on(-1, 6);
	expect_eq(pcpu_counter_sum(&c), 11);
	expect_eq(pcpu_counter_read(&c), 11);
	pcpu_counter_error(&c, &below, &above);
	expect(below == 0 && above == 0);
	pcpu_counter_add(&fresh, 3);
	pcpu_counter_add(&fresh, 4);
	expect_eq(pcpu_counter_sum(&fresh), 7);
	expect_eq(pcpu_counter_drain(&fresh), 7);
	pcpu_counter_destroy(&fresh);
	pcpu_counter_destroy(&c);
}
#endif

/* All questions to the system are asked at the start: using counters asks nothing more. */
Test(counter, uses_no_probe)
{
	start_two_nodes();
	fake.asked_place = fake.asked_fence = 0;
	make(16, 0);
	for (int i = 0; i < 1000; i++)
		add_on(i % 8, 5);
	pcpu_counter_set_batch(&c, 3);
	pcpu_counter_drain(&c);
	pcpu_counter_destroy(&c);
	expect_eq(fake.asked_fence, 0);
	expect_eq(fake.asked_place, 0);
}
