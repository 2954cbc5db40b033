#!/bin/bash
# What the tutorials that serve nothing print.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

step "02-series"
for _ in {1..10}; do # a busy machine may need longer than the longest way
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
expect "callbacks of those" "$(grep -c '^coffee, in an hour: cancelled$' "$work/out")" 3
expect "lines" "$(wc -l <"$work/out")" 8

step "05-debounce"
# Two bursts, then two names that are pending when the input ends.  A machine that stands still for as long as the time of quiet
# would split a burst.
changes() {
        printf '%s\n' a b a a b
        for _ in {1..1500}; do
                [ "$(wc -l <"$work/out")" -lt 2 ] || break
                sleep 0.02
        done
        printf '%s\n' a c '' c
}
quiet=3000 # milliseconds
: >"$work/out"
began=$(now)
changes | "$tutorial/05-debounce" $quiet >"$work/out" 2>"$work/err" || fail "exit status of 05-debounce: $?"
between "milliseconds until all was said" "$(awk -v s="$(since "$began")" 'BEGIN { print 1000 * s }')" $quiet $((patience * 1000))
expect "what the first bursts say" "$(head -n 2 "$work/out" | sort)" "a: quiet
b: quiet"
expect "what is pending at the end" "$(tail -n +3 "$work/out" | sort)" "a: quiet at the end of input
c: quiet at the end of input"
expect "what it says of a line without a name" "$(cat "$work/err")" \
        'weir: a timer without a name: expected a name of 1 to 65535 bytes
05-debounce: "": an invalid value, or not allowed here'
"$tutorial/05-debounce" soon 2>"$work/err" </dev/null && fail "05-debounce takes a time that is none"
"$tutorial/05-debounce" </dev/null || fail "exit status of 05-debounce without input: $?"

step "06-ticker"
# A busy machine may drop more than the slow report does; the phase it must keep.
"$tutorial/06-ticker" >"$work/out" || fail "exit status of 06-ticker: $?"
expect "reports" "$(grep -c '^report ' "$work/out")" 10
expect "reports out of phase" "$(awk '/^report / && $5 % 100' "$work/out")" ""
between "ticks missed in the slow report" "$(awk '/^report 5,/ { print $7 }' "$work/out")" 3 1000
expect "the end" "$(tail -n 1 "$work/out")" "ended: Success"

step "07-virtual-clock"
began=$(now)
"$tutorial/07-virtual-clock" >"$work/out" || fail "exit status of 07-virtual-clock: $?"
between "seconds for a year" "$(since "$began")" 0 $patience
expect "what happens in the year" "$(cat "$work/out")" "day 50.0: reminder 50
day 100.0: reminder 100
day 150.0: reminder 150
day 200.0: reminder 200
day 200.5: enough, 1 cancelled
day 200.5: cancelled after 200 reminders"

step "08-blocking"
# How late a tick was, and how many hand-overs it took, depends on the machine.  One that stands still may not see that somebody
# blocks, or the one message of a second is about a tick.
of_query='^\(information\|warning\): the callback of a timer "query [1-8]" ([^)]*) ran for [0-9]* ms: '
for _ in {1..10}; do
        "$tutorial/08-blocking" >"$work/out" || fail "exit status of 08-blocking: $?"
        grep -q "^plainly: .*; 0 hand-overs" "$work/out" || ! grep -q "$of_query" "$work/out" || break
done
expect "the answers" "$(grep -o '^[a-z]*: 8 answers in' "$work/out")" "plainly: 8 answers in
announced: 8 answers in"
between "hand-overs by the watchdog, plainly" "$(sed -n 's/^plainly: .*; \([0-9]*\) hand-overs .*/\1/p' "$work/out")" 1 1000
between "hand-overs, announced" "$(sed -n 's/^announced: .*, \([0-9]*\) announced$/\1/p' "$work/out")" 1 8
grep -q "$of_query" "$work/out" || fail "no message about a query"

