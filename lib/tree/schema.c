/* SPDX-License-Identifier: MIT */
#include "tree/schema.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 63u
#define DEFAULT_NAME   "tree"

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool identifier_ok(const char *name)
{
	size_t i;

	if (!name || !is_letter(name[0]))
		return false;
	for (i = 1; name[i]; i++)
		if (i >= NAME_MAX_BYTES || !(is_letter(name[i]) || (name[i] >= '0' && name[i] <= '9')))
			return false;
	return true;
}

/* The length of the UTF-8 sequence at @s, or 0: overlong forms, surrogates and more than 21 bits are refused.
 */
static size_t utf8_length(const unsigned char *s, size_t left)
{
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t length = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 : s[0] >> 3 == 30 ? 4 : 0;
	uint32_t point;

	if (length < 2 || length > left)
		return length == 1 ? 1 : 0;
	point = s[0] & (0xffu >> (length + 1));
	for (size_t i = 1; i < length; i++) {
		if (s[i] >> 6 != 2)
			return 0;
		point = point << 6 | (s[i] & 0x3f);
	}
	if (point < smallest[length] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff))
		return 0;
	return length;
}

static bool is_utf8(const char *s, size_t bytes)
{
	for (size_t i = 0, length; i < bytes; i += length) {
		length = utf8_length((const unsigned char *)s + i, bytes - i);
		if (length == 0)
			return false;
	}
	return true;
}

bool pcpu_node_name_ok(const char *name, size_t bytes)
{
	return bytes > 0 && bytes <= NAME_MAX_BYTES && !memchr(name, '/', bytes) && is_utf8(name, bytes);
}

/* name, and unit behind an underscore: the family that an exporter writes. */
static void family(char *to, const struct pcpu_stat_desc *stat)
{
	strcpy(to, stat->name);
	if (stat->unit && stat->unit[0]) {
		strcat(to, "_");
		strcat(to, stat->unit);
	}
}

/* Could @longer stand for a sample of a counter family @name? OpenMetrics 1.0 keeps both suffixes for them. */
static bool is_sample_of(const char *longer, const char *name)
{
	size_t n = strlen(name);

	return strncmp(longer, name, n) == 0 &&
	       (strcmp(longer + n, "_total") == 0 || strcmp(longer + n, "_created") == 0);
}

/* Would the families or the samples of two statistics have one name? */
static bool clash(const struct pcpu_stat_desc *a, const struct pcpu_stat_desc *b)
{
	char one[2 * NAME_MAX_BYTES + 2], other[2 * NAME_MAX_BYTES + 2];

	if (strcmp(a->name, b->name) == 0)
		return true;
	family(one, a);
	family(other, b);
	if (strcmp(one, other) == 0)
		return true;
	return (b->kind == PCPU_STAT_COUNTER && is_sample_of(one, other)) ||
	       (a->kind == PCPU_STAT_COUNTER && is_sample_of(other, one));
}

int pcpu_schema_check(const struct pcpu_tree_attr *attr)
{
	if (attr->name && !identifier_ok(attr->name))
		return -EINVAL;
	if (!attr->stats || attr->nr_stats == 0 || attr->nr_stats > PCPU_STATS_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < attr->nr_stats; i++) {
		const struct pcpu_stat_desc *stat = &attr->stats[i];

		if (!identifier_ok(stat->name) ||
		    (stat->unit && stat->unit[0] && !identifier_ok(stat->unit)) ||
		    (stat->help && !is_utf8(stat->help, strlen(stat->help))) ||
		    (stat->kind != PCPU_STAT_COUNTER && stat->kind != PCPU_STAT_GAUGE))
			return -EINVAL;
		for (uint32_t j = 0; j < i; j++)
			if (clash(stat, &attr->stats[j]))
				return -EINVAL;
	}
	return 0;
}

static size_t string_bytes(const char *s)
{
	return s ? strlen(s) + 1 : 0;
}

/* Copy @s to *at and move that on. */
static char *put_string(char **at, const char *s)
{
	size_t bytes = string_bytes(s);
	char *to = *at;

	if (!s)
		return NULL;
	memcpy(to, s, bytes);
	*at += bytes;
	return to;
}

int pcpu_schema_copy(char **name, struct pcpu_stat_desc **stats, const struct pcpu_tree_attr *attr)
{
	const char *tree_name = attr->name ? attr->name : DEFAULT_NAME;
	size_t bytes = attr->nr_stats * sizeof(**stats) + string_bytes(tree_name);
	char *at;

	for (uint32_t i = 0; i < attr->nr_stats; i++)
		bytes += string_bytes(attr->stats[i].name) + string_bytes(attr->stats[i].unit) +
			 string_bytes(attr->stats[i].help);
	*stats = malloc(bytes);
	if (!*stats)
		return -ENOMEM;
	at = (char *)(*stats + attr->nr_stats);
	*name = put_string(&at, tree_name);
	for (uint32_t i = 0; i < attr->nr_stats; i++) {
		const struct pcpu_stat_desc *from = &attr->stats[i];

		(*stats)[i] = (struct pcpu_stat_desc){
			.name = put_string(&at, from->name),
			.unit = put_string(&at, from->unit),
			.help = put_string(&at, from->help),
			.kind = from->kind,
		};
	}
	return 0;
}
