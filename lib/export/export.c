/* SPDX-License-Identifier: MIT */
/*
 * OpenMetrics, Prometheus 0.0.4 and JSON.
 *
 * The text formats want all samples of a family together, while a node holds one value of each family. Turning
 * that around in memory would take memory in proportion to the tree; so the tree is walked once per family,
 * after one flush. Between two nodes the walker holds nothing but a reference: the sink may be slow.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <pcpu_stat/export.h>
#include <pcpu_stat/tree.h>

#include "export/emit.h"

/* An export under way. */
struct export
{
	struct pcpu_emit emit;
	struct pcpu_tree *tree;
	enum pcpu_escape escape; /* of paths */
	enum pcpu_read how;	 /* after the one flush */
	uint64_t made;		 /* nodes, at the beginning */
};

static int begin(struct export *x, struct pcpu_tree *tree, pcpu_write_fn write, void *ctx,
		 enum pcpu_escape escape)
{
	int r;

	if (!tree || !write)
		return -EINVAL;
	pcpu_emit_begin(&x->emit, write, ctx);
	x->tree = tree;
	x->escape = escape;
	x->how = PCPU_READ_CACHED;
	x->made = pcpu_tree_made(tree);
	r = pcpu_node_flush(pcpu_tree_root(tree));
	if (r == -EROFS)
		x->how = PCPU_READ_EXACT; /* a mapping that may not be written: each read has to look */
	else if (r)
		return r;
	return 0;
}

/* The next node to write, NULL after the last or an error. */
static struct pcpu_node *next_node(struct export *x, struct pcpu_node *node)
{
	if (x->emit.error) {
		pcpu_node_put(node);
		return NULL;
	}
	return pcpu_tree_next(x->tree, node, x->made);
}

/* ---- paths ---- */

/*
 * Ancestors that are looked up in one climb. A node may lie at any depth, so there is room neither for all of its
 * ancestors nor for a recursion; most lie less deep than this.
 */
#define LEVELS_PER_CLIMB 64u

static void emit_path(struct export *x, struct pcpu_node *node)
{
	struct pcpu_node *levels[LEVELS_PER_CLIMB], *at, *up;
	unsigned depth = 0, last;

	for (at = node; (up = pcpu_node_parent(at)); at = up)
		depth++;
	/* Levels first + 1 .. last of 1 .. depth. */
	for (unsigned first = 0; first < depth && !x->emit.error; first = last) {
		last = depth - first > LEVELS_PER_CLIMB ? first + LEVELS_PER_CLIMB : depth;
		at = node;
		for (unsigned level = depth; level > last; level--)
			at = pcpu_node_parent(at);
		for (unsigned level = last; level > first; level--) {
			levels[level - first - 1] = at;
			at = pcpu_node_parent(at);
		}
		for (unsigned level = first; level < last; level++) {
			if (level)
				pcpu_emit_bytes(&x->emit, "/", 1);
			pcpu_emit_escaped(&x->emit, pcpu_node_name(levels[level - first]), x->escape);
		}
	}
}

/* ---- values ---- */

static bool has(const char *s)
{
	return s && s[0];
}

static void emit_value(struct export *x, const struct pcpu_stat_desc *stat, int64_t value)
{
	pcpu_emit_integer(&x->emit, stat->kind == PCPU_STAT_COUNTER && value < 0 ? 0 : value);
}

static const char *kind_name(const struct pcpu_stat_desc *stat)
{
	return stat->kind == PCPU_STAT_COUNTER ? "counter" : "gauge";
}

/* ---- text ---- */

#define NAME_BYTES 64u /* names of trees, statistics and units, each with an underscore or the NUL */

/* What the lines of a family begin with. */
struct family {
	size_t bytes;
	char name[3 * NAME_BYTES + sizeof("_total{node=\"")];
};

static void append(struct family *family, const char *s)
{
	size_t bytes = strlen(s);

	memcpy(family->name + family->bytes, s, bytes);
	family->bytes += bytes;
}

static void family_name(struct family *family, struct pcpu_tree *tree, const struct pcpu_stat_desc *stat)
{
	family->bytes = 0;
	append(family, pcpu_tree_name(tree));
	append(family, "_");
	append(family, stat->name);
	if (has(stat->unit)) {
		append(family, "_");
		append(family, stat->unit);
	}
}

/* A line "# KEYWORD family text". */
static void emit_about(struct export *x, const char *keyword, const struct family *family, const char *text,
		       enum pcpu_escape escape)
{
	pcpu_emit_string(&x->emit, keyword);
	pcpu_emit_bytes(&x->emit, family->name, family->bytes);
	pcpu_emit_bytes(&x->emit, " ", 1);
	pcpu_emit_escaped(&x->emit, text, escape);
	pcpu_emit_bytes(&x->emit, "\n", 1);
}

static void emit_samples(struct export *x, struct family *family, uint32_t index)
{
	const struct pcpu_stat_desc *stat = pcpu_tree_stat(x->tree, index);

	append(family, "{node=\"");
	for (struct pcpu_node *node = next_node(x, NULL); node; node = next_node(x, node)) {
		pcpu_emit_bytes(&x->emit, family->name, family->bytes);
		emit_path(x, node);
		pcpu_emit_bytes(&x->emit, "\"} ", 3);
		emit_value(x, stat, pcpu_node_read(node, index, x->how));
		pcpu_emit_bytes(&x->emit, "\n", 1);
	}
}

