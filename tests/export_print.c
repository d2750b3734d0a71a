/* SPDX-License-Identifier: MIT */
/*
 * The tree of export_tree.h, for other programs' parsers: export_print openmetrics|prometheus|json [NODES].
 * Under the locale of the environment, which must be there.
 */
#include <locale.h>
#include <string.h>
#include <unistd.h>

#include "export_tree.h"

static int write_fd(void *ctx, const char *buf, size_t len)
{
	const int *fd = ctx;

	while (len) {
		ssize_t n = write(*fd, buf, len);

		if (n < 0)
			return 1;
		buf += n;
		len -= (size_t)n;
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *format = argc > 1 ? argv[1] : "";
	struct pcpu_tree *tree;
	int fd = STDOUT_FILENO, r = 2;

	if (!setlocale(LC_ALL, "")) {
		fprintf(stderr, "no such locale\n");
		return 3;
	}
	tree = make_export_tree(argc > 2 ? (unsigned)atoi(argv[2]) : 0);
	if (strcmp(format, "openmetrics") == 0)
		r = pcpu_export_openmetrics(tree, write_fd, &fd);
	else if (strcmp(format, "prometheus") == 0)
		r = pcpu_export_prometheus(tree, write_fd, &fd);
	else if (strcmp(format, "json") == 0)
		r = pcpu_export_json(tree, write_fd, &fd);
	pcpu_tree_destroy(tree);
	return r;
}
