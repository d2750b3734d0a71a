/* SPDX-License-Identifier: MIT */
/* export: what the text says, sinks that fail, files that stay whole, nodes that come and go meanwhile. */
#define _GNU_SOURCE
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <pcpu_stat/pcpu_stat.h>

#include "export_tree.h"

typedef int (*export_fn)(struct pcpu_tree *tree, pcpu_write_fn write, void *ctx);

static const export_fn exports[] = {pcpu_export_openmetrics, pcpu_export_prometheus, pcpu_export_json};
#define NR_EXPORTS (sizeof(exports) / sizeof(exports[0]))

/* ---- a sink ---- */

struct text {
	char *bytes;
	size_t length;
	unsigned pieces, fail_at; /* the number of the piece that fails; 0: none does */
	bool late;		  /* a piece came after one that failed */
};

static int take(void *ctx, const char *buf, size_t len)
{
	struct text *text = ctx;

	expect(len > 0);
	if (text->fail_at && text->pieces >= text->fail_at)
		text->late = true;
	if (++text->pieces == text->fail_at)
		return -1234;
	text->bytes = realloc(text->bytes, text->length + len + 1);
	memcpy(text->bytes + text->length, buf, len);
	text->length += len;
	text->bytes[text->length] = '\0';
	return 0;
}

/* The whole text, until it is freed. */
static char *export_all(struct pcpu_tree *tree, export_fn export)
{
	struct text text = {0};

	expect_eq(export(tree, take, &text), 0);
	expect(text.bytes && strlen(text.bytes) == text.length);
	return text.bytes;
}

static unsigned occurrences(const char *text, const char *what)
{
	unsigned n = 0;

	for (text = strstr(text, what); text; text = strstr(text + 1, what))
		n++;
	return n;
}

static void expect_text(struct pcpu_tree *tree, export_fn export, const char *wanted)
{
	char *text = export_all(tree, export);

	if (strcmp(text, wanted))
		unit_fail("got:\n%s\nwanted:\n%s", text, wanted);
	free(text);
}

/* ---- text ---- */

Test(export, arguments)
{
	struct pcpu_tree *tree = make_tree(NULL, export_stats, NR_STATS);
	struct text text = {0};

	errno = 77;
	for (unsigned i = 0; i < NR_EXPORTS; i++) {
		expect_eq(exports[i](NULL, take, &text), -EINVAL);
		expect_eq(exports[i](tree, NULL, &text), -EINVAL);
	}
	expect_eq(pcpu_export_textfile(NULL, "x"), -EINVAL);
	expect_eq(pcpu_export_textfile(tree, NULL), -EINVAL);
	expect_eq(pcpu_export_textfile(tree, ""), -EINVAL);
	expect_eq(pcpu_export_textfile(tree, "x/"), -EINVAL);
	expect_eq(text.pieces, 0);
	expect_eq(errno, 77);
	pcpu_tree_destroy(tree);
}

