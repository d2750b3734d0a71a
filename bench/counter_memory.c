/* SPDX-License-Identifier: MIT */
/* See counter_memory.h. */
#define _GNU_SOURCE
#include "counter_memory.h"

#include "cpu/cpu.h"

#include <pcpu_stat/pcpu_stat.h>

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static __attribute__((noreturn)) void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* Make root/devices/system/<path> with the given content, and the directories on the way. */
static void write_fact(const char *root, const char *path, const char *content)
{
	char name[256];
	FILE *file;

	snprintf(name, sizeof(name), "%s/devices/system/%s", root, path);
	for (char *slash = name + strlen(root); (slash = strchr(slash + 1, '/'));) {
		*slash = '\0';
		mkdir(name, 0755);
		*slash = '/';
	}
	file = fopen(name, "w");
	if (!file || fputs(content, file) < 0 || fclose(file))
		fail(name);
}

/* Undo write_fact: the file and the directories that are empty by then. */
static void remove_fact(const char *root, const char *path)
{
	char name[256];

	snprintf(name, sizeof(name), "%s/devices/system/%s", root, path);
	unlink(name);
	for (char *slash; (slash = strrchr(name, '/')) && slash > name + strlen(root);) {
		*slash = '\0';
		if (rmdir(name))
			break;
	}
}

/* Resident bytes of private memory; from smaps_rollup, which counts pages (statm lags behind). */
static long resident(void)
{
	static char buf[4096];
	int fd = open("/proc/self/smaps_rollup", O_RDONLY);
	ssize_t len = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);
	const char *field;
	long kib;

	if (len < 0)
		fail("/proc/self/smaps_rollup");
	close(fd);
	buf[len] = '\0';
	/* Rss would change with what is paged in of shared libraries. Private_Clean: file pages alike. */
	field = strstr(buf, "Private_Dirty:");
	if (!field || sscanf(field, "Private_Dirty: %ld", &kib) != 1)
		fail("Private_Dirty");
	return kib * 1024;
}

static struct pcpu_counter counters[MEMORY_COUNTERS];

/* Add to every counter on every CPU we can get to, MEMORY_USED at most; returns how many that was. */
static unsigned add_everywhere(void)
{
	unsigned used = 0;
	cpu_set_t allowed, one;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		fail("sched_getaffinity");
	for (int cpu = 0; cpu < MEMORY_POSSIBLE && used < MEMORY_USED; cpu++) {
		if (!CPU_ISSET(cpu, &allowed))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		if (sched_setaffinity(0, sizeof(one), &one))
			fail("sched_setaffinity");
		for (unsigned i = 0; i < MEMORY_COUNTERS; i++)
			pcpu_counter_add(&counters[i], 1);
		used++;
	}
	return used;
}

int main(void)
{
	static const char *const facts[][2] = {
		{"cpu/possible", "0-511\n"}, {"cpu/present", "0-511\n"},
		{"cpu/online", "0-1\n"},     {"node/online", "0\n"},
		{"node/has_memory", "0\n"},  {"node/node0/cpulist", "0-511\n"},
		{"node/possible", "0\n"},    {"node/node0/distance", "10\n"},
	};
	enum { NR_FACTS = sizeof(facts) / sizeof(facts[0]) };
	char root[] = "/tmp/bench_counter_memory.XXXXXX";
	struct pcpu_info info = {.size = sizeof(info)};
	struct pcpu_os machine = pcpu_linux;
	unsigned used;
	long before;

	if (!mkdtemp(root))
		fail(root);
	for (unsigned i = 0; i < NR_FACTS; i++)
		write_fact(root, facts[i][0], facts[i][1]);
	machine.sysfs = root;
	pcpu_cpu_restart(&machine, -1);
	for (unsigned i = NR_FACTS; i-- > 0;)
		remove_fact(root, facts[i][0]);
	rmdir(root);

	/* The array is the caller's memory and would be resident either way. */
	memset(counters, 1, sizeof(counters));
	resident();
	before = resident();
	for (unsigned i = 0; i < MEMORY_COUNTERS; i++)
		if (pcpu_counter_init(&counters[i], NULL))
			fail("pcpu_counter_init");
	used = add_everywhere();
	for (unsigned i = 0; i < MEMORY_COUNTERS; i++) {
		if (pcpu_counter_sum(&counters[i]) != used) {
			fputs("a count was lost\n", stderr);
			return 1;
		}
	}
	long growth = resident() - before;

	pcpu_get_info(&info);
	printf(MEMORY_FORMAT "\n", growth, info.slots, used);
	return 0;
}
