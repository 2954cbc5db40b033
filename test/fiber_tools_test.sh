#!/bin/bash
# Sanitizers, valgrind and C++ know fibers: planted mistakes are found behind an await, and what is right is not reported.  In a
# sanitizer build its sanitizer looks, else memcheck, which also runs some of the suites.  What is not installed is left out, and
# said.
set -euo pipefail

build=${WEIR_BUILD:?}
mistakes=$build/test/fiber_mistakes
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
        cat "$work/output"
        echo "$*" >&2
        exit 1
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
                [ "$status" = 0 ] || fail "$what: nothing was found"
        else
                [ "$status" != 0 ] || fail "$what: something was found"
        fi
        for text in "${texts[@]}"; do
                grep -qF -- "$text" "$work/output" || fail "$what: does not say $text"
        done
        echo "ok: $what"
}

case ${WEIR_SANITIZE:-} in
address)
        export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:color=never LSAN_OPTIONS=
        expect "AddressSanitizer: no mistake" 0 -- "$mistakes"
        expect "AddressSanitizer: a block that was freed" 1 heap-use-after-free use_a_freed_block -- "$mistakes" freed
        expect "AddressSanitizer: the same on a thread of its own" 1 heap-use-after-free use_a_freed_block pin_and_use -- "$mistakes" pinned
        expect "AddressSanitizer: a heap overflow" 1 heap-buffer-overflow write_behind_a_block -- "$mistakes" overflow
        expect "AddressSanitizer: a local that is gone" 1 stack-use-after-return read_a_frame_that_is_gone -- "$mistakes" return
        expect "AddressSanitizer: a lost block" 1 lose_a_block "100 byte(s)" -- "$mistakes" leak
        ;;
thread)
        export TSAN_OPTIONS=halt_on_error=0:report_bugs=1
        expect "ThreadSanitizer: no mistake" 0 -- "$mistakes"
        expect "ThreadSanitizer: a race of two fibers" 1 "data race" count_without_a_lock -- "$mistakes" race
        expect "ThreadSanitizer: a block that was freed" 1 heap-use-after-free use_a_freed_block -- "$mistakes" freed
        ;;
"")
        if command -v g++ >/dev/null; then
                g++ -g -O2 -D_GNU_SOURCE -I"$WEIR_SOURCE/include" "$WEIR_SOURCE/test/fiber_catch.cc" -L"$build" -lweir \
                        -Wl,-rpath,"$build" -o "$work/catch"
                expect "C++: fibers in catch blocks" 0 right -- "$work/catch"
                expect "C++: the same in hop mode" 0 right -- env WEIR_FIBER_HOP=1 "$work/catch"
        else
                echo "left out: g++ is not installed"
        fi
        if ! command -v valgrind >/dev/null; then
                echo "left out: valgrind is not installed"
                exit 77
        fi
        export WEIR_TEST_LIMIT=250 # seconds of a suite: it is slow here
        # Children that a suite starts to see them die are not looked at.
        memcheck=(valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite --child-silent-after-fork=yes)
        expect "memcheck: no mistake" 0 -- "${memcheck[@]}" "$mistakes"
        ! grep -q '^==' "$work/output" || fail "memcheck says something"
        expect "memcheck: a block that was freed" 1 "Invalid read of size 1" use_a_freed_block "free'd" -- "${memcheck[@]}" "$mistakes" freed
        expect "memcheck: the same on a thread of its own" 1 "Invalid read of size 1" pin_and_use -- "${memcheck[@]}" "$mistakes" pinned
        expect "memcheck: a local that was never set" 1 "uninitialised value" look_at_what_is_not_set -- "${memcheck[@]}" "$mistakes" unset
        expect "memcheck: a heap overflow" 1 "Invalid write of size 1" write_behind_a_block -- "${memcheck[@]}" "$mistakes" overflow
        expect "memcheck: a lost block" 1 "100 bytes" lose_a_block -- "${memcheck[@]}" "$mistakes" leak
        for suite in fiber fiber_await fiber_beside fiber_calls fiber_flow fiber_io_calls fiber_within; do
                expect "memcheck: $suite" 0 "asserts" -- "${memcheck[@]}" "$build/test/${suite}_test"
                ! grep -q '^==' "$work/output" || fail "memcheck says something"
        done
        for tool in callgrind none; do
                runs=(valgrind -q --tool=$tool --child-silent-after-fork=yes)
                [ $tool != callgrind ] || runs+=(--callgrind-out-file=/dev/null)
                expect "$tool: no mistake" 0 -- "${runs[@]}" "$mistakes"
        done
        ;;
*)
        echo "left out: $WEIR_SANITIZE"
        exit 77
        ;;
esac