Test(export, formats)
{
	struct pcpu_stat_desc stats[] = {
		{"rx", "bytes", "Say \"in\\out\"\nor not", PCPU_STAT_COUNTER},
		{"open", NULL, NULL, PCPU_STAT_GAUGE},
		{"x_total", "", "", PCPU_STAT_COUNTER},
	};
	struct pcpu_tree *tree = make_tree("net", stats, 3);
	struct pcpu_node *node = make_node(make_node(pcpu_tree_root(tree), "a"), "\"\\\n\x01");

	pcpu_node_add(node, 0, 5);
	pcpu_node_add(node, 1, -3);
	pcpu_node_add(pcpu_node_parent(node), 2, 1);
	expect_text(
		tree, pcpu_export_openmetrics,
		"# TYPE net_rx_bytes counter\n# UNIT net_rx_bytes bytes\n"
		"# HELP net_rx_bytes Say \\\"in\\\\out\\\"\\nor not\n"
		"net_rx_bytes_total{node=\"\"} 5\nnet_rx_bytes_total{node=\"a\"} 5\n"
		"net_rx_bytes_total{node=\"a/\\\"\\\\\\n\x01\"} 5\n"
		"# TYPE net_open gauge\n"
		"net_open{node=\"\"} -3\nnet_open{node=\"a\"} -3\nnet_open{node=\"a/\\\"\\\\\\n\x01\"} -3\n"
		"# TYPE net_x_total counter\n"
		"net_x_total_total{node=\"\"} 1\nnet_x_total_total{node=\"a\"} 1\n"
		"net_x_total_total{node=\"a/\\\"\\\\\\n\x01\"} 0\n"
		"# EOF\n");
	expect_text(
		tree, pcpu_export_prometheus,
		"# HELP net_rx_bytes_total Say \"in\\\\out\"\\nor not\n# TYPE net_rx_bytes_total counter\n"
		"net_rx_bytes_total{node=\"\"} 5\nnet_rx_bytes_total{node=\"a\"} 5\n"
		"net_rx_bytes_total{node=\"a/\\\"\\\\\\n\x01\"} 5\n"
		"# TYPE net_open gauge\n"
		"net_open{node=\"\"} -3\nnet_open{node=\"a\"} -3\nnet_open{node=\"a/\\\"\\\\\\n\x01\"} -3\n"
		"# TYPE net_x_total_total counter\n"
		"net_x_total_total{node=\"\"} 1\nnet_x_total_total{node=\"a\"} 1\n"
		"net_x_total_total{node=\"a/\\\"\\\\\\n\x01\"} 0\n");
	expect_text(tree, pcpu_export_json,
		    "{\"schema\":1,\"tree\":\"net\",\"stats\":["
		    "{\"name\":\"rx\",\"unit\":\"bytes\",\"help\":\"Say \\\"in\\\\out\\\"\\nor not\","
		    "\"kind\":\"counter\"},"
		    "{\"name\":\"open\",\"unit\":null,\"help\":null,\"kind\":\"gauge\"},"
		    "{\"name\":\"x_total\",\"unit\":null,\"help\":null,\"kind\":\"counter\"}],\"nodes\":["
		    "{\"path\":\"\",\"values\":{\"rx\":5,\"open\":-3,\"x_total\":1},"
		    "\"local\":{\"rx\":0,\"open\":0,\"x_total\":0}},"
		    "{\"path\":\"a\",\"values\":{\"rx\":5,\"open\":-3,\"x_total\":1},"
		    "\"local\":{\"rx\":0,\"open\":0,\"x_total\":1}},"
		    "{\"path\":\"a/\\\"\\\\\\n\\u0001\",\"values\":{\"rx\":5,\"open\":-3,\"x_total\":0},"
		    "\"local\":{\"rx\":5,\"open\":-3,\"x_total\":0}}]}\n");
	pcpu_tree_destroy(tree);
}

Test(export, integers)
{
	static const struct {
		int64_t value;
		const char *text;
	} cases[] = {
		{0, "0"},
		{1, "1"},
		{-1, "-1"},
		{9, "9"},
		{10, "10"},
		{1000000, "1000000"},
		{((int64_t)1 << 53) + 1, "9007199254740993"},
		{INT64_MAX, "9223372036854775807"},
		{INT64_MIN, "-9223372036854775808"},
		{INT64_MIN + 1, "-9223372036854775807"},
	};
	struct pcpu_stat_desc stats[] = {{"up", NULL, NULL, PCPU_STAT_COUNTER},
					 {"now", NULL, NULL, PCPU_STAT_GAUGE}};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pcpu_tree *tree = make_tree("t", stats, 2);
		const char *counted = cases[i].value < 0 ? "0" : cases[i].text;
		char wanted[512];

		pcpu_node_add(pcpu_tree_root(tree), 0, cases[i].value);
		pcpu_node_add(pcpu_tree_root(tree), 1, cases[i].value);
		snprintf(wanted, sizeof(wanted),
			 "# TYPE t_up counter\nt_up_total{node=\"\"} %s\n"
			 "# TYPE t_now gauge\nt_now{node=\"\"} %s\n# EOF\n",
			 counted, cases[i].text);
		expect_text(tree, pcpu_export_openmetrics, wanted);
		snprintf(wanted, sizeof(wanted),
			 "{\"schema\":1,\"tree\":\"t\",\"stats\":["
			 "{\"name\":\"up\",\"unit\":null,\"help\":null,\"kind\":\"counter\"},"
			 "{\"name\":\"now\",\"unit\":null,\"help\":null,\"kind\":\"gauge\"}],\"nodes\":["
			 "{\"path\":\"\",\"values\":{\"up\":%s,\"now\":%s},\"local\":{\"up\":%s,\"now\":%s}}]"
			 "}\n",
			 counted, cases[i].text, counted, cases[i].text);
		expect_text(tree, pcpu_export_json, wanted);
		pcpu_tree_destroy(tree);
	}
}