step "09-go-tasks"
for numbers in 1 2 31 100000; do
        "$tutorial/09-go-tasks" $numbers >"$work/out" || fail "exit status of 09-go-tasks: $?"
        expect "how many it sorts" "$(head -n 1 "$work/out")" "$numbers numbers"
        expect "what comes out" "$(tail -n 1 "$work/out")" "the result is the same"
done
for numbers in 0 -1 many 9999999999; do
        "$tutorial/09-go-tasks" $numbers 2>"$work/err" && fail "09-go-tasks takes a number that is none: $numbers"
done

step "10-promise"
"$tutorial/10-promise" >"$work/out" || fail "exit status of 10-promise: $?"
expect "what 10-promise prints" "$(cat "$work/out")" "quick: 42
slow: the oracle is told to forget
slow: the time limit is over"

step "16-graph"
"$tutorial/16-graph" >"$work/out" 2>"$work/err" || fail "exit status of 16-graph: $?"
expect "what the test says" "$(cat "$work/err")" "tested: 6000 bytes"
expect "nodes that have ended" "$(grep -c '\\nended\\nat ' "$work/out")" 6
expect "what was skipped" "$(grep -c 'label="report\\nskipped"' "$work/out")" 1
expect "edges, of which two are conditional" "$(grep -c ' -> ' "$work/out") $(grep -c 'style=dashed' "$work/out")" "8 2"
between "when the linker began, in ms" "$(sed -n 's/.*label="link\\nended\\nat \([0-9.]*\) ms.*/\1/p' "$work/out")" 70 $((patience * 1000))
"$tutorial/16-graph" fail >"$work/out" 2>"$work/err" || fail "exit status of 16-graph fail: $?"
expect "what the report says" "$(cat "$work/err")" "not linked: a file is empty"
expect "what was skipped then" "$(grep -c 'label="test\\nskipped"' "$work/out")" 1
"$tutorial/16-graph" other 2>"$work/err" && fail "16-graph takes a word that it does not know"

step "18-guard"
"$tutorial/18-guard" >"$work/out" || fail "exit status of 18-guard: $?"
expect "what 18-guard prints" "$(cat "$work/out")" "all have ended: cancelled
first begins
first ends
second begins
second is cancelled, and says so
third begins
third ends"

step "19-channel-pipeline"
"$tutorial/19-channel-pipeline" >"$work/out" || fail "exit status of 19-channel-pipeline: $?"
stages() { # the lines of one of them, in one of the two runs
        awk -v stage="$1" -v run="$2" '/^[as]/ { runs++ } runs == run && $3 == stage' "$work/out"
}
expect "when the reader could go on" "$(stages read 1 | sed 's/.*on //' | tr '\n' ' ')" "1 2 3 4 5 6 7 8 9 "
expect "what the reader waited for" "$(stages read 1 | sed -n '/ [789]$/s/ ms.*//p' | tr -d '\n ')" "03030"
expect "what is shipped, and when" "$(stages ship 1 | tr -s ' ')" " 0 ms ship ships 1
 30 ms ship ships 3
 60 ms ship ships 5
 90 ms ship ships 7
120 ms ship ships 9
150 ms ship has shipped all"
expect "what is bad" "$(grep -c 'finds bad' "$work/out")" 7
expect "what is shipped when it is told to stop" "$(stages ship 2 | tr -s ' ')" " 0 ms ship ships 1
 30 ms ship ships 3
 60 ms ship ships 5
 90 ms ship ships 7
120 ms ship has shipped all"
expect "who tells it" "$(stages check 2 | tail -n 1)" " 60 ms  check  is told to stop"
expect "what is left then" "$(tail -n 2 "$work/out" | sed 's/.*dropped: //' | tr -d '\n')" "89"
for _ in {1..20}; do
        "$tutorial/19-channel-pipeline" | cmp "$work/out" || fail "19-channel-pipeline prints something else each time"
done

exit $failed
