#!/bin/bash
# What the tutorials that serve nothing print.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

step "02-series"
for _ in 1 2 3; do # a busy machine may need longer than the longest way
        "$tutorial/02-series" >"$work/out" || fail "exit status of 02-series: $?"
        grep -q "as long as the longest" "$work/out" && break
done
expect "what 02-series prints" "$(cat "$work/out")" "prepared
fast arrived, slow arrived, second arrived: status 0
together they took as long as the longest
finished: status 0"

step "03-named-timer"
"$tutorial/03-named-timer" >"$work/out" || fail "exit status of 03-named-timer: $?"
expect "its first line" "$(head -n 1 "$work/out")" "3 timers named coffee"
expect "its last line" "$(tail -n 1 "$work/out")" "tea, in 100 ms: expired"
expect "who cancelled" "$(grep ^cancelled "$work/out")" "cancelled 1, the oldest of three
cancelled 2, the others
cancelled 0, there is none left"
expect "callbacks of those" "$(grep -c '^coffee, in an hour: Operation canceled$' "$work/out")" 3
expect "lines" "$(wc -l <"$work/out")" 8

exit $failed
