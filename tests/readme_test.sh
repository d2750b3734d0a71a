#!/bin/sh
# SPDX-License-Identifier: MIT
# The programs in README.md and doc/*.md: each block of C is a whole program, compiled as README says against the
# library of a build directory, and run. A block of text right behind it is what it prints. The first two blocks
# of README are the examples of the source tree. And the tests that doc/design.md names exist.
#
#	readme_test.sh SOURCE-ROOT BUILD-ROOT
set -u
root=$1
build=$2
. "$root/tests/tap.sh"

# The build directory's own pkg-config files: nothing has to be installed.
PKG_CONFIG_PATH=$build/meson-uninstalled
LD_LIBRARY_PATH=$build/lib
export PKG_CONFIG_PATH LD_LIBRARY_PATH

# The command that README tells its readers.
command=$(grep -m 1 '^cc .*pkg-config' "$root/README.md")

# Write the blocks of a file as NAME-1.c, NAME-2.c, .. and what they print as NAME-1.text, ..
extract() {
	awk -v name="$2" '
		inside && /^```$/ { close(file); inside = 0; line = NR; next }
		inside { print > file; next }
		/^```c$/ { number++; file = name "-" number ".c"; inside = 1; next }
		/^```text$/ && number && NR == line + 1 { file = name "-" number ".text"; inside = 1; next }
	' "$1"
}

compiles() {
	cp "$1" "$scratch/counter.c"
	(cd "$scratch" && eval "$command $2 -Wall -Wextra -Werror")
}

prints() {
	timeout 60 "$scratch/counter" >"$scratch/printed" || return
	[ ! -f "$1" ] || diff "$1" "$scratch/printed"
}

ok "README shows how to compile" test -n "$command"
for document in "$root/README.md" "$root"/doc/*.md; do
	name=$(basename "$document" .md)
	extract "$document" "$scratch/$name"
	for program in "$scratch/$name"-*.c; do
		[ -f "$program" ] || continue
		block=$(basename "$program" .c)
		ok "$block compiles" compiles "$program" ""
		ok "$block does what it says" prints "${program%.c}.text"
		ok "$block compiles inline" compiles "$program" "-O2 -DPCPU_STAT_INLINE"
		ok "$block does the same" prints "${program%.c}.text"
	done
done

# The example behind its head, which ends with the first empty line.
is_example() {
	sed '1,/^$/d' "$root/examples/$2" | diff - "$scratch/README-$1.c"
}
# Each unit test that the table of invariants names, as suite.test or suite.*.
tests_exist() {
	sed -n '/^### Who checks them/,/^## /p' "$root/doc/design.md" | grep '^|' |
		grep -oE '\b(counter|cpu|fence|limit|placement|region|slots|topology|tree|node|export)\.[a-z_*][a-z_0-9]*' |
		grep -v '\.c$' | sort -u >"$scratch/named"
	while IFS=. read -r suite test; do
		[ "$test" = '*' ] && test='[a-z]'
		grep -q "^Test($suite, $test" "$root"/tests/*.c || echo "$suite.$test"
	done <"$scratch/named" >"$scratch/missing"
	cat "$scratch/missing"
	[ -s "$scratch/named" ] && [ ! -s "$scratch/missing" ]
}
ok "the tests that doc/design.md names exist" tests_exist
ok "README's counter is examples/counter.c" is_example 1 counter.c
ok "README's tree is examples/tree.c" is_example 2 tree.c
finish
