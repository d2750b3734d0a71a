/* SPDX-License-Identifier: MIT */
/*
 * Limits under real threads, signals and forks. I1: no unit lost or twice. I8: never over, never falsely
 * refused.
 *
 * How the two are seen from outside: `sure` counts units that are certainly charged (added after the charge
 * came back, taken off before the uncharge), so it may never pass max. And where the threads together never
 * want more than max, no charge may be refused.
 *
 *	limit_stress		all of it
 *	limit_stress no-fence	with a membarrier that does nothing: succeeds when that is noticed
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pcpu_stat/pcpu_stat.h>

#include "cpu/cpu.h"
#include "limit/ledger.h"
#include "tap.h"
#include "tools.h"

/* Some C libraries come without the kernel's headers. */
#if __has_include(<linux/seccomp.h>)
#include <linux/filter.h>
#include <linux/seccomp.h>
#define HAVE_FILTERS 1
#else
#define HAVE_FILTERS 0
#endif

static unsigned cpus;
static int stop;

static struct pcpu_limit *make(struct pcpu_limit *parent, int64_t max, uint32_t batch)
{
	struct pcpu_limit_attr attr = {.size = sizeof(attr), .max = max, .batch = batch};
	struct pcpu_limit *l;

	if (pcpu_limit_create(&l, parent, &attr))
		abort();
	return l;
}

static void unmake(struct pcpu_limit *l)
{
	if (pcpu_limit_destroy(l))
		abort();
}

static int64_t taken(struct pcpu_limit *l)
{
	return pcpu_pair_load(&((struct limit *)l)->usage).value;
}

static bool stopped(void)
{
	return __atomic_load_n(&stop, __ATOMIC_ACQUIRE);
}

static void set_stop(int value)
{
	__atomic_store_n(&stop, value, __ATOMIC_RELEASE);
}

static int64_t add(int64_t *word, int64_t n)
{
	return __atomic_add_fetch(word, n, __ATOMIC_SEQ_CST);
}

