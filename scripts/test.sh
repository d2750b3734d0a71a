#!/bin/sh
# SPDX-License-Identifier: MIT
# Install what the tests need, build, and run them.
#
#	scripts/test.sh		the normal suite
#	scripts/test.sh --long	and minutes of stress, sanitizers, valgrind, aarch64, musl, clang, mutants
#
# The last line is "N passed, N failed"; the exit status is 0 only if something passed and nothing failed.
set -u

long=
case ${1-} in
'') ;;
--long) long=yes ;;
*)
	echo "usage: test.sh [--long]" >&2
	exit 2
	;;
esac

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
passed=0
failed=0

finish() {
	echo "$passed passed, $failed failed"
	[ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
	exit
}

# One failure that is no test's: something could not be built or run at all.
broken() {
	echo "not ok - $1"
	failed=$((failed + 1))
}

# A build directory, configured anew if it was, with warnings as errors.
#	build DIRECTORY MESON-OPTION...
build() {
	directory=$1
	shift
	log=$directory.log
	if [ -f "$directory/build.ninja" ]; then
		set -- --reconfigure "$@"
	fi
	if meson setup "$directory" --werror "$@" >"$log" 2>&1 && ninja -C "$directory" >>"$log" 2>&1; then
		rm -f "$log"
		return 0
	fi
	tail -n 40 "$log"
	broken "build of $directory"
	return 1
}

# Run the tests of a build directory and count what they say.
#	run DIRECTORY MESON-TEST-OPTION...
run() {
	directory=$1
	shift
	echo "== $directory $*"
	rm -f "$directory"/meson-logs/testlog*.json
	meson test -C "$directory" --no-rebuild "$@" >"$directory/test.out" 2>&1
	counts=$(scripts/count_tests.py "$directory"/meson-logs/testlog*.json) || counts="0 1"
	set -- $counts
	echo "   $1 passed, $2 failed"
	passed=$((passed + $1))
	failed=$((failed + $2))
}

scripts/deps.sh build test || {
	broken "scripts/deps.sh build test"
	finish
}

build build-test --buildtype=debugoptimized && run build-test --no-suite long
[ -z "$long" ] || . scripts/test_long.sh
finish