int pcpu_export_openmetrics(struct pcpu_tree *tree, pcpu_write_fn write, void *ctx)
{
	struct export x;
	int r = begin(&x, tree, write, ctx, PCPU_ESCAPE_LABEL);

	if (r)
		return r;
	for (uint32_t i = 0; i < pcpu_tree_nr_stats(tree) && !x.emit.error; i++) {
		const struct pcpu_stat_desc *stat = pcpu_tree_stat(tree, i);
		struct family family;

		/* Here a family is one thing, and the samples of a counter, its totals, another. */
		family_name(&family, tree, stat);
		emit_about(&x, "# TYPE ", &family, kind_name(stat), PCPU_ESCAPE_LABEL);
		if (has(stat->unit))
			emit_about(&x, "# UNIT ", &family, stat->unit, PCPU_ESCAPE_LABEL);
		if (has(stat->help))
			emit_about(&x, "# HELP ", &family, stat->help, PCPU_ESCAPE_LABEL);
		if (stat->kind == PCPU_STAT_COUNTER)
			append(&family, "_total");
		emit_samples(&x, &family, i);
	}
	pcpu_emit_string(&x.emit, "# EOF\n");
	return pcpu_emit_end(&x.emit);
}

int pcpu_export_prometheus(struct pcpu_tree *tree, pcpu_write_fn write, void *ctx)
{
	struct export x;
	int r = begin(&x, tree, write, ctx, PCPU_ESCAPE_LABEL);

	if (r)
		return r;
	for (uint32_t i = 0; i < pcpu_tree_nr_stats(tree) && !x.emit.error; i++) {
		const struct pcpu_stat_desc *stat = pcpu_tree_stat(tree, i);
		struct family family;

		/* Here _total is part of the metric's name, and there are no units. */
		family_name(&family, tree, stat);
		if (stat->kind == PCPU_STAT_COUNTER)
			append(&family, "_total");
		if (has(stat->help))
			emit_about(&x, "# HELP ", &family, stat->help, PCPU_ESCAPE_HELP);
		emit_about(&x, "# TYPE ", &family, kind_name(stat), PCPU_ESCAPE_HELP);
		emit_samples(&x, &family, i);
	}
	return pcpu_emit_end(&x.emit);
}

/* ---- JSON ---- */

/* A string, or null for none. */
static void emit_quoted(struct export *x, const char *s)
{
	if (!has(s)) {
		pcpu_emit_string(&x->emit, "null");
		return;
	}
	pcpu_emit_bytes(&x->emit, "\"", 1);
	pcpu_emit_escaped(&x->emit, s, PCPU_ESCAPE_JSON);
	pcpu_emit_bytes(&x->emit, "\"", 1);
}

static void emit_stat(struct export *x, const struct pcpu_stat_desc *stat)
{
	pcpu_emit_string(&x->emit, "{\"name\":");
	emit_quoted(x, stat->name);
	pcpu_emit_string(&x->emit, ",\"unit\":");
	emit_quoted(x, stat->unit);
	pcpu_emit_string(&x->emit, ",\"help\":");
	emit_quoted(x, stat->help);
	pcpu_emit_string(&x->emit, ",\"kind\":");
	emit_quoted(x, kind_name(stat));
	pcpu_emit_string(&x->emit, "}");
}

static void emit_values(struct export *x, const int64_t *values)
{
	for (uint32_t i = 0; i < pcpu_tree_nr_stats(x->tree); i++) {
		const struct pcpu_stat_desc *stat = pcpu_tree_stat(x->tree, i);

		pcpu_emit_string(&x->emit, i ? "," : "{");
		emit_quoted(x, stat->name);
		pcpu_emit_bytes(&x->emit, ":", 1);
		emit_value(x, stat, values[i]);
	}
	pcpu_emit_string(&x->emit, "}");
}

static void emit_node(struct export *x, struct pcpu_node *node)
{
	int64_t values[PCPU_STATS_MAX];
	uint32_t nr = pcpu_tree_nr_stats(x->tree);

	pcpu_emit_string(&x->emit, "{\"path\":\"");
	emit_path(x, node);
	pcpu_emit_string(&x->emit, "\",\"values\":");
	pcpu_node_snapshot(node, values, nr, x->how);
	emit_values(x, values);
	pcpu_emit_string(&x->emit, ",\"local\":");
	pcpu_node_snapshot_local(node, values, nr, x->how);
	emit_values(x, values);
	pcpu_emit_string(&x->emit, "}");
}

int pcpu_export_json(struct pcpu_tree *tree, pcpu_write_fn write, void *ctx)
{
	struct export x;
	const char *before = "],\"nodes\":[";
	int r = begin(&x, tree, write, ctx, PCPU_ESCAPE_JSON);

	if (r)
		return r;
	pcpu_emit_string(&x.emit, "{\"schema\":1,\"tree\":");
	emit_quoted(&x, pcpu_tree_name(tree));
	for (uint32_t i = 0; i < pcpu_tree_nr_stats(tree); i++) {
		pcpu_emit_string(&x.emit, i ? "," : ",\"stats\":[");
		emit_stat(&x, pcpu_tree_stat(tree, i));
	}
	for (struct pcpu_node *node = next_node(&x, NULL); node; node = next_node(&x, node)) {
		pcpu_emit_string(&x.emit, before);
		emit_node(&x, node);
		before = ",";
	}
	pcpu_emit_string(&x.emit, "]}\n");
	return pcpu_emit_end(&x.emit);
}