Test(export, one_end)
{
	static const unsigned nodes[] = {0, 1, 1000};

	for (unsigned i = 0; i < 3; i++) {
		struct pcpu_tree *tree = make_tree("t", export_stats, NR_STATS);
		char *text;

		for (unsigned n = 0; n < nodes[i]; n++) {
			char name[16];

			snprintf(name, sizeof(name), "%u", n);
			make_node(pcpu_tree_root(tree), name);
		}
		text = export_all(tree, pcpu_export_openmetrics);
		expect_eq(occurrences(text, "# EOF"), 1);
		expect(strcmp(text + strlen(text) - 7, "\n# EOF\n") == 0);
		expect_eq(occurrences(text, "{node=\""), NR_STATS * (nodes[i] + 1));
		expect_eq(occurrences(text, "# TYPE"), NR_STATS);
		expect_eq(occurrences(text, "# HELP"), 3);
		expect_eq(occurrences(text, "# UNIT"), 2);
		free(text);
		pcpu_tree_destroy(tree);
	}
}

static void *scrape(void *tree)
{
	return export_all(tree, pcpu_export_openmetrics);
}

Test(export, cumulative)
{
	struct pcpu_stat_desc stat = {"n", NULL, NULL, PCPU_STAT_COUNTER};
	struct pcpu_tree *tree = make_tree("t", &stat, 1);
	struct pcpu_node *node;
	pthread_t threads[2];
	void *texts[2];

	must(pcpu_node_create(&node, pcpu_tree_root(tree), "a"), "a");
	pcpu_node_add(node, 0, 10);
	expect_text(tree, pcpu_export_prometheus,
		    "# TYPE t_n_total counter\nt_n_total{node=\"\"} 10\nt_n_total{node=\"a\"} 10\n");
	pcpu_node_add(node, 0, 3);
	for (unsigned i = 0; i < 2; i++)
		expect_eq(pthread_create(&threads[i], NULL, scrape, tree), 0);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], &texts[i]);
	expect(strcmp(texts[0], texts[1]) == 0);
	expect(strcmp(texts[0],
		      "# TYPE t_n counter\nt_n_total{node=\"\"} 13\nt_n_total{node=\"a\"} 13\n# EOF\n") == 0);
	expect_text(tree, pcpu_export_prometheus,
		    "# TYPE t_n_total counter\nt_n_total{node=\"\"} 13\nt_n_total{node=\"a\"} 13\n");
	/* What a node counted outlives it. */
	expect_eq(pcpu_node_destroy(node), 0);
	expect_text(tree, pcpu_export_prometheus, "# TYPE t_n_total counter\nt_n_total{node=\"\"} 13\n");
	free(texts[0]);
	free(texts[1]);
	pcpu_tree_destroy(tree);
}

/* A root and @n children, and room for no more. */
static struct pcpu_tree *full_tree(unsigned n)
{
	struct pcpu_tree_attr attr = {
		.size = sizeof(attr), .stats = export_stats, .nr_stats = NR_STATS, .max_nodes = n + 1};
	struct pcpu_tree *tree;

	must(pcpu_tree_create(&tree, &attr), "pcpu_tree_create");
	for (unsigned i = 0; i < n; i++) {
		char name[16];

		snprintf(name, sizeof(name), "n%u", i);
		make_node(pcpu_tree_root(tree), name);
	}
	return tree;
}

