#!/bin/sh
# SPDX-License-Identifier: MIT
# What the libraries export and demand. I10: the core links neither libnuma nor liburcu.
#
#	check_symbols.sh SOURCE-ROOT CORE-SHARED FULL-SHARED
set -u
root=$1
core=$2
full=$3
. "$root/tests/tap.sh"

exports_ours() {
	nm -D --defined-only "$1" | awk '{ print $3 }' | sed 's/@.*//' | grep -vE '^(pcpu_[a-z0-9_]*|PCPU_STAT_[0-9.]*)$' && return 1
	[ "$(nm -D --defined-only "$1" | wc -l)" -gt 10 ]
}

# Every declaration marked PCPU_API is there, in the library that has it.
exports_all() {
	for name in pcpu_get_info pcpu_backend_name pcpu_slot_node pcpu_version pcpu_region_create \
		pcpu_region_close pcpu_counter_init pcpu_counter_destroy pcpu_counter_add pcpu_counter_sub \
		pcpu_counter_inc pcpu_counter_dec pcpu_counter_read pcpu_counter_sum pcpu_counter_read_positive \
		pcpu_counter_sum_positive pcpu_counter_error pcpu_counter_compare pcpu_counter_set \
		pcpu_counter_drain pcpu_counter_set_batch pcpu_counter_add_slow pcpu_rseq_offset \
		pcpu_limit_create pcpu_limit_open pcpu_limit_destroy pcpu_limit_close pcpu_limit_try_charge \
		pcpu_limit_charge pcpu_limit_uncharge pcpu_limit_set_max pcpu_limit_usage pcpu_limit_peak \
		pcpu_limit_reset_peak pcpu_limit_failures pcpu_limit_underflows pcpu_limit_drain \
		pcpu_limit_try_charge_slow pcpu_limit_charge_slow pcpu_limit_uncharge_slow; do
		nm -D --defined-only "$1" | grep -q " $name\(@@.*\)\?\$" || { echo "missing: $name"; return 1; }
	done
}

no_foreign_library() {
	readelf -dW "$1" | grep NEEDED
	! readelf -dW "$1" | grep NEEDED | grep -E 'numa|urcu|pthread|stdc'
}

# The core loads on an old C library: 2.17 is of 2012. The full library may start threads, whose symbols are
# as new as the C library it is built with. In both, rseq's names carry no version at all.
old_glibc() {
	nm -D "$1" | grep -o 'GLIBC_[0-9.]*' | sort -u
	no_rseq_version "$1" || return
	newest=$(nm -D "$1" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -V | tail -n 1)
	[ "$(printf '%s\n2.17\n' "$newest" | sort -V | tail -n 1)" = 2.17 ]
}

no_rseq_version() {
	nm -D "$1" | grep rseq
	! nm -D --undefined-only "$1" | grep '__rseq.*@'
}

soname() {
	readelf -dW "$1" | grep -F "[$2]"
}

# The program cannot call malloc through a library that does not: I10.
no_malloc() {
	! nm -D --undefined-only "$1" | grep -E ' (malloc|calloc|realloc|free|strdup|posix_memalign|aligned_alloc|fopen|printf|puts)(@|$)'
}

protected() {
	readelf -dW "$1" | grep -E 'NODELETE'
}

for library in "$core" "$full"; do
	name=$(basename "$library")
	ok "$name exports nothing but pcpu_*" exports_ours "$library"
	ok "$name exports every call" exports_all "$library"
	ok "$name names rseq without a version" no_rseq_version "$library"
	ok "$name is never unmapped under its threads" protected "$library"
done
ok "the core asks for no new C library" old_glibc "$core"
ok "the core needs no other library" no_foreign_library "$core"
ok "the core does not so much as name malloc" no_malloc "$core"
ok "soname of the core" soname "$core" libpcpu_stat_core.so.0
ok "soname of the library" soname "$full" libpcpu_stat.so.0
finish
