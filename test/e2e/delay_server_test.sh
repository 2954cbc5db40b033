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

step "forty at once do not wait for each other"
began=$(now)
curls=()
for i in {1..40}; do
        curl --silent --fail --max-time 30 --output "$work/at-once-$i" "$url/$i" &
        curls+=($!)
done
for i in {1..40}; do
        wait "${curls[i - 1]}" || fail "request $i of forty: $?"
        expect "body of request $i" "$(cat "$work/at-once-$i")" "$text"
done
between "seconds for forty" "$(since "$began")" 1 35 # one after another would take 40

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

# interrupt WRONG HOW STATUS COUNT SIGNAL...: while COUNT replies are due.  A busy machine gets another try, a wrong reply does not.
interrupt() {
        local wrong=$1 how=$2 status=$3 count=$4 try said

        shift 4
        for try in 1 2 3 4 5; do
                start_server 01-delay-server env "$how"
                python3 "$here/pending.py" "${url##*:}" "$count" "$server" "$@"
                said=$?
                [ $said -eq 3 ] || break
                echo "the replies were due too early: attempt $((try + 1))"
                stop_server KILL 137
        done
        [ $said -eq 0 ] || fail "$wrong"
        is_alive "$server" || [ $said -ne 3 ] || return
        ends_with "$status" "$patience"
        is_served "${url##*:}" && fail "it is still served"
}

for how in "--default-signal=INT" "--ignore-signal=INT"; do
        step "Ctrl-C delivers the replies that are due ($how)"
        interrupt "replies are missing" "$how" 0 50 INT
done

step "a second signal cuts them"
interrupt "not cut" --default-signal=INT 1 5 INT INT

exit $failed
