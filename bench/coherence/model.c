/* SPDX-License-Identifier: MIT */
/*
 * The coherence model.
 *
 * A line is in no cache; or in one CPU's, exclusive (clean or modified: the difference shows in no count); or
 * shared among a set of CPUs. What an access does follows from that:
 *
 *			in no cache	exclusive elsewhere	shared, not here	shared, also here
 *	read		cold		transfer, both share	transfer		hit
 *	write		cold		transfer, theirs ends	transfer, theirs end	upgrade, theirs end
 *
 * An upgrade moves no data, but waits for every other CPU to let go, which takes as long as a transfer. (A
 * flusher that reads a slot costs one transfer, and the slot's CPU one upgrade.)
 *
 * Time. A transfer takes the time of the farthest cache it needs an answer from. A line that is on its way is
 * to be had only when it has arrived: whoever wants it meanwhile queues. That, and not the length of one
 * transfer, is why a shared word becomes slower with every CPU that joins. Reading what others share anyway
 * does not make it busy.
 *
 * Pairs. Many CPUs fetch the other line of a 128-byte pair along with the one that missed. Here such a fetch
 * is not a transfer, nobody waits for it; but it makes an exclusive line shared, and the owner's next write a
 * transfer. That is the harm it does on real machines.
 *
 * Names are looked up once per word of a line and then remembered there. Each line remembers which name was
 * written last, so that a transfer can be told to be some other field's fault.
 */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = MODEL_MAX_CPUS / 64, MAX_RANGES = 256, MAX_NAMES = 128, NO_NAME = 0xff, NAME_BYTES = 4 };

struct range {
	uintptr_t start;
	size_t bytes, stride;
	unsigned copies;
	uint8_t name;
	bool owned;
};

struct name {
	const char *object, *field;
	bool owned;
	struct model_count count;
	uint64_t blame[MAX_NAMES]; /* transfers because of a write to that name */
};

struct line {
	uintptr_t address; /* 0: unused entry */
	uint64_t holders[WORDS];
	int exclusive;	   /* the one holder that may write, or -1 */
	uint8_t taken_for; /* the name that was written last, or NO_NAME */
	uint8_t names[MODEL_LINE / NAME_BYTES];
	uint64_t ready; /* when it arrives where it is going */
};

static struct {
	unsigned cpus, nodes, per_node;
	bool pairs;
	uint64_t node_holders[MODEL_MAX_NODES][WORDS];
	struct range ranges[MAX_RANGES];
	unsigned nr_ranges;
	struct name names[MAX_NAMES];
	unsigned nr_names;
	struct line *lines; /* a hash table, by address */
	size_t size, used;
} model;

static void fail(const char *what)
{
	fprintf(stderr, "coherence model: %s\n", what);
	abort();
}

void model_start(unsigned cpus, unsigned nodes, bool pairs)
{
	free(model.lines);
	memset(&model, 0, sizeof(model));
	model.cpus = cpus;
	model.nodes = nodes;
	model.per_node = (cpus + nodes - 1) / nodes;
	model.pairs = pairs;
	for (unsigned cpu = 0; cpu < cpus; cpu++)
		model.node_holders[model_node(cpu)][cpu / 64] |= (uint64_t)1 << cpu % 64;
	model.size = 1024;
	model.lines = calloc(model.size, sizeof(*model.lines));
	if (!model.lines)
		fail("out of memory");
	model_name(NULL, 0, "other", "memory"); /* name 0: what has no other */
}

unsigned model_node(unsigned cpu)
{
	return cpu / model.per_node;
}

/* ---- names ---- */

static uint8_t name_index(const char *object, const char *field)
{
	for (unsigned i = 0; i < model.nr_names; i++)
		if (strcmp(model.names[i].object, object) == 0 && strcmp(model.names[i].field, field) == 0)
			return (uint8_t)i;
	if (model.nr_names == MAX_NAMES)
		fail("too many names");
	model.names[model.nr_names].object = object;
	model.names[model.nr_names].field = field;
	return (uint8_t)model.nr_names++;
}

void model_name_copies(const void *start, size_t bytes, size_t stride, unsigned copies, int owned,
		       const char *object, const char *field)
{
	struct range *range = &model.ranges[model.nr_ranges++];

	if (model.nr_ranges == MAX_RANGES)
		fail("too many ranges");
	*range = (struct range){
		.start = (uintptr_t)start,
		.bytes = bytes,
		.stride = stride,
		.copies = copies,
		.name = name_index(object, field),
		.owned = owned,
	};
	model.names[range->name].owned |= owned;
	for (size_t i = 0; i < model.size; i++)
		memset(model.lines[i].names, NO_NAME, sizeof(model.lines[i].names));
}

void model_name(const void *start, size_t bytes, const char *object, const char *field)
{
	model_name_copies(start, bytes, bytes, 1, 0, object, field);
}

