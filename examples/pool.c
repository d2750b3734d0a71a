/* SPDX-License-Identifier: MIT */
/**
 * @file pool.c
 * A memory-budget server: tenants under groups under a total, each with a limit of its own.
 *
 * Workers allocate blocks for tenants chosen at random and put them into mailboxes; whoever finds a block in
 * the mailbox frees it, so blocks are freed by other threads, on other CPUs, than those that allocated them.
 * Every block is charged to its tenant, hence to the tenant's group and to the total, before it is allocated.
 * All together want more than there is: which level refuses is shown while it runs.
 *
 * At the end all blocks are freed, and the program proves that the books were right, or exits with 1:
 *
 *	usage	is 0 at every limit
 *	peaks	never passed a limit; and what workers held for certain never passed the total, at any moment
 *	refusals	that workers met are those that the limits counted, level by level
 *
 * Reading order: budget, blocks, workers, view, proof, main.
 */
#define _GNU_SOURCE /* getopt_long */
#define PCPU_STAT_INLINE
#include <pcpu_stat/pcpu_stat.h>

#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- the budget: in KiB, at every level less than its parts want ---- */

#define GROUPS	  3
#define TENANTS	  4 /* in each group */
#define TOTAL_KB  (44 << 10)
#define GROUP_KB  (20 << 10)
#define TENANT_KB (8 << 10)
/* Stocks are in units: some twenty blocks, so that most of them cost no more than an add. */
#define BATCH_KB 512

static struct pcpu_limit *total, *groups[GROUPS], *tenants[GROUPS][TENANTS];

static int make_limit(struct pcpu_limit **limit, struct pcpu_limit *parent, int64_t max)
{
	const struct pcpu_limit_attr attr = {.size = sizeof(attr), .max = max, .batch = BATCH_KB};

	return pcpu_limit_create(limit, parent, &attr);
}

static int make_budget(void)
{
	int r = make_limit(&total, NULL, TOTAL_KB);

	for (int g = 0; g < GROUPS && r == 0; g++) {
		r = make_limit(&groups[g], total, GROUP_KB);
		for (int t = 0; t < TENANTS && r == 0; t++)
			r = make_limit(&tenants[g][t], groups[g], TENANT_KB);
	}
	return r;
}

/* ---- blocks, and the mailboxes they wait in ---- */

#define MAX_BLOCK_KB 32
#define MAILBOXES    4096

struct block {
	struct pcpu_limit *tenant;
	int64_t kb;
};

static _Atomic(struct block *) mailboxes[MAILBOXES];

/* What is certainly charged: after a charge came back, until before its uncharge. */
static _Atomic int64_t certain, certain_over;

static struct block *allocate(struct pcpu_limit *tenant, int64_t kb, struct pcpu_limit **refused)
{
	struct block *block;

	if (!pcpu_limit_try_charge(tenant, kb, refused))
		return NULL;
	block = malloc((size_t)kb << 10);
	if (!block) {
		pcpu_limit_uncharge(tenant, kb);
		*refused = NULL;
		return NULL;
	}
	block->tenant = tenant;
	block->kb = kb;
	if (atomic_fetch_add(&certain, kb) + kb > TOTAL_KB)
		atomic_fetch_add(&certain_over, 1);
	return block;
}

static void release(struct block *block)
{
	if (!block)
		return;
	atomic_fetch_sub(&certain, block->kb);
	pcpu_limit_uncharge(block->tenant, block->kb);
	free(block);
}

/* ---- workers ---- */

static atomic_bool stop;

struct worker {
	pthread_t thread;
	uint64_t random;
	int64_t blocks, no_memory;
	int64_t refused_by_total, refused_by_group[GROUPS], refused_by_tenant[GROUPS][TENANTS];
};

/* xorshift64* (Vigna 2016). */
static uint64_t pick(struct worker *w, uint64_t below)
{
	w->random ^= w->random >> 12;
	w->random ^= w->random << 25;
	w->random ^= w->random >> 27;
	return (w->random * 0x2545f4914f6cdd1du >> 32) % below;
}

/* Some groups and tenants want more than others, so that some are refused by their own limit. */
static int pick_skewed(struct worker *w, uint64_t below)
{
	uint64_t a = pick(w, below), b = pick(w, below);

	return (int)(a < b ? a : b);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		int g = pick_skewed(w, GROUPS), t = pick_skewed(w, TENANTS);
		struct pcpu_limit *refused = NULL;
		struct block *block = allocate(tenants[g][t], (int64_t)pick(w, MAX_BLOCK_KB) + 1, &refused);

		if (block)
			w->blocks++;
		else if (refused == total)
			w->refused_by_total++;
		else if (refused == groups[g])
			w->refused_by_group[g]++;
		else if (refused == tenants[g][t])
			w->refused_by_tenant[g][t]++;
		else
			w->no_memory++;
		/* Refused or not, make room: what was in the mailbox goes, whoever put it there. */
		release(atomic_exchange(&mailboxes[pick(w, MAILBOXES)], block));
	}
	return NULL;
}

/* ---- the view ---- */

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double mib(int64_t kb)
{
	return (double)kb / 1024;
}

static void show(double at)
{
	int64_t by_groups = 0, by_tenants = 0;

	printf("%6.2f s  total %5.1f of %.0f MiB  groups", at, mib(pcpu_limit_usage(total)), mib(TOTAL_KB));
	for (int g = 0; g < GROUPS; g++) {
		printf(" %5.1f", mib(pcpu_limit_usage(groups[g])));
		by_groups += pcpu_limit_failures(groups[g]);
		for (int t = 0; t < TENANTS; t++)
			by_tenants += pcpu_limit_failures(tenants[g][t]);
	}
	printf(" of %.0f  refused by total %" PRId64 ", groups %" PRId64 ", tenants %" PRId64 "\n",
	       mib(GROUP_KB), pcpu_limit_failures(total), by_groups, by_tenants);
	fflush(stdout);
}

