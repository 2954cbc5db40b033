#!/bin/bash
# tutorial/14-https as curl, Python and ab meet it: two names, certificates that change, and ends that are said.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

make=${WEIR_BUILD:?}/test/e2e/make_certificate
"$make" "$work" first localhost && "$make" "$work" second other.example || fail "no certificates"

# The files follow the address.
files="$work/first.pem $work/first.key $work/second.pem $work/second.key"
start_server 14-https bash -c "exec \"\$0\" \"\$1\" $files"
port=${url##*:}
url=https://localhost:$port

# ask CERTIFICATE CURL'S ARGUMENTS
ask() {
        get --cacert "$work/$1.pem" --resolve "localhost:$port:127.0.0.1" --resolve "other.example:$port:127.0.0.1" "${@:2}"
}

step "versions of TLS and of HTTP"
for version in 1.2 1.3; do
        ask first --tlsv$version --tls-max $version "$url/"
        expect "status with TLS $version" "$status" 200
        expect "body" "$body" "hello, secretly"
done
if curl --silent --insecure --max-time 30 --tlsv1.0 --tls-max 1.1 "https://127.0.0.1:$port/" >/dev/null 2>&1; then
        fail "TLS 1.1 is served"
fi
ask first --http1.0 "$url/"
expect "body with HTTP/1.0" "$body" "hello, secretly"
ask first --head "$url/"
expect "status of HEAD" "$status" 200
head -c 500000 /dev/zero >"$work/large"
ask first --data-binary "@$work/large" "$url/"
expect "status of POST" "$status" 200
ask first --header "Connection: close" "$url/"
expect "status with Connection: close" "$status" 200

step "a connection is kept"
opened=$(curl --silent --insecure --max-time 30 --output /dev/null --output /dev/null --write-out '%{num_connects} ' \
        "https://127.0.0.1:$port/1" "https://127.0.0.1:$port/2")
expect "connections opened for two requests" "$opened" "1 0 "

step "the other name, and who does not know that this is TLS"
ask second "https://other.example:$port/"
expect "status of the other name" "$status" 200
get "http://127.0.0.1:$port/"
expect "status of plain HTTP" "$status" 400

step "the end is said: Python takes a missing close_notify for an error"
python3 - "$port" "$work/first.pem" <<'END' || fail "Python is not content"
import http.client
import socket
import ssl
import sys

port = int(sys.argv[1])
context = ssl.create_default_context(cafile=sys.argv[2])
context.set_alpn_protocols(["http/1.1"])
connection = http.client.HTTPSConnection("localhost", port, timeout=30, context=context)
for _ in range(100):
    connection.request("GET", "/")
    reply = connection.getresponse()
    assert reply.status == 200 and reply.read() == b"hello, secretly\n"
connection.close()
with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
    with context.wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False) as secure:
        assert secure.selected_alpn_protocol() == "http/1.1"
        secure.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        reply = b""
        while piece := secure.recv(65536):  # raises SSLEOFError when the end is not said
            reply += piece
        assert reply.endswith(b"hello, secretly\n")
END
if command -v ab >/dev/null; then
        ab -q -n 300 -c 4 "https://127.0.0.1:$port/" >"$work/ab" 2>&1 || fail "ab: $(tail -n 3 "$work/ab")"
        expect "failures that ab saw" "$(awk '/^Failed requests:/ { print $3 }' "$work/ab")" 0
        grep -i "ssl.*error\|unexpected eof" "$work/ab" && fail "ab is not content"
fi

step "certificates change while it serves"
"$make" "$work" new localhost || fail "no certificate"
cp "$work/first.pem" "$work/old.pem"
cp "$work/new.pem" "$work/first.pem" && cp "$work/new.key" "$work/first.key"
ask old "$url/"
expect "status before" "$status" 200
kill -HUP "$server"
for _ in {1..500}; do
        curl --silent --max-time 30 --output /dev/null --cacert "$work/new.pem" --resolve "localhost:$port:127.0.0.1" "$url/" && break
        sleep 0.02
done
ask new "$url/"
expect "status after" "$status" 200
echo nonsense >"$work/first.key"
kill -HUP "$server"
for _ in {1..500}; do
        grep -q 'first.key' "$log" && break
        sleep 0.02
done
ask new "$url/"
expect "status after a reload that failed" "$status" 200
grep -q '^weir: TLS: private key file ".*/first.key": ' "$log" || fail "the log does not say what was wrong"

stop_server INT 0
"$tutorial/14-https" 2>/dev/null
expect "exit status without arguments" $? 2
"$tutorial/14-https" 127.0.0.1:0 "$work/first.pem" "$work/absent" 2>"$work/err" && fail "it serves without a key"
grep -q 'absent": there is no such file' "$work/err" || fail "it does not say which file is absent"

exit $failed
