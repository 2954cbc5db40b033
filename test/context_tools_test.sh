#!/bin/bash
# Sanitizers, valgrind, gdb and C++ know contexts: planted mistakes are found, and what is right is not reported.  The room is
# compiled anew with each sanitizer of each compiler.  What is not installed is left out, and said.
set -euo pipefail

source=${WEIR_SOURCE:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:color=never TSAN_OPTIONS=halt_on_error=0 LSAN_OPTIONS=
launch=()
setarch -R true 2>/dev/null && launch=(setarch -R) # ThreadSanitizer wants fixed addresses

fail() {
        echo "$*" >&2
        exit 1
}

files=("$source"/kernel/stack/*.c "$source"/kernel/stack/*.S "$source"/kernel/base/*.c "$source"/kernel/memory/*.c
        "$source"/kernel/observe/log.c "$source"/kernel/observe/sink.c)
flags=(-g -O1 -std=gnu11 -D_GNU_SOURCE -DWEIR_VERSION=\"0\" -ftls-model=initial-exec -I"$source" -I"$source/include" -pthread)

# make PROGRAM COMPILER FLAGS...
make() {
        local program=$1
        shift
        "$@" "${flags[@]}" "$source/test/context_mistakes.c" "${files[@]}" -o "$work/$program" 2>"$work/errors"
}

# expect WHAT STATUS TEXT... -- COMMAND...: its output has all the texts, and its exit status is 0 or not.
expect() {
        local what=$1 status=$2 texts=() text
        shift 2
        while [ "$1" != -- ]; do
                texts+=("$1")
                shift
        done
        shift
        if "$@" >"$work/output" 2>&1; then
                [ "$status" = 0 ] || { cat "$work/output"; fail "$what: nothing was found"; }
        else
                [ "$status" != 0 ] || { cat "$work/output"; fail "$what: something was found"; }
        fi
        for text in "${texts[@]}"; do
                grep -qF -- "$text" "$work/output" || { cat "$work/output"; fail "$what: does not say $text"; }
        done
        echo "ok: $what"
}

for compiler in gcc clang; do
        if ! command -v "$compiler" >/dev/null; then
                echo "left out: $compiler is not installed"
                continue
        fi
        if make asan "$compiler" -fsanitize=address -fno-omit-frame-pointer; then
                expect "$compiler, AddressSanitizer: no mistake" 0 -- "$work/asan"
                expect "$compiler, AddressSanitizer: a heap overflow" 1 heap-buffer-overflow write_behind_a_block -- "$work/asan" overflow
                expect "$compiler, AddressSanitizer: a local that is gone" 1 stack-use-after-return read_a_frame_that_is_gone make_local -- \
                        "$work/asan" return
                expect "$compiler, AddressSanitizer: a lost block" 1 lose_a_block "100 byte(s)" -- "$work/asan" leak
                # Frames that lie elsewhere, so that their use after a return is found, are not searched while their stack sleeps.
                expect "$compiler, AddressSanitizer: a block of a stack that sleeps" 0 -- \
                        env ASAN_OPTIONS="$ASAN_OPTIONS:detect_stack_use_after_return=0" "$work/asan" parked
        else
                echo "left out: $compiler has no AddressSanitizer: $(head -3 "$work/errors")"
        fi
        if make lsan "$compiler" -fsanitize=leak; then
                # By itself it knows no stacks but those of threads, and passes over what was allocated on others.
                expect "$compiler, LeakSanitizer: a block of a stack that sleeps" 0 -- "$work/lsan" parked
        else
                echo "left out: $compiler has no LeakSanitizer: $(head -3 "$work/errors")"
        fi
        if make tsan "$compiler" -fsanitize=thread; then
                expect "$compiler, ThreadSanitizer: no mistake" 0 -- "${launch[@]}" "$work/tsan"
                expect "$compiler, ThreadSanitizer: a race of two contexts" 1 "data race" count_without_a_lock -- \
                        "${launch[@]}" "$work/tsan" race
        else
                echo "left out: $compiler has no ThreadSanitizer: $(head -3 "$work/errors")"
        fi
done

make plain "${WEIR_CC:-cc}" || { cat "$work/errors"; fail "the program cannot be built"; }
if command -v valgrind >/dev/null; then
        memcheck=(valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite)
        expect "memcheck: no mistake" 0 -- "${memcheck[@]}" "$work/plain"
        [ ! -s "$work/output" ] || { cat "$work/output"; fail "memcheck says something"; }
        expect "memcheck: a heap overflow" 1 "Invalid write" write_behind_a_block -- "${memcheck[@]}" "$work/plain" overflow
        expect "memcheck: a lost block" 1 "100 bytes" lose_a_block -- "${memcheck[@]}" "$work/plain" leak
        expect "memcheck: a block of a stack that sleeps" 0 -- "${memcheck[@]}" "$work/plain" parked
else
        echo "left out: valgrind is not installed"
fi
if command -v gdb >/dev/null; then
        expect "gdb: a backtrace ends where the context began" 0 "do_right" "run_body" "weir__context_start" -- \
                gdb -q -nx -batch -ex 'break use_stack if depth == 5' -ex run -ex bt "$work/plain"
        ! grep -qE 'corrupt|Cannot access|previous frame' "$work/output" || { cat "$work/output"; fail "gdb: the backtrace has no end"; }
else
        echo "left out: gdb is not installed"
fi

if command -v g++ >/dev/null; then
        mkdir "$work/objects"
        (cd "$work/objects" && "${WEIR_CC:-cc}" "${flags[@]}" -c "${files[@]}")
        echo 'int take_stack(struct weir__stack **stack); int take_stack(struct weir__stack **stack) { return weir__stack_take(stack); }' >"$work/take.c"
        "${WEIR_CC:-cc}" "${flags[@]}" -include kernel/stack/stack.h -c "$work/take.c" -o "$work/objects/take.o"
        for how in "" -static-libstdc++; do
                g++ -g -O2 $how -D_GNU_SOURCE -I"$source" -I"$source/include" "$source/test/context_catch.cc" "$work"/objects/*.o -pthread -o "$work/catch"
                expect "C++ $how: two contexts in catch blocks" 0 right -- "$work/catch"
        done
else
        echo "left out: g++ is not installed"
fi