/* The range that holds an address, and which copy; the last one that was named. */
static const struct range *find_range(uintptr_t address, unsigned *copy)
{
	for (unsigned i = model.nr_ranges; i-- > 0;) {
		const struct range *range = &model.ranges[i];
		uintptr_t from = address - range->start;

		if (address < range->start || range->stride == 0 || from / range->stride >= range->copies ||
		    from % range->stride >= range->bytes)
			continue;
		*copy = (unsigned)(from / range->stride);
		return range;
	}
	return NULL;
}

static uint8_t name_of(struct line *line, uintptr_t address)
{
	uint8_t *name = &line->names[address % MODEL_LINE / NAME_BYTES];
	unsigned copy;

	if (*name == NO_NAME) {
		const struct range *range = find_range(address, &copy);

		*name = range ? range->name : 0;
	}
	return *name;
}

static bool is_foreign(uintptr_t address, unsigned cpu)
{
	unsigned copy;
	const struct range *range = find_range(address, &copy);

	return range && range->owned && copy != cpu;
}

/* ---- lines ---- */

static size_t place_of(uintptr_t address)
{
	return (size_t)((uint64_t)(address / MODEL_LINE) * 0x9e3779b97f4a7c15u >> 20) & (model.size - 1);
}

static struct line *look_up(uintptr_t address)
{
	size_t i = place_of(address);

	while (model.lines[i].address && model.lines[i].address != address)
		i = (i + 1) & (model.size - 1);
	return &model.lines[i];
}

static void grow(void)
{
	struct line *old = model.lines;
	size_t size = model.size;

	model.size *= 2;
	model.lines = calloc(model.size, sizeof(*model.lines));
	if (!model.lines)
		fail("out of memory");
	for (size_t i = 0; i < size; i++)
		if (old[i].address)
			*look_up(old[i].address) = old[i];
	free(old);
}

static struct line *line_at(uintptr_t address)
{
	struct line *line = look_up(address);

	if (line->address)
		return line;
	if (2 * ++model.used > model.size) {
		grow();
		line = look_up(address);
	}
	line->address = address;
	line->exclusive = -1;
	line->taken_for = NO_NAME;
	memset(line->names, NO_NAME, sizeof(line->names));
	return line;
}

static bool holds(const struct line *line, unsigned cpu)
{
	return line->holders[cpu / 64] >> cpu % 64 & 1;
}

static void add_holder(struct line *line, unsigned cpu)
{
	line->holders[cpu / 64] |= (uint64_t)1 << cpu % 64;
}

/* Holders but @cpu: how many on its node, how many on others. */
static void count_others(const struct line *line, unsigned cpu, unsigned *same, unsigned *other)
{
	const uint64_t *node = model.node_holders[model_node(cpu)];

	*same = *other = 0;
	for (unsigned i = 0; i < WORDS; i++) {
		uint64_t holders = line->holders[i];

		if (i == cpu / 64)
			holders &= ~((uint64_t)1 << cpu % 64);
		*same += (unsigned)__builtin_popcountll(holders & node[i]);
		*other += (unsigned)__builtin_popcountll(holders & ~node[i]);
	}
}

static bool is_hit(const struct line *line, unsigned cpu, enum model_kind kind)
{
	return kind == MODEL_READ ? holds(line, cpu) : line->exclusive == (int)cpu;
}

bool model_hits(unsigned cpu, const void *address, enum model_kind kind)
{
	return is_hit(line_at((uintptr_t)address & ~(uintptr_t)(MODEL_LINE - 1)), cpu, kind);
}

/* The other line of the pair comes along, unless it is under way somewhere. */
static void fetch_neighbour(struct line *line, unsigned cpu, uint64_t now)
{
	struct line *other = line_at(line->address ^ MODEL_LINE);
	bool nobody = true;

	if (holds(other, cpu) || other->ready > now)
		return;
	for (unsigned i = 0; i < WORDS; i++)
		nobody &= other->holders[i] == 0;
	other->exclusive = nobody ? (int)cpu : -1;
	add_holder(other, cpu);
}

