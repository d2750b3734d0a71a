/* SPDX-License-Identifier: MIT */
/* cpu: facts, backend choice, CPU ids from outside, attribute structs. */
#define _GNU_SOURCE
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <pcpu_stat/pcpu_stat.h>

#include "arch/area.h"
#include "arch/rseq.h"
#include "cpu/cpu.h"
#include "cpu/fence.h"
#include "os_fake.h"

static struct pcpu_info get(void)
{
	struct pcpu_info info = {.size = sizeof(info)};

	expect_eq(pcpu_get_info(&info), 0);
	return info;
}

Test(cpu, names)
{
	expect(strcmp(pcpu_backend_name(PCPU_BACKEND_RSEQ), "rseq") == 0);
	expect(strcmp(pcpu_backend_name(PCPU_BACKEND_ATOMIC), "atomic") == 0);
	expect(strcmp(pcpu_backend_name(-1), "unknown") == 0);
	expect(strcmp(pcpu_backend_name(99), "unknown") == 0);
	expect(strcmp(pcpu_version(), "0.1.0") == 0);
}

Test(cpu, info_sizes)
{
	struct {
		struct pcpu_info info;
		char newer[64];
	} big;
	struct pcpu_info info;

	expect_eq(pcpu_get_info(NULL), -EINVAL);
	memset(&info, 0x5a, sizeof(info));
	for (size_t size = 0; size < sizeof(info); size++) {
		info.size = size;
		expect_eq(pcpu_get_info(&info), -EINVAL);
	}
	expect_eq(info.slots, 0x5a5a5a5a); /* untouched on failure */
	memset(&big, 0x5a, sizeof(big));
	big.info.size = sizeof(big);
	errno = 77;
	expect_eq(pcpu_get_info(&big.info), 0);
	expect_eq(errno, 77);
	expect_eq(big.info.size, sizeof(big));
	for (size_t i = 0; i < sizeof(big.newer); i++)
		expect_eq(big.newer[i], 0); /* what is not known is zero */
}

Test(cpu, info_of_this_machine)
{
	struct pcpu_info info = get();

	expect(info.slots >= info.slots_online && info.slots_online >= 1);
	expect(info.nodes >= 1);
	expect(info.batch >= 64);
	expect_eq(info.bad_stats, 0);
	expect(info.numa >= PCPU_NUMA_SINGLE && info.numa <= PCPU_NUMA_REFUSED);
}

/* The environment of the run, and only it, decides: see tests/meson.build for the three. */
Test(cpu, backend_as_told)
{
	const char *forced = getenv("PCPU_STAT_BACKEND"), *expected = getenv("PCPU_TEST_EXPECT");
	struct pcpu_info info = get();

	if (forced && strcmp(forced, "atomic") == 0) {
		expect_eq(info.backend, PCPU_BACKEND_ATOMIC);
		expect_eq(info.rseq, PCPU_RSEQ_OVERRIDDEN);
	}
	if (expected) /* set where the machine is known to have rseq, or it is known to be off */
		expect(strcmp(pcpu_backend_name(info.backend), expected) == 0);
	/* Without sections the area may still name the CPU: atomic adds, but to the right slot for a load. */
	if (info.backend == PCPU_BACKEND_RSEQ)
		expect(info.rseq == PCPU_RSEQ_USED || info.rseq == PCPU_RSEQ_UNSUPPORTED);
	else
		expect(info.rseq != PCPU_RSEQ_USED);
}

Test(cpu, backend_environment)
{
	struct pcpu_info before = get();

	fake_machine("0-3", "0-3");
	setenv("PCPU_STAT_BACKEND", "atomic", 1);
	fake_start();
	expect_eq(get().backend, PCPU_BACKEND_ATOMIC);
	expect_eq(get().rseq, PCPU_RSEQ_OVERRIDDEN);
	setenv("PCPU_STAT_BACKEND", "no such thing", 1); /* as if unset */
	fake_start();
	if (before.rseq != PCPU_RSEQ_OVERRIDDEN)
		expect_eq(get().backend, before.backend);
	setenv("PCPU_STAT_BACKEND", "rseq", 1); /* falls back where there is none, and says so */
	fake.os.use_rseq = false;
	fake_start();
	expect_eq(get().backend, PCPU_BACKEND_ATOMIC);
	expect(get().rseq == PCPU_RSEQ_ABSENT || get().rseq == PCPU_RSEQ_UNSUPPORTED);
}

