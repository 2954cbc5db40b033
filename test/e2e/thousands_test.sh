#!/bin/bash
# Thousands of requests wait at once for their second to pass, while a handful of threads runs and none of them waits.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

count=10000 most=30000 # ms; a thousandth of what they would take one after another
[ -z "${WEIR_SANITIZE:-}" ] || count=1000
room=$(ulimit -Hn)
[ "$room" = unlimited ] || [ "$count" -le $((room - 100)) ] || count=$((room - 100))

# many PROCESS...
many() {
        "$WEIR_BUILD/test/e2e/many_connections" "${url##*:}" $count 200 1000 $most "$@" || fail "many_connections: $?"
}

field() {
        awk -v name="$1:" '$1 == name { print $2 }' "/proc/$server/status"
}

start_server 01-delay-server

step "$count connections, one request each"
many
threads=$(field Threads)
echo "threads: $threads; most memory: $(field VmHWM) KiB"
# A worker that the machine held up for long has got a stand-in, which stays for a while; nothing like one for each connection.
between "threads" "$threads" 1 $(($(nproc) + 3 + count / 100))
[ -n "${WEIR_SANITIZE:-}" ] || between "most memory in KiB" "$(field VmHWM)" 1 65536

step "all is given back"
for _ in {1..300}; do
        open=$(find "/proc/$server/fd" -mindepth 1 2>/dev/null | wc -l)
        [ "$open" -gt 64 ] || break
        sleep 0.1
done
between "descriptors that are still open" "$open" 1 64

step "Ctrl-C while $count replies are due"
many "$server"
ends_with 0 "$patience"

exit $failed
