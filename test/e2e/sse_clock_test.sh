#!/bin/bash
# tutorial/13-sse-clock: subscribers that come and go, and one that is there when the server stops.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

start_server 13-sse-clock

step "the page"
get "$url/"
expect "status" "$status" 200
grep -q EventSource "$work/body" || fail "the page asks for no events"
get "$url/other"
expect "status of what is not there" "$status" 404

step "subscribers come and go"
subscribe one "$url/time"
one=$subscriber
until_events "$work/one" 1
for name in two three; do
        subscribe $name "$url/time"
        until_events "$work/$name" 1
        kill $subscriber
        wait $subscriber 2>/dev/null
done
until_events "$work/one" 3
grep -qi '^content-type: text/event-stream' "$work/one.head" || fail "the stream says that it is something else"
expect "lines that are none of an event" "$(grep -vcE '^(id: [0-9]+|data: [0-9]{2}:[0-9]{2}:[0-9]{2}|:)?$' "$work/one")" 0
expect "times that do not go up" "$(sed -n 's/^id: //p' "$work/one" | sort -nu | cmp - <(sed -n 's/^id: //p' "$work/one"))" ""

step "a stop ends the streams, and the reply is whole"
began=$(now)
stop_server TERM 0
wait $one
expect "exit status of curl" $? 0
between "seconds" "$(since "$began")" 0 $patience

exit $failed
