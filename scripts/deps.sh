#!/bin/sh
# SPDX-License-Identifier: MIT
# Install what is missing of the Debian packages that a group of tasks needs. Says nothing if all are there.
#
#	scripts/deps.sh GROUP...	groups: build test bench
set -eu

complain() {
	echo "deps.sh: $1" >&2
	exit "${2:-1}"
}

wanted=
[ $# -gt 0 ] || complain "no group given; groups are build, test, bench" 2
for group; do
	case $group in
	build) wanted="$wanted gcc libc6-dev meson ninja-build pkg-config libnuma-dev liburcu-dev" ;;
	test) wanted="$wanted libcriterion-dev g++ clang libclang-rt-14-dev valgrind libseccomp-dev qemu-user
		gcc-aarch64-linux-gnu libc6-dev-arm64-cross musl-tools spin
		locales python3-prometheus-client prometheus mandoc" ;;
	bench) wanted="$wanted libbenchmark-dev g++" ;;
	*) complain "unknown group '$group'; groups are build, test, bench" 2 ;;
	esac
done

# Print those of the packages given that are not installed, each once, in one line.
missing_of() {
	found=
	for package; do
		case " $found " in
		*" $package "*) continue ;;
		esac
		dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
			found="$found${found:+ }$package"
	done
	echo "$found"
}

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
	complain "not a Debian system; install the counterparts of: $(echo $wanted)"
missing=$(missing_of $wanted)
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || complain "neither root nor sudo to install: $missing"
	as_root=sudo
fi

# What apt prints names hosts and proxies, which belong in no log: it stays unseen.
apt() {
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" </dev/null >/dev/null 2>&1
}

echo "deps.sh: installing $missing"
# The lists of packages may be absent or old: only then they are fetched.
apt install --yes --no-install-recommends $missing || {
	apt update || complain "cannot fetch the lists of packages, needed to install: $missing"
	apt install --yes --no-install-recommends $missing || true
}
missing=$(missing_of $missing)
[ -z "$missing" ] || complain "apt-get could not install: $missing (run apt-get install by hand to see why)"
