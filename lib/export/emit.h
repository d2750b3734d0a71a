/* SPDX-License-Identifier: MIT */
/*
 * Text in pieces: a buffer before a write function, integers and escaping. No stdio, no locale, no allocation.
 *
 * An error sticks: what is put after it is dropped, so that callers need to look only where they would do
 * much work for nothing.
 */
#ifndef PCPU_LIB_EXPORT_EMIT_H
#define PCPU_LIB_EXPORT_EMIT_H

#include <stddef.h>
#include <stdint.h>

#include <pcpu_stat/export.h>

/* A page's worth: some 50 samples a call of write, and no burden on a thread's stack. */
#define PCPU_EMIT_BUFFER 4096u

struct pcpu_emit {
	pcpu_write_fn write;
	void *ctx;
	int error; /* what write returned, once that was not 0 */
	size_t used;
	char buffer[PCPU_EMIT_BUFFER];
};

/* Which bytes cannot stand for themselves. */
enum pcpu_escape {
	PCPU_ESCAPE_HELP,  /* backslash and line feed: help in 0.0.4 */
	PCPU_ESCAPE_LABEL, /* the double quote too: label values everywhere, and help in OpenMetrics */
	PCPU_ESCAPE_JSON,  /* and all other control characters */
};

void pcpu_emit_begin(struct pcpu_emit *emit, pcpu_write_fn write, void *ctx);
/* Write out what is left; returns the first error. */
int pcpu_emit_end(struct pcpu_emit *emit);

void pcpu_emit_bytes(struct pcpu_emit *emit, const char *bytes, size_t n);
void pcpu_emit_string(struct pcpu_emit *emit, const char *s);
void pcpu_emit_escaped(struct pcpu_emit *emit, const char *s, enum pcpu_escape escape);
void pcpu_emit_integer(struct pcpu_emit *emit, int64_t n);

#endif /* PCPU_LIB_EXPORT_EMIT_H */
