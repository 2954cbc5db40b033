#!/bin/bash
# Sanitizers and valgrind see what a program does with the objects of the shipped library, which was built without them: their
# reports name the lines of the program.  What is not installed is left out, and said.
set -euo pipefail

build=${WEIR_BUILD:?} source=${WEIR_SOURCE:?} cc=${WEIR_CC:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export ASAN_OPTIONS=detect_leaks=1:color=never LSAN_OPTIONS=

fail() {
        echo "$*" >&2
        exit 1
}

# make PROGRAM COMPILER FLAGS...
make() {
        local program=$1
        shift
        "$@" -g -O1 -D_GNU_SOURCE -I"$source/include" "$source/test/mistakes.c" -o "$work/$program" -L"$build" -lweir \
                -Wl,-rpath,"$build"
}

# at TEXT: the line of the program that has that text, as reports name it.
at() {
        grep -nF -m1 -- "$1" "$source/test/mistakes.c" | sed 's/:.*//; s/^/mistakes.c:/'
}
used=$(at "it ended with") made=$(at '"session/7"') started=$(at "weir_task_start(timer)")
lost_channel=$(at "                weir_channel_new(1, NULL);") lost_guard=$(at "                weir_guard_new();")
lost_timer=$(at "weir_timer_new(WEIR_SEC(1)") lost_series=$(at "                weir_series_new(NULL, NULL);")

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

# A report of a use after free has the stacks of the use, of the end and of the making.
check_uses() {
        local with=$1 report=$2
        shift 2
        expect "$with: a task that is gone" 1 "$report" use_a_task_that_is_gone "$used" "$made" -- "$@" use
        expect "$with: a start of a task that is gone" 1 "$report" start_a_task_that_is_gone "$started" -- "$@" start
        expect "$with: a series that is gone" 1 "$report" push_onto_a_series_that_is_gone -- "$@" push
        expect "$with: a channel that is gone" 1 "$report" use_a_channel_that_is_gone -- "$@" channel
        expect "$with: a promise that is gone" 1 "$report" end_a_promise_that_is_gone -- "$@" promise
        expect "$with: a guard that is gone" 1 "$report" look_at_a_guard_that_is_gone -- "$@" guard
        expect "$with: a pool that is gone" 1 "$report" put_into_a_pool_that_is_gone -- "$@" pool
        expect "$with: a wait group that is gone" 1 "$report" count_down_a_wait_group_that_is_gone -- "$@" waitgroup
        expect "$with: the message of a task that is gone" 1 "$report" look_at_the_message_of_a_task_that_is_gone -- "$@" message
        expect "$with: a router that is gone" 1 "$report" add_to_a_router_that_is_gone -- "$@" router
        expect "$with: a server that is gone" 1 "$report" look_at_a_server_that_is_gone -- "$@" server
        expect "$with: no mistake" 0 -- "$@"
}

for compiler in gcc clang; do
        if ! command -v "$compiler" >/dev/null; then
                echo "left out: $compiler is not installed"
                continue
        fi
        if make asan "$compiler" -fsanitize=address 2>"$work/errors"; then
                check_uses "$compiler, AddressSanitizer" "AddressSanitizer: heap-use-after-free" "$work/asan"
                expect "$compiler, AddressSanitizer: lost tasks and series" 1 \
                        "in 10 object(s)" "20 allocation(s)" make_and_forget "$lost_timer" "$lost_series" -- "$work/asan" forget
                expect "$compiler, AddressSanitizer: lost objects" 1 \
                        "20 allocation(s)" make_objects_and_forget "$lost_channel" "$lost_guard" -- "$work/asan" forget-objects
        else
                echo "left out: $compiler has no AddressSanitizer"
        fi
        if make lsan "$compiler" -fsanitize=leak 2>"$work/errors"; then
                expect "$compiler, LeakSanitizer: lost tasks and series" 1 \
                        "20 allocation(s)" make_and_forget "$lost_timer" "$lost_series" -- "$work/lsan" forget
                expect "$compiler, LeakSanitizer: lost objects" 1 \
                        "20 allocation(s)" make_objects_and_forget "$lost_channel" "$lost_guard" -- "$work/lsan" forget-objects
                expect "$compiler, LeakSanitizer: no mistake" 0 -- "$work/lsan"
        else
                echo "left out: $compiler has no LeakSanitizer"
        fi
done

make plain "$cc"
if command -v valgrind >/dev/null; then
        memcheck=(valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite)
        check_uses memcheck "Invalid read" "${memcheck[@]}" "$work/plain"
        expect "memcheck: lost tasks and series" 1 \
                "10 blocks are definitely lost" make_and_forget "$lost_timer" "$lost_series" -- "${memcheck[@]}" "$work/plain" forget
        expect "memcheck: lost objects" 1 "10 blocks are definitely lost" make_objects_and_forget "$lost_channel" "$lost_guard" -- \
                "${memcheck[@]}" "$work/plain" forget-objects
else
        echo "left out: valgrind is not installed"
fi

expect "without a tool, the shutdown: with names" 0 \
        "weir: 10 timers and 1 series were made and never started; first: timer \"session/7\"" -- "$work/plain" forget-named
expect "without a tool: lost objects are not counted" 0 -- "$work/plain" forget-objects
[ ! -s "$work/output" ] || fail "without a tool: lost objects are counted"
expect "without a tool, the shutdown: without names" 0 \
        "weir: 10 timers and 10 series were made and never started" -- "$work/plain" forget
