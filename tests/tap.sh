# SPDX-License-Identifier: MIT
# TAP for scripts: source it, call ok/skip for each result and finish last.
tap_count=0
tap_failed=0

# ok WHAT COMMAND...: does the command succeed? Its output is shown if it does not.
ok() {
	tap_what=$1
	shift
	tap_count=$((tap_count + 1))
	if tap_output=$("$@" 2>&1); then
		echo "ok $tap_count - $tap_what"
	else
		tap_failed=$((tap_failed + 1))
		echo "not ok $tap_count - $tap_what"
		printf '%s\n' "$tap_output" | sed 's/^/# /'
	fi
}

skip() {
	tap_count=$((tap_count + 1))
	echo "ok $tap_count - $1 # SKIP $2"
}

finish() {
	echo "1..$tap_count"
	[ "$tap_failed" -eq 0 ]
	exit
}

have() {
	command -v "$1" >/dev/null
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
