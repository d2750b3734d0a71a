#!/bin/sh
# SPDX-License-Identifier: MIT
# Exports as others read them: golden files, the parsers of prometheus_client and of promtool, another locale.
#
#	check_export.sh SOURCE-ROOT EXPORT_PRINT
# With PCPU_TEST_GOLDEN=write the golden files are written instead.
set -u
root=$1
print=$2
. "$root/tests/tap.sh"

golden=$root/tests/golden
if [ "${PCPU_TEST_GOLDEN-}" = write ]; then
	mkdir -p "$golden"
	for format in openmetrics prometheus json; do
		LC_ALL=C "$print" $format >"$golden/export.$format"
	done
fi
for nodes in 0 1 1000; do
	for format in openmetrics prometheus json; do
		ok "$format of $nodes more nodes is written" \
			sh -c "LC_ALL=C $print $format $nodes >$scratch/$nodes.$format"
	done
done
for format in openmetrics prometheus json; do
	ok "$format is as ever" cmp "$scratch/0.$format" "$golden/export.$format"
done

# German has a comma for the decimal point and a point between thousands.
if have localedef && localedef --no-archive -i de_DE -f UTF-8 "$scratch/de_DE.UTF-8" >/dev/null 2>&1; then
	for format in openmetrics prometheus json; do
		ok "$format runs in German" \
			sh -c "LOCPATH=$scratch LC_ALL=de_DE.UTF-8 $print $format 1000 >$scratch/german"
		ok "$format is the same in German" cmp "$scratch/german" "$scratch/1000.$format"
	done
else
	skip "the same in German" "cannot make the locale"
fi

# The interpreter that has the module is not always the first one.
python=
for candidate in python3 /usr/bin/python3; do
	[ -z "$python" ] && "$candidate" -c 'import prometheus_client.openmetrics.parser' 2>/dev/null &&
		python=$candidate
done
for nodes in 0 1 1000; do
	if [ -n "$python" ]; then
		ok "$nodes more nodes: prometheus_client reads what JSON says" \
			env LC_ALL=C.UTF-8 "$python" "$root/tests/export_parse.py" "$scratch/$nodes"
	else
		skip "$nodes more nodes: prometheus_client reads what JSON says" "no prometheus_client"
	fi
done

# 0: well; 3: matters of taste, of which only help that was not given is ours.
lint() {
	promtool check metrics <"$1" >"$scratch/lint" 2>&1
	status=$?
	grep -v 'no help text$' "$scratch/lint" && return 1
	[ $status -eq 0 ] || [ $status -eq 3 ]
}

# Prometheus' own parser of OpenMetrics is behind its importer, which wants to know when.
import() {
	sed '/^#/!s/$/ 1600000000/' "$1" >"$scratch/dated"
	rm -rf "$scratch/blocks"
	promtool tsdb create-blocks-from openmetrics "$scratch/dated" "$scratch/blocks" >"$scratch/import" 2>&1 ||
		{ cat "$scratch/import"; return 1; }
	series=$(awk 'NR == 1 && $12 == "NUM" && $13 == "SERIES" { known = 1 } END { if (known) print $7 }' \
		"$scratch/import")
	cat "$scratch/import"
	[ "$series" -eq "$(grep -vc '^#' "$1")" ]
}

for nodes in 0 1 1000; do
	if have promtool; then
		ok "$nodes more nodes: promtool reads Prometheus" lint "$scratch/$nodes.prometheus"
		ok "$nodes more nodes: promtool reads OpenMetrics" import "$scratch/$nodes.openmetrics"
	else
		skip "$nodes more nodes: promtool reads it" "no promtool"
	fi
done
finish
