/* SPDX-License-Identifier: MIT */
/* cpu/topology: lists, trees with holes and lies, and what happens without a tree. I9: CPU ids with holes. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cpu/topology.h"
#include "os_fake.h"

#define LONGS (PCPU_MAX_SLOTS / (8 * sizeof(unsigned long)))

static unsigned long bits[LONGS];
static struct pcpu_topology t;

static bool has(unsigned i)
{
	return bits[i / (8 * sizeof(long))] >> (i % (8 * sizeof(long))) & 1;
}

static int parse(const char *text)
{
	memset(bits, 0xa5, sizeof(bits));
	return pcpu_list_parse(text, bits, PCPU_MAX_SLOTS);
}

Test(topology, list_with_holes)
{
	expect_eq(parse("0,2-3,7"), 4);
	expect(has(0) && !has(1) && has(2) && has(3) && !has(4) && has(7) && !has(8));
	expect_eq(parse("0\n"), 1);
	expect_eq(parse("0-1\n"), 2);
	expect_eq(parse("5-5"), 1);
	expect_eq(parse("8191"), 1);
	expect_eq(parse("0-8191"), PCPU_MAX_SLOTS);
	expect_eq(parse("7,2-3,0"), 4);
	expect_eq(parse("0-3,2-5"), 6); /* overlapping ranges count a CPU once */
}

