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

# Ends the coprocess, which reads until its input ends.
end_server() {
        local server=$COPROC_PID

        exec {COPROC[1]}>&-
        wait "$server"
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
        end_server
else
        missing+=" libcurl"
fi
if [ -x "$programs/with_cares" ]; then
        expect "127.0.0.1" "$programs/with_cares" localhost
        # A server that has one name, says so the second time that it is asked, and answers no other question.
        coproc python3 -c '
import socket, sys, threading
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
def serve():
    asked = 0
    while True:
        query, peer = server.recvfrom(512)
        is_known = b"\4weir\7example" in query
        asked += is_known
        if is_known and asked > 1:
            server.sendto(query[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + query[12:query.index(b"\0", 12) + 5] +
                          b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc0\0\2\7", peer)
threading.Thread(target=serve, daemon=True).start()
sys.stdin.read()'
        read -r port <&"${COPROC[0]}"
        expect "192.0.2.7" "$programs/with_cares" weir.example 20000 "127.0.0.1:$port"
        expect "the time limit is over" "$programs/with_cares" other.example 100 "127.0.0.1:$port"
        end_server
else
        missing+=" c-ares"
fi
if [ -x "$programs/with_hiredis" ]; then
        # A server that knows one command.
        coproc python3 -c '
import socket, sys, threading
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
def serve():
    while True:
        peer, _ = server.accept()
        command = peer.recv(512)
        if b"PING" in command:
            peer.sendall(b"+PONG\r\n")
        elif b"WRONG" in command:
            peer.sendall(b"-ERR unknown command\r\n")
        elif b"QUIT" in command:
            peer.close()
        kept.append(peer)
kept = []
threading.Thread(target=serve, daemon=True).start()
sys.stdin.read()'
        read -r port <&"${COPROC[0]}"
        expect "PONG" "$programs/with_hiredis" "$port" PING
        expect "the other side breaks the rules of the protocol" "$programs/with_hiredis" "$port" WRONG
        expect "it is not connected, or has no addresses" "$programs/with_hiredis" "$port" QUIT
        expect "the time limit is over" "$programs/with_hiredis" "$port" "BLPOP none 0" 100
        end_server
else
        missing+=" hiredis"
fi
# GLib is not built for ThreadSanitizer, and its locks are futexes of its own: each of its threads would seem to race.
if [ "${WEIR_SANITIZE:-}" = thread ]; then
        echo "with_glib is not tried under ThreadSanitizer"
elif [ -x "$programs/with_glib" ]; then
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