Test(cpu, facts_of_a_machine)
{
	fake_machine("0-9", "0-5");
	fake_node(0, "0-3", "10 20");
	fake_node(3, "4-8", "20 10");
	fake_nodes("0,3", "0,3");
	fake_start();
	expect_eq(get().slots, 10);
	expect_eq(get().slots_online, 6);
	expect_eq(get().nodes, 2);
	expect_eq(get().numa, PCPU_NUMA_PLACED);
	expect_eq(get().batch, 2048);
	expect_eq(pcpu_slot_node(3), 0);
	expect_eq(pcpu_slot_node(8), 3);
	expect_eq(pcpu_slot_node(10), -ENXIO);
	expect_eq(pcpu_slot_node(~0u), -ENXIO);
}

Test(cpu, slot_node_of_a_hole)
{
	fake_machine("0,2", "0,2");
	fake_start();
	expect_eq(pcpu_slot_node(0), 0);
	expect_eq(pcpu_slot_node(1), -ENXIO);
	expect_eq(pcpu_slot_node(2), 0);
	expect_eq(pcpu_slot_node(3), -ENXIO);
}

/* As pcpu_counter_init says. */
Test(cpu, automatic_batch_grows)
{
	fake_machine("0-511", "0-511");
	fake_start();
	expect_eq(get().batch, 16 * 512);
	fake_machine("0-511", "0-1");
	fake_start();
	expect_eq(get().batch, 2048);
}

Test(cpu, placement_refused_is_reported)
{
	static const long refusals[] = {-EPERM, -ENOSYS};

	for (int i = 0; i < 2; i++) {
		fake_machine("0-3", "0-3");
		fake_node(0, "0-1", "10 20");
		fake_node(1, "2-3", "20 10");
		fake_nodes("0-1", "0-1");
		fake.placing = refusals[i];
		fake_start();
		expect_eq(get().numa, PCPU_NUMA_REFUSED);
		fake.placing = 0;
		fake.allowed = 0;
		fake_start();
		expect_eq(get().numa, PCPU_NUMA_REFUSED);
	}
}

/* CPU ids that cannot be: -1, -2, N, N + 1 and the extremes never become an index out of range (I9). */
Test(cpu, current_slot_in_range)
{
	static const int ids[] = {-1, -2, 0, 3, 4, 5, 1000000, INT32_MAX, INT32_MIN};

	fake_machine("0-3", "0-3");
	fake_start();
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		fake_cpu(ids[i]);
		expect(pcpu_current_slot() < 4);
		if (ids[i] >= 0 && ids[i] < 4)
			expect_eq(pcpu_current_slot(), ids[i]);
	}
}

/* aarch64 has no getcpu but the system call: it must not be made. Elsewhere it is the vDSO or nothing. */
Test(cpu, current_cpu_without_system_call)
{
	int cpu = pcpu_linux.current_cpu();

#ifdef __aarch64__
	expect_eq(cpu, -ENOSYS);
#else
	expect(cpu == -ENOSYS || (cpu >= 0 && cpu < PCPU_MAX_SLOTS));
#endif
}

Test(cpu, attributes_of_other_versions)
{
	struct attr {
		size_t size;
		int a, b;
	} to = {sizeof(to), 7, 8};
	struct {
		struct attr attr;
		char newer[8];
	} from = {{sizeof(from), 1, 2}, {0}};

	from.newer[7] = 1;
	expect_eq(pcpu_copy_attr(&to, sizeof(to), sizeof(to), &from), -E2BIG);
	expect_eq(to.a, 7);
	from.newer[7] = 0;
	expect_eq(pcpu_copy_attr(&to, sizeof(to), sizeof(to), &from), 0);
	expect_eq(to.size, sizeof(to));
	expect_eq(to.a, 1);
	expect_eq(to.b, 2);
	/* A field that was added later keeps its default when the caller does not know it. */
	to.b = 9;
	from.attr.size = sizeof(size_t) + sizeof(int);
	from.attr.a = 3;
	expect_eq(pcpu_copy_attr(&to, sizeof(to), from.attr.size, &from), 0);
	expect_eq(to.a, 3);
	expect_eq(to.b, 9);
	from.attr.size--;
	expect_eq(pcpu_copy_attr(&to, sizeof(to), sizeof(size_t) + sizeof(int), &from), -EINVAL);
	from.attr.size = 0;
	expect_eq(pcpu_copy_attr(&to, sizeof(to), sizeof(to), &from), -EINVAL);
}

Test(cpu, bad_statistics_are_counted)
{
	uint64_t before = get().bad_stats;

	pcpu_cpu_count_bad_stat();
	pcpu_cpu_count_bad_stat();
	expect_eq(get().bad_stats, before + 2);
}

Test(cpu, start_is_idempotent)
{
	expect(pcpu_cpu_started()); /* the constructor */
	pcpu_cpu_start();
	pcpu_cpu_start();
	expect(pcpu_cpu_started());
}
