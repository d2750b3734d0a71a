/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "os_fake.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch/area.h"
#include "arch/rseq.h"
#include "cpu/cpu.h"
#include "region/region.h"

struct fake fake;

static _Thread_local struct pcpu_rseq_area area = {.cpu_id = (uint32_t)-1};

static int fake_current_cpu(void)
{
	__atomic_fetch_add(&fake.asked_cpu, 1, __ATOMIC_RELAXED);
	return (int32_t)area.cpu_id;
}

static long fake_get_affinity(unsigned long *mask, size_t bytes)
{
	if (!fake.affinity || bytes < sizeof(fake.affinity))
		return -EPERM;
	*mask = fake.affinity;
	return sizeof(fake.affinity);
}

static long fake_nr_configured(void)
{
	return fake.configured;
}

static long fake_prefer_node(void *addr, size_t bytes, int node)
{
	unsigned i = fake.asked_place++ % (sizeof(fake.placed) / sizeof(fake.placed[0]));

	fake.placed[i].addr = addr;
	fake.placed[i].bytes = bytes;
	fake.placed[i].node = node;
	return fake.placing;
}

static long fake_allowed_nodes(unsigned long *mask, size_t bytes)
{
	if (!fake.allowed)
		return -EPERM;
	memset(mask, 0, bytes);
	*mask = fake.allowed;
	return 0;
}

static long fake_membarrier(int command)
{
	fake.asked_fence++;
	if (fake.membarriers < 0 || command == 0)
		return fake.membarriers;
	return fake.membarriers & command ? 0 : -EINVAL;
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *ftw)
{
	(void)s;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void remove_tree(void)
{
	if (fake.sysfs[0])
		nftw(fake.sysfs, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	fake.sysfs[0] = 0;
}

static void give_up(const char *what)
{
	perror(what);
	abort();
}

void fake_file(const char *path, const char *text)
{
	char whole[512];
	FILE *file;

	snprintf(whole, sizeof(whole), "%s%s", fake.sysfs, path);
	for (char *slash = whole + strlen(fake.sysfs) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		if (mkdir(whole, 0755) && errno != EEXIST)
			give_up(whole);
		*slash = '/';
	}
	if (!text) {
		unlink(whole);
		return;
	}
	file = fopen(whole, "w");
	if (!file || fputs(text, file) < 0 || fclose(file))
		give_up(whole);
}

void fake_machine(const char *possible, const char *online)
{
	static bool registered;

	remove_tree();
	if (!registered)
		atexit(remove_tree);
	registered = true;
	memset(&fake, 0, sizeof(fake));
	snprintf(fake.sysfs, sizeof(fake.sysfs), "/tmp/pcpu_sys.XXXXXX");
	if (!mkdtemp(fake.sysfs))
		give_up(fake.sysfs);
	fake.affinity = 1;
	fake.configured = 1;
	fake.allowed = ~0UL;
	fake.membarriers = 0x1ff;
	fake.os = (struct pcpu_os){
		.sysfs = fake.sysfs,
		.current_cpu = fake_current_cpu,
		.get_affinity = fake_get_affinity,
		.nr_configured = fake_nr_configured,
		.prefer_node = fake_prefer_node,
		.allowed_nodes = fake_allowed_nodes,
		.membarrier = fake_membarrier,
		.use_rseq = true,
	};
	fake_file("/devices/system/cpu/possible", possible);
	fake_file("/devices/system/cpu/online", online);
}

void fake_node(unsigned id, const char *cpus, const char *distances)
{
	char path[64];

	snprintf(path, sizeof(path), "/devices/system/node/node%u/cpulist", id);
	fake_file(path, cpus);
	snprintf(path, sizeof(path), "/devices/system/node/node%u/distance", id);
	fake_file(path, distances);
}

void fake_nodes(const char *online, const char *has_memory)
{
	fake_file("/devices/system/node/online", online);
	fake_file("/devices/system/node/has_memory", has_memory);
}

void fake_start(void)
{
	pcpu_region_forget_defaults();
	/* The self-test asks where it runs and compares with the real area: it must not be told a tale. */
	fake.os.current_cpu = pcpu_linux.current_cpu;
	pcpu_cpu_restart(&fake.os, -1);
	fake.os.current_cpu = fake_current_cpu;
	if (pcpu_cpu.area_has_cpu && !fake.no_area)
		pcpu_area_use((char *)&area - pcpu_thread_pointer());
	fake.asked_cpu = fake.asked_place = fake.asked_fence = 0;
	pcpu_region_start();
}

void fake_cpu(int cpu)
{
	area.cpu_id = (uint32_t)cpu;
}
