#!/bin/sh
# SPDX-License-Identifier: MIT
# Check the Promela models in this directory with spin, and that each of their mutants fails.
#
#	run.sh [MODEL...]	all, or those named (without .pml)
#
# A model names in its comments
#
#	MUTANTS: NAME NAME	macros that take a step of its argument out: at least one variant has to fail
#	VARIANTS: NAME NAME	macros that choose what is run; none: the model as it is
#
# Prints TAP. Needs spin and a C compiler; MODEL_MEMORY is the most memory of one run, MB (default 6000).
set -u

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
count=0
failed=0

result() {
	count=$((count + 1))
	[ "$1" = ok ] || failed=$((failed + 1))
	echo "$1 $count - $2"
}

# names MODEL WORD: what follows "WORD:" in the comments.
names() {
	sed -n "s/^[ *]*$2: *//p" "$here/$1.pml" | tr '\n' ' '
}

# search MODEL MACRO...: 0 no error, 1 an error was found, 2 neither.
search() {
	model=$1
	shift
	set -- $(printf ' -D%s' "$@")
	rm -f "$work"/pan*
	(
		cd "$work" || exit 1
		spin "$@" -a "$here/$model.pml" &&
			${CC:-cc} -O2 -w -DSAFETY -DCOLLAPSE -DNOFAIR -DMEMLIM="${MODEL_MEMORY:-6000}" -o pan pan.c &&
			./pan -m1000000
	) >"$work/out" 2>&1
	if grep -q 'errors: [1-9]' "$work/out"; then
		return 1
	elif grep -q 'errors: 0' "$work/out" && ! grep -q 'Search not completed\|max search depth' "$work/out"; then
		return 0
	fi
	return 2
}

states() {
	sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1 states/p' "$work/out"
}

if ! command -v spin >/dev/null; then
	echo "1..0 # SKIP no spin"
	exit 0
fi
if [ $# -eq 0 ]; then
	set -- $(cd "$here" && ls ./*.pml | sed 's|^\./||; s|\.pml$||')
fi
for model in "$@"; do
	variants=$(names "$model" VARIANTS)
	: "${variants:=WHOLE}"
	for variant in $variants; do
		if search "$model" "$variant"; then
			result ok "$model $variant holds ($(states))"
		else
			result "not ok" "$model $variant holds"
			sed 's/^/# /' "$work/out" | tail -n 20
		fi
	done
	for mutant in $(names "$model" MUTANTS); do
		caught=
		for variant in $variants; do
			search "$model" "$variant" "$mutant"
			[ $? -eq 1 ] && caught=$variant && break
		done
		if [ -n "$caught" ]; then
			result ok "$model without $mutant fails ($caught, $(states))"
		else
			result "not ok" "$model mutant $mutant fails"
		fi
	done
done
echo "1..$count"
[ "$failed" -eq 0 ]
