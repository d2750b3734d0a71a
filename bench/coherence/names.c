/* SPDX-License-Identifier: MIT */
#include <stdbool.h>
#include <stddef.h>

#include <pcpu_stat/pcpu_stat.h>

#include "arch/area.h"
#include "cpu/cpu.h"
#include "model.h"
#include "names.h"
#include "region/region.h"
#include "tree/tree.h"

#define FIELD(object, what, field) model_name(&(object)->field, sizeof((object)->field), what, #field)

void name_facts(void)
{
	model_name(&pcpu_cpu, sizeof(pcpu_cpu), "cpu", "facts");
	model_name(&pcpu_area_offset, sizeof(pcpu_area_offset), "cpu", "area_offset");
}

static void name_region(const struct pcpu_region *region)
{
	model_name(region, sizeof(*region), "region", "head");
}

void name_counter(const struct pcpu_counter *c)
{
	FIELD(c, "counter", slots);
	FIELD(c, "counter", stride);
	FIELD(c, "counter", fast_slots);
	FIELD(c, "counter", batch);
	FIELD(c, "counter", bias);
	FIELD(c, "counter", reserved_hot);
	FIELD(c, "counter", region);
	FIELD(c, "counter", node_words);
	FIELD(c, "counter", nr_slots);
	FIELD(c, "counter", state);
	FIELD(c, "counter", value);
	FIELD(c, "counter", direct);
	FIELD(c, "counter", base);
	FIELD(c, "counter", widest);
	name_region(c->region);
	if (c->node_words)
		model_name_copies(c->node_words, 8, c->region->node.stride, c->region->node.chunks, 0,
				  "counter", "node_word");
	model_name_copies(c->slots, 8, c->stride, c->nr_slots, 1, "slot", "total");
	model_name_copies(c->slots + 8, 8, c->stride, c->nr_slots, 1, "slot", "carried");
}

static void name_tree(const struct pcpu_tree *tree)
{
	FIELD(tree, "tree", nr_stats);
	FIELD(tree, "tree", batch);
	FIELD(tree, "tree", bitmap_words);
	FIELD(tree, "tree", region);
	FIELD(tree, "tree", flush_lock);
	FIELD(tree, "tree", epoch);
	FIELD(tree, "tree", begun);
	FIELD(tree, "tree", atomic);
	FIELD(tree, "tree", fenced);
	FIELD(tree, "tree", longest_hold);
	FIELD(tree, "tree", visits);
	name_region(tree->region);
}

void name_node(const struct pcpu_node *node, bool target)
{
	const char *what = target ? "node" : "ancestor";
	const struct pcpu_tree *tree = node->tree;
	size_t values = 8 * tree->nr_stats, bitmap = 8 * tree->bitmap_words;

	if (!node->parent)
		name_tree(tree);
	model_name(node, sizeof(*node), what, "names");
	FIELD(node, what, fast.slots);
	FIELD(node, what, fast.stride);
	FIELD(node, what, fast.fast_slots);
	FIELD(node, what, fast.nr_stats);
	FIELD(node, what, fast.epoch);
	FIELD(node, what, tree);
	FIELD(node, what, parent);
	model_name(&node->changed, offsetof(struct pcpu_node, dead) - offsetof(struct pcpu_node, changed),
		   what, "pointers");
	FIELD(node, what, dead);
	FIELD(node, what, dirty);
	FIELD(node, what, scan);
	FIELD(node, what, queued);
	FIELD(node, what, next_changed);
	FIELD(node, what, changed_children);
	model_name(&node->visited,
		   offsetof(struct pcpu_node, references) - offsetof(struct pcpu_node, visited), what,
		   "flush");
	model_name(node->changed, bitmap, what, "changed[]");
	model_name(node->taken, bitmap, what, "taken[]");
	model_name(node->total, values, what, "total[]");
	model_name(node->local, values, what, "local[]");
	model_name(node->pending, values, what, "pending[]");
	model_name(node->up, values, what, "up[]");
	model_name(node->direct, values, what, "direct[]");
	model_name(node->direct_seen, values, what, "direct_seen[]");
	if (!target)
		return;
	model_name_copies(node->shadows, values, node->fast.stride, tree->region->cpu.chunks, 0, "shadow",
			  "values");
	model_name_copies(node->fast.slots, 8, node->fast.stride, tree->region->cpu.chunks, 1, "slot",
			  "epoch");
	model_name_copies(node->fast.slots + 8, values, node->fast.stride, tree->region->cpu.chunks, 1,
			  "slot", "values");
}
