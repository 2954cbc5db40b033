#!/bin/bash
# Clients of TLS against nginx, OpenSSL's server and Python's: sessions are resumed, and six faults have six codes.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/nginx.sh"
need openssl python3

ask=${WEIR_BUILD:?}/test/e2e/tls_ask
cd "$work" || exit 1

step "an authority, as docs/streams.md makes it"
{
        # An authority of one's own: ca.pem, and its key.
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 30 \
                -subj "/CN=my authority" -keyout ca.key -out ca.pem

        # A server's certificate for two names and an address: server.pem, and its key.
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc \
                -subj "/CN=server.example" -keyout server.key -out server.csr
        printf 'subjectAltName=DNS:server.example,DNS:localhost,IP:127.0.0.1\n' >server.ext
        openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial \
                -days 30 -extfile server.ext -out server.pem
} 2>>"$log" >&2 || fail "no certificates"

# sign NAME DAYS CA: NAME.pem for server.example, with the key of the server
sign() {
        openssl x509 -req -in server.csr -CA "$3.pem" -CAkey "$3.key" -CAcreateserial -days "$2" -extfile server.ext -out "$1.pem" \
                2>>"$log" >&2 || fail "no certificate $1"
}
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 30 -subj "/CN=another" -keyout other.key -out other.pem \
        2>>"$log" >&2
sign expired -1 ca
sign untrusted 30 other
openssl req -x509 -key server.key -days 30 -subj "/CN=server.example" -addext "$(cat server.ext)" -out lonely.pem 2>>"$log" >&2
pin=sha256/$(openssl x509 -in server.pem -noout -pubkey | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary |
        openssl base64)

# says WHAT EXPECTED ADDRESS NAME COUNT...: a word of each line, or the first words of it
says() {
        local said

        said=$("$ask" "${@:3}" 2>>"$log" | cut -d ' ' -f 1,2 | paste -sd ,)
        expect "$1" "$said" "$2"
}

# refuses CODE WORDS ADDRESS NAME...: with words that a person understands
refuses() {
        local said

        said=$("$ask" "${@:3:2}" 1 "${@:5}" 2>>"$log")
        case $said in
        "$1 "*"$2"*) ;;
        *) fail "not $1 with \"$2\": $said" ;;
        esac
}

site() {
        cat <<CONF
        server {
                listen 127.0.0.1:$1 ssl;
                server_name server.example;
                ssl_certificate $work/$certificate.pem;
                ssl_certificate_key $work/server.key;
                ssl_protocols $protocols;
                ssl_client_certificate $work/ca.pem;
                ssl_verify_client $verify;
                return 200 "hello";
        }
CONF
}

verify=off
certificate=server
for protocols in TLSv1.2 TLSv1.3; do
        step "nginx with $protocols"
        start_nginx
        address=127.0.0.1:${url##*:}
        says "sessions" "0 new,0 resumed,0 resumed,0 resumed" "$address" server.example 4 ca=ca.pem
        says "sessions without a check" "0 new,0 resumed" "$address" any.example 2 insecure
        says "with a pin" "0 new,0 resumed" "$address" server.example 2 ca=ca.pem "pins=$pin"
        says "by its address" "0 new,0 resumed" "$address" 127.0.0.1 2 ca=ca.pem
        expect "protocol" "$("$ask" "$address" server.example 1 ca=ca.pem protocols=h3,http/1.1 2>>"$log")" "0 new http/1.1"
        refuses WEIR_ETLS_NAME 'for "server.example"' "$address" wrong.example ca=ca.pem
        refuses WEIR_ETLS_PIN "has the key $pin" "$address" server.example ca=ca.pem \
                pins=sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
        refuses WEIR_ETLS_UNTRUSTED "not trusted" "$address" server.example ca=other.pem
        [ "$protocols" = TLSv1.3 ] || refuses -EPROTO "" "$address" server.example ca=ca.pem min=1.3
        stop_nginx
done

while read -r certificate code words; do
        step "nginx with a certificate that is $certificate"
        start_nginx
        refuses "$code" "$words" "127.0.0.1:${url##*:}" server.example ca=ca.pem
        stop_nginx
done <<'END'
expired WEIR_ETLS_EXPIRED expired at
untrusted WEIR_ETLS_UNTRUSTED CN=another, which is not trusted
lonely WEIR_ETLS_SELF_SIGNED signed by itself
END

for version in 1_2 1_3; do
        step "OpenSSL's server with TLS $version"
        start_peer openssl s_server -accept 127.0.0.1:0 -cert server.pem -key server.key -www "-tls$version" </dev/null
        says "sessions" "0 new,0 resumed,0 resumed" "$address" server.example 3 ca=ca.pem
        refuses WEIR_ETLS_NAME 'for "server.example"' "$address" wrong.example ca=ca.pem
        stop_peer

        step "OpenSSL's server with TLS $version, which wants a certificate"
        start_peer openssl s_server -accept 127.0.0.1:0 -cert server.pem -key server.key -www "-tls$version" \
                -Verify 1 -CAfile ca.pem -verify_return_error </dev/null
        says "with one" "0 new,0 resumed" "$address" server.example 2 ca=ca.pem certificate=server.pem key=server.key
        refuses WEIR_ETLS_REFUSED "certificate" "$address" server.example ca=ca.pem
        refuses WEIR_ETLS_REFUSED "certificate" "$address" server.example ca=ca.pem certificate=other.pem key=other.key
        stop_peer
done

cat >server.py <<'END'
import socket
import ssl
import sys

context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain("server.pem", "server.key")
context.minimum_version = context.maximum_version = getattr(ssl.TLSVersion, sys.argv[1])
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    plain, peer = listener.accept()
    try:
        with context.wrap_socket(plain, server_side=True) as connection:
            connection.recv(4096)
            connection.sendall(b"hello")
    except OSError:
        plain.close()
END
for version in TLSv1_2 TLSv1_3; do
        step "Python with $version"
        start_peer python3 server.py "$version"
        says "sessions" "0 new,0 resumed,0 resumed" "$address" server.example 3 ca=ca.pem
        refuses WEIR_ETLS_NAME 'for "server.example"' "$address" wrong.example ca=ca.pem
        stop_peer
done

step "a server without TLS"
start_peer python3 -c '
import http.server
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
print(server.server_port, flush=True)
server.serve_forever()'
refuses WEIR_ETLS_PLAIN "" "$address" server.example ca=ca.pem
stop_peer

exit "$failed"
