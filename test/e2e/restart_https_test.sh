#!/bin/bash
# tutorial/14-https hands its sockets to a new process of its own, while clients with TLS come all the time: none of them notices.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
need curl python3

make=$WEIR_BUILD/test/e2e/make_certificate
"$make" "$work" first localhost || fail "no certificate"
cp "$work/first.pem" "$work/old.pem"

socket=$work/socket
export socket work
start_server 14-https bash -c 'exec "$0" "$1,unix:$socket" "$work/first.pem" "$work/first.key"'
port=${url##*:}
url=https://localhost:$port
serving="14-https 127.0.0.1:$port,unix:$socket"

# ask CERTIFICATE CURL'S ARGUMENTS
ask() {
        get --cacert "$work/$1.pem" --resolve "localhost:$port:127.0.0.1" "${@:2}" "$url/"
        expect "reply" "$status $body" "200 hello, secretly"
}

step "three restarts under load"
restart_under_load "hello, secretly" "$work/old.pem"
[ -S "$socket" ] || fail "the file of the Unix socket has gone"
ask old --unix-socket "$socket"

step "a request that is under way is answered by the old one"
python3 - "$port" "$work/old.pem" "$server" <<'PYTHON' || fail "it is not"
import os
import signal
import socket
import ssl
import sys

port, certificate, process = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
context = ssl.create_default_context(cafile=certificate)


def connect():
    plain = socket.create_connection(("127.0.0.1", port), timeout=30)
    return context.wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False)


with connect() as idle, connect() as busy:
    idle.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    reply = b""
    while not reply.endswith(b"hello, secretly\n"):
        reply += idle.recv(65536)
    busy.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf ")
    os.kill(process, signal.SIGUSR2)
    assert idle.recv(1) == b""  # the old process stops; when that is not said, this raises SSLEOFError
    busy.sendall(b"done")
    reply = b""
    while piece := busy.recv(65536):
        reply += piece
    # Its poller may learn of the stop behind this reply, which then does not say that it is the last.
    assert reply.startswith(b"HTTP/1.1 200 "), reply
    assert reply.endswith(b"\r\n\r\nhello, secretly\n"), reply
PYTHON
child "$server"

step "a new process that does not serve changes nothing"
mv "$work/first.key" "$work/kept.key"
kill -USR2 "$server"
comes_true grep -q "does not serve: the other side has closed or gone; this one goes on" "$log" || fail "it does not say so"
grep -q 'first.key": there is no such file' "$log" || fail "the new process does not say why"
expect "processes" "$(servers)" "$server"
ask old

step "a new process has the certificates that are there then"
"$make" "$work" first localhost || fail "no certificate"
kill -USR2 "$server"
child "$server"
ask first
ask first --unix-socket "$socket"

kill -INT "$server"
has_ended
[ ! -e "$socket" ] || fail "the file of the Unix socket is there still"
! grep -E "Sanitizer|runtime error" "$log" || fail "a sanitizer has something to say"

exit $failed
