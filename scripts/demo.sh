#!/bin/sh
# SPDX-License-Identifier: MIT
# See the library at work: install what is missing, build, count real trees and have find and wc check the
# numbers, then show what an add costs. Needs no arguments; works from any directory; fails if a step does.
set -eu

[ $# -eq 0 ] || {
	echo "demo.sh: takes no arguments" >&2
	exit 2
}

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build-demo

step() {
	printf '\n== %s\n' "$1"
}

# Run a command whose output is of interest only if it fails.
quietly() {
	"$@" >"$log" 2>&1 || {
		cat "$log" >&2
		echo "demo.sh: failed: $*" >&2
		exit 1
	}
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

step "Tools and libraries"
"$root/scripts/deps.sh" build bench
echo "all there"

step "Release build in build-demo"
if [ -f "$build/build.ninja" ]; then
	quietly meson setup --reconfigure "$build" "$root" --buildtype=release -Dexamples=true -Dbench=enabled -Dtests=false
else
	quietly meson setup "$build" "$root" --buildtype=release -Dexamples=true -Dbench=enabled -Dtests=false
fi
quietly meson compile -C "$build"
echo "built"

# Twice: a worker per CPU, then many more than CPUs. Rates of the first are those of the disk if nobody read
# the files lately.
step "One worker per CPU: count /usr/share/doc and /usr/include, show the directories with most in them, compare
   all in all and by directory with find and wc"
"$build/examples/scan" --interval 0.2 --top 5 --verify
step "16 workers: the same, down to depth 1"
"$build/examples/scan" --interval 0.05 --depth 1 --verify --workers 16

step "A memory budget: tenants under groups under a total, with proof at the end"
"$build/examples/pool"

step "The cost of an add"
"$build/bench/bench_counter" --summary
