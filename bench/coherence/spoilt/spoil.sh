#!/bin/sh
# SPDX-License-Identifier: MIT
# A source file, spoilt by a sed script that must find something to spoil.
#
#	spoil.sh SCRIPT FILE
set -eu
if sed -f "$1" "$2" | cmp -s - "$2"; then
	echo "$1 changes nothing in $2" >&2
	exit 1
fi
sed -f "$1" "$2"
