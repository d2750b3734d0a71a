#!/bin/sh
# SPDX-License-Identifier: MIT
# What a reviewer should not have to say: format, licence lines, and nothing of one machine in the tree.
#
#	check_style.sh SOURCE-ROOT
set -u
root=$1
. "$root/tests/tap.sh"
cd "$root" || exit 1

if ! git rev-parse --git-dir >/dev/null 2>&1; then
	skip "style" "not a git checkout"
	finish
fi

formatted() {
	git ls-files -z '*.c' '*.h' | xargs -0 clang-format --dry-run -Werror
}
if have clang-format; then
	ok "format of C files" formatted
else
	skip "format of C files" "no clang-format"
fi

licensed() {
	git ls-files '*.c' '*.h' '*.cc' '*.cpp' '*.sh' '*.py' '*meson.build' '*meson_options.txt' .ci/run |
		while read -r file; do
			head -n 3 "$file" | grep -q 'SPDX-License-Identifier: MIT' || echo "$file"
		done | grep . && return 1
	return 0
}
ok "licence line in every source file" licensed

# Places where packages come from belong to the machine that builds.
no_hosts() {
	! git grep -nIE 'deb\.debian\.org|archive\.ubuntu|pypi\.|crates\.io|registry\.(npmjs|hub|k8s)|proxy\.golang|/etc/apt/' -- \
		':!tests/check_style.sh'
}
ok "no package hosts" no_hosts

no_paths() {
	! git grep -nIE '(^|[^A-Za-z0-9_.])/(home|root|work|mnt|opt|Users)/' -- ':!*.svg' ':!tests/check_style.sh'
}
ok "no paths of one machine" no_paths

executable() {
	git ls-files -s 'scripts/*.sh' 'tests/check_*.sh' .ci/run | grep -v '^100755' | grep -v test_long && return 1
	return 0
}
ok "scripts can be run" executable

lines() {
	git ls-files -z '*.c' '*.h' '*.sh' '*.py' '*.build' | xargs -0 grep -nE '[ 	]+$' && return 1
	return 0
}
ok "no blanks at ends of lines" lines
finish
