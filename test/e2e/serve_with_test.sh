#!/bin/bash
# A server that runs by one call, weir_http_serve_with, with TLS, a router, compression and an access log.  SIGHUP opens the log and
# reads the certificate again, SIGUSR2 hands the sockets to a new process, and SIGTERM ends that.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
need curl python3

make=${WEIR_BUILD:?}/test/e2e/make_certificate
"$make" "$work" first localhost || fail "no certificate"
cp "$work/first.pem" "$work/old.pem"
access=$work/access
export work access
start_server ../test/e2e/serve_with_server bash -c 'exec "$0" "$1" "$work/first.pem" "$work/first.key" "$access"'
port=${url##*:}
serving="127.0.0.1:$port $work/first.pem $work/first.key $access"

# ask CERTIFICATE TARGET CURL'S ARGUMENTS
ask() {
        get --cacert "$work/$1.pem" --resolve "localhost:$port:127.0.0.1" "${@:3}" "https://localhost:$port$2"
}

# speaks CERTIFICATE
speaks() {
        curl --silent --max-time 30 --output /dev/null --cacert "$work/$1.pem" --resolve "localhost:$port:127.0.0.1" \
                "https://localhost:$port/pages/again"
}

has_line() {
        grep -q "$1" "$2" 2>/dev/null
}

step "a page of the router, over TLS and compressed"
ask old /pages/a --dump-header "$work/head" --compressed
expect "status" "$status" 200
expect "bytes of the page" "$(stat --format=%s "$work/body")" 7000
grep -qi '^content-encoding: gzip' "$work/head" || fail "it is not compressed: $(cat "$work/head")"
ask old /nowhere
expect "status of a path without a route" "$status" 404

step "SIGHUP opens the log and reads the certificate again"
comes_true has_line 'GET /pages/a HTTP/1.1" 200' "$access" || fail "the log lacks the page"
mv "$access" "$access.1"
"$make" "$work" new localhost || fail "no certificate"
cp "$work/new.pem" "$work/first.pem" && cp "$work/new.key" "$work/first.key"
kill -HUP "$server"
comes_true speaks new || fail "the certificate is the old one"
ask new /pages/b
expect "status" "$status" 200
comes_true has_line 'GET /pages/b HTTP/1.1" 200' "$access" || fail "the log was not opened again"
has_line /pages/b "$access.1" && fail "the old log has what came later"

step "SIGUSR2 starts the program anew with its sockets, and SIGTERM ends it"
kill -USR2 "$server"
ends_with 0 "$patience"
successor=$(servers)
expect "successors" "$(wc -w <<<"$successor")" 1
[ -z "$successor" ] || started[$successor]=serve_with_server
ask new /pages/c
expect "status" "$status" 200
comes_true has_line 'GET /pages/c HTTP/1.1" 200' "$access" || fail "the successor does not write the log"
kill -TERM $successor
comes_to "servers" "" servers
unset "started[$successor]"

exit $failed
