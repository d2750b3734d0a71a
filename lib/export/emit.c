/* SPDX-License-Identifier: MIT */
#include "export/emit.h"

#include <stdbool.h>
#include <string.h>

void pcpu_emit_begin(struct pcpu_emit *emit, pcpu_write_fn write, void *ctx)
{
	/* Not the buffer. */
	emit->write = write;
	emit->ctx = ctx;
	emit->error = 0;
	emit->used = 0;
}

static void write_out(struct pcpu_emit *emit)
{
	if (!emit->error)
		emit->error = emit->write(emit->ctx, emit->buffer, emit->used);
	emit->used = 0;
}

int pcpu_emit_end(struct pcpu_emit *emit)
{
	if (emit->used)
		write_out(emit);
	return emit->error;
}

void pcpu_emit_bytes(struct pcpu_emit *emit, const char *bytes, size_t n)
{
	while (n) {
		size_t room = sizeof(emit->buffer) - emit->used, part = n < room ? n : room;

		memcpy(emit->buffer + emit->used, bytes, part);
		emit->used += part;
		bytes += part;
		n -= part;
		if (emit->used == sizeof(emit->buffer))
			write_out(emit);
	}
}

void pcpu_emit_string(struct pcpu_emit *emit, const char *s)
{
	pcpu_emit_bytes(emit, s, strlen(s));
}

static bool is_plain(unsigned char c, enum pcpu_escape escape)
{
	switch (c) {
	case '\n':
	case '\\':
		return false;
	case '"':
		return escape == PCPU_ESCAPE_HELP;
	default:
		return c >= ' ' || escape != PCPU_ESCAPE_JSON;
	}
}

static void emit_special(struct pcpu_emit *emit, unsigned char c)
{
	static const char digits[] = "0123456789abcdef";
	char text[] = {'\\', (char)c, '0', '0', digits[c >> 4], digits[c & 15]};

	if (c == '\n')
		text[1] = 'n';
	else if (c < ' ')
		text[1] = 'u';
	pcpu_emit_bytes(emit, text, text[1] == 'u' ? 6 : 2);
}

void pcpu_emit_escaped(struct pcpu_emit *emit, const char *s, enum pcpu_escape escape)
{
	const char *plain = s;

	for (; *s; s++) {
		if (is_plain((unsigned char)*s, escape))
			continue;
		pcpu_emit_bytes(emit, plain, (size_t)(s - plain));
		emit_special(emit, (unsigned char)*s);
		plain = s + 1;
	}
	pcpu_emit_bytes(emit, plain, (size_t)(s - plain));
}

void pcpu_emit_integer(struct pcpu_emit *emit, int64_t n)
{
	char text[20]; /* -9223372036854775808 */
	char *at = text + sizeof(text);
	uint64_t rest = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;

	do
		*--at = (char)('0' + rest % 10);
	while (rest /= 10);
	if (n < 0)
		*--at = '-';
	pcpu_emit_bytes(emit, at, (size_t)(text + sizeof(text) - at));
}
