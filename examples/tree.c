/* SPDX-License-Identifier: MIT */
/* Two statistics over a hierarchy of three levels; the second program of README.md. */

#include <pcpu_stat/pcpu_stat.h>
#include <stdio.h>

enum { REQUESTS, SENT, NR_STATS };

static const struct pcpu_stat_desc stats[NR_STATS] = {
	[REQUESTS] = {.name = "requests", .kind = PCPU_STAT_COUNTER},
	[SENT] = {.name = "sent", .unit = "bytes", .kind = PCPU_STAT_COUNTER},
};

int main(void)
{
	struct pcpu_tree_attr attr = {
		.size = sizeof(attr), .name = "web", .stats = stats, .nr_stats = NR_STATS};
	struct pcpu_node *root, *site, *page;
	struct pcpu_tree *tree;

	if (pcpu_tree_create(&tree, &attr))
		return 1;
	root = pcpu_tree_root(tree);
	if (pcpu_node_create(&site, root, "example.org") || pcpu_node_create(&page, site, "index"))
		return 1;

	for (int i = 0; i < 1000; i++) {
		pcpu_node_add(page, REQUESTS, 1); /* one word of this CPU, at any depth */
		pcpu_node_add(page, SENT, 512);
	}
	printf("%lld requests, %lld bytes\n", (long long)pcpu_node_read(site, REQUESTS, PCPU_READ_EXACT),
	       (long long)pcpu_node_read(root, SENT, PCPU_READ_EXACT));
	pcpu_tree_destroy(tree);
}
