#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/scan against find and wc on a tree made of nasty cases. Prints TAP.
#
#	tests/scan_test.sh SCAN		SCAN: the program
set -u

scan=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
LC_ALL=C
export LC_ALL
work=$(mktemp -d)
trap 'chmod -R u+rwx "$work"; rm -rf "$work"' EXIT
chmod 755 "$work"
cd "$work" || exit 1

tests=0
failures=0

result() { # STATUS NAME [DIRECTIVE]
	tests=$((tests + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $tests - $2${3:+ # SKIP $3}"
	else
		echo "not ok $tests - $2"
		failures=$((failures + 1))
		sed 's/^/# /' out err
	fi
}

# Run scan with a time limit, since a lost wakeup shows as a hang; output goes to out and err.
run() {
	timeout 120 "$scan" "$@" >"$work/out" 2>"$work/err"
}

total() { # NAME: its value in the table
	sed -n "s/^$1  *\([0-9,]*\) .*/\1/p" out | tail -n 1 | tr -d ,
}

expect_status() { # STATUS NAME ARGUMENT...
	expected=$1
	name=$2
	shift 2
	run "$@"
	status=$?
	[ $status -eq "$expected" ]
	result $? "$name: exit status $expected"
}

# ---- The tree ----

newline='
'
mkdir tree other
(
	cd tree || exit 1
	: >empty
	: >"empty with spaces"
	printf 'no newline at the end' >partial
	printf '\n' >newline
	printf ' \t\v\f\r\n \n' >spaces
	printf 'one two\nthree\tfour\vfive\ffix\rseven\n' >separators
	printf 'first\nsecond\n' >"name${newline}with newline"
	printf 'quotes\n' >"it's \"quoted\" \$(touch broken) \`touch broken\` ; * ?"
	printf 'dash\n' >-name
	printf 'dash\n' >-
	printf 'hidden\n' >.hidden
	printf 'not text\n' >"$(printf '\377\001\033[31m')"
	mkdir "directory${newline}with newline" -- -type "(" "..." deep
	# Names that a node cannot have as they are, and names that look like what these become.
	bytes=$(printf '\377\200')
	for name in "$bytes" %FF%80 "%" "%%" "%25" "%~" "$(printf '\303\244')" "$(printf '\303')" "$(printf 'tab\t')" \
		"$(printf '%063d' 0)" "$(printf '%064d' 0)" "$(printf '%063d' 0)1" "$(printf '%0255d' 1)" \
		"$(printf '%0255d' 2)" "$(printf '%045d' 0)$bytes$bytes$bytes$bytes"; do
		mkdir "names/" 2>/dev/null
		mkdir "names/$name"
		printf 'words in "%s"\n' "$name" >"names/$name/file"
	done
	printf 'x\n' >"directory${newline}with newline/file${newline}"
	printf 'y\n' >./-type/f
	printf 'z\n' >"./(/)"
	# All byte values, alone, between spaces, and in runs that meet the eight-byte steps of the counting.
	for i in 0 1 2 3; do
		for j in 0 1 2 3 4 5 6 7; do
			for k in 0 1 2 3 4 5 6 7; do
				printf "\\$i$j$k" >>bytes
				printf "\\$i$j$k " >>bytes_apart
				printf "a\\$i$j$k \\$i$j${k}b \001\\$i$j$k\n" >>bytes_mixed
				printf "\\$i$j$k" >"byte_$i$j$k"
			done
		done
	done
	# Words and lines across the border of two reads (256 KiB), at every offset to eight bytes.
	for i in 0 1 2 3 4 5 6 7 8; do
		{
			head -c $((262144 - i)) /dev/zero | tr '\0' a
			printf 'b\nc d'
		} >"border_$i"
		{
			head -c $((262140 + i)) /dev/zero | tr '\0' ' '
			printf 'word\001word \001 x\n'
		} >"border_space_$i"
	done
	head -c 3000000 /dev/urandom >random
	head -c 100000 /dev/urandom | tr '\000-\077\100-\177\200-\277\300-\377' \
		'[ *64][a*64][\n*64][\001*64]' >dense
	echo >>dense
	truncate -s 50M sparse
	printf 'end of the hole' >>sparse
	ln partial hard_link
	ln partial deep/hard_link
	ln -s partial link_to_file
	ln -s . link_to_itself_above
	ln -s link_loop_a link_loop_b
	ln -s link_loop_b link_loop_a
	ln -s nowhere dangling
	ln -s ../../other deep/link_out
	mkfifo pipe
	# More subdirectories than are shared at a time, some with files.
	i=0
	while [ $i -lt 150 ]; do
		mkdir -p "wide/$i/below"
		echo "$i $i" >"wide/$i/below/file"
		i=$((i + 1))
	done
)
printf 'outside\n' >other/file
# A path far longer than any call takes: 60 names of 200 bytes, a file at the bottom and one on the way.
long=$(printf '%0200d' 0)
(
	cd tree/deep || exit 1
	i=0
	while [ $i -lt 60 ]; do
		mkdir "$long" "sibling$newline$i" && cd -P "$long" 2>/dev/null || exit 1
		[ $i -ne 30 ] || printf 'half way down' >file
		i=$((i + 1))
	done
	printf 'at the very bottom\n' >file
) || echo "# no deep tree: the shell cannot go there"

# ---- Totals ----

for workers in 1 2 16; do
	run --quiet --verify -j $workers tree
	status=$?
	[ $status -eq 0 ] && grep -q '^verify: equal.* totals' out && grep -q '^verify: equal.* directories' out &&
		[ ! -s err ]
	result $? "-j $workers: equal to find and wc, in all and by directory"
done

# The same without --verify, so that the program is not its own judge.
[ "$(total files)" = "$(find -H tree -type f -printf 'x' | wc -c)" ] &&
	[ "$(total directories)" = "$(find -H tree -type d -printf 'x' | wc -c)" ] &&
	[ "$(total links)" = "$(find -H tree -type l -printf 'x' | wc -c)" ] &&
	[ "$(total others)" = 1 ] &&
	[ "$(total empty)" = "$(find -H tree -type f -size 0c -printf 'x' | wc -c)" ] &&
	[ "$(total bytes)" = "$(find -H tree -type f -printf '%s\n' | awk '{n += $1} END {printf "%d", n}')" ] &&
	[ "$(total lines)" = "$(find -H tree -type f -execdir cat '{}' + | wc -l)" ]
result $? "table: what find, wc and cat say outside the program"
[ ! -e tree/broken ] && [ ! -e broken ]
result $? "names are never run by a shell"

status=0
for file in tree/*byte* tree/border* tree/random tree/dense tree/separators tree/spaces tree/partial; do
	run -q "$file"
	[ "$(total lines) $(total words) $(total bytes)" = "$(wc -lwc <"$file" | awk '{print $1, $2, $3}')" ] || {
		echo "# $file: $(wc -lwc <"$file")"
		status=1
		break
	}
done
result $status "single files: wc of each"

run -q --verify -j 3 tree tree/deep tree/partial tree/partial tree/pipe tree/dangling tree/link_to_file \
	tree/deep/link_out tree/link_to_itself_above/ other/
result $? "overlapping paths, links, files, and a pipe on the command line"
(cd tree && run -q --verify -j 2 -- -name - "(" "..." "name${newline}with newline" -type)
result $? "paths that look like parts of an expression"
run -q --verify --depth 1 tree/names tree/names tree/names/../names
[ $? -eq 0 ] && grep -q "^verify: equal.* in 48 of 48 directories" out
result $? "the same directory again: a node each"
run -q --verify other/file
[ $? -eq 0 ] && ! grep -q 'of 0 directories' out
result $? "one file: wc prints no total"

# Directories by themselves, once more without --verify.
for depth in 0 1 3 100; do
	run -q --verify --depth $depth --top 50 tree/wide tree/names
	status=$?
	places=$(find tree/wide tree/names -maxdepth $depth -type d -printf x | wc -c)
	[ $status -eq 0 ] && grep -q "^verify: equal.* of $places directories" out
	result $? "--depth $depth: so many directories"
	status=0
	sed -n 's/^ *\([0-9,]*\)  *\([0-9,]*\)  \(\.\/tree\/wide.*\)$/\1 \2 \3/p' out >rows
	grep -q ' ./tree/wide$' rows || status=1
	while read -r bytes files place; do
		[ "$(echo "$bytes" | tr -d ,)" = "$(find "$place" -type f -exec cat '{}' + | wc -c)" ] &&
			[ "$(echo "$files" | tr -d ,)" = "$(find "$place" -type f -printf x | wc -c)" ] || status=1
	done <rows
	result $status "--depth $depth --top: what find and cat say of each directory"
done
run -q --top 1 tree/wide/1 tree tree/deep
grep -q '  \./tree$' out
result $? "--top: the largest comes first"
mkdir nothing
run -q --verify nothing
result $? "no file at all"
run -q --verify
result $? "default paths"

# Few descriptors: most directories must be found again from the top.
(ulimit -n 30 && run -q -j 2 tree) && few=$(grep -v workers out | awk '{print $1, $2}') &&
	run -q -j 2 tree && [ "$few" = "$(grep -v workers out | awk '{print $1, $2}')" ]
result $? "30 descriptors: the same totals"

# ---- Trouble ----

mkdir -p closed/inside closed/listed
echo secret words >closed/unreadable
echo x >closed/inside/file
echo x >closed/listed/file
: >closed/listed/empty
chmod 000 closed/unreadable closed/inside
chmod 744 closed/listed
as_nobody=
if [ "$(id -u)" -eq 0 ]; then
	as_nobody="setpriv --reuid 65534 --regid 65534 --clear-groups"
	chmod 777 .
fi
if [ -z "$as_nobody" ] || $as_nobody "$scan" --help >/dev/null 2>&1; then
	timeout 60 $as_nobody "$scan" -q --verify -j 2 closed tree >out 2>err
	status=$?
	[ $status -eq 1 ] && grep -q '^verify: equal' out &&
		grep -q '^scan: ./closed/unreadable: Permission denied' err &&
		grep -q '^scan: ./closed/inside: Permission denied' err
	result $? "unreadable: reported, exit status 1, totals still equal"
else
	result 0 "unreadable" "cannot run the program as another user"
fi
chmod 755 closed/inside

expect_status 1 "missing path" -q other missing
grep -q '^scan: ./missing: No such file' err && [ "$(total files)" = 1 ]
result $? "missing path: named, the others counted"

# A wc that lies, in front of the real one.
mkdir lies
cat >lies/wc <<'LIE'
#!/bin/sh
PATH=${PATH#*:}
wc "$@" | awk '{print $1 + 1, $2, $3, $4}'
LIE
chmod +x lies/wc
(PATH=$work/lies:$PATH && run -q --verify other)
[ $? -eq 1 ] && grep -q '^scan: verify: lines differ: counted 1, wc says 2$' err && ! grep -q equal out
result $? "a differing total: named, exit status 1"

# A find that lies about one directory alone.
mkdir lies2 other/inside
cat >lies2/find <<'LIE'
#!/bin/sh
PATH=${PATH#*:}
[ "$2" != ./other/inside ] || printf 'd\0'
exec find "$@"
LIE
chmod +x lies2/find
(PATH=$work/lies2:$PATH && run -q --verify other)
[ $? -eq 1 ] && grep -q '^scan: verify: ./other/inside: directories differ: counted 1, find says 2$' err &&
	grep -q 'equal.* totals' out && ! grep -q 'equal.* directories' out
result $? "a directory that differs: named, exit status 1"
rmdir other/inside

# A wc by the letter of POSIX, to which bytes that do not print make words too. Each file ends in a newline, so
# that they may be counted as one.
mkdir posix
cat >posix/wc <<'POSIX'
#!/bin/sh
PATH=${PATH#*:}
case $* in
*files0*) cat >/dev/null; cat tree/bytes_mixed tree/border_space_* tree/dense ;;
*) cat ;;
esac | tr '\000-\010\016-\037\177-\377' a | wc -lwc
POSIX
chmod +x posix/wc
(PATH=$work/posix:$PATH && run -q --verify -j 2 tree/bytes_mixed tree/border_space_* tree/dense)
result $? "a wc with the other rule of what makes a word: found out and followed"

(PATH=$work/nothing && "$scan" -q --verify other >out 2>err)
[ $? -eq 1 ] && grep -q '^scan: verify: find failed: No such file' err
result $? "no find: said, exit status 1"

# Files and directories that come and go while they are counted: nothing may hang, crash or leak.
(
	cd other || exit 1
	while [ ! -e ../stop ]; do
		mkdir -p a/b/c/d && echo x >a/b/c/d/e && ln -s a l
		rm -rf a l
		mkdir l
		rmdir l
	done
) 2>/dev/null &
churn=$!
i=0
status=0
while [ $i -lt 40 ] && [ $status -le 1 ]; do
	run -q -j 4 other
	status=$?
	i=$((i + 1))
done
: >stop
wait $churn
[ $status -le 1 ]
result $? "a tree that changes meanwhile"

[ -w /dev/full ] && ! "$scan" -q other >/dev/full 2>err && grep -q 'cannot write' err
result $? "full disk: exit status 1"

# ---- Progress ----

run -i 0.001 -j 2 tree
[ $? -eq 0 ] && grep -Eq '^ +[0-9.]+ s  [0-9,]+ files \([0-9,]+/s\) [0-9,]+ bytes' out && ! grep -q "$(printf '\033')" out
result $? "progress in a pipe: plain lines"
run -i 0.001 -j 2 --top 3 tree
[ $? -eq 0 ] && grep -q '  per second  directory' out && grep -Eq '^ +[0-9,]+ +[0-9,]+  \./tree$' out &&
	! grep -q "$(printf '\033')" out
result $? "progress with directories"
if command -v script >/dev/null; then
	TERM=xterm script -qec "stty rows 40 cols 100; $scan -i 0.001 tree" /dev/null >out 2>err </dev/null
	[ $? -eq 0 ] && grep -q "$(printf '\033')\[9A" out
	result $? "progress on a terminal: drawn in place"
	TERM=xterm script -qec "stty rows 40 cols 70; $scan -i 0.001 --top 3 tree" /dev/null >out 2>err </dev/null
	[ $? -eq 0 ] && grep -q "$(printf '\033')\[13A" out && ! grep -Eq '^ +[0-9,]+ +[0-9,]+  .{40}' out
	result $? "directories on a terminal: cut to its width"
else
	result 0 "progress on a terminal" "no script command"
fi

# ---- Usage ----

for arguments in "-j 0" "-j -1" "-j x" "-j 1x" "-j 99999999999999999999" "-j" "-i 0" "-i nan" "-i x" "--what" "-z" \
	"--depth -1" "--depth 101" "--depth x" "--depth" "--top 0" "--top 51" "--top x" "--verify=yes" "--workers" "-q -j 2000 other"; do
	run $arguments
	[ $? -eq 2 ] && [ "$(wc -l <err)" -eq 1 ] && [ ! -s out ] && grep -q '^scan: ' err
	result $? "wrong usage '$arguments': one line, exit status 2"
done
expect_status 2 "empty path" ""
expect_status 0 "help" --help
grep -q '^Usage: scan' out && [ ! -s err ]
result $? "help: on standard output"

echo "1..$tests"
[ $failures -eq 0 ]