/* Destroy a child and make another of that name, which takes its place if nobody holds it. */
static void replace(struct pcpu_tree *tree, unsigned i)
{
	struct pcpu_node *node;
	char name[16];

	snprintf(name, sizeof(name), "n%u", i);
	expect_eq(pcpu_node_find(&node, tree, name), 0);
	expect_eq(pcpu_node_destroy(node), 0);
	expect_eq(pcpu_node_create(&node, pcpu_tree_root(tree), name), 0);
	pcpu_node_add(node, 0, 1);
	pcpu_node_put(node);
}

Test(export, failing_sinks)
{
	struct pcpu_tree *tree = full_tree(300);

	for (unsigned i = 0; i < NR_EXPORTS; i++) {
		struct text whole = {0};

		expect_eq(exports[i](tree, take, &whole), 0);
		expect(whole.pieces > 10);
		for (unsigned n = 1; n <= whole.pieces; n++) {
			struct text text = {.fail_at = n};

			expect_eq(exports[i](tree, take, &text), -1234);
			expect_eq(text.pieces, n);
			expect(!text.late);
			expect(text.length < whole.length &&
			       memcmp(text.bytes ? text.bytes : "", whole.bytes, text.length) == 0);
			free(text.bytes);
		}
		free(whole.bytes);
	}
	/* No reference was left behind. */
	for (unsigned n = 0; n < 300; n++)
		replace(tree, n);
	pcpu_tree_destroy(tree);
}

/* ---- names ---- */

static int create(const struct pcpu_stat_desc *stats, uint32_t nr)
{
	struct pcpu_tree_attr attr = {.size = sizeof(attr), .stats = stats, .nr_stats = nr};
	struct pcpu_tree *tree;
	int r = pcpu_tree_create(&tree, &attr);

	if (r == 0)
		pcpu_tree_destroy(tree);
	return r;
}

static int create_two(const char *name, enum pcpu_stat_kind kind, const char *other, const char *unit,
		      enum pcpu_stat_kind other_kind)
{
	struct pcpu_stat_desc stats[] = {{name, NULL, NULL, kind}, {other, unit, NULL, other_kind}};
	struct pcpu_stat_desc swapped[] = {stats[1], stats[0]};
	int r = create(stats, 2);

	expect_eq(create(swapped, 2), r);
	return r;
}

Test(export, clashes)
{
	const enum pcpu_stat_kind counter = PCPU_STAT_COUNTER, gauge = PCPU_STAT_GAUGE;
	struct pcpu_stat_desc latin1 = {"n", NULL, "caf\xe9", counter},
			      utf8 = {"n", NULL, "caf\xc3\xa9", counter};

	expect_eq(create_two("x", gauge, "x_total", NULL, gauge), 0);
	expect_eq(create_two("x", gauge, "x_total", NULL, counter), 0);
	expect_eq(create_two("x", counter, "x_total", NULL, gauge), -EINVAL);
	expect_eq(create_two("x", counter, "x_total", NULL, counter), -EINVAL);
	expect_eq(create_two("x", counter, "x", "total", gauge), -EINVAL);
	expect_eq(create_two("x", gauge, "x_created", NULL, gauge), 0);
	expect_eq(create_two("x", counter, "x_created", NULL, gauge), -EINVAL);
	expect_eq(create_two("x", counter, "x_created", NULL, counter), -EINVAL);
	expect_eq(create_two("x_bytes_created", gauge, "x", "bytes", counter), -EINVAL);
	expect_eq(create_two("x_info", gauge, "x", NULL, counter), 0);
	expect_eq(create_two("x_y", gauge, "x", "y", gauge), -EINVAL);
	expect_eq(create(&latin1, 1), -EINVAL);
	expect_eq(create(&utf8, 1), 0);
}

