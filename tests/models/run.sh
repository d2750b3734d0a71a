#!/bin/sh
# SPDX-License-Identifier: MIT
# Search a spin model for wrong states, and see that each of its mutants has some.
#
#	run.sh MODEL [MINUTES]		MODEL: limit, or a path
#
# All states with one call per actor (OPS=1), then what MINUTES (default 2) suffice for of those with two, by a hash
# of the states. Mutants are the words in capitals that begin a line of the model's opening comment.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/tap.sh"

model=$1
minutes=${2-2}
[ -f "$model" ] || model=$(dirname "$0")/$1.pml
have spin || { skip "$model" "no spin"; finish; }
model=$(realpath "$model")

# search COMPILER-FLAGS SEARCH-FLAGS MODEL-FLAGS
search() {
	(
		cd "$scratch" || exit 1
		# shellcheck disable=SC2086
		spin -a $3 "$model" && cc -O2 -DSAFETY $1 -o pan pan.c && ./pan -E -m1000000 $2 >pan.out
		grep -E '^pan|states, stored|errors:' pan.out
	) 2>&1
}

# Nothing wrong found, in a search that was not cut short by its own limits.
right() {
	search "$@" | tee "$scratch/said"
	grep -q 'errors: 0$' "$scratch/said" && ! grep -qE 'too small|out of memory' "$scratch/said"
}

wrong() {
	search "$@" | tee "$scratch/said"
	grep -q 'assertion violated' "$scratch/said"
}

name=$(basename "$model" .pml)
ok "$name: nothing wrong in all states, one call each" right -DCOLLAPSE -w24 -DOPS=1
ok "$name: nothing wrong in $minutes minutes, two calls each" right -DBITSTATE "-w31 -Q$minutes" -DOPS=2
for mutant in $(sed -n 's/^ \* \([A-Z][A-Z_]*\)	.*/\1/p' "$model"); do
	ok "$name: $mutant is found" wrong -DBITSTATE -w31 "-DOPS=2 -D$mutant"
done
finish
