#!/bin/bash
# The programs that docs/own-tasks.md shows run, and do what it says.  Where a library was not there for the build, its program is
# not tried, and the test counts as skipped.
set -euo pipefail
unset http_proxy https_proxy HTTPS_PROXY all_proxy ALL_PROXY no_proxy NO_PROXY

programs=${WEIR_BUILD:?}/test/own_tasks
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
missing=
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
        missing+=" libcurl"
fi
if [ -x "$programs/with_glib" ]; then
        expect "what was asked for" "$programs/with_glib" "$work/file"
        expect "Input/output error" "$programs/with_glib" "$work/none"
        # A file that never ends: the deadline cancels the reading, and GLib calls back when the file ends after all.
        mkfifo "$work/pipe"
        exec {writer}<>"$work/pipe"
        coproc "$programs/with_glib" "$work/pipe" 100 {writer}>&-
        reader=$COPROC_PID
        read -r said <&"${COPROC[0]}"
        [ "$said" = "the time limit is over" ] || { echo "with_glib at its deadline: \"$said\"" >&2; exit 1; }
        kill -0 "$reader" || { echo "with_glib has not waited for GLib" >&2; exit 1; }
        echo "too late" >&"$writer"
        exec {writer}>&-
        wait "$reader" || { echo "with_glib ends with $? after a cancel" >&2; exit 1; }
else
        missing+=" GLib"
fi
[ -z "$missing" ] || { echo "skipped, because these were not there for the build:$missing"; exit 77; }
