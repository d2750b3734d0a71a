#!/bin/sh
# SPDX-License-Identifier: MIT
# Install, then build a program of twenty lines as strangers do: through pkg-config, shared and static, and with
# the project as a meson subproject.
#
#	check_install.sh SOURCE-ROOT BUILD-ROOT
set -u
root=$1
build=$2
. "$root/tests/tap.sh"

cat >"$scratch/program.c" <<'END'
#include <pcpu_stat/pcpu_stat.h>
#include <pthread.h>
#include <stdio.h>

static struct pcpu_counter counter = PCPU_COUNTER_INIT;

static void *work(void *arg)
{
	for (int i = 0; i < 100000; i++)
		pcpu_counter_add(&counter, 1);
	return arg;
}

int main(void)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("%lld\n", (long long)pcpu_counter_sum(&counter));
	return pcpu_counter_sum(&counter) != 400000;
}
END

ok "meson install" meson install -C "$build" --no-rebuild --destdir "$scratch/root"
pc=$(find "$scratch/root" -name pcpu_stat_core.pc)
PKG_CONFIG_PATH=$(dirname "$pc")
PKG_CONFIG_SYSROOT_DIR=$scratch/root
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH")
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR LD_LIBRARY_PATH

version() {
	[ "$(pkg-config --modversion "$1")" = 0.1.0 ]
}

linked() {
	# shellcheck disable=SC2046
	gcc -O2 -Wall -Werror $2 "$scratch/program.c" -o "$scratch/program" $(pkg-config $3 --cflags --libs "$1") \
		-pthread && "$scratch/program" && readelf -dW "$scratch/program" >"$scratch/needs"
}

uses_shared() {
	grep NEEDED "$scratch/needs" | grep -F "$1.so.0"
}

for library in pcpu_stat pcpu_stat_core; do
	ok "$library: pkg-config knows the version" version $library
	ok "$library: shared" linked $library "" ""
	ok "$library: is what the program loads" uses_shared lib$library
	ok "$library: shared, inline form" linked $library -DPCPU_STAT_INLINE ""
	ok "$library: static" linked $library -static --static
	ok "$library: static, inline form" linked $library "-static -DPCPU_STAT_INLINE" --static
done

headers_installed() {
	(cd "$root/include" && find pcpu_stat -name '*.h' | sort) >"$scratch/wanted"
	(cd "$(find "$scratch/root" -type d -name include)" && find pcpu_stat -name '*.h' | sort) >"$scratch/got"
	diff "$scratch/wanted" "$scratch/got"
}
ok "every header is installed" headers_installed

unset PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR LD_LIBRARY_PATH
subproject() {
	project=$scratch/project-$1
	mkdir -p "$project/subprojects/pcpu_stat"
	(cd "$root" && cp -R include lib meson.build meson_options.txt "$project/subprojects/pcpu_stat")
	cp "$scratch/program.c" "$project"
	cat >"$project/meson.build" <<-END
		project('stranger', 'c')
		counters = dependency('$1', fallback: 'pcpu_stat')
		test('program', executable('program', 'program.c', dependencies: [counters, dependency('threads')]))
	END
	meson setup "$project/build" "$project" -Ddefault_library="$2" --wrap-mode=forcefallback &&
		meson test -C "$project/build"
}
ok "pcpu_stat as a subproject" subproject pcpu_stat shared
ok "pcpu_stat_core as a subproject, static" subproject pcpu_stat_core static
finish
