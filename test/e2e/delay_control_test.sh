#!/bin/bash
# tutorial/04-delay-control: a second client tells the server, by name, not to let the first one wait any longer.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

start_server 04-delay-control

# cancel NAME COUNT: until so many were cancelled in all
cancel() {
        local left=$2 began

        began=$(now)
        while [ "$left" -gt 0 ]; do
                get --request POST "$url/cancel?name=$1"
                expect "status of cancel" "$status" 200
                left=$((left - body))
                if awk -v took="$(since "$began")" 'BEGIN { exit !(took > 30) }'; then
                        fail "$left of $2 named $1 never came"
                        return
                fi
        done
        expect "left of those named $1" $left 0
}

step "nobody is waiting"
get --request POST "$url/cancel?name=nobody"
expect "cancelled" "$body" 0

step "a wait ends by itself"
get "$url/wait?name=a&ms=300"
expect body "$body" waited
between seconds "$took" 0.3 $((patience + 1))
get "$url/wait?ms=0&name=a"
expect body "$body" waited

step "a wait is ended by its name"
began=$(now)
curl --silent --max-time 50 --output "$work/bob" "$url/wait?name=bob&ms=60000" &
bob=$!
curl --silent --max-time 50 --output "$work/eve" "$url/wait?name=eve&ms=60000" &
eve=$!
cancel bob 1
wait $bob || fail "curl of bob: $?"
expect "what bob gets" "$(cat "$work/bob")" "told not to wait"
is_alive $eve || fail "eve does not wait any more"
cancel eve 1
wait $eve
expect "what eve gets" "$(cat "$work/eve")" "told not to wait"
between "seconds for both" "$(since "$began")" 0 50

step "twenty under one name"
curls=()
for i in {1..20}; do
        curl --silent --max-time 50 --output "$work/wait-$i" "$url/wait?name=many&ms=60000" &
        curls+=($!)
done
cancel many 20
for i in {1..20}; do
        wait "${curls[i - 1]}" || fail "request $i of twenty: $?"
        expect "what number $i gets" "$(cat "$work/wait-$i")" "told not to wait"
done

step "for a client that left nobody waits any more"
keep_connection
send_kept "/wait?name=gone&ms=60000"
sleep 0.3 # for the wait to begin; right either way
exec {kept}>&-
sleep 0.5 # for the server to notice
get --request POST "$url/cancel?name=gone"
expect "cancelled of who has gone" "$body" 0

step "what is not served"
for target in /wait "/wait?name=a" "/wait?ms=1" "/wait?name=a&ms=x" "/wait?name=a&ms=-1" "/wait?name=&ms=1" "/wait?name=a&ms="; do
        get "$url$target"
        expect "status of GET $target" "$status" 400
done
get --request POST "$url/cancel"
expect "status of a cancel without a name" "$status" 400
for method in POST DELETE; do
        get --request $method "$url/wait?name=a&ms=1"
        expect "status of $method /wait" "$status" 404
done
get "$url/cancel?name=a"
expect "status of GET /cancel" "$status" 404
get "$url/"
expect "status of GET /" "$status" 404

step "clients of another make"
python3 "$here/clients.py" "${url##*:}" || fail "http.client is not content"

step "a signal waits for what is due, a second one does not"
keep_connection
send_kept "/wait?name=due&ms=1500"
sleep 0.3 # for the wait to begin; right either way
kill -TERM "$server"
receive_kept
expect "what is due at the signal" "${body##*$'\n'}" waited
ends_with 0 "$patience"

start_server 04-delay-control
keep_connection
send_kept "/wait?name=late&ms=60000"
sleep 0.3
kill -INT "$server"
sleep 0.2
is_alive "$server" || fail "it does not wait for what is due"
kill -TERM "$server"
ends_with 1 "$patience"
receive_kept
expect "what comes when it is cut" "$body" ""

exit $failed