static void watch(double seconds, double interval)
{
	double begin = seconds_now(), now = begin;

	while (now - begin < seconds) {
		double wait = begin + seconds - now < interval ? begin + seconds - now : interval;
		struct timespec pause = {(time_t)wait, (long)((wait - (double)(time_t)wait) * 1e9)};

		nanosleep(&pause, NULL);
		now = seconds_now();
		show(now - begin);
	}
}

/* ---- the proof ---- */

static bool good(bool is, const char *what)
{
	printf("  %-3s %s\n", is ? "yes" : "NO", what);
	return is;
}

static bool prove_limit(struct pcpu_limit *limit, int64_t max, int64_t refusals)
{
	return pcpu_limit_usage(limit) == 0 && pcpu_limit_peak(limit) <= max &&
	       pcpu_limit_underflows(limit) == 0 && pcpu_limit_failures(limit) == refusals;
}

static bool prove(const struct worker *workers, unsigned n)
{
	struct worker sum = {0};
	bool ok_total, ok_groups = true, ok_tenants = true, ok_destroyed = true;

	for (unsigned i = 0; i < n; i++) {
		sum.blocks += workers[i].blocks;
		sum.no_memory += workers[i].no_memory;
		sum.refused_by_total += workers[i].refused_by_total;
		for (int g = 0; g < GROUPS; g++) {
			sum.refused_by_group[g] += workers[i].refused_by_group[g];
			for (int t = 0; t < TENANTS; t++)
				sum.refused_by_tenant[g][t] += workers[i].refused_by_tenant[g][t];
		}
	}
	printf("%" PRId64 " blocks, peak of the total %.1f MiB; at every limit usage 0, peak within max, "
	       "refusals as workers met them:\n",
	       sum.blocks, mib(pcpu_limit_peak(total)));
	if (sum.no_memory)
		printf("  (%" PRId64 " charges taken back because malloc had no memory)\n", sum.no_memory);
	ok_total = prove_limit(total, TOTAL_KB, sum.refused_by_total);
	for (int g = 0; g < GROUPS; g++) {
		ok_groups &= prove_limit(groups[g], GROUP_KB, sum.refused_by_group[g]);
		for (int t = 0; t < TENANTS; t++)
			ok_tenants &= prove_limit(tenants[g][t], TENANT_KB, sum.refused_by_tenant[g][t]);
	}
	/* A limit that holds anything, also in a stock that cannot be found, does not go. */
	for (int g = 0; g < GROUPS; g++) {
		for (int t = 0; t < TENANTS; t++)
			ok_destroyed &= pcpu_limit_destroy(tenants[g][t]) == 0;
		ok_destroyed &= pcpu_limit_destroy(groups[g]) == 0;
	}
	ok_destroyed &= pcpu_limit_destroy(total) == 0;
	return good(ok_total, "the total") & good(ok_groups, "all groups") & good(ok_tenants, "all tenants") &
	       good(atomic_load(&certain_over) == 0, "what was held never passed the total") &
	       good(ok_destroyed, "nothing is left: all limits could be destroyed");
}

/* ---- main ---- */

static int usage(int status)
{
	fprintf(status ? stderr : stdout, "usage: pool [--seconds S] [--interval S] [--workers N]\n");
	return status;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"seconds", required_argument, NULL, 's'},
						{"interval", required_argument, NULL, 'i'},
						{"workers", required_argument, NULL, 'w'},
						{"help", no_argument, NULL, 'h'},
						{NULL, 0, NULL, 0}};
	unsigned n = 2 * (unsigned)sysconf(_SC_NPROCESSORS_ONLN), started;
	double seconds = 3, interval = 0.5;
	struct worker *workers;
	bool ok;
	int r;

	while ((r = getopt_long(argc, argv, "s:i:w:h", options, NULL)) != -1) {
		switch (r) {
		case 's':
			seconds = strtod(optarg, NULL);
			break;
		case 'i':
			interval = strtod(optarg, NULL);
			break;
		case 'w':
			n = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'h':
			return usage(0);
		default:
			return usage(2);
		}
	}
	if (optind != argc || n == 0 || n > 10000 || !(seconds >= 0) || !(interval >= 0.01))
		return usage(2);
	r = make_budget();
	workers = calloc(n, sizeof(*workers));
	if (r || !workers) {
		fprintf(stderr, "pool: %s\n", r ? strerror(-r) : "no memory");
		return 1;
	}
	printf("%u workers, %d tenants of %.0f MiB in %d groups of %.0f MiB, %.0f MiB in all\n", n,
	       GROUPS * TENANTS, mib(TENANT_KB), GROUPS, mib(GROUP_KB), mib(TOTAL_KB));
	for (started = 0; started < n; started++) {
		workers[started].random = started + 1;
		if (pthread_create(&workers[started].thread, NULL, work, &workers[started]))
			break;
	}
	if (started == n)
		watch(seconds, interval);
	else
		fprintf(stderr, "pool: cannot start worker %u\n", started);
	atomic_store(&stop, true);
	for (unsigned i = 0; i < started; i++)
		pthread_join(workers[i].thread, NULL);
	for (int i = 0; i < MAILBOXES; i++)
		release(atomic_exchange(&mailboxes[i], NULL));
	ok = prove(workers, started);
	free(workers);
	return ok && started == n ? 0 : 1;
}
