/* SPDX-License-Identifier: MIT */
/* Lists and small files of /sys, and what they say. */
#define _GNU_SOURCE
#include "cpu/topology.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define BITS_PER_LONG  (8 * sizeof(unsigned long))
#define LONGS(bits)    (((bits) + BITS_PER_LONG - 1) / BITS_PER_LONG)
#define FILE_MAX       (5 * PCPU_MAX_SLOTS) /* an id takes five bytes of a list at most: "8191," */
#define PATH_MAX_SYSFS 512 /* the longest name there has some 50; the rest is for a test's root */

static bool test_bit(const unsigned long *bits, unsigned i)
{
	return bits[i / BITS_PER_LONG] >> (i % BITS_PER_LONG) & 1;
}

static void set_bit(unsigned long *bits, unsigned i)
{
	bits[i / BITS_PER_LONG] |= 1UL << (i % BITS_PER_LONG);
}

static unsigned highest_bit(const unsigned long *bits, unsigned max)
{
	while (max > 0 && !test_bit(bits, max - 1))
		max--;
	return max; /* id + 1 */
}

/* Decimal digits at *text, at most 7 (more is no id); advances *text. -1: no digit, or too many. */
static long parse_number(const char **text)
{
	const char *p = *text;
	long n = 0;

	while (*p >= '0' && *p <= '9' && p - *text < 7)
		n = 10 * n + (*p++ - '0');
	if (p == *text || (*p >= '0' && *p <= '9'))
		return -1;
	*text = p;
	return n;
}

int pcpu_list_parse(const char *text, unsigned long *bits, unsigned max)
{
	int count = 0;

	memset(bits, 0, LONGS(max) * sizeof(*bits));
	for (;;) {
		long first = parse_number(&text), last = first;

		if (first < 0)
			return -EINVAL;
		if (*text == '-') {
			text++;
			last = parse_number(&text);
			if (last < first)
				return -EINVAL;
		}
		if (last >= (long)max)
			return -ERANGE;
		for (long i = first; i <= last; i++) {
			count += !test_bit(bits, (unsigned)i);
			set_bit(bits, (unsigned)i);
		}
		if (*text != ',')
			break;
		text++;
	}
	if (*text == '\n')
		text++;
	return *text ? -EINVAL : count;
}

/* Append to a path buffer; an overlong path makes the open fail, which is the right outcome. */
static void append(char *path, const char *part)
{
	size_t have = strlen(path), want = strlen(part);

	if (have + want >= PATH_MAX_SYSFS)
		want = PATH_MAX_SYSFS - 1 - have;
	memcpy(path + have, part, want);
	path[have + want] = 0;
}

static void append_number(char *path, unsigned n)
{
	char digits[12];
	size_t i = sizeof(digits) - 1;

	digits[i] = 0;
	do
		digits[--i] = (char)('0' + n % 10);
	while (n /= 10);
	append(path, digits + i);
}

/* Read a whole small file. Returns its length, or a negative errno. */
static long read_file(const char *path, char *buffer, size_t size)
{
	size_t have = 0;
	int saved = errno, fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	long r = 0;

	if (fd < 0) {
		r = -errno;
		errno = saved;
		return r;
	}
	while (have < size - 1) {
		r = read(fd, buffer + have, size - 1 - have);
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			break;
		have += (size_t)r;
	}
	if (r < 0)
		r = -errno;
	else
		r = have == size - 1 ? -EFBIG : (long)have;
	close(fd);
	errno = saved;
	if (r < 0)
		return r;
	buffer[have] = 0;
	return strlen(buffer) == have ? r : -EINVAL; /* no NUL bytes in the middle */
}

/* The scratch space of one reading; static, since a constructor's stack may be small and malloc is out. */
static struct {
	char text[FILE_MAX];
	unsigned long cpus[LONGS(PCPU_MAX_SLOTS)];  /* possible ones */
	unsigned long some[LONGS(PCPU_MAX_SLOTS)];  /* those of the list looked at */
	unsigned long nodes[LONGS(PCPU_MAX_NODES)]; /* online */
	unsigned long memory[LONGS(PCPU_MAX_NODES)];
	unsigned long allowed[LONGS(PCPU_MAX_NODES)];
} scratch;

static int read_list(const struct pcpu_os *os, const char *relative, unsigned long *bits, unsigned max)
{
	char path[PATH_MAX_SYSFS] = "";
	long r;

	append(path, os->sysfs);
	append(path, relative);
	r = read_file(path, scratch.text, sizeof(scratch.text));
	return r < 0 ? (int)r : pcpu_list_parse(scratch.text, bits, max);
}

static int read_node_file(const struct pcpu_os *os, unsigned node, const char *name)
{
	char path[PATH_MAX_SYSFS] = "";

	append(path, os->sysfs);
	append(path, "/devices/system/node/node");
	append_number(path, node);
	append(path, name);
	return (int)read_file(path, scratch.text, sizeof(scratch.text));
}

