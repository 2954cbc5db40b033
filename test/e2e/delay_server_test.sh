#!/bin/bash
# tutorial/01-delay-server as a person meets it: curl, Ctrl-C, a port that is taken.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

text="hello, one second late"
late=$(awk -v patience=$patience 'BEGIN { print 1 + patience }')

start_server 01-delay-server

step "each request is answered one second later"
get "$url/"
expect status "$status" 200
expect body "$body" "$text"
between "seconds with HTTP/1.1" "$took" 1 "$late"
get --http1.0 "$url/any/path?query"
expect body "$body" "$text"
between "seconds with HTTP/1.0" "$took" 1 "$late"
get --head "$url/"
expect "status of HEAD" "$status" 200
grep -qi '^content-length: 23' "$work/body" || fail "HEAD has no Content-Length"
between "seconds with HEAD" "$took" 1 "$late"

step "bodies come in"
head -c 100000 /dev/zero >"$work/small"
head -c 2000000 /dev/zero >"$work/large"
get --data-binary "@$work/small" "$url/"
expect "status of POST" "$status" 200
get --data-binary "@$work/large" "$url/"
expect "status of a body above 1 MiB" "$status" 413

step "a connection is kept"
opened=$(curl --silent --max-time 30 --output /dev/null --output /dev/null --write-out '%{num_connects} ' "$url/1" "$url/2")
expect "connections opened for two requests" "$opened" "1 0 "
python3 - "${url##*:}" <<'END' || fail "http.client is not content"
import http.client
import sys
import time

connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=30)
connection.connect()
kept = connection.sock
for fields in ({}, {"Connection": "close"}):
    began = time.monotonic()
    connection.request("GET", "/", headers=fields)
    reply = connection.getresponse()
    assert reply.status == 200 and reply.read() == b"hello, one second late\n"
    assert time.monotonic() - began >= 1
    assert connection.sock is (None if fields else kept)
END

step "twenty at once take no longer than one"
began=$(now)
curls=()
for i in {1..20}; do
        curl --silent --fail --max-time 30 --output "$work/at-once-$i" "$url/$i" &
        curls+=($!)
done
for i in {1..20}; do
        wait "${curls[i - 1]}" || fail "request $i of twenty: $?"
        expect "body of request $i" "$(cat "$work/at-once-$i")" "$text"
done
between "seconds for twenty" "$(since "$began")" 1 "$(awk -v late="$late" 'BEGIN { print late + 4 }')"

step "a client that does not wait disturbs nobody"
curl --silent --max-time 0.3 --output /dev/null "$url/"
expect "status of curl" $? 28
get "$url/"
expect status "$status" 200

step "a port that is taken is said"
"$tutorial/01-delay-server" "${url#http://}" >"$work/out" 2>&1
expect "exit status when the port is taken" $? 1
grep -q "cannot serve at ${url#http://}: .*in use" "$work/out" || fail "said: $(cat "$work/out")"
"$tutorial/01-delay-server" nowhere >"$work/out" 2>&1
expect "exit status with a bad address" $? 1
grep -q "cannot serve at nowhere: " "$work/out" || fail "said: $(cat "$work/out")"

step "SIGTERM ends it"
stop_server TERM 0

for how in "--default-signal=INT" "--ignore-signal=INT"; do
        step "Ctrl-C delivers the replies that are due ($how)"
        start_server 01-delay-server env "$how"
        python3 "$here/pending.py" "${url##*:}" 50 "$server" INT || fail "replies are missing"
        ends_with 0 "$patience"
        is_served "${url##*:}" && fail "it is still served"
done

step "a second signal cuts them"
start_server 01-delay-server
python3 "$here/pending.py" "${url##*:}" 5 "$server" INT INT || fail "not cut"
ends_with 1 "$patience"

exit $failed
