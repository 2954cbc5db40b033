#!/bin/bash
# tutorial/17-hedged: the faster of two answers, and what has become of the other one.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

start_server 17-hedged

# asked QUERY WINNER FIRST SECOND
asked() {
        get "$url/$1"
        expect "status of /$1" "$status" 200
        expect "reply to /$1" "$body" "$2"$'\n'"first: $3"$'\n'"second: $4"
}

step "the first is slow: it is asked a second time, and the slow one is cancelled"
asked "?first=60000&second=1" second "cancelled" answered
between "seconds that it took" "$took" 0.05 $patience

step "the first is fast: no second one is asked"
asked "?first=0&second=60000" first answered "never asked"
between "seconds that it took" "$took" 0 $patience

step "both were asked, and the first is faster all the same"
asked "?first=300&second=60000" first answered "cancelled"
between "seconds that it took" "$took" 0.3 $patience

step "twenty at once, each with its own winner"
curls=()
for i in {1..20}; do
        curl --silent --max-time 50 --output "$work/$i" "$url/?first=$((i % 2 * 60000))&second=0" &
        curls+=($!)
done
for i in {1..20}; do
        wait "${curls[i - 1]}" || fail "request $i of twenty: $?"
        expect "winner of request $i" "$(head -n 1 "$work/$i")" "$([ $((i % 2)) -eq 1 ] && echo second || echo first)"
done

stop_server INT 0
exit $failed