/* The possible CPUs into scratch.cpus; slots and possible from them. */
static void read_possible(struct pcpu_topology *t, const struct pcpu_os *os)
{
	int n = read_list(os, "/devices/system/cpu/possible", scratch.cpus, PCPU_MAX_SLOTS);
	long r;

	if (n > 0) {
		t->slots = highest_bit(scratch.cpus, PCPU_MAX_SLOTS);
		t->possible = (unsigned)n;
		return;
	}
	t->degraded = true;
	memset(scratch.cpus, 0, sizeof(scratch.cpus));
	r = os->get_affinity(scratch.cpus, sizeof(scratch.cpus));
	t->slots = r > 0 ? highest_bit(scratch.cpus, PCPU_MAX_SLOTS) : 0;
	if (t->slots == 0) {
		r = os->nr_configured();
		t->slots = r > 0 && r <= PCPU_MAX_SLOTS ? (unsigned)r : PCPU_FALLBACK_SLOTS;
	}
	t->possible = t->slots;
	for (unsigned i = 0; i < t->slots; i++) /* an affinity mask has holes where CPUs are */
		set_bit(scratch.cpus, i);
}

static void read_online(struct pcpu_topology *t, const struct pcpu_os *os)
{
	int n = read_list(os, "/devices/system/cpu/online", scratch.some, PCPU_MAX_SLOTS);

	t->online = n > 0 && (unsigned)n <= t->possible ? (unsigned)n : t->possible;
}

/* The distance from @node to @to, or a large number when /sys does not say. */
static unsigned long distance(const char *row, unsigned to, const unsigned long *nodes)
{
	/* One number per node that is online, in order of ids. */
	for (unsigned i = 0; i <= to; i++) {
		long n;

		if (!test_bit(nodes, i))
			continue;
		while (*row == ' ')
			row++;
		n = parse_number(&row);
		if (n < 0)
			break;
		if (i == to)
			return (unsigned long)n;
	}
	return ~0UL;
}

/* The nearest usable node for index @i; its own if it has memory. Ties go to the lower id. */
static int nearest_memory(struct pcpu_topology *t, const struct pcpu_os *os, unsigned i)
{
	unsigned id = (unsigned)t->node_id[i];
	unsigned long best_distance = ~0UL;
	int best = -1;

	if (test_bit(scratch.memory, id) && test_bit(scratch.allowed, id))
		return (int)id;
	if (read_node_file(os, id, "/distance") < 0)
		scratch.text[0] = 0;
	for (unsigned to = 0; to < PCPU_MAX_NODES; to++) {
		unsigned long d;

		if (!test_bit(scratch.memory, to) || !test_bit(scratch.allowed, to))
			continue;
		d = distance(scratch.text, to, scratch.nodes);
		if (best < 0 || d < best_distance) {
			best = (int)to;
			best_distance = d;
		}
	}
	return best;
}

static void one_node(struct pcpu_topology *t)
{
	t->nodes_online = 1;
	t->nodes = 1;
	t->node_id[0] = 0;
	t->node_memory[0] = -1;
	t->node_slots[0] = t->possible;
	for (unsigned cpu = 0; cpu < t->slots; cpu++)
		t->slot_index[cpu] = test_bit(scratch.cpus, cpu) ? 0 : -1;
}

/* The possible CPUs of @node get the next index, unless an earlier node has them. */
static void index_node(struct pcpu_topology *t, const struct pcpu_os *os, unsigned node)
{
	unsigned slots = 0;

	if (read_node_file(os, node, "/cpulist") < 0 ||
	    pcpu_list_parse(scratch.text, scratch.some, PCPU_MAX_SLOTS) <= 0)
		return;
	for (unsigned cpu = 0; cpu < t->slots; cpu++) {
		if (!test_bit(scratch.some, cpu) || !test_bit(scratch.cpus, cpu) || t->slot_index[cpu] >= 0)
			continue;
		t->slot_index[cpu] = (int16_t)t->nodes;
		slots++;
	}
	if (slots == 0)
		return;
	t->node_id[t->nodes] = (int16_t)node;
	t->node_slots[t->nodes++] = slots;
}

static void read_nodes(struct pcpu_topology *t, const struct pcpu_os *os)
{
	int n;

	one_node(t);
	n = t->degraded ? 0 : read_list(os, "/devices/system/node/online", scratch.nodes, PCPU_MAX_NODES);
	if (n <= 0)
		return;
	if (read_list(os, "/devices/system/node/has_memory", scratch.memory, PCPU_MAX_NODES) <= 0)
		memcpy(scratch.memory, scratch.nodes, sizeof(scratch.memory));
	if (os->allowed_nodes(scratch.allowed, sizeof(scratch.allowed)) < 0)
		memset(scratch.allowed, 0xff, sizeof(scratch.allowed));

	/* Nodes with possible CPUs get an index, in order of ids; the others have no slots to place. */
	for (unsigned cpu = 0; cpu < t->slots; cpu++)
		t->slot_index[cpu] = -1;
	t->nodes = 0;
	for (unsigned node = 0; node < PCPU_MAX_NODES; node++)
		if (test_bit(scratch.nodes, node))
			index_node(t, os, node);
	if (t->nodes == 0) {
		one_node(t);
		return;
	}
	t->nodes_online = (unsigned)n;
	/* A CPU that is possible but was never up is on no node's list yet: it counts with the first node. */
	for (unsigned cpu = 0; cpu < t->slots; cpu++) {
		if (test_bit(scratch.cpus, cpu) && t->slot_index[cpu] < 0) {
			t->slot_index[cpu] = 0;
			t->node_slots[0]++;
		}
	}
	for (unsigned i = 0; i < t->nodes; i++)
		t->node_memory[i] = (int16_t)nearest_memory(t, os, i);
}

void pcpu_topology_read(struct pcpu_topology *t, const struct pcpu_os *os)
{
	memset(t, 0, sizeof(*t));
	read_possible(t, os);
	read_online(t, os);
	read_nodes(t, os);
}