Test(export, schema)
{
	struct pcpu_tree *tree = make_tree("net", export_stats, NR_STATS);

	expect(strcmp(pcpu_tree_name(tree), "net") == 0);
	expect_eq(pcpu_tree_nr_stats(tree), NR_STATS);
	for (uint32_t i = 0; i < NR_STATS; i++) {
		const struct pcpu_stat_desc *stat = pcpu_tree_stat(tree, i);

		expect(strcmp(stat->name, export_stats[i].name) == 0 && stat->name != export_stats[i].name);
		expect_eq(stat->kind, export_stats[i].kind);
		expect(!stat->help == !export_stats[i].help && !stat->unit == !export_stats[i].unit);
	}
	expect(pcpu_tree_stat(tree, NR_STATS) == NULL);
	expect(pcpu_tree_stat(tree, UINT32_MAX) == NULL);
	pcpu_tree_destroy(tree);
}

/* Deeper than ancestors are looked up at once, and at the edges of that. */
Test(export, deep)
{
	struct pcpu_stat_desc stat = {"n", NULL, NULL, PCPU_STAT_GAUGE};
	struct pcpu_tree *tree = make_tree("t", &stat, 1);
	struct pcpu_node *node = pcpu_tree_root(tree), *found;
	char path[4096], line[4200], *text;

	for (unsigned i = 1; i <= 200; i++) {
		char name[16];

		snprintf(name, sizeof(name), "level%u", i);
		node = make_node(node, name);
	}
	text = export_all(tree, pcpu_export_prometheus);
	for (; node; node = pcpu_node_parent(node)) {
		expect_eq(pcpu_node_path(node, path, sizeof(path)), 0);
		expect_eq(pcpu_node_find(&found, tree, path), 0);
		expect(found == node);
		pcpu_node_put(found);
		snprintf(line, sizeof(line), "\nt_n{node=\"%s\"} 0\n", path);
		expect_eq(occurrences(text, line), 1);
	}
	expect_eq(occurrences(text, "\n"), 202);
	free(text);
	pcpu_tree_destroy(tree);
}

Test(export, paths)
{
	struct pcpu_tree *tree = make_tree(NULL, export_stats, NR_STATS);
	struct pcpu_node *root = pcpu_tree_root(tree), *node = make_node(make_node(root, "ab"), "c");
	char path[8] = "xyz";

	expect_eq(pcpu_node_path(NULL, path, sizeof(path)), -EINVAL);
	expect_eq(pcpu_node_path(node, NULL, 9), -EINVAL);
	expect_eq(pcpu_node_path(node, path, 0), -ERANGE);
	expect_eq(pcpu_node_path(node, path, 4), -ERANGE);
	expect(strcmp(path, "xyz") == 0);
	expect_eq(pcpu_node_path(node, path, 5), 0);
	expect(strcmp(path, "ab/c") == 0);
	expect_eq(pcpu_node_path(root, path, 0), -ERANGE);
	expect_eq(pcpu_node_path(root, path, 1), 0);
	expect(strcmp(path, "") == 0);
	pcpu_tree_destroy(tree);
}

/* ---- nodes that come and go ---- */

Test(export, stepping)
{
	struct pcpu_tree *tree = make_tree(NULL, export_stats, NR_STATS);
	struct pcpu_node *root = pcpu_tree_root(tree), *a, *b, *c, *again, *at;
	uint64_t made;

	must(pcpu_node_create(&a, root, "a"), "a");
	must(pcpu_node_create(&b, root, "b"), "b");
	must(pcpu_node_create(&c, b, "c"), "c");
	made = pcpu_tree_made(tree);
	expect_eq(made, 3);
	at = pcpu_tree_next(tree, NULL, made);
	expect(at == root);
	at = pcpu_tree_next(tree, at, made);
	expect(at == a);
	/* The walker's own node goes, and one of its name comes after all others. */
	expect_eq(pcpu_node_destroy(a), 0);
	must(pcpu_node_create(&again, root, "a"), "a");
	must(pcpu_node_create(&a, b, "young"), "young");
	at = pcpu_tree_next(tree, at, made);
	expect(at == b);
	at = pcpu_tree_next(tree, at, made);
	expect(at == c);
	/* So does everything around it. */
	expect_eq(pcpu_node_destroy(c), 0);
	expect_eq(pcpu_node_destroy(a), 0);
	expect_eq(pcpu_node_destroy(b), 0);
	at = pcpu_tree_next(tree, at, made);
	expect(at == NULL);
	at = pcpu_tree_next(tree, pcpu_tree_next(tree, NULL, UINT64_MAX), UINT64_MAX);
	expect(at == again);
	expect(pcpu_tree_next(tree, at, UINT64_MAX) == NULL);
	expect_eq(pcpu_node_destroy(again), 0);
	pcpu_tree_destroy(tree);
}

