#!/bin/sh
# SPDX-License-Identifier: MIT
# Adds compiled into programs, with every compiler and in every way that changes code: they build, count, and
# every abort handler carries the signature. And what the library's own code looks like.
#
#	check_sections.sh SOURCE-ROOT STATIC-LIBRARY SHARED-LIBRARY
set -u
root=$1
archive=$2
shared=$3
. "$root/tests/tap.sh"

built_and_run() {
	# shellcheck disable=SC2086
	$1 $2 -Wall -Wextra -Werror -I"$root/include" "$root/tests/inline_adds.c" "$archive" -o "$scratch/adds" &&
		"$scratch/adds"
}

for cc in gcc clang; do
	have $cc || { skip "50 adds, $cc" "not here"; continue; }
	for flags in -O0 -O1 -O2 -O3 -Os "-O2 -fPIE -pie" "-O0 -fPIE -pie" "-O2 -fno-pie -no-pie" \
		"-O2 -fcf-protection=full" "-O2 -ffunction-sections -Wl,--gc-sections" "-O2 -g3" "-std=c99 -O1" \
		"-O2 -march=x86-64-v3" "-O2 -fstack-protector-all -D_FORTIFY_SOURCE=2"; do
		ok "50 adds, $cc $flags" built_and_run "$cc" "$flags"
	done
	# A linker without the compiler's plugin is no fault of ours.
	echo 'int main(void) { return 0; }' >"$scratch/empty.c"
	for flags in "-O2 -flto" "-O0 -flto" "-O2 -flto -fPIE -pie"; do
		if $cc -flto "$scratch/empty.c" -o "$scratch/empty" 2>/dev/null; then
			ok "50 adds, $cc $flags" built_and_run "$cc" "$flags"
		else
			skip "50 adds, $cc $flags" "no linking of its objects here"
		fi
	done
done

comdat() {
	echo '#include "comdat.h"' >"$scratch/first.cc"
	printf '#define COMDAT_SECOND\n#include "comdat.h"\n' >"$scratch/second.cc"
	# shellcheck disable=SC2086
	$1 $2 -I"$root/include" -I"$root/tests" "$scratch/first.cc" "$scratch/second.cc" "$archive" \
		-o "$scratch/comdat" && "$scratch/comdat"
}

for cxx in g++ clang++; do
	have $cxx || { skip "discarded copy, $cxx" "not here"; continue; }
	for flags in -O0 -O2 "-O2 -fPIE -pie" "-O0 -ffunction-sections -Wl,--gc-sections"; do
		ok "discarded copy of an inline function, $cxx $flags" comdat "$cxx" "$flags"
	done
done

# As many signatures in the abort handlers of the shared library as descriptors, and some.
signatures() {
	size=$(readelf -SW "$shared" | sed -n 's/.* __rseq_cs *PROGBITS *[0-9a-f]* [0-9a-f]* \([0-9a-f]*\) .*/\1/p')
	objcopy -O binary -j __rseq_failure "$shared" "$scratch/failure" || return
	found=$(od -An -v -tx1 "$scratch/failure" | tr -d ' \n' | grep -o 0fb93d53300553 | wc -l)
	echo "descriptors: 0x$size bytes, signatures: $found"
	[ "$found" -gt 0 ] && [ "$((0x$size))" -eq "$((found * 32))" ]
}
ok "signatures in the shared library" signatures

# The instructions of one function of the library.
instructions() {
	objdump -d --no-show-raw-insn "$shared" |
		awk -v f="<$1>:" '$2 == f { on = 1; next } /^$/ { on = 0 } on' | cut -f2-
}

# "A load or two, no store": everything but loads into registers and the return is refused.
read_loads() {
	instructions pcpu_counter_read >"$scratch/read"
	cat "$scratch/read"
	[ -s "$scratch/read" ] || return 1
	grep -vE '^(endbr64|ret|nop.*|xchg +%ax,%ax|mov +[^,]*\([^)]*\),%[a-z0-9]+) *$' "$scratch/read" && return 1
	[ "$(grep -c '(%' "$scratch/read")" -le 2 ]
}
ok "read is a load or two and no store" read_loads

# I5: up to its return, an add has no call, no locked instruction and no jump backwards.
add_is_straight() {
	instructions pcpu_counter_add | sed '/^ret/q' >"$scratch/add"
	cat "$scratch/add"
	[ -s "$scratch/add" ] || return 1
	! grep -E '^(call|lock|syscall|xchg +%[a-z]+,.*\(|cmpxchg)' "$scratch/add"
}
ok "I5: add calls nothing and locks nothing up to its return" add_is_straight

# The same for charging within the stock.
charge_is_straight() {
	instructions "$1" | sed '/^ret/q' >"$scratch/charge"
	cat "$scratch/charge"
	[ -s "$scratch/charge" ] || return 1
	! grep -E '^(call|lock|syscall|xchg +%[a-z]+,.*\(|cmpxchg)' "$scratch/charge"
}
for call in pcpu_limit_try_charge pcpu_limit_charge pcpu_limit_uncharge; do
	ok "I5: $call calls nothing and locks nothing within the stock" charge_is_straight $call
done
finish