Test(topology, list_garbage)
{
	static const char *const bad[] = {"",	   "\n",       "3-1",  "-1",	  "1-",	   "0,",
					  ",0",	   "0,,1",     "a",    "0-3:1/2", "0 1",   " 0",
					  "0x1",   "+1",       "1--2", "0-1\n\n", "0\r\n", "1-2-3",
					  "0-1,x", "\xff\xfe", "0-\n", "0.5",	  "0\n1"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (parse(bad[i]) != -EINVAL)
			unit_fail("\"%s\" gives %d", bad[i], parse(bad[i]));
}

Test(topology, list_out_of_range)
{
	expect_eq(parse("8192"), -ERANGE);
	expect_eq(parse("0-8192"), -ERANGE);
	expect_eq(parse("9999999"), -ERANGE);
	expect(parse("99999999") < 0); /* more digits than any id has */
	expect(parse("18446744073709551616") < 0);
	expect(parse("0-4294967296") < 0);
	expect_eq(pcpu_list_parse("64", bits, 64), -ERANGE);
	expect_eq(pcpu_list_parse("63", bits, 64), 1);
}

Test(topology, slots_follow_highest_possible)
{
	fake_machine("0,2-3,7\n", "0,2\n");
	pcpu_topology_read(&t, &fake.os);
	expect_eq(t.slots, 8);
	expect_eq(t.possible, 4);
	expect_eq(t.online, 2);
	expect_eq(t.nodes, 1);
	expect_eq(t.nodes_online, 1);
	expect(!t.degraded);
	expect_eq(t.slot_index[0], 0);
	expect_eq(t.slot_index[1], -1);
	expect_eq(t.slot_index[7], 0);
}

Test(topology, not_affinity_and_not_sysconf)
{
	fake_machine("0-15", "0-15");
	fake.affinity = 1;
	fake.configured = 1;
	pcpu_topology_read(&t, &fake.os);
	expect_eq(t.slots, 16);
}

/* /sys says nothing or nonsense: the affinity mask, then sysconf, then a fixed number. */
Test(topology, fallbacks)
{
	static const char *const bad[] = {NULL, "", "garbage", "3-1", "0-999999"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		fake_machine(bad[i], "0");
		fake.affinity = 0x24; /* CPUs 2 and 5 */
		pcpu_topology_read(&t, &fake.os);
		expect(t.degraded);
		expect_eq(t.slots, 6);
		expect_eq(t.nodes, 1);
		fake.affinity = 0;
		fake.configured = 12;
		pcpu_topology_read(&t, &fake.os);
		expect(t.degraded);
		expect_eq(t.slots, 12);
		fake.configured = -1;
		pcpu_topology_read(&t, &fake.os);
		expect_eq(t.slots, PCPU_FALLBACK_SLOTS);
		fake.configured = 1L << 40;
		pcpu_topology_read(&t, &fake.os);
		expect_eq(t.slots, PCPU_FALLBACK_SLOTS);
		for (unsigned cpu = 0; cpu < t.slots; cpu++)
			expect_eq(t.slot_index[cpu], 0);
	}
}

Test(topology, online_lies)
{
	fake_machine("0-3", "garbage");
	pcpu_topology_read(&t, &fake.os);
	expect_eq(t.online, 4);
	fake_machine("0-3", "0-7"); /* more than there can be */
	pcpu_topology_read(&t, &fake.os);
	expect_eq(t.online, 4);
	fake_machine("0-3", NULL);
	pcpu_topology_read(&t, &fake.os);
	expect_eq(t.online, 4);
}

Test(topology, nul_bytes_and_long_files)
{
	static char text[50000];

	fake_machine("0-3", "0-3");
	for (size_t i = 0; i + 2 < sizeof(text); i += 2)
		memcpy(text + i, "1,", 2);
	fake_file("/devices/system/cpu/possible", text);
	fake.affinity = 3;
	pcpu_topology_read(&t, &fake.os);
	expect(t.degraded);
	expect_eq(t.slots, 2);
}

/* The longest list that a kernel can print. */
Test(topology, every_second_of_8192)
{
	static char text[8192 * 5];
	size_t at = 0;

	for (unsigned cpu = 0; cpu < 8192; cpu += 2)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%u", cpu ? "," : "", cpu);
	fake_machine(text, "0");
	pcpu_topology_read(&t, &fake.os);
	expect(!t.degraded);
	expect_eq(t.possible, 4096);
	expect_eq(t.slots, 8191);
}

Test(topology, two_nodes)
{
	fake_machine("0-7", "0-7");
	fake_node(0, "0-3", "10 20");
	fake_node(1, "4-7", "20 10");
	fake_nodes("0-1", "0-1");
	pcpu_topology_read(&t, &fake.os);
	expect_eq(t.nodes, 2);
	expect_eq(t.nodes_online, 2);
	expect_eq(t.slot_index[3], 0);
	expect_eq(t.slot_index[4], 1);
	expect_eq(t.node_memory[0], 0);
	expect_eq(t.node_memory[1], 1);
	expect_eq(t.node_slots[0], 4);
	expect_eq(t.node_slots[1], 4);
}

/* Node ids with holes; a node without memory gets the nearest that has some, one without CPUs no index. */
Test(topology, nearest_node_with_memory)
{
	fake_machine("0-5", "0-5");
	fake_node(0, "0-1", "10 40 20 30");
	fake_node(2, "2-3", "40 10 30 20");
	fake_node(5, "4-5", "20 30 10 40");
	fake_node(9, "", "30 20 40 10");
	fake_nodes("0,2,5,9", "0,5,9");
	pcpu_topology_read(&t, &fake.os);
	expect_eq(t.nodes_online, 4);
	expect_eq(t.nodes, 3);
	expect_eq(t.node_id[0], 0);
	expect_eq(t.node_id[1], 2);
	expect_eq(t.node_id[2], 5);
	expect_eq(t.node_memory[0], 0);
	expect_eq(t.node_memory[1], 9); /* distance 20, against 40 and 30 */
	expect_eq(t.node_memory[2], 5);
}

Test(topology, only_allowed_nodes)
{
	fake_machine("0-3", "0-3");
	fake_node(0, "0-1", "10 20");
	fake_node(1, "2-3", "20 10");
	fake_nodes("0-1", "0-1");
	fake.allowed = 1;
	pcpu_topology_read(&t, &fake.os);
	expect_eq(t.node_memory[0], 0);
	expect_eq(t.node_memory[1], 0);
	fake.allowed = 0; /* refused: all of them */
	pcpu_topology_read(&t, &fake.os);
	expect_eq(t.node_memory[1], 1);
	fake.allowed = 1ul << 40; /* none that is there */
	pcpu_topology_read(&t, &fake.os);
	expect_eq(t.node_memory[0], -1);
}

Test(topology, cpu_on_no_node)
{
	fake_machine("0-5", "0-3");
	fake_node(0, "0-1", "10 20");
	fake_node(1, "2-3", "20 10");
	fake_nodes("0-1", "0-1");
	pcpu_topology_read(&t, &fake.os);
	expect_eq(t.slot_index[4], 0);
	expect_eq(t.slot_index[5], 0);
	expect_eq(t.node_slots[0], 4);
}

Test(topology, broken_node_files)
{
	fake_machine("0-3", "0-3");
	fake_node(0, "0-1", "10 20");
	fake_node(1, "rubbish", NULL);
	fake_nodes("0-1", "0-1");
	pcpu_topology_read(&t, &fake.os);
	expect_eq(t.nodes, 1);
	expect_eq(t.slot_index[3], 0);

	fake_machine("0-3", "0-3");
	fake_node(0, NULL, NULL);
	fake_nodes("0", NULL);
	pcpu_topology_read(&t, &fake.os);
	expect_eq(t.nodes, 1);
	expect_eq(t.nodes_online, 1);

	fake_machine("0-3", "0-3");
	fake_node(0, "0-1", "ten");
	fake_node(1, "2-3", NULL);
	fake_nodes("0-1", "0");
	pcpu_topology_read(&t, &fake.os);
	expect_eq(t.node_memory[1], 0); /* no distances: any node with memory */
}

Test(topology, cpu_on_two_nodes_counts_once)
{
	fake_machine("0-3", "0-3");
	fake_node(0, "0-2", "10 20");
	fake_node(1, "2-3", "20 10");
	fake_nodes("0-1", "0-1");
	pcpu_topology_read(&t, &fake.os);
	expect_eq(t.slot_index[2], 0);
	expect_eq(t.node_slots[0] + t.node_slots[1], 4);
}

Test(topology, overlong_root)
{
	static char root[1000];

	fake_machine("0-3", "0-3");
	memset(root, 'x', sizeof(root) - 1);
	fake.os.sysfs = root;
	fake.affinity = 3;
	pcpu_topology_read(&t, &fake.os);
	expect(t.degraded);
	expect_eq(t.slots, 2);
}

Test(topology, this_machine)
{
	pcpu_topology_read(&t, &pcpu_linux);
	expect(t.slots >= 1 && t.slots <= PCPU_MAX_SLOTS);
	expect(t.online >= 1 && t.online <= t.possible && t.possible <= t.slots);
	expect(t.nodes >= 1);
}
