#!/bin/bash
# SIGUSR2: the program starts anew, with its listening sockets, while clients come all the time: none of them notices.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

program=$tutorial/04-delay-control
socket=$work/socket

# The processes that serve at our socket; one that has ended, but was not waited for, has no command line.
servers() {
        local each

        for each in /proc/[0-9]*; do
                tr '\0' ' ' 2>/dev/null <"$each/cmdline" | grep -qF "04-delay-control 127.0.0.1:$port,unix:$socket" &&
                        echo "${each#/proc/}"
        done
}

# heir OF: sets $server, when only that one is left
heir() {
        local began left=

        began=$(now)
        until left=$(servers); [ -n "$left" ] && [ "$left" != "$1" ] && [ "$(wc -w <<<"$left")" -eq 1 ]; do
                if awk -v took="$(since "$began")" 'BEGIN { exit !(took > 60) }'; then
                        fail "60 s after SIGUSR2 to $1 there are these: $left"
                        exit 1
                fi
                sleep 0.05
        done
        unset "started[$1]"
        server=$left
        started[$server]=04-delay-control
}

has_ended() {
        local began

        began=$(now)
        while [ -n "$(servers)" ]; do
                if awk -v took="$(since "$began")" -v within=$patience 'BEGIN { exit !(took > within) }'; then
                        fail "it has not ended within $patience s"
                        return
                fi
                sleep 0.05
        done
        unset "started[$server]"
}

for _ in 1 2 3 4 5; do
        port=$(free_port)
        "$program" "127.0.0.1:$port,unix:$socket" 2>>"$log" &
        server=$!
        started[$server]=04-delay-control
        until is_served "$port" || ! is_alive "$server"; do
                sleep 0.02
        done
        ! is_alive "$server" || break
        unset "started[$server]"
done
is_alive "$server" || exit 1
url=http://127.0.0.1:$port

step "three restarts under load"
mkfifo "$work/hold"
"$WEIR_BUILD/test/e2e/restart_load" "$port" "$socket" <"$work/hold" >"$work/load" 2>&1 &
load=$!
exec {hold}>"$work/hold"
for i in 1 2 3; do
        sleep 0.5
        first=$server
        kill -USR2 "$server"
        heir "$server"
        if [ $i = 1 ]; then
                wait "$first"
                expect "exit status of the first one" $? 0
        fi
done
sleep 0.5
exec {hold}>&-
wait $load
expect "exit status of the clients" $? 0
cat "$work/load"
[ -S "$socket" ] || fail "the file of the Unix socket has gone"
get --unix-socket "$socket" http://a/wait?name=a\&ms=0
expect body "$body" waited

step "a request that is under way is answered by the old one"
curl --silent --max-time 30 --output "$work/long" "$url/wait?name=long&ms=1500" &
long=$!
sleep 0.3
kill -USR2 "$server"
heir "$server"
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
grep -q "the new process does not serve: Broken pipe; this one goes on" "$log" || fail "it does not say so"
get "$url/wait?name=a&ms=0"
expect body "$body" waited

step "a deployed program is the one that is started"
cp "$program" "$work/bin/replaced"
mv "$work/bin/replaced" "$work/bin/04-delay-control"
kill -USR2 "$server"
heir "$server"
get "$url/wait?name=a&ms=0"
expect body "$body" waited
kill -INT "$server"
has_ended
[ ! -e "$socket" ] || fail "the file of the Unix socket is there still"
! grep -E "Sanitizer|runtime error" "$log" || fail "a sanitizer has something to say"

exit $failed
