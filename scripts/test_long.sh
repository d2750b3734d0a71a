# SPDX-License-Identifier: MIT
# The rest of test.sh --long, which reads this: the same tests longer, and in other builds. What a machine cannot
# build at all is said and left out; what it builds must pass.

have() {
	command -v "$1" >/dev/null && return
	echo "== no $1 here: left out"
	return 1
}

# Minutes of stress: every program with five times the work, and more random input for the reference.
PCPU_TEST_SCALE=5
export PCPU_TEST_SCALE
run build-test --suite program --suite long --timeout-multiplier 10
for seed in 1 2 3 $(od -An -N4 -tu4 /dev/urandom); do
	PCPU_TEST_SEED=$seed
	export PCPU_TEST_SEED
	run build-test --timeout-multiplier 10 "reference rseq" "reference atomic"
done
unset PCPU_TEST_SEED

# Told of an add, an exact read of a tree has it: 10^7 rounds.
PCPU_TEST_SCALE=100
run build-test --timeout-multiplier 10 --test-args=told "tree_stress rseq" "tree_stress atomic"

# The races wide open for longer. The mutants' variants set their own scale.
unset PCPU_TEST_SCALE
run build-test --suite variant --repeat 5

# AddressSanitizer cannot put its shadow where address space is refused, and leaks count as failures.
build build-asan --buildtype=debugoptimized -Db_sanitize=address,undefined -Db_lundef=false -Dbench=disabled &&
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 run build-asan --timeout-multiplier 5

PCPU_TEST_SCALE=-10
export PCPU_TEST_SCALE
build build-tsan --buildtype=debugoptimized -Db_sanitize=thread -Db_lundef=false -Dbench=disabled &&
	TSAN_OPTIONS=die_after_fork=0:halt_on_error=1 run build-tsan --timeout-multiplier 5

# valgrind knows no rseq: the fallback. The unit tests without criterion, whose runner it would follow.
PCPU_TEST_SCALE=-100
PCPU_TEST_EMULATED=1
export PCPU_TEST_EMULATED
have valgrind && build build-valgrind --buildtype=debugoptimized -Dcriterion=disabled -Dbench=disabled &&
	run build-valgrind --timeout-multiplier 20 --suite unit --suite program \
		--wrapper "valgrind -q --error-exitcode=9 --leak-check=full --fair-sched=yes --max-threads=600"
unset PCPU_TEST_EMULATED

PCPU_TEST_SCALE=-20
have aarch64-linux-gnu-gcc && have qemu-aarch64 &&
	build build-aarch64 --buildtype=debugoptimized --cross-file scripts/cross/aarch64.ini -Dfull=false &&
	run build-aarch64 --timeout-multiplier 20
unset PCPU_TEST_SCALE

have musl-gcc &&
	CC=musl-gcc build build-musl --buildtype=debugoptimized -Dfull=false -Dcriterion=disabled &&
	run build-musl --timeout-multiplier 5

have clang &&
	CC=clang build build-clang --buildtype=release -Dbench=disabled &&
	run build-clang --timeout-multiplier 5 --suite unit --suite program --suite asan --suite variant

# Models, and that each fails with a step of its argument taken out.
if have spin; then
	echo "== models"
	tests/models/run.sh >build-models.out 2>&1
	grep -v '^ok' build-models.out
	good=$(grep -c '^ok' build-models.out)
	bad=$(grep -c '^not ok' build-models.out)
	grep -q '^1\.\.' build-models.out || bad=$((bad + 1))
	echo "   $good passed, $bad failed"
	passed=$((passed + good))
	failed=$((failed + bad))
fi
