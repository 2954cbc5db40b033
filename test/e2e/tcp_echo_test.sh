#!/bin/bash
# The TCP echo of a new user, examples/tcp-echo.c, serves 10,000 clients at once.  They are another process: so each of the two
# needs as many descriptors, and no more.  Then it is restarted.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

count=10000 most=30000 # ms
[ -z "${WEIR_SANITIZE:-}" ] || count=1000
room=$(ulimit -Hn)
[ "$room" = unlimited ] || [ "$count" -le $((room - 100)) ] || count=$((room - 100))
ulimit -Sn "$room"

# many COUNT [PROCESS]
many() {
        "$WEIR_BUILD/test/e2e/many_connections" echo "${url##*:}" "$1" 200 0 $most "${@:2}" || fail "many_connections: $?"
}

field() {
        awk -v name="$1:" '$1 == name { print $2 }' "/proc/$server/status"
}

is_given_back() {
        [ "$(find "/proc/$server/fd" -mindepth 1 2>/dev/null | wc -l)" -le 64 ]
}

# echoes DESCRIPTOR WORD
echoes() {
        local line=

        echo "$2" >&"$1" && read -r -t "$patience" line <&"$1"
        expect "echo" "$line" "$2"
}

# listens PROCESS: whether it has a socket that listens at the port; there is one for each poller
listens() {
        local inode

        inode=$(awk -v port=":$(printf %04X "$port")" '$2 ~ port "$" && $4 == "0A" { print $10; exit }' /proc/net/tcp)
        [ -n "$inode" ] && [ -n "$(find "/proc/$1/fd" -lname "socket:\[$inode\]" 2>/dev/null)" ]
}

# Sets $successor.
has_successor() {
        successor=$(servers | grep -vx "$server")
        [ "$(wc -w <<<"$successor")" = 1 ] && listens "$successor" && ! listens "$server"
}

start_server ../examples/tcp-echo

step "$count clients at once, two messages each"
many "$count"
threads=$(field Threads)
echo "threads: $threads; most memory: $(field VmHWM) KiB"
# A worker that the machine held up for long has got a stand-in, which stays for a while; nothing like one for each connection.
between "threads" "$threads" 1 $(($(nproc) + 3 + count / 100))
[ -n "${WEIR_SANITIZE:-}" ] || between "most memory in KiB" "$(field VmHWM)" 1 32768

step "all is given back"
comes_true is_given_back || fail "more than 64 descriptors are still open"

step "Ctrl-C while clients are connected: they are served until they leave"
many 100 "$server"
ends_with 0 "$patience"

step "SIGUSR2: an old connection is served on, the new process takes the socket, and the old one ends with 0"
start_server ../examples/tcp-echo
port=${url##*:} serving="tcp-echo 127.0.0.1:${url##*:}"
exec {old}<>"/dev/tcp/127.0.0.1/$port"
echoes "$old" "before"
kill -USR2 "$server"
comes_true has_successor || fail "no new process has taken the socket: $(servers)"
[ -z "$successor" ] || started[$successor]=tcp-echo
is_alive "$server" || fail "the old process has not waited for its connection"
echoes "$old" "to the old one"
exec {new}<>"/dev/tcp/127.0.0.1/$port"
echoes "$new" "to the new one"
echoes "$old" "to the old one, again"
exec {old}>&-
ends_with 0 "$patience"
echoes "$new" "to the new one, alone"
exec {new}>&-
kill -TERM "$successor"
comes_to "servers" "" servers
[ -z "$successor" ] || unset "started[$successor]"

exit $failed
