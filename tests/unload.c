/* SPDX-License-Identifier: MIT */
/*
 * A plug-in compiled with PCPU_STAT_UNLOADABLE is unloaded while the thread that ran its sections lives on: the
 * kernel must find none of them, or it ends the process when the thread next moves.
 *
 *	unload PLUGIN
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tap.h"

static void move(void)
{
	cpu_set_t all, one;

	sched_getaffinity(0, sizeof(all), &all);
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (!CPU_ISSET(i, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(i, &one);
		sched_setaffinity(0, sizeof(one), &one);
		usleep(100);
	}
	sched_setaffinity(0, sizeof(all), &all);
}

int main(int argc, char **argv)
{
	int wrong = 0, mapped = 0;

	if (argc != 2)
		return 2;
	for (int round = 0; round < 20; round++) {
		void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
		union {
			void *symbol;
			int64_t (*fn)(int64_t);
		} run = {.symbol = plugin ? dlsym(plugin, "plugin_run") : NULL};
		unsigned char there;
		uintptr_t page;

		if (!run.symbol) {
			printf("# %s\n", dlerror());
			wrong++;
			break;
		}
		wrong += run.fn(2000) != 199000;
		page = (uintptr_t)run.symbol & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
		dlclose(plugin);
		mapped += mincore((void *)page, 1, &there) == 0;
		move();
	}
	tap_ok(wrong == 0, "%d rounds wrong", wrong);
#ifdef __GLIBC__
	tap_ok(mapped == 0, "the plug-in was unloaded, %d times not", mapped);
#else
	printf("# mapped %d times afterwards: not every C library unloads\n", mapped);
#endif
	return tap_done();
}
