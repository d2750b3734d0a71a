/* SPDX-License-Identifier: MIT */
/*
 * Unit tests: criterion's Test(suite, name), and two assertions that say what they saw.
 *
 * Where criterion cannot be (under sanitizers, other machines, other C libraries) the same names print TAP, each
 * test in a child of its own; UNIT_WITHOUT_CRITERION says so.
 */
#ifndef PCPU_TESTS_UNIT_H
#define PCPU_TESTS_UNIT_H

#include <inttypes.h>
#include <stdbool.h>

#ifndef UNIT_WITHOUT_CRITERION

#include <criterion/criterion.h>

#define unit_fail(...) cr_assert_fail(__VA_ARGS__)

#else

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct unit_test {
	const char *name;
	void (*run)(void);
	struct unit_test *next;
};

static struct unit_test *unit_tests;

#define Test(suite, title)                                                                                   \
	static void suite##_##title(void);                                                                   \
	__attribute__((constructor)) static void suite##_##title##_add(void)                                 \
	{                                                                                                    \
		static struct unit_test test = {#suite "::" #title, suite##_##title, NULL};                  \
		test.next = unit_tests;                                                                      \
		unit_tests = &test;                                                                          \
	}                                                                                                    \
	static void suite##_##title(void)

#define unit_fail(...)                                                                                       \
	do {                                                                                                 \
		printf("# %s:%d: ", __FILE__, __LINE__);                                                     \
		printf(__VA_ARGS__);                                                                         \
		printf("\n");                                                                                \
		exit(1);                                                                                     \
	} while (0)

int main(void)
{
	unsigned n = 0, failed = 0;

	for (const struct unit_test *t = unit_tests; t; t = t->next, n++) {
		int status;
		pid_t child;

		fflush(stdout);
		child = fork();
		if (child == 0) {
			t->run();
			exit(0);
		}
		if (child < 0 || waitpid(child, &status, 0) != child || status) {
			printf("not ");
			failed++;
		}
		printf("ok %u - %s\n", n + 1, t->name);
	}
	printf("1..%u\n", n);
	return failed > 0;
}

#endif

#define expect(condition)                                                                                    \
	do {                                                                                                 \
		if (!(condition))                                                                            \
			unit_fail("not so: %s", #condition);                                                 \
	} while (0)

#define expect_eq(got, wanted)                                                                               \
	do {                                                                                                 \
		intmax_t got_ = (intmax_t)(got), wanted_ = (intmax_t)(wanted);                               \
		if (got_ != wanted_)                                                                         \
			unit_fail("%s is %" PRIdMAX ", not %" PRIdMAX, #got, got_, wanted_);                 \
	} while (0)

#endif /* PCPU_TESTS_UNIT_H */