#define CHURNED 1000u

struct churn {
	struct pcpu_tree *tree;
	bool stop;
	struct text text;
	unsigned at;
};

static void churn_some(struct churn *c, unsigned n)
{
	for (; n; n--) {
		c->at = (c->at * 5 + 7) % CHURNED; /* comes by all of them */
		replace(c->tree, c->at);
	}
}

static void *churn(void *ctx)
{
	struct churn *c = ctx;

	while (!__atomic_load_n(&c->stop, __ATOMIC_RELAXED))
		churn_some(c, 1);
	return NULL;
}

/* The root's first statistic; no path twice in a family, nor a family twice. */
static int64_t check_churned(const char *text)
{
	bool seen[CHURNED];
	unsigned families = 0;
	int64_t total = -1;

	for (const char *line = text, *end; *line; line = end + 1) {
		const char *label;

		end = strchr(line, '\n');
		expect(end != NULL);
		if (strncmp(line, "# TYPE", 6) == 0) {
			families++;
			memset(seen, 0, sizeof(seen));
		}
		label = strstr(line, "{node=\"");
		if (line[0] == '#' || !label || label > end)
			continue;
		if (label[7] == '"') {
			if (families == 1)
				total = atoll(label + 9);
			continue;
		}
		expect(!seen[atoi(label + 8)]);
		seen[atoi(label + 8)] = true;
	}
	expect_eq(families, NR_STATS);
	return total;
}

/* Nobody waits for a sink: it may destroy what is being written, and make it again behind the writer's back. */
static int take_and_churn(void *ctx, const char *buf, size_t len)
{
	struct churn *c = ctx;

	churn_some(c, CHURNED / 50);
	return take(&c->text, buf, len);
}

Test(export, destroying_sinks)
{
	/* A place more than names: the writer holds a node when its sink comes to it. */
	struct churn c = {.tree = full_tree(CHURNED + 1)};
	struct pcpu_node *node;

	expect_eq(pcpu_node_find(&node, c.tree, "n1000"), 0);
	expect_eq(pcpu_node_destroy(node), 0);
	for (unsigned i = 0; i < 20; i++) {
		memset(&c.text, 0, sizeof(c.text));
		expect_eq(pcpu_export_openmetrics(c.tree, take_and_churn, &c), 0);
		expect(c.text.pieces > 20);
		expect(check_churned(c.text.bytes) >= 0);
		free(c.text.bytes);
		memset(&c.text, 0, sizeof(c.text));
		expect_eq(pcpu_export_json(c.tree, take_and_churn, &c), 0);
		free(c.text.bytes);
	}
	pcpu_tree_destroy(c.tree);
}

Test(export, churn)
{
	struct churn c = {.tree = full_tree(CHURNED + 1)};
	struct pcpu_node *node;
	pthread_t thread;
	int64_t last = 0;

	expect_eq(pcpu_node_find(&node, c.tree, "n1000"), 0);
	expect_eq(pcpu_node_destroy(node), 0);
	expect_eq(pthread_create(&thread, NULL, churn, &c), 0);
	for (unsigned i = 0; i < 100 || last < 1000; i++) {
		char *text = export_all(c.tree, pcpu_export_openmetrics);
		int64_t total = check_churned(text);

		expect(total >= last); /* never falls */
		last = total;
		free(text);
	}
	__atomic_store_n(&c.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	pcpu_tree_destroy(c.tree);
}

/* ---- files ---- */

struct place {
	char directory[32];
	char path[64];
};

static void make_place(struct place *place)
{
	strcpy(place->directory, "export_XXXXXX");
	expect(mkdtemp(place->directory) != NULL);
	snprintf(place->path, sizeof(place->path), "%s/t.prom", place->directory);
}

static unsigned entries(const struct place *place)
{
	DIR *directory = opendir(place->directory);
	unsigned n = 0;

	expect(directory != NULL);
	while (readdir(directory))
		n++;
	closedir(directory);
	return n - 2; /* itself and its parent */
}

static void remove_place(const struct place *place)
{
	unlink(place->path);
	expect_eq(rmdir(place->directory), 0);
}

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	expect(file != NULL);
	fputs(text, file);
	expect_eq(fclose(file), 0);
}

