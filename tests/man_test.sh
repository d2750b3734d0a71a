#!/bin/sh
# SPDX-License-Identifier: MIT
# The manual pages: they are well-formed, and every call of the public headers is on one, under its name.
#
#	man_test.sh SOURCE-ROOT
set -u
root=$1
. "$root/tests/tap.sh"

# Warnings count; style, such as the name of a library that the tool has not heard of, does not.
if have mandoc; then
	lint() { mandoc -T lint -W warning "$1"; }
elif have groff; then
	lint() { [ -z "$(groff -mdoc -ww -z -Tutf8 "$1" 2>&1 | tee /dev/stderr)" ]; }
else
	lint() { false; }
fi
for page in "$root"/man/*.3; do
	name=$(basename "$page")
	if have mandoc || have groff; then
		ok "$name is well-formed" lint "$page"
	else
		skip "$name is well-formed" "neither mandoc nor groff"
	fi
done

# What callers call: the parts that only inline code calls are left out.
sed -nE 's/^PCPU_[A-Z_]+ [^(]*\b(pcpu_[a-z0-9_]+)\(.*/\1/p' "$root"/include/pcpu_stat/*.h | grep -v '_slow$' |
	sort -u >"$scratch/declared"
sed -n '/^\.Sh NAME/,/^\.Sh LIBRARY/s/^\.Nm \(pcpu_[a-z0-9_]*\).*/\1/p' "$root"/man/*.3 | grep -v '^pcpu_stat$' |
	sort -u >"$scratch/named"
sed -nE 's/^\.F[no] (pcpu_[a-z0-9_]+).*/\1/p' "$root"/man/*.3 | sort -u >"$scratch/shown"
grep -oE "'pcpu_[a-z0-9_]+'" "$root/man/meson.build" | tr -d "'" | sort -u >"$scratch/installed"

same() {
	[ -s "$1" ] && diff "$1" "$2"
}

all_installed() {
	sort -u "$scratch/named" - <<-END | diff - "$scratch/installed"
		$(cd "$root/man" && ls ./*.3 | sed 's,^\./,,; s,\.3$,,')
	END
}
ok "every call is named by a page, and every name is a call" same "$scratch/declared" "$scratch/named"
ok "pages show calls that exist" same "$scratch/declared" "$scratch/shown"
ok "all are installed by their names" all_installed
finish
