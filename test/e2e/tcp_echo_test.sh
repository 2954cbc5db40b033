#!/bin/bash
# The TCP echo of a new user, examples/tcp-echo.c, serves 10,000 clients at once.  They are another process: so each of the two
# needs as many descriptors, and no more.
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

exit $failed
