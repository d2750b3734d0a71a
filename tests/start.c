/* SPDX-License-Identifier: MIT */
/*
 * I9: the library's start is interrupted, by a signal handler and by a fork, at each file it opens. Nobody may
 * wait for a start that does not go on; adds made meanwhile count. A hang ends in SIGALRM.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pcpu_stat/pcpu_stat.h>

#include "tap.h"

int open64(const char *path, int flags, ...);

static struct pcpu_counter c = PCPU_COUNTER_INIT;
static int opened, wrong_in_handler, wrong_children, early_children;

static void handle(int signal)
{
	struct pcpu_info info = {.size = sizeof(info), .slots = 77};
	struct pcpu_counter other;
	struct pcpu_region *region;

	(void)signal;
	pcpu_counter_add(&c, 1);
	wrong_in_handler += pcpu_get_info(&info) != -EAGAIN || info.slots != 77;
	wrong_in_handler += pcpu_slot_node(0) != -EAGAIN;
	wrong_in_handler += pcpu_counter_init(&other, NULL) != -EAGAIN;
	wrong_in_handler += pcpu_counter_set_batch(&c, 5) != -EAGAIN;
	wrong_in_handler += pcpu_region_create(&region, NULL) != -EAGAIN;
}

/* A child of another thread than the one that starts, as that one is not in it. */
static void fork_child(void)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		struct pcpu_info info = {.size = sizeof(info)};
		struct pcpu_counter own;
		int64_t before = pcpu_counter_sum(&c);

		alarm(20);
		opened = -1;
		if (pcpu_counter_init(&own, NULL) || pcpu_get_info(&info) || info.slots == 0)
			_exit(1);
		pcpu_counter_add(&own, 2);
		pcpu_counter_add(&c, 3);
		_exit(pcpu_counter_sum(&own) != 2 || pcpu_counter_sum(&c) != before + 3);
	}
	waitpid(child, &status, 0);
	wrong_children += status != 0;
	early_children++;
}

/* The library's open, when it is linked statically. */
int open64(const char *path, int flags, ...)
{
	if (opened >= 0 && strncmp(path, "/sys/", 5) == 0) {
		opened++;
		raise(SIGUSR1);
		fork_child();
	}
	return openat(AT_FDCWD, path, flags);
}

__attribute__((constructor(101))) static void before_the_start(void)
{
	alarm(60);
	signal(SIGUSR1, handle);
}

int main(void)
{
	struct pcpu_info info = {.size = sizeof(info)};

	if (opened == 0) {
		tap_skip("interrupted start", "the library opens its files in another way");
		return tap_done();
	}
	tap_ok(wrong_in_handler == 0, "in %d handlers that interrupt the start: %d wrong", opened,
	       wrong_in_handler);
	tap_ok(wrong_children == 0, "%d children forked during the start: %d wrong", early_children,
	       wrong_children);
	pcpu_counter_add(&c, 1);
	tap_ok(pcpu_counter_sum(&c) == opened + 1, "what handlers added is there");
	tap_ok(pcpu_get_info(&info) == 0 && info.slots > 0, "the start went on");
	return tap_done();
}
