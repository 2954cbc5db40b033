#!/bin/bash
# The programs that docs/own-tasks.md shows run, and do what it says, where their libraries were there for the build.
set -euo pipefail

programs=${WEIR_BUILD:?}/test/own_tasks
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "what was asked for" >"$work/file"

# expect EXPECTED COMMAND...
expect() {
        local expected=$1 said

        shift
        said=$("$@")
        echo "$said"
        [ "$said" = "$expected" ] || { echo "$*: expected \"$expected\"" >&2; exit 1; }
}

if [ -x "$programs/with_curl" ]; then
        expect "what was asked for" "$programs/with_curl" "file://$work/file"
        expect "Input/output error" "$programs/with_curl" "file://$work/none"
        # A server that accepts and says nothing.
        coproc python3 -c '
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
sys.stdin.read()'
        read -r port <&"${COPROC[0]}"
        expect "the time limit is over" "$programs/with_curl" "http://127.0.0.1:$port/" 100
        exec {COPROC[1]}>&-
else
        echo "libcurl was not there for the build: its program was not tried"
fi
if [ -x "$programs/with_glib" ]; then
        expect "what was asked for" "$programs/with_glib" "$work/file"
        expect "Input/output error" "$programs/with_glib" "$work/none"
else
        echo "GLib was not there for the build: its program was not tried"
fi
