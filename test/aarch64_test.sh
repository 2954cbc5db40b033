#!/bin/bash
# Fibers on aarch64: what they stand on is built for that processor, and the suites of contexts, stacks and fibers run in qemu.
# Neither OpenSSL nor CUnit is needed: rooms above io/base are left out, and cunit_alone.c has the part of CUnit that suites use.
set -euo pipefail

source=${WEIR_SOURCE:?}
prefix=aarch64-linux-gnu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export source prefix work

for command in $prefix-gcc $prefix-ar qemu-aarch64; do
        command -v $command >/dev/null || { echo "left out: $command is not installed"; exit 77; }
done
[ -e /usr/$prefix/lib/libc.so.6 ] || { echo "left out: there is no C library for aarch64"; exit 77; }
case $(uname -m) in aarch64) echo "left out: this is aarch64, where all suites run"; exit 77 ;; esac

# The system's header of CUnit alone: the others are of another processor.
mkdir "$work/include"
ln -s "${CUNIT_INCLUDE:-/usr/include}/CUnit" "$work/include/CUnit"

compile() {
        $prefix-gcc -g -O1 -std=gnu11 -D_GNU_SOURCE -DWEIR_VERSION=\"0\" -ftls-model=initial-exec -pthread \
                -I"$source" -I"$source/include" -isystem "$work/include" "$@"
}
export -f compile

compile_part() {
        local name=${1#"$source"/}

        compile -c "$1" -o "$work/${name//\//-}.o"
}
export -f compile_part

cd "$source"
find kernel factory io/base -name '*.[cS]' ! -path 'kernel/tls/*' -printf "$source/%p\n" >"$work/parts"
printf '%s\n' "$source/test/support.c" "$source/test/cunit_alone.c" >>"$work/parts"
xargs -P 2 -n 1 bash -c 'compile_part "$1"' compile <"$work/parts" || { echo "the parts cannot be built" >&2; exit 1; }
$prefix-ar rcs "$work/libparts.a" "$work"/*.o

# run SUITE [FUNCTION...]: links a suite, in which these functions are wrapped, and runs it.
run() {
        local suite=$1 wrapped=()
        shift
        [ $# -eq 0 ] || wrapped=("${@/#/-Wl,--wrap=}")
        compile -frounding-math "${wrapped[@]}" "$source/test/${suite}_test.c" "$work/libparts.a" -lm -o "$work/$suite" ||
                { echo "$suite cannot be built" >&2; exit 1; }
        qemu-aarch64 -L /usr/$prefix "$work/$suite" >"$work/output" 2>&1 || { cat "$work/output"; echo "$suite fails" >&2; exit 1; }
        grep -q ' \.\.\..*passed' "$work/output" || { cat "$work/output"; echo "$suite: no test ran" >&2; exit 1; }
        echo "ok: $suite: $(grep -c 'passed$' "$work/output") tests"
}

# qemu keeps memory that goes back, and a child of a fork cannot start threads in it.
export CUNIT_WITHOUT="memory_of_many_stacks_goes_back memory_goes_back_although_one_stack_in_fifty_stays child_of_fork_takes_and_gives"
run context
run stack mmap madvise mprotect syscall
for suite in fiber fiber_await fiber_calls fiber_flow fiber_shield; do
        run $suite
done
for suite in fiber_cancel fiber_group fiber_within fiber_storm; do
        run $suite weir__alloc weir__free
done
export WEIR_FIBER_HOP=1
run fiber_hop
run fiber_pin pthread_create weir__alloc
