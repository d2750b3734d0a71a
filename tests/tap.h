/* SPDX-License-Identifier: MIT */
/*
 * Plain TAP for programs that criterion cannot run: stress, forks, filters, sanitizers.
 *
 *	tap_ok(sum == 20900, "sum is %lld", sum);	one result, with what was seen
 *	return tap_done();				the plan and the exit status
 */
#ifndef PCPU_TESTS_TAP_H
#define PCPU_TESTS_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static unsigned tap_count, tap_failed;

__attribute__((format(printf, 2, 3), unused)) static bool tap_ok(bool good, const char *format, ...)
{
	va_list args;

	tap_count++;
	tap_failed += !good;
	printf("%sok %u - ", good ? "" : "not ", tap_count);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
	return good;
}

__attribute__((unused)) static void tap_skip(const char *what, const char *why)
{
	printf("ok %u - %s # SKIP %s\n", ++tap_count, what, why);
	fflush(stdout);
}

__attribute__((unused)) static int tap_done(void)
{
	printf("1..%u\n", tap_count);
	fflush(stdout);
	return tap_failed > 0;
}

#endif /* PCPU_TESTS_TAP_H */
