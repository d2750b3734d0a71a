/* SPDX-License-Identifier: MIT */
/* A tree with all that is hard on an exporter: hostile names, extreme numbers, units, missing help. */
#ifndef PCPU_TESTS_EXPORT_TREE_H
#define PCPU_TESTS_EXPORT_TREE_H

#include <stdio.h>
#include <stdlib.h>

#include <pcpu_stat/pcpu_stat.h>

enum { RX, REQUESTS, OPEN, LEVEL, FALLEN, NR_STATS };

static const struct pcpu_stat_desc export_stats[NR_STATS] = {
	[RX] = {"rx", "bytes", "Bytes \"received\" \\ over\nall links \xe2\x82\xac", PCPU_STAT_COUNTER},
	[REQUESTS] = {"requests", NULL, "Requests.", PCPU_STAT_COUNTER},
	[OPEN] = {"open", "", "", PCPU_STAT_GAUGE},
	[LEVEL] = {"level", "celsius", NULL, PCPU_STAT_GAUGE},
	[FALLEN] = {"fallen", NULL, "More was taken than given.", PCPU_STAT_COUNTER},
};

static inline void must(int r, const char *what)
{
	if (r) {
		fprintf(stderr, "%s: %d\n", what, r);
		exit(1);
	}
}

static inline struct pcpu_tree *make_tree(const char *name, const struct pcpu_stat_desc *stats, uint32_t nr)
{
	struct pcpu_tree_attr attr = {.size = sizeof(attr), .name = name, .stats = stats, .nr_stats = nr};
	struct pcpu_tree *tree;

	must(pcpu_tree_create(&tree, &attr), "pcpu_tree_create");
	return tree;
}

/* A node that nobody but the tree holds. */
static inline struct pcpu_node *make_node(struct pcpu_node *parent, const char *name)
{
	struct pcpu_node *node;

	must(pcpu_node_create(&node, parent, name), name);
	pcpu_node_put(node);
	return node;
}

static inline struct pcpu_tree *make_export_tree(unsigned more)
{
	static const char *const names[] = {
		"quote \" here",	 "back\\slash",
		"both \\\" and \\n",	 "line\nfeed",
		"tab\tbell\arubout\x7f", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x98",
		" blank, {comma} = ",	 "# EOF",
	};
	static const int64_t levels[] = {
		INT64_MIN, INT64_MAX, ((int64_t)1 << 53) + 1, -(((int64_t)1 << 53) + 1), -1,
		0,	   1000000,   1234567890123456789,
	};
	struct pcpu_tree *tree = make_tree("net", export_stats, NR_STATS);
	struct pcpu_node *root = pcpu_tree_root(tree), *node, *below;

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		node = make_node(root, names[i]);
		pcpu_node_add(node, LEVEL, levels[i]);
		pcpu_node_add(node, RX, 1000 * i);
		pcpu_node_add(node, REQUESTS, 1);
		pcpu_node_add(node, OPEN, i % 2 ? -(int64_t)i : i);
		pcpu_node_add(node, FALLEN, -7);
		below = make_node(node, names[(i + 3) % 8]);
		pcpu_node_add(below, RX, ((int64_t)1 << 53) + 1);
	}
	node = make_node(root, "more");
	for (unsigned i = 0; i < more; i++) {
		char name[16];

		snprintf(name, sizeof(name), "%u", i);
		pcpu_node_add(make_node(node, name), RX, i);
	}
	return tree;
}

#endif /* PCPU_TESTS_EXPORT_TREE_H */