static void expect_file(const char *path, const char *wanted)
{
	size_t length = strlen(wanted);
	char *got = calloc(1, length + 2);
	FILE *file = fopen(path, "r");

	expect(file != NULL);
	expect_eq(fread(got, 1, length + 1, file), length);
	expect(strcmp(got, wanted) == 0);
	fclose(file);
	free(got);
}

Test(export, textfile)
{
	struct pcpu_tree *tree = make_export_tree(1000);
	char *text = export_all(tree, pcpu_export_prometheus);
	struct stat found;
	struct place place;

	make_place(&place);
	umask(027);
	errno = 77;
	expect_eq(pcpu_export_textfile(tree, place.path), 0);
	expect_eq(errno, 77);
	expect_file(place.path, text);
	expect_eq(stat(place.path, &found), 0);
	expect_eq(found.st_mode & 07777, 0640);
	/* Over an old one, and without a directory in the path. */
	umask(022);
	write_file(place.path, "old");
	expect_eq(chdir(place.directory), 0);
	expect_eq(pcpu_export_textfile(tree, "t.prom"), 0);
	expect_eq(pcpu_export_textfile(tree, "./t.prom"), 0);
	expect_eq(chdir(".."), 0);
	expect_file(place.path, text);
	expect_eq(stat(place.path, &found), 0);
	expect_eq(found.st_mode & 07777, 0644);
	expect_eq(entries(&place), 1);
	remove_place(&place);
	free(text);
	pcpu_tree_destroy(tree);
}

Test(export, textfile_targets)
{
	struct pcpu_tree *tree = make_tree("t", export_stats, NR_STATS);
	char *text = export_all(tree, pcpu_export_prometheus);
	char name[300], path[400], *longer = calloc(1, 70000);
	struct stat found;
	struct place place;

	make_place(&place);
	expect_eq(pcpu_export_textfile(tree, "no such directory/t.prom"), -ENOENT);
	expect_eq(pcpu_export_textfile(tree, place.directory), -EISDIR);
	expect_eq(mkfifo(place.path, 0600), 0);
	expect_eq(pcpu_export_textfile(tree, place.path), -EINVAL);
	expect_eq(stat(place.path, &found), 0);
	expect(S_ISFIFO(found.st_mode));
	expect_eq(pcpu_export_textfile(tree, "/dev/null"), -EINVAL);
	snprintf(path, sizeof(path), "%s/x", place.path);
	expect_eq(pcpu_export_textfile(tree, path), -ENOTDIR);
	expect_eq(unlink(place.path), 0);

	/* A link is replaced, and what it points to stays. */
	snprintf(path, sizeof(path), "%s/other", place.directory);
	write_file(path, "other");
	expect_eq(symlink("other", place.path), 0);
	expect_eq(pcpu_export_textfile(tree, place.path), 0);
	expect_eq(lstat(place.path, &found), 0);
	expect(S_ISREG(found.st_mode));
	expect_file(path, "other");
	expect_file(place.path, text);
	expect_eq(unlink(path), 0);

	/* As long as names can be, and longer. */
	memset(name, 'n', sizeof(name));
	name[255] = '\0';
	snprintf(path, sizeof(path), "%s/%s", place.directory, name);
	expect_eq(pcpu_export_textfile(tree, path), 0);
	expect_file(path, text);
	expect_eq(unlink(path), 0);
	name[255] = 'n';
	name[256] = '\0';
	snprintf(path, sizeof(path), "%s/%s", place.directory, name);
	expect_eq(pcpu_export_textfile(tree, path), -ENAMETOOLONG);
	memset(longer, '/', 69999);
	longer[69998] = 'x';
	expect_eq(pcpu_export_textfile(tree, longer), -ENAMETOOLONG);

	expect_eq(entries(&place), 1);
	remove_place(&place);
	free(longer);
	free(text);
	pcpu_tree_destroy(tree);
}