static void pin(unsigned cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu % cpus, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* ---- limit 1000, 8 threads try 1000 times: exactly 1000 get in ---- */

static struct pcpu_limit *the_limit;
static int64_t got_in, kept_out;

static void try_thousand(unsigned number, void *arg)
{
	int64_t in = 0;

	(void)number;
	(void)arg;
	for (int i = 0; i < 1000; i++)
		in += pcpu_limit_try_charge(the_limit, 1, NULL);
	add(&got_in, in);
	add(&kept_out, 1000 - in);
}

static void exactly(unsigned depth)
{
	struct pcpu_limit *levels[8];
	long wrong = 0, rounds = scaled(100);

	for (long i = 0; i < rounds; i++) {
		/* Every other level finite. */
		for (unsigned d = 0; d < depth; d++)
			levels[d] = make(d ? levels[d - 1] : NULL, d % 2 ? PCPU_LIMIT_MAX : 1000, 64);
		the_limit = levels[depth - 1];
		got_in = kept_out = 0;
		run_threads(8, try_thousand, NULL);
		wrong += got_in != 1000 || kept_out != 7000 || pcpu_limit_usage(the_limit) != 1000 ||
			 pcpu_limit_peak(levels[0]) != 1000 ||
			 pcpu_limit_failures(levels[depth - 1 - (depth + 1) % 2]) != 7000;
		pcpu_limit_uncharge(the_limit, 1000);
		for (unsigned d = depth; d-- > 0;)
			unmake(levels[d]);
	}
	tap_ok(wrong == 0, "exactly, depth %u: %ld of %ld rounds in which not 1000 of 8000 got in", depth,
	       wrong, rounds);
}

/* ---- holder of 10 of 10 gives one back while seven others try ---- */

static pthread_barrier_t together;

static void get_one(unsigned number, void *arg)
{
	long *wrong = arg;

	for (long i = scaled(500); i > 0; i--) {
		bool in = false;

		pthread_barrier_wait(&together);
		if (number == 0)
			pcpu_limit_uncharge(the_limit, 1);
		for (int k = 0; number && !in && k < 100; k++) {
			in = pcpu_limit_try_charge(the_limit, 1, NULL);
			if (!in)
				sched_yield();
		}
		add(&got_in, in);
		pthread_barrier_wait(&together);
		if (number == 0) {
			/* The barrier comes after the uncharge: who still tries then must find it. */
			if (got_in == 0)
				got_in = pcpu_limit_try_charge(the_limit, 1, NULL);
			*wrong += got_in != 1 || pcpu_limit_usage(the_limit) != 10 ||
				  pcpu_limit_try_charge(the_limit, 1, NULL);
			got_in = 0;
		}
	}
}

static void one_gets_in(void)
{
	long wrong = 0;

	the_limit = make(NULL, 10, 64);
	for (int i = 0; i < 10; i++)
		pcpu_limit_charge(the_limit, 1);
	got_in = 0;
	pthread_barrier_init(&together, NULL, 8);
	run_threads(8, get_one, &wrong);
	tap_ok(wrong == 0, "one gets in: %ld rounds in which it was not exactly one", wrong);
	pcpu_limit_uncharge(the_limit, 10);
	unmake(the_limit);
}

/* ---- threads that together never want more than max are never refused ---- */

struct wants {
	struct pcpu_limit *leaves[4];
	int64_t each; /* a thread holds no more */
	int64_t max;
	int64_t amount;
	int64_t sure;
	int64_t refused, over;
};

static void hold_and_release(unsigned number, void *arg)
{
	struct wants *w = arg;
	struct pcpu_limit *l = w->leaves[number % 4];
	uint64_t random = number + 1;
	int64_t held = 0;

	for (long i = scaled(200000); i > 0; i--) {
		int64_t n = (int64_t)(next_random(&random) % (uint64_t)w->amount) + 1;

		if (next_random(&random) % 2 && held + n <= w->each) {
			if (pcpu_limit_try_charge(l, n, NULL)) {
				held += n;
				if (add(&w->sure, n) > w->max)
					add(&w->over, 1);
			} else {
				add(&w->refused, 1);
			}
		} else if (held >= n) {
			add(&w->sure, -n);
			pcpu_limit_uncharge(l, n);
			held -= n;
		}
		if (i % 1000 == 0)
			pin((unsigned)next_random(&random));
	}
	add(&w->sure, -held);
	pcpu_limit_uncharge(l, held);
}

/* Beside them, charges that fit at the lower level and fail higher up. */
static void fail_big(unsigned number, void *arg)
{
	struct wants *w = arg;

	while (!stopped()) {
		if (pcpu_limit_try_charge(w->leaves[number % 4], w->max + 1, NULL))
			add(&w->over, 1);
		sched_yield();
	}
}

static void never_refused(int64_t amount, uint32_t batch, bool beside)
{
	static struct crew holders, bigs;
	unsigned threads = 8;
	struct wants w = {.each = 3 * amount, .amount = amount};
	struct pcpu_limit *root, *mids[2];

	w.max = w.each * threads;
	root = make(NULL, w.max, batch);
	for (int i = 0; i < 2; i++)
		mids[i] = make(root, 3 * w.max, batch);
	for (int i = 0; i < 4; i++)
		w.leaves[i] = make(mids[i % 2], i < 2 ? PCPU_LIMIT_MAX : 2 * w.max, batch);
	set_stop(0);
	crew_start(&holders, threads, hold_and_release, &w);
	if (beside)
		crew_start(&bigs, 2, fail_big, &w);
	crew_wait(&holders);
	set_stop(1);
	if (beside)
		crew_wait(&bigs);
	tap_ok(w.refused == 0, "never refused, amounts to %lld, batch %u%s: %lld refusals", (long long)amount,
	       batch, beside ? ", big failures beside" : "", (long long)w.refused);
	tap_ok(w.over == 0 && pcpu_limit_peak(root) <= w.max, "never over: %lld times, peak %lld of %lld",
	       (long long)w.over, (long long)pcpu_limit_peak(root), (long long)w.max);
	pcpu_limit_drain(root);
	tap_ok(pcpu_limit_usage(root) == 0 && taken(root) == 0 && pcpu_limit_underflows(w.leaves[0]) == 0,
	       "nothing left");
	for (int i = 0; i < 4; i++)
		unmake(w.leaves[i]);
	for (int i = 0; i < 2; i++)
		unmake(mids[i]);
	unmake(root);
}

/* ---- 8 threads hammer a mid that refuses ---- */

static void hammer(unsigned number, void *arg)
{
	struct pcpu_limit *mid = arg, *failed;

	(void)number;
	for (long i = scaled(20000); i > 0; i--) {
		failed = NULL;
		if (pcpu_limit_try_charge(the_limit, 60, &failed) || failed != mid)
			add(&got_in, 1);
	}
}

static void refused_by_mid(void)
{
	struct pcpu_limit *root = make(NULL, 100, 0), *mid = make(root, 50, 0);

	the_limit = make(mid, PCPU_LIMIT_MAX, 0);
	got_in = 0;
	run_threads(8, hammer, mid);
	tap_ok(got_in == 0 && taken(root) == 0 && taken(mid) == 0 && taken(the_limit) == 0 &&
		       pcpu_limit_failures(mid) == 8 * scaled(20000) && pcpu_limit_failures(root) == 0,
	       "refused by mid: nothing anywhere after 8 threads");
	tap_ok(pcpu_limit_try_charge(the_limit, 50, NULL), "then 50 fit");
	pcpu_limit_uncharge(the_limit, 50);
	unmake(the_limit);
	unmake(mid);
	unmake(root);
}

/* ---- chargers on one CPU, unchargers on another, at the brim ---- */

struct flow {
	int64_t queue, charged, uncharged, wanted, over, max;
};

static void flow_through(unsigned number, void *arg)
{
	struct flow *f = arg;

	pin(number % 2);
	if (number % 2 == 0) {
		while (add(&f->charged, 1) <= f->wanted) {
			while (!pcpu_limit_try_charge(the_limit, 1, NULL))
				sched_yield();
			if (add(&f->queue, 1) > f->max)
				add(&f->over, 1);
		}
		return;
	}
	while (__atomic_load_n(&f->uncharged, __ATOMIC_RELAXED) < f->wanted) {
		int64_t queued = __atomic_load_n(&f->queue, __ATOMIC_ACQUIRE);

		if (queued > 0 && __atomic_compare_exchange_n(&f->queue, &queued, queued - 1, false,
							      __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
			pcpu_limit_uncharge(the_limit, 1);
			add(&f->uncharged, 1);
		} else if (queued == 0) {
			sched_yield();
		}
	}
}

static void across_cpus(int64_t max)
{
	/* The fewer fit, the more often threads must take turns, which is slow where CPUs are shared. */
	struct flow f = {.wanted = scaled(max < 300 ? 200 * max : 300000), .max = max};
	struct pcpu_limit *root = make(NULL, max, 64);

	the_limit = make(root, PCPU_LIMIT_MAX, 64);
	run_threads(4, flow_through, &f);
	pcpu_limit_drain(root);
	tap_ok(f.over == 0 && pcpu_limit_usage(root) == 0 && taken(root) == 0 &&
		       pcpu_limit_underflows(the_limit) == 0,
	       "across CPUs: %lld units through %lld", (long long)f.wanted, (long long)max);
	unmake(the_limit);
	unmake(root);
}

/* ---- everything at once, in a tree whose leaves come and go ---- */

struct zoo {
	struct pcpu_limit *root, *mids[3];
	int64_t sure, over, wrong;
	int64_t max; /* highest that root ever has */
};

static void live_in_zoo(unsigned number, void *arg)
{
	struct zoo *z = arg;
	uint64_t random = number + 77;

	for (long i = scaled(3000); i > 0; i--) {
		struct pcpu_limit *leaf =
			make(z->mids[next_random(&random) % 3], i % 3 ? PCPU_LIMIT_MAX : 200, 32);
		int64_t held = 0, n;

		for (int k = 0; k < 60; k++) {
			n = (int64_t)(next_random(&random) % 40) + 1;
			if (next_random(&random) % 3) {
				if (pcpu_limit_try_charge(leaf, n, NULL)) {
					held += n;
					if (add(&z->sure, n) > z->max)
						add(&z->over, 1);
				}
			} else if (held >= n) {
				add(&z->sure, -n);
				pcpu_limit_uncharge(leaf, n);
				held -= n;
			}
		}
		if (pcpu_limit_usage(leaf) != held)
			add(&z->wrong, 1);
		add(&z->sure, -held);
		pcpu_limit_uncharge(leaf, held);
		if (pcpu_limit_usage(leaf) || pcpu_limit_underflows(leaf) || pcpu_limit_destroy(leaf))
			add(&z->wrong, 1);
	}
}

static void disturb_zoo(unsigned number, void *arg)
{
	struct zoo *z = arg;
	uint64_t random = number + 99;

	while (!stopped()) {
		struct pcpu_limit *l = next_random(&random) % 4 ? z->mids[next_random(&random) % 3] : z->root;
		int64_t usage;

		switch (next_random(&random) % 4) {
		case 0:
			pcpu_limit_drain(l);
			break;
		case 1:
			pcpu_limit_set_max(l, 300 + (int64_t)(next_random(&random) % 700));
			break;
		case 2:
			pcpu_limit_reset_peak(l);
			break;
		default:
			usage = pcpu_limit_usage(l);
			if (usage < 0 || usage > 1000)
				add(&z->wrong, 1);
		}
		usleep(next_random(&random) % 200);
	}
}

static void zoo(void)
{
	static struct crew animals, keepers;
	struct zoo z = {.max = 1000};

	z.root = make(NULL, 1000, 64);
	for (int i = 0; i < 3; i++)
		z.mids[i] = make(z.root, 1000, 64);
	set_stop(0);
	crew_start(&animals, 8, live_in_zoo, &z);
	crew_start(&keepers, 2, disturb_zoo, &z);
	crew_wait(&animals);
	set_stop(1);
	crew_wait(&keepers);
	tap_ok(z.over == 0, "zoo: %lld times over", (long long)z.over);
	tap_ok(z.wrong == 0, "zoo: %lld wrong answers", (long long)z.wrong);
	pcpu_limit_drain(z.root);
	tap_ok(taken(z.root) == 0, "zoo: %lld left", (long long)taken(z.root));
	for (int i = 0; i < 3; i++)
		unmake(z.mids[i]);
	unmake(z.root);
}

/* ---- threads that end leave no stock that a drain can't find ---- */

static void charge_and_end(unsigned number, void *arg)
{
	(void)arg;
	pin(number);
	pcpu_limit_try_charge(the_limit, 20, NULL);
	pcpu_limit_uncharge(the_limit, 20);
}

static void ended_threads(void)
{
	int wrong = 0;

	the_limit = make(NULL, 1000, 64);
	for (int i = 0; i < 50; i++) {
		run_threads(2 * cpus, charge_and_end, NULL);
		wrong += !pcpu_limit_try_charge(the_limit, 1000, NULL);
		pcpu_limit_uncharge(the_limit, 1000);
		run_threads(2 * cpus, charge_and_end, NULL);
		pcpu_limit_drain(the_limit);
		wrong += taken(the_limit) != 0;
	}
	tap_ok(wrong == 0, "ended threads: %d stocks not found", wrong);
	unmake(the_limit);
}

/* ---- handlers that charge and uncharge what they interrupt ---- */

static int64_t handled;

static void in_handler(int signal)
{
	(void)signal;
	/* A third of the room is the handlers' alone: never refused, whatever they interrupt. */
	for (int n = 1; n <= 3; n++)
		if (!pcpu_limit_try_charge(the_limit, 10 * n, NULL))
			add(&kept_out, 1);
		else
			pcpu_limit_uncharge(the_limit, 10 * n);
	add(&handled, 1);
}

static void charge_until_stopped(unsigned number, void *arg)
{
	int64_t held = 0;

	(void)number;
	(void)arg;
	/* Refusals, passes, drains and changes of max are interrupted as well. */
	for (uint64_t random = 5; !stopped();) {
		int64_t n = (int64_t)(next_random(&random) % 70) + 1;

		if (held + n <= 60 && pcpu_limit_try_charge(the_limit, n, NULL))
			held += n;
		pcpu_limit_try_charge(the_limit, 1000, NULL);
		if (next_random(&random) % 8 == 0)
			pcpu_limit_drain(the_limit);
		if (next_random(&random) % 8 == 0)
			pcpu_limit_set_max(the_limit, 90);
		pcpu_limit_uncharge(the_limit, held);
		held = 0;
	}
}

static void signals(void)
{
	static struct crew crew;
	struct sigaction action = {.sa_handler = in_handler};
	struct pcpu_limit *root = make(NULL, 90, 64);
	int64_t wanted = scaled(20000);

	the_limit = make(make(root, 90, 64), 90, 16);
	sigaction(SIGUSR1, &action, NULL);
	handled = kept_out = 0;
	set_stop(0);
	crew_start(&crew, 1, charge_until_stopped, NULL);
	while (__atomic_load_n(&handled, __ATOMIC_RELAXED) < wanted) {
		int64_t before = __atomic_load_n(&handled, __ATOMIC_RELAXED);

		pthread_kill(crew.members[0].thread, SIGUSR1);
		for (int i = 0; i < 1000 && __atomic_load_n(&handled, __ATOMIC_RELAXED) == before; i++)
			;
	}
	set_stop(1);
	crew_wait(&crew);
	pcpu_limit_drain(root);
	tap_ok(kept_out == 0, "signals: %lld refusals in %lld handlers", (long long)kept_out,
	       (long long)handled);
	tap_ok(taken(root) == 0 && pcpu_limit_underflows(the_limit) == 0, "signals: nothing left");
}

/* ---- threads killed at any instruction: the books hold, and nobody waits for the dead ---- */

#if defined(__GLIBC__) && !PCPU_SANITIZED && !defined(__SANITIZE_ADDRESS__)
#define PLAIN_THREADS true
#else
#define PLAIN_THREADS false
#endif

static void end_thread(int signal)
{
	(void)signal;
	syscall(SYS_exit, 0); /* this thread alone, without a word to anybody */
}

static void until_killed(unsigned number, void *arg)
{
	(void)arg;
	for (uint64_t random = number + 21;;) {
		int64_t n = (int64_t)(next_random(&random) % 90) + 1;

		if (pcpu_limit_try_charge(the_limit, n, NULL))
			pcpu_limit_uncharge(the_limit, n);
		if (next_random(&random) % 16 == 0)
			pcpu_limit_drain(the_limit);
	}
}

static void killed(void)
{
	static struct crew crew;
	struct sigaction action = {.sa_handler = end_thread};
	struct pcpu_limit *root = make(NULL, 150, 64);
	long wrong = 0, rounds = scaled(300);
	int64_t dead = 0;

	the_limit = make(root, 150, 64);
	sigaction(SIGUSR2, &action, NULL);
	for (long i = 0; i < rounds; i++) {
		int64_t usage;

		crew_start(&crew, 3, until_killed, NULL);
		usleep(100 + (unsigned)i % 50);
		for (unsigned k = 0; k < crew.n; k++)
			pthread_kill(crew.members[k].thread, SIGUSR2);
		crew_wait(&crew);
		/* What the dead had charged stays charged; the rest is there to the last unit. */
		usage = pcpu_limit_usage(root);
		wrong += usage < 0 || usage > 150 || pcpu_limit_usage(the_limit) != usage;
		wrong += usage < 150 && !pcpu_limit_try_charge(the_limit, 150 - usage, NULL);
		wrong += pcpu_limit_try_charge(the_limit, 1, NULL);
		dead += usage;
		pcpu_limit_uncharge(the_limit, 150);
		pcpu_limit_drain(root);
		wrong += taken(root) != 0 || pcpu_limit_underflows(the_limit) != 0;
	}
	tap_ok(wrong == 0, "killed threads: %ld wrong in %ld rounds, %lld units died charged", wrong, rounds,
	       (long long)dead);
	unmake(the_limit);
	unmake(root);
}

/* ---- forks at any moment: what the child inherits is whole ---- */

static int64_t upper;

static void churn(unsigned number, void *arg)
{
	uint64_t random = number + 3;

	(void)arg;
	while (!stopped()) {
		int64_t n = (int64_t)(next_random(&random) % 90) + 1;

		if (pcpu_limit_try_charge(the_limit, n, NULL))
			pcpu_limit_uncharge(the_limit, n);
		if (next_random(&random) % 16 == 0)
			pcpu_limit_drain(the_limit);
	}
}

static int child_of_churn(struct pcpu_limit *root)
{
	int64_t usage = pcpu_limit_usage(root);

	alarm(20);
	if (usage < 0 || usage > upper)
		return 1;
	/* The rest is there to the last unit, and not one more. */
	if (!pcpu_limit_try_charge(the_limit, upper - usage, NULL))
		return 2;
	if (pcpu_limit_try_charge(the_limit, 1, NULL))
		return 3;
	pcpu_limit_uncharge(the_limit, upper);
	pcpu_limit_drain(root);
	if (pcpu_limit_usage(root) || taken(root) || pcpu_limit_underflows(the_limit))
		return 4;
	if (pcpu_limit_destroy(the_limit) || pcpu_limit_destroy(root))
		return 5;
	return 0;
}

static void forks(void)
{
	static struct crew crew;
	struct pcpu_limit *root;
	int bad = 0, children = (int)scaled(300);

	upper = 150;
	root = make(NULL, upper, 64);
	the_limit = make(root, upper, 64);
	set_stop(0);
	crew_start(&crew, 4, churn, NULL);
	for (int i = 0; i < children; i++) {
		pid_t pid = fork();
		int status;

		if (pid == 0)
			_exit(child_of_churn(root));
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
			if (bad++ == 0)
				printf("# child %d: status %#x\n", i, (unsigned)status);
		}
	}
	set_stop(1);
	crew_wait(&crew);
	pcpu_limit_drain(root);
	tap_ok(bad == 0 && taken(root) == 0, "forks: %d of %d children went wrong", bad, children);
	unmake(the_limit);
	unmake(root);
}

/* ---- membarrier refused by a filter that comes after the start ---- */

static int filtered(void)
{
#if HAVE_FILTERS
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 77;
	the_limit = make(NULL, 1000, 64);
	for (int i = 0; i < 3; i++) {
		got_in = kept_out = 0;
		run_threads(8, try_thousand, NULL);
		if (got_in != 1000 || pcpu_limit_usage(the_limit) != 1000)
			return 1;
		pcpu_limit_uncharge(the_limit, 1000);
	}
	return pcpu_limit_drain(the_limit) || pcpu_limit_destroy(the_limit);
#else
	return 77;
#endif
}

static void sandbox(void)
{
	int status = 77 << 8;
	/* A filter acts on the machine's calls, not on those that an emulator sees. */
	pid_t pid = getenv("PCPU_TEST_EMULATED") ? -1 : fork();

	if (pid == 0)
		_exit(filtered());
	if (pid > 0)
		waitpid(pid, &status, 0);
	if (status == 77 << 8)
		tap_skip("membarrier filtered", "no filters here");
	else
		tap_ok(status == 0, "membarrier filtered after the start: status %#x", (unsigned)status);
}

/* ---- the mutant: stocks are taken back without a fence ---- */

static long no_membarrier(int command)
{
	return command ? 0 : pcpu_linux.membarrier(0);
}

/*
 * Fill up until refused, which takes all stocks back while the others are in the middle of using theirs, and
 * empty again. A section that goes on with a stock that was taken from it brings usage above max.
 */
static void fill_and_empty(unsigned number, void *arg)
{
	struct wants *w = arg;

	pin(number);
	for (long i = scaled(20000); i > 0; i--) {
		int64_t held = 0;

		while (pcpu_limit_try_charge(the_limit, 1, NULL)) {
			if (add(&w->sure, 1) > w->max)
				add(&w->over, 1);
			held++;
		}
		add(&w->sure, -held);
		while (held--)
			pcpu_limit_uncharge(the_limit, 1);
	}
}

static void drain_until_stopped(unsigned number, void *arg)
{
	(void)number;
	(void)arg;
	while (!stopped()) {
		pcpu_limit_drain(the_limit);
		sched_yield();
	}
}

static void brim(bool fenced)
{
	static struct crew fillers, drainers;
	struct wants w = {.max = 100};

	the_limit = make(NULL, w.max, 64);
	set_stop(0);
	crew_start(&drainers, 1, drain_until_stopped, NULL);
	crew_start(&fillers, cpus + 1, fill_and_empty, &w);
	crew_wait(&fillers);
	set_stop(1);
	crew_wait(&drainers);
	pcpu_limit_drain(the_limit);
	if (fenced)
		tap_ok(w.over == 0 && taken(the_limit) == 0 && pcpu_limit_underflows(the_limit) == 0,
		       "brim: %lld times over, %lld left", (long long)w.over, (long long)taken(the_limit));
	else
		tap_ok(w.over > 0, "without the fence: %lld times over", (long long)w.over);
	pcpu_limit_close(the_limit);
}

int main(int argc, char **argv)
{
	alarm(800);
	cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	if (argc > 1 && strcmp(argv[1], "no-fence") == 0) {
		struct pcpu_os liar = pcpu_linux;

		if (cpus < 2 || pcpu_cpu.backend != PCPU_BACKEND_RSEQ) {
			tap_skip("without the fence", "needs two CPUs and rseq");
			return tap_done();
		}
		liar.membarrier = no_membarrier;
		pcpu_cpu_restart(&liar, -1);
		brim(false);
		return tap_done();
	}
	exactly(1);
	exactly(2);
	exactly(5);
	one_gets_in();
	never_refused(1, 64, false);
	never_refused(1, 64, true);
	never_refused(20, 16, true);
	never_refused(50, 64, true);
	never_refused(1, 1, true);
	refused_by_mid();
	across_cpus(10);
	across_cpus(100);
	across_cpus(5000);
	zoo();
	ended_threads();
	brim(true);
	signals();
	/* Others keep books of their own about threads. */
	if (PLAIN_THREADS)
		killed();
	forks();
	sandbox();
	return tap_done();
}
