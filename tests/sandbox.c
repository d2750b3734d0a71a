/* SPDX-License-Identifier: MIT */
/*
 * System calls refused. I5: on the fast path an add makes none. I9: for each of the calls that the library
 * probes, and both errors that sandboxes give, a program starts, counts exactly and prints nothing; and a filter
 * that kills on them once it runs kills nothing, because all probes are made at the start.
 *
 *	sandbox		all of it, by running itself under filters
 *	sandbox count	count and compare, nothing else
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pcpu_stat/pcpu_stat.h>

#include "tap.h"

#ifndef SYS_rseq
#define SYS_rseq 334
#endif

static const struct {
	const char *name;
	int number;
} calls[] = {{"rseq", SYS_rseq},
	     {"getcpu", SYS_getcpu},
	     {"membarrier", SYS_membarrier},
	     {"get_mempolicy", SYS_get_mempolicy},
	     {"mbind", SYS_mbind},
	     {"set_mempolicy", SYS_set_mempolicy}};
#define NR_CALLS (sizeof(calls) / sizeof(calls[0]))

static const struct {
	const char *name;
	int error;
} errors[] = {{"ENOSYS", ENOSYS}, {"EPERM", EPERM}};

/* What is on the list gets @action; with @others, what is not on it. */
static int filter(const int *numbers, size_t n, uint32_t action, bool others)
{
	struct sock_filter code[32];
	struct sock_fprog program = {.filter = code};
	unsigned at = 0;

	code[at++] =
		(struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < n; i++)
		code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)numbers[i],
							  (uint8_t)(n - i), 0);
	code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others ? action : SECCOMP_RET_ALLOW);
	code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others ? SECCOMP_RET_ALLOW : action);
	program.len = (unsigned short)at;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static struct pcpu_counter counter = PCPU_COUNTER_INIT;

/* Everything a program does with counters; 0 if it came out right. */
static int count(void)
{
	struct pcpu_info info = {.size = sizeof(info)};
	struct pcpu_counter_attr attr = {.size = sizeof(attr), .batch = 10};
	struct pcpu_counter mine;
	struct pcpu_region *region;
	int64_t below, above, sum;

	if (pcpu_get_info(&info) || info.slots == 0)
		return 1;
	for (int i = 0; i < 10000; i++)
		pcpu_counter_add(&counter, i);
	if (pcpu_counter_sum(&counter) != 49995000)
		return 2;
	if (pcpu_region_create(&region, NULL))
		return 3;
	attr.region = region;
	if (pcpu_counter_init(&mine, &attr))
		return 4;
	for (int i = 0; i < 10000; i++)
		pcpu_counter_add(&mine, i % 7 - 2);
	sum = pcpu_counter_sum(&mine);
	pcpu_counter_error(&mine, &below, &above);
	if (sum - below > pcpu_counter_read(&mine) || sum + above < pcpu_counter_read(&mine))
		return 5;
	if (pcpu_counter_drain(&mine) != 9994 || pcpu_counter_sum(&mine))
		return 6;
	pcpu_counter_destroy(&mine);
	pcpu_region_close(region);
	return 0;
}

/* Run @inside in a child with its output caught; true if it exited with 0 and said nothing. */
static bool quiet(void (*inside)(const void *), const void *arg, const char *what)
{
	int status = -1, ends[2];
	char text[512];
	ssize_t got, all = 0;
	pid_t pid;

	if (pipe(ends) || (pid = fork()) < 0)
		return false;
	if (pid == 0) {
		dup2(ends[1], 1);
		dup2(ends[1], 2);
		close(ends[0]);
		close(ends[1]);
		inside(arg);
		_exit(99);
	}
	close(ends[1]);
	while ((got = read(ends[0], text + all, sizeof(text) - 1 - (size_t)all)) > 0)
		all += got;
	text[all] = 0;
	close(ends[0]);
	waitpid(pid, &status, 0);
	return tap_ok(status == 0 && all == 0, "%s: status %#x, says \"%s\"", what, (unsigned)status, text);
}

struct refusal {
	int number, error;
};

/* The program starts in a system that refuses one call. */
static void start_refused(const void *arg)
{
	const struct refusal *r = arg;

	if (filter(&r->number, 1, SECCOMP_RET_ERRNO | (uint32_t)r->error, false))
		_exit(98);
	execl("/proc/self/exe", "sandbox", "count", (char *)NULL);
}

/* It has started, and shuts itself in. */
static void kill_on_probes(const void *arg)
{
	int numbers[NR_CALLS];

	(void)arg;
	for (size_t i = 0; i < NR_CALLS; i++)
		numbers[i] = calls[i].number;
	if (filter(numbers, NR_CALLS, SECCOMP_RET_KILL_PROCESS, false))
		_exit(98);
	_exit(count());
}

/* Not one system call but the end: I5. */
static void kill_on_anything(const void *arg)
{
	static const int allowed[] = {SYS_exit_group};
	int64_t before;

	(void)arg;
	pcpu_counter_add(&counter, 1); /* slots are mapped by the first add */
	before = pcpu_counter_sum(&counter);
	if (filter(allowed, 1, SECCOMP_RET_KILL_PROCESS, true))
		_exit(98);
	for (int i = 0; i < 100000; i++)
		pcpu_counter_add(&counter, i % 300 - 100);
	pcpu_counter_set_batch(&counter, 7);
	for (int i = 0; i < 1000; i++)
		pcpu_counter_inc(&counter);
	pcpu_counter_read(&counter);
	/* 333 rounds of -100..199 and 100 of -100..-1 */
	_exit(pcpu_counter_sum(&counter) - before == 333 * 14850 - 5050 + 1000 ? 0 : 1);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "count") == 0)
		return count();
	if (argc > 1)
		return 2;
	if (getenv("PCPU_TEST_EMULATED") || prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0) {
		tap_skip("all", "no filters in this system or emulator");
		return tap_done();
	}
	for (size_t i = 0; i < NR_CALLS; i++) {
		for (size_t k = 0; k < 2; k++) {
			struct refusal refusal = {calls[i].number, errors[k].error};
			char what[64];

			snprintf(what, sizeof(what), "%s refused with %s", calls[i].name, errors[k].name);
			quiet(start_refused, &refusal, what);
		}
	}
	quiet(kill_on_probes, NULL, "killed for any probe after the start");
	quiet(kill_on_anything, NULL, "killed for any system call while adding");
	return tap_done();
}
