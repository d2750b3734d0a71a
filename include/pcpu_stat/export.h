/* SPDX-License-Identifier: MIT */
/**
 * @file export.h
 * A tree as text, for engines that collect: OpenMetrics, Prometheus' older format, JSON.
 *
 * A statistic becomes a metric family named by the tree, the statistic and its unit, joined by underscores:
 * `net_rx_bytes`. Samples of a counter have `_total` behind that, whatever the statistic is called: leave it
 * out of the name. Each node gives one sample per family, told apart by the label `node`: its path, "" for
 * the root. A sample is the subtree's value, so the root's is the whole and do not sum over all nodes.
 * Numbers are written as they are, digit by digit, whatever the locale; only a counter below 0 is written as
 * 0, because the formats know none.
 *
 * Each call flushes the tree once, at its beginning, and then reads what that flush left: every add that
 * happened before the call is in the output. At rest all values are of that one flush. Where others flush
 * meanwhile, a value may be of a later one; memory for a copy of the tree is what it would take to prevent
 * that. Nodes that are made after the call began are left out, nodes that are destroyed meanwhile may come in
 * some families and not in others, and no path comes twice in a family.
 *
 * Nothing is allocated, and the stack used (some 15 KiB) depends neither on nodes nor on statistics. While @p
 * write runs, no lock is held and nobody waits, so it may block on a slow peer; it may also use the tree,
 * other than to destroy it. One node at a time is referenced, so one that is destroyed meanwhile may be freed
 * here.
 *
 * The formats: OpenMetrics 1.0 (2020), Prometheus exposition formats, "Text format 0.0.4".
 */
#ifndef PCPU_STAT_EXPORT_H
#define PCPU_STAT_EXPORT_H

#include <pcpu_stat/common.h>

PCPU_BEGIN_DECLS

struct pcpu_tree;

/**
 * Where text goes.
 *
 * @param ctx  as given to the call
 * @param buf  a piece, cut anywhere, not NUL-terminated; valid during the call alone
 * @param len  bytes, at least 1, at most some KiB
 * @return 0 to go on; anything else ends the export, is what it returns, and no further piece comes
 */
typedef int (*pcpu_write_fn)(void *ctx, const char *buf, size_t len);

/**
 * Write a tree as OpenMetrics 1.0 text: `application/openmetrics-text; version=1.0.0; charset=utf-8`. It ends
 * with the line `# EOF`, which comes once: it is a whole exposition.
 *
 * @param tree   what
 * @param write  where to
 * @param ctx    handed to write
 * @return 0; -EINVAL; or what write returned
 *
 * Context: any thread; not a signal handler, not inside malloc, not inside pcpu_tree_walk. Cost: an EXACT
 * flush of the root; writing out the number and the path for each sample; a call of write per 4 KiB.
 */
PCPU_API int pcpu_export_openmetrics(struct pcpu_tree *tree, pcpu_write_fn write, void *ctx);

/**
 * Write a tree in Prometheus' text format: `text/plain; version=0.0.4; charset=utf-8`. It has no end mark:
 * several trees of different names may follow one another in one exposition.
 *
 * @return, Context, Cost: as pcpu_export_openmetrics
 */
PCPU_API int pcpu_export_prometheus(struct pcpu_tree *tree, pcpu_write_fn write, void *ctx);

/**
 * Write a tree as JSON, one line:
 *
 *	{"schema":1,"tree":NAME,
 *	 "stats":[{"name":NAME,"unit":UNIT or null,"help":TEXT or null,"kind":"counter" or "gauge"},...],
 *	 "nodes":[{"path":PATH,"values":{NAME:VALUE,...},"local":{NAME:VALUE,...}},...]}
 *
 * `values` are the subtree's, `local` the node's alone. All values of a node are of one flush, and so are its
 * local ones. Numbers go up to 2^63: readers that take them for doubles lose digits beyond 2^53. `schema`
 * counts changes of meaning, not additions.
 *
 * @return, Context, Cost: as pcpu_export_openmetrics
 */
PCPU_API int pcpu_export_json(struct pcpu_tree *tree, pcpu_write_fn write, void *ctx);

/**
 * Write a tree in Prometheus' text format to a file, for node_exporter's textfile collector and the like.
 * Readers see the old file or the whole new one: it is written under another name in the same directory,
 * brought to disk, and renamed.
 *
 * @param tree  what
 * @param path  of the file; mode 0644 less the umask. A symbolic link is replaced, not followed
 * @return 0; -EINVAL (also: @p path is there and no file), -EISDIR, -ENAMETOOLONG; or the error of opening,
 *         writing, syncing or renaming, such as -ENOENT, -EACCES, -EROFS, -ENOSPC. After an error the old
 *         file is as it was, and nothing else is left
 *
 * A process killed in the middle may leave a hidden file `.pcpu_stat-*.tmp`.
 *
 * Context: as pcpu_export_openmetrics. Cost: that, and fsync of a small file.
 */
PCPU_API int pcpu_export_textfile(struct pcpu_tree *tree, const char *path);

PCPU_END_DECLS

#endif /* PCPU_STAT_EXPORT_H */
