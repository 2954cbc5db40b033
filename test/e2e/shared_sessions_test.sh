#!/bin/bash
# tutorial/31-shared-sessions: processes with one store of sessions, of which two are killed.  No session ends twice or never.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
[ -e "$tutorial/31-shared-sessions" ] || {
        echo "skipped: this build has no libweir-durable"
        exit 77
}

sessions=60 logged_out=10
export store=$work/store
mkdir "$store"

# start NAME SECONDS: a process; its URL is ${urls[NAME]}
declare -A urls processes
start() {
        export lifetime=$2
        start_server 31-shared-sessions bash -c 'cd "$store" && exec "$0" "$1" "$lifetime"'
        urls[$1]=$url processes[$1]=$server
}

kill_process() {
        kill -KILL "${processes[$1]}"
        wait "${processes[$1]}" 2>/dev/null
        unset "started[${processes[$1]}]"
}

# ended WHAT: of the ends that were written
ended() {
        python3 -c 'import sqlite3, sys
print(sqlite3.connect(sys.argv[1], timeout=30).execute("SELECT %s FROM ended" % sys.argv[2]).fetchone()[0])' "$store/ended.db" "$1"
}

has_ended() {
        [ "$(ended 'count(*)' 2>/dev/null || echo 0)" -ge "$1" ]
}

# whose PROCESS SESSION: sets $status and $body
whose() {
        get --cookie "session=${ids[$2]}" "${urls[$1]}/me"
}

step "sessions begin at one process, and are used at another"
start one 900
start two 900
get "${urls[one]}/me"
expect "nobody is logged in" "$status $body" "401 please log in"
get --data user= "${urls[one]}/login"
expect "a user without a name" "$status" 400
get --cookie "session=none" "${urls[two]}/me"
expect "an id that is none" "$status" 401
ids=()
for ((i = 0; i < sessions; i++)); do
        [ $((i % 2)) = 0 ] && at=one || at=two
        get --dump-header "$work/head" --data "user=user$i" "${urls[$at]}/login"
        expect "login $i" "$status $body" "201 welcome"
        ids+=("$(sed -nE 's/^Set-Cookie: session=([0-9a-f]{32}).*/\1/pI' "$work/head")")
done
for ((i = 0; i < sessions; i++)); do
        [ $((i % 2)) = 0 ] && at=two || at=one
        whose $at $i
        expect "the user of session $i" "$status $body" "200 user$i"
done
for ((i = 0; i < logged_out; i++)); do
        get --cookie "session=${ids[i]}" --request POST "${urls[two]}/logout"
        expect "logout $i" "$status $body" "200 good bye"
        get --cookie "session=${ids[i]}" --request POST "${urls[one]}/logout"
        expect "logout $i once more" "$status $body" "200 there is no session"
done

step "one is killed, and its sessions are there"
kill_process one
for ((i = 0; i < sessions; i++)); do
        whose two $i
        [ $i -lt $logged_out ] && expect "session $i" "$status" 401 || expect "session $i" "$status $body" "200 user$i"
done

step "one is killed while sessions end"
start three 1
start four 1
for ((i = logged_out; i < sessions; i++)); do # the last use of each
        [ $((i % 2)) = 0 ] && at=three || at=four
        whose $at $i
        expect "session $i, for a second" "$status $body" "200 user$i"
done
comes_true has_ended 3 || fail "no session ends"
kill_process three
patience=60 comes_true has_ended $((sessions - logged_out)) || fail "only $(ended 'count(*)') have ended"
# What the killed one has written, and not acknowledged, is delivered once more.
patience=60 comes_to "what is left" "0 pending, 0 leased, 0 dead" "$WEIR_BUILD/weir-durable" "sqlite:$store/timers.db" count
for ((i = 0; i < sessions; i++)); do
        whose two $i
        expect "session $i is over" "$status" 401
done
for each in two four; do
        server=${processes[$each]}
        stop_server INT 0
done
expect "the ends" "$(ended 'count(*)')" $((sessions - logged_out))
expect "the sessions that have ended" "$(ended 'count(DISTINCT session)')" $((sessions - logged_out))

exit $failed