static uint64_t miss(struct line *line, unsigned cpu, uint64_t now, enum model_kind kind, uint8_t name)
{
	struct model_count *count = &model.names[name].count;
	unsigned same, other;
	bool reading = kind == MODEL_READ, remote, was_shared = line->exclusive < 0;
	uint64_t done = now > line->ready ? now : line->ready;

	count_others(line, cpu, &same, &other);
	if (same + other == 0) {
		count->cold++;
		done += COST_COLD;
	} else {
		/* A reader is served by the nearest; a writer waits for the farthest. */
		remote = reading ? same == 0 : other > 0;
		if (!reading && holds(line, cpu)) {
			count->upgrades++;
		} else {
			count->transfers++;
			count->remote += remote;
		}
		if (line->taken_for != NO_NAME && !holds(line, cpu)) {
			model.names[name].blame[line->taken_for]++;
			count->shared += line->taken_for != name;
		}
		done += remote ? COST_OTHER_NODE : COST_SAME_NODE;
	}
	if (reading && same + other > 0) {
		line->exclusive = -1;
		if (!was_shared)
			line->ready = done;
	} else {
		if (!reading) {
			count->invalidations += same + other;
			line->taken_for = name;
		}
		memset(line->holders, 0, sizeof(line->holders));
		line->exclusive = (int)cpu;
		line->ready = done;
	}
	add_holder(line, cpu);
	return done + (kind == MODEL_LOCKED ? COST_LOCKED_HIT : COST_HIT);
}

uint64_t model_access(unsigned cpu, uint64_t now, const void *address, enum model_kind kind)
{
	struct line *line = line_at((uintptr_t)address & ~(uintptr_t)(MODEL_LINE - 1));
	uint8_t name = name_of(line, (uintptr_t)address);
	struct model_count *count = &model.names[name].count;

	if (kind == MODEL_READ) {
		count->reads++;
	} else {
		count->writes++;
		if (model.names[name].owned)
			count->foreign += is_foreign((uintptr_t)address, cpu);
	}
	if (!is_hit(line, cpu, kind)) {
		uint64_t done = miss(line, cpu, now, kind, name);

		if (model.pairs)
			fetch_neighbour(line, cpu, now); /* may move lines in the table: nothing after it */
		return done;
	}
	if (kind != MODEL_READ)
		line->taken_for = name;
	return now + (kind == MODEL_LOCKED ? COST_LOCKED_HIT : COST_HIT);
}

/* ---- counts ---- */

void model_reset_counts(void)
{
	for (unsigned i = 0; i < model.nr_names; i++) {
		memset(&model.names[i].count, 0, sizeof(model.names[i].count));
		memset(model.names[i].blame, 0, sizeof(model.names[i].blame));
	}
}

static void add_count(struct model_count *to, const struct model_count *from)
{
	to->reads += from->reads;
	to->writes += from->writes;
	to->transfers += from->transfers;
	to->remote += from->remote;
	to->upgrades += from->upgrades;
	to->invalidations += from->invalidations;
	to->cold += from->cold;
	to->foreign += from->foreign;
	to->shared += from->shared;
}

struct model_count model_count_of(const char *object, const char *field)
{
	struct model_count sum = {0};

	for (unsigned i = 0; i < model.nr_names; i++)
		if ((!object || strcmp(model.names[i].object, object) == 0) &&
		    (!field || strcmp(model.names[i].field, field) == 0))
			add_count(&sum, &model.names[i].count);
	return sum;
}

struct model_count model_total(void)
{
	return model_count_of(NULL, NULL);
}

uint64_t model_blame(const char *object, const char *field, const char *by_object, const char *by_field)
{
	uint8_t name = name_index(object, field), by = name_index(by_object, by_field);

	return model.names[name].blame[by];
}

static int by_transfers(const void *a, const void *b)
{
	const struct name *x = &model.names[*(const uint8_t *)a], *y = &model.names[*(const uint8_t *)b];

	uint64_t of_x = x->count.transfers + x->count.upgrades, of_y = y->count.transfers + y->count.upgrades;

	if (of_x != of_y)
		return of_x < of_y ? 1 : -1;
	return *(const uint8_t *)a - *(const uint8_t *)b;
}

void model_print_fields(uint64_t operations)
{
	uint8_t order[MAX_NAMES];
	double n = operations ? (double)operations : 1;

	for (unsigned i = 0; i < model.nr_names; i++)
		order[i] = (uint8_t)i;
	qsort(order, model.nr_names, sizeof(order[0]), by_transfers);
	for (unsigned i = 0; i < model.nr_names; i++) {
		const struct name *name = &model.names[order[i]];
		const struct model_count *c = &name->count;
		char label[64];

		if (!c->transfers && !c->upgrades && !c->cold && !c->foreign)
			continue;
		snprintf(label, sizeof(label), "%s.%s", name->object, name->field);
		printf("  %-26s %9.5f %9.5f %9.5f %9.5f %9.4f %9.4f", label, (double)c->transfers / n,
		       (double)c->remote / n, (double)c->upgrades / n, (double)c->invalidations / n,
		       (double)c->reads / n, (double)c->writes / n);
		for (unsigned j = 0; j < model.nr_names; j++)
			if (j != order[i] && name->blame[j])
				printf("  %.0f%% for %s.%s",
				       100 * (double)name->blame[j] / (double)c->transfers,
				       model.names[j].object, model.names[j].field);
		if (c->foreign)
			printf("  %.5f from other CPUs", (double)c->foreign / n);
		putchar('\n');
	}
}
