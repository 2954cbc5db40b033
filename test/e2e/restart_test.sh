#!/bin/bash
# SIGUSR2: the program starts anew, with its listening sockets, while clients come all the time: none of them notices.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

program=$tutorial/04-delay-control
socket=$work/socket

export socket
start_server 04-delay-control bash -c 'exec "$0" "$1,unix:$socket"'
port=${url##*:}
serving="04-delay-control 127.0.0.1:$port,unix:$socket"

step "three restarts under load"
restart_under_load waited
[ -S "$socket" ] || fail "the file of the Unix socket has gone"
get --unix-socket "$socket" http://a/wait?name=a\&ms=0
expect body "$body" waited

step "a request that is under way is answered by the old one"
curl --silent --max-time 30 --output "$work/long" "$url/wait?name=long&ms=1500" &
long=$!
sleep 0.3
kill -USR2 "$server"
child "$server"
wait $long || fail "curl: $?"
expect "what it gets" "$(cat "$work/long")" waited

step "a new process that does not serve changes nothing"
mkdir "$work/bin"
cp "$program" "$work/bin/04-delay-control"
kill -INT "$server"
has_ended
[ ! -e "$socket" ] || fail "the file of the Unix socket is there still"
"$work/bin/04-delay-control" "127.0.0.1:$port,unix:$socket" 2>>"$log" &
server=$!
started[$server]=04-delay-control
until is_served "$port"; do
        sleep 0.02
done
cp "$(type -P false)" "$work/bin/replaced"
mv "$work/bin/replaced" "$work/bin/04-delay-control"
kill -USR2 "$server"
for _ in {1..600}; do
        ! grep -q "this one goes on" "$log" || break
        sleep 0.05
done
grep -q "the new process does not serve: the other side has closed or gone; this one goes on" "$log" || fail "it does not say so"
get "$url/wait?name=a&ms=0"
expect body "$body" waited

step "a deployed program is the one that is started"
cp "$program" "$work/bin/replaced"
mv "$work/bin/replaced" "$work/bin/04-delay-control"
kill -USR2 "$server"
child "$server"
get "$url/wait?name=a&ms=0"
expect body "$body" waited
kill -INT "$server"
has_ended
[ ! -e "$socket" ] || fail "the file of the Unix socket is there still"
! grep -E "Sanitizer|runtime error" "$log" || fail "a sanitizer has something to say"

exit $failed