/* A file that may grow to so many bytes only: each write after that fails. */
Test(export, textfile_cut_short)
{
	struct pcpu_tree *tree = make_export_tree(1000);
	static const rlim_t limits[] = {0, 1, 4095, 4096, 4097, 100000};
	struct rlimit limit;
	struct place place;

	make_place(&place);
	write_file(place.path, "old");
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &limit);
	for (unsigned i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		int r;

		/* criterion's report goes to a pipe, which has no size */
		limit.rlim_cur = limits[i];
		setrlimit(RLIMIT_FSIZE, &limit);
		r = pcpu_export_textfile(tree, place.path);
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_FSIZE, &limit);
		expect_eq(r, -EFBIG);
		expect_file(place.path, "old");
		expect_eq(entries(&place), 1);
	}
	expect_eq(pcpu_export_textfile(tree, place.path), 0);
	remove_place(&place);
	pcpu_tree_destroy(tree);
}

/* On a file system of our own, where we may have one. */
Test(export, textfile_disk)
{
	struct pcpu_tree *tree = make_export_tree(5000), *small = make_tree("t", export_stats, NR_STATS);
	struct place place;
	char *text = export_all(small, pcpu_export_prometheus);

	make_place(&place);
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", place.directory, "tmpfs", 0, "size=64k")) {
		printf("# no file system of our own: %s\n", strerror(errno));
		remove_place(&place);
		return;
	}
	expect_eq(pcpu_export_textfile(small, place.path), 0);
	expect_eq(pcpu_export_textfile(tree, place.path), -ENOSPC);
	expect_file(place.path, text);
	expect_eq(entries(&place), 1);
	expect_eq(pcpu_export_textfile(small, place.path), 0);
	expect_eq(mount("none", place.directory, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
	expect_eq(pcpu_export_textfile(small, place.path), -EROFS);
	expect_file(place.path, text);
	expect_eq(entries(&place), 1);
	expect_eq(umount(place.directory), 0);
	expect_eq(rmdir(place.directory), 0);
	free(text);
	pcpu_tree_destroy(tree);
	pcpu_tree_destroy(small);
}

Test(export, textfile_no_permission)
{
	struct pcpu_tree *tree = make_tree("t", export_stats, NR_STATS);
	struct place place;

	make_place(&place);
	write_file(place.path, "old");
	expect_eq(chmod(place.directory, 0555), 0);
	if (geteuid() == 0)
		expect_eq(seteuid(65534), 0);
	expect_eq(pcpu_export_textfile(tree, place.path), -EACCES);
	if (getuid() == 0)
		expect_eq(seteuid(0), 0);
	expect_eq(chmod(place.directory, 0755), 0);
	expect_file(place.path, "old");
	expect_eq(entries(&place), 1);
	remove_place(&place);
	pcpu_tree_destroy(tree);
}

static void *write_often(void *ctx)
{
	struct churn *c = ctx;

	for (unsigned i = 0; i < 200; i++)
		expect_eq(pcpu_export_textfile(c->tree, "export_often.prom"), 0);
	return NULL;
}

/* Several writers at once, and a reader who always finds a whole file. */
Test(export, textfile_readers)
{
	struct churn c = {.tree = make_export_tree(300)};
	char *text = export_all(c.tree, pcpu_export_prometheus);
	pthread_t threads[2];

	expect_eq(pcpu_export_textfile(c.tree, "export_often.prom"), 0);
	for (unsigned i = 0; i < 2; i++)
		expect_eq(pthread_create(&threads[i], NULL, write_often, &c), 0);
	for (unsigned i = 0; i < 1000; i++)
		expect_file("export_often.prom", text);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	expect_eq(unlink("export_often.prom"), 0);
	free(text);
	pcpu_tree_destroy(c.tree);
}
