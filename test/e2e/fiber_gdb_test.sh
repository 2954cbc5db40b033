#!/bin/bash
# Fibers in gdb: in a process and in cores, all are listed, and the frames of each are shown.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

command -v gdb >/dev/null || { echo "gdb is missing"; exit 77; }
[ -z "${WEIR_SANITIZE:-}" ] || exit 77 # cores of it are huge

program=$WEIR_BUILD/test/e2e/parked_fibers
script=$WEIR_SOURCE/scripts/gdb/weir-gdb.py
frames=(-ex 'weir fibers')
for number in 1 2 3 4 5 6; do
        frames+=(-ex "weir fiber $number")
done

debug() {
        DEBUGINFOD_URLS= timeout 100 gdb -batch -nx -iex 'set auto-load no' -iex 'set width 0' "$@" 2>&1
}

# look WHAT GDB'S ARGUMENTS: sets $seen
look() {
        seen=$(debug "${@:2}" -x "$script" "${frames[@]}" -ex 'weir fiber 4 info frame' -ex 'weir fiber 7' -ex 'bt')
        what=$1
}

# shows TEXT [BEHIND]: the text comes once, in what gdb has printed behind a line with the other text and before the next "fiber"
shows() {
        awk -v text="$1" -v behind="${2:-}" 'behind == "" || index($0, behind) { is_there = 1 }
                behind != "" && index($0, "fiber ") == 1 && !index($0, behind) { is_there = 0 }
                is_there && index($0, text) { found = 1 } END { exit !found }' <<<"$seen" ||
                fail "$what: no \"$1\"${2:+ behind \"$2\"} in:
$seen"
}

# all_are_shown [THREAD]: that fiber runs on
all_are_shown() {
        shows '1  parked one        "nap of a day"  sleeps for 86400 s'
        shows 'awaits a receive at 0x'
        shows 'awaits a timer "alarm clock" (weir_task *) 0x'
        shows 'joins a group of 2 that have not ended'
        shows '6  running_function                  runs on thread '
        shows 'in sleeper_function (' 'fiber 1, parked one of "nap of a day": sleeps for 86400 s'
        shows 'in receiver_function (' 'fiber 2, parked one: awaits a receive'
        shows 'in timer_function (' 'fiber 3, parked one'
        shows 'in deep_function (' 'fiber 4, parked one'
        expect "$what: calls that dig" "$(grep -c 'in dig_function (' <<<"$seen")" 4
        shows 'in group_function (' 'fiber 5, parked one'
        shows 'in running_function (' 'fiber 6, running_function: runs on thread'
        shows 'There is no fiber 7.'
        shows 'Stack level 1, frame at 0x' 'fiber 4, parked one'
        shows ' main (' 'There is no fiber 7.' # the thread is as it was
        expect "$what: the ends of the stacks" "$(grep -c ' weir__context_start (' <<<"$seen")" 6
        ! grep -q 'corrupt\|Traceback\|Python Exception' <<<"$seen" || fail "$what: $seen"
}

step "a process"
"$program" >"$work/said" 2>"$log" &
server=$!
started[$server]=parked_fibers
comes_to "what it prints" parked cat "$work/said"
if debug -p "$server" -x "$script" -ex "weir gcore $work/core" >"$work/attached" && [ -s "$work/core" ]; then
        look "a process" -p "$server"
        all_are_shown
        is_alive "$server" || fail "the process has ended"

        step "its core, by gdb"
        look "a core" "$program" "$work/core"
        all_are_shown
else
        cat "$work/attached"
        echo "a process cannot be attached to here"
fi
kill -KILL "$server"
wait "$server" 2>/dev/null
unset "started[$server]"

step "its core, by the kernel"
mkdir "$work/crash"
(cd "$work/crash" && ulimit -c unlimited && "$program" crash) 2>>"$log"
core=$(find "$work/crash" -name 'core*')
if [ -n "$core" ]; then
        look "the core of an abort" "$program" "$core"
        all_are_shown
else
        echo "cores go elsewhere here"
fi

step "a program without fibers"
what="no fibers"
seen=$(debug "$program" -x "$script" -ex 'weir fibers' -ex 'weir fiber 1')
grep -q 'There is no fiber 1.\|No fibers.' <<<"$seen" || fail "$what: $seen"

exit $failed
