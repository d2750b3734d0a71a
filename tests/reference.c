/* SPDX-License-Identifier: MIT */
/*
 * Every backend against plain C on the same random input: calls of all kinds on some counters, on CPUs that
 * come and go, checked after each against int64_t variables. I1, I3. The seed is printed.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <string.h>

#include <pcpu_stat/pcpu_stat.h>

#include "cpu/cpu.h"
#include "os_fake.h"
#include "region/region.h"
#include "tap.h"
#include "tools.h"

#define COUNTERS 6

struct model {
	struct pcpu_counter counter;
	uint64_t value; /* the reference */
	uint32_t batch;
	bool is_static; /* starts without slots */
};

static struct model models[COUNTERS];
static struct pcpu_region *region;
static uint64_t digest; /* of all that was returned exactly: the same for every backend */

static void note(int64_t n)
{
	digest = (digest ^ (uint64_t)n) * 0x9e3779b97f4a7c15u;
	digest ^= digest >> 29;
}

static int64_t amount(uint64_t *random, uint32_t batch)
{
	uint64_t r = next_random(random);

	switch (next_random(random) % 8) {
	case 0:
		return (int64_t)r;
	case 1:
		return r % 2 ? INT64_MIN : INT64_MAX;
	case 2:
		return (int64_t)(r % 5) - 2 + (r & 1024 ? (int64_t)batch : -(int64_t)batch);
	case 3:
		return (int64_t)r >> (r % 64);
	default:
		return (int64_t)(r % 101) - 50;
	}
}

static uint32_t any_batch(uint64_t *random)
{
	static const uint32_t some[] = {0, 1, 2, 3, 16, 64, 1000, INT32_MAX};

	return some[next_random(random) % 8];
}

static void renew(struct model *m, uint64_t *random)
{
	static const uint32_t flags[] = {0, 0, PCPU_COUNTER_NODE_LEVEL, PCPU_COUNTER_NO_NODE_LEVEL};
	struct pcpu_counter_attr attr = {.size = sizeof(attr)};

	pcpu_counter_destroy(&m->counter);
	m->is_static = next_random(random) % 4 == 0;
	attr.initial = amount(random, 64);
	attr.batch = m->batch = any_batch(random);
	attr.flags = flags[next_random(random) % 4];
	attr.region = next_random(random) % 2 ? region : NULL;
	m->value = m->is_static ? 0 : (uint64_t)attr.initial;
	if (m->is_static)
		m->counter = (struct pcpu_counter)PCPU_COUNTER_INIT;
	else if (pcpu_counter_init(&m->counter, &attr))
		abort();
}

/* One random call, and what must hold after it. */
static bool step(uint64_t *random)
{
	struct model *m = &models[next_random(random) % COUNTERS];
	struct pcpu_counter *c = &m->counter;
	int64_t n = amount(random, m->batch), below, above, lag;
	uint32_t what = next_random(random) % 100;
	bool good = true;

	fake_cpu((int)(next_random(random) % 10) - 1); /* eight CPUs, one beyond, and none */
	if (what < 70) {
		pcpu_counter_add(c, n);
		m->value += (uint64_t)n;
	} else if (what < 75) {
		pcpu_counter_sub(c, n);
		m->value -= (uint64_t)n;
	} else if (what < 78) {
		pcpu_counter_inc(c);
		m->value++;
	} else if (what < 81) {
		pcpu_counter_dec(c);
		m->value--;
	} else if (what < 84) {
		good = pcpu_counter_drain(c) == (int64_t)m->value;
		m->value = 0;
	} else if (what < 87) {
		pcpu_counter_set(c, n);
		m->value = (uint64_t)n;
	} else if (what < 91) {
		m->batch = any_batch(random);
		good = pcpu_counter_set_batch(c, m->batch) == 0;
	} else if (what < 96) {
		int64_t v = what % 2 ? n : (int64_t)(m->value + (uint64_t)(n % 300));
		int wanted = ((int64_t)m->value > v) - ((int64_t)m->value < v);

		good = pcpu_counter_compare(c, v) == wanted;
	} else if (what < 99) {
		int64_t value = (int64_t)m->value;

		good = pcpu_counter_sum_positive(c) == (value < 0 ? 0 : value);
	} else {
		renew(m, random);
	}
	note(pcpu_counter_sum(c));
	pcpu_counter_error(c, &below, &above);
	lag = (int64_t)(m->value - (uint64_t)pcpu_counter_read(c));
	return good && pcpu_counter_sum(c) == (int64_t)m->value && below >= 0 && above >= 0 && lag <= below &&
	       -lag <= above;
}

static void run(const char *name, uint64_t start, long steps)
{
	uint64_t random = start;
	long i;

	digest = start;
	if (pcpu_region_create(&region, NULL))
		abort();
	for (i = 0; i < COUNTERS; i++)
		renew(&models[i], &random);
	for (i = 0; i < steps && step(&random); i++)
		;
	tap_ok(i == steps, "%s: %ld steps of %ld as in plain C", name, i, steps);
	for (int k = 0; k < COUNTERS; k++)
		pcpu_counter_destroy(&models[k].counter);
	pcpu_region_close(region);
}

int main(void)
{
	static const struct {
		const char *name;
		bool rseq, nodes;
	} backends[] = {{"rseq", true, false},
			{"rseq, two nodes", true, true},
			{"atomic", false, false},
			{"atomic, two nodes", false, true}};
	uint64_t start = seed(42), first = 0;
	long steps = scaled(500000);

	for (int i = 0; i < 4; i++) {
		fake_machine("0-7", "0-7");
		if (backends[i].nodes) {
			fake_node(0, "0-3", "10 20");
			fake_node(1, "4-7", "20 10");
			fake_nodes("0-1", "0-1");
		}
		fake.os.use_rseq = backends[i].rseq;
		fake_start();
		if (backends[i].rseq && pcpu_cpu.backend != PCPU_BACKEND_RSEQ) {
			tap_skip(backends[i].name, "not in use here");
			continue;
		}
		run(backends[i].name, start, steps);
		if (!first)
			first = digest;
		tap_ok(digest == first, "%s: the same sums as the other backends", backends[i].name);
	}
	return tap_done();
}
