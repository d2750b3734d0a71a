#!/bin/sh
# SPDX-License-Identifier: MIT
# Each public header alone, in every C and C++ there is, pedantic, warnings as errors, function and inline form.
# counter_inline.h is no header of its own: counter.h includes it.
#
#	check_headers.sh SOURCE-ROOT
set -u
root=$1
. "$root/tests/tap.sh"

headers=$(cd "$root/include" && find pcpu_stat -name '*.h' ! -name '*_inline.h' | sort)

# A file per header, which also uses what the header defines as macros.
for header in $headers; do
	file=$scratch/$(echo "$header" | tr / _)
	for suffix in c cc; do
		printf '#include <%s>\n#include <%s>\n' "$header" "$header" >"$file.$suffix"
		cat >>"$file.$suffix" <<-'END'
			#ifdef PCPU_COUNTER_INIT
			extern struct pcpu_counter counter;
			struct pcpu_counter counter = PCPU_COUNTER_INIT;
			static struct pcpu_counter other = PCPU_COUNTER_INIT;
			void use(int64_t n);
			void use(int64_t n)
			{
				pcpu_counter_add(&counter, n);
				pcpu_counter_sub(&counter, n);
				pcpu_counter_inc(&other);
				pcpu_counter_dec(&other);
			}
			#elif defined(PCPU_LIMIT_MAX)
			void use(struct pcpu_limit *limit, int64_t n);
			void use(struct pcpu_limit *limit, int64_t n)
			{
				if (pcpu_limit_try_charge(limit, n, NULL))
					pcpu_limit_uncharge(limit, n);
				pcpu_limit_charge(limit, 1);
				pcpu_limit_uncharge(limit, PCPU_LIMIT_MAX);
			}
			#else
			extern int nothing;
			#endif
		END
	done
done

compiles() {
	# shellcheck disable=SC2086
	"$1" -std="$2" $3 -Wall -Wextra -Wpedantic -Wshadow -Wundef -Werror -fsyntax-only -I"$root/include" \
		"$scratch"/*."$4"
}

# Does the compiler know the language at all?
knows() {
	echo 'int nothing;' >"$scratch/none.$3x"
	"$1" -std="$2" -x "$4" -fsyntax-only "$scratch/none.$3x" 2>/dev/null
}

for inline in "" -DPCPU_STAT_INLINE "-DPCPU_STAT_INLINE -DPCPU_STAT_UNLOADABLE -O2"; do
	for cc in gcc clang; do
		have $cc || { skip "$cc" "not here"; continue; }
		for std in c99 c11 c17 c2x c23 gnu11; do
			knows $cc $std c c || continue
			ok "$cc $std $inline" compiles $cc $std "$inline -Wstrict-prototypes" c
		done
	done
	for cxx in g++ clang++; do
		have $cxx || { skip "$cxx" "not here"; continue; }
		for std in c++11 c++14 c++17 c++20 c++2b c++23; do
			knows $cxx $std cc c++ || continue
			ok "$cxx $std $inline" compiles $cxx $std "$inline" cc
		done
	done
done

# No other library's header: what each pulls in is ours or the compiler's and C library's plain types.
only_ours() {
	for header in $headers; do
		echo "#include <$header>" | gcc -x c -std=c11 -M -I"$root/include" - | tr ' \\' '\n\n' |
			grep '\.h$' | grep -vE '/pcpu_stat/|/(stddef|stdbool|stdint|stdint-intn|stdint-uintn|stdc-predef|features|features-time64|libc-header-start|types|typesizes|time64|wchar|wordsize|timesize|long-double|cdefs|stubs|stubs-[0-9a-z]*|stdint-least)\.h$' &&
			return 1
	done
	return 0
}
ok "headers pull in no other library's" only_ours
finish
