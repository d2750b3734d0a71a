/* SPDX-License-Identifier: MIT */
/* Names: of trees, statistics, units and nodes, and what an exporter will make of them. */
#ifndef PCPU_LIB_TREE_SCHEMA_H
#define PCPU_LIB_TREE_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

#include <pcpu_stat/tree.h>

/*
 * 0, or -EINVAL: a bad or repeated name, help that is not UTF-8, two families that would clash, a kind or number
 * out of range.
 */
int pcpu_schema_check(const struct pcpu_tree_attr *attr);

/* Copy name and statistics with all strings into one allocation, @stats. -ENOMEM. */
int pcpu_schema_copy(char **name, struct pcpu_stat_desc **stats, const struct pcpu_tree_attr *attr);

/* A name of a node: 1 .. 63 bytes of UTF-8 without '/', in the first @bytes of @name. */
bool pcpu_node_name_ok(const char *name, size_t bytes);

#endif /* PCPU_LIB_TREE_SCHEMA_H */
