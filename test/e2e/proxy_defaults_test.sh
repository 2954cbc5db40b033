#!/bin/bash
# nginx as it is without much configuration, in front of several programs: it speaks HTTP/1.0 to them, with a connection for each
# request, and collects bodies both ways.  What it needs for more than that are the lines that docs/http-server.md advises.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/nginx.sh"
need curl python3

site() {
        cat <<CONF
        proxy_http_version 1.0; # which is the default before nginx 1.30
        server {
                listen 127.0.0.1:$1;
                location / {
                        proxy_pass $files;
                }
                location /time {
                        proxy_pass $clock;
                }
                location /old/ {
                        proxy_pass $waits/;
                }
                location /new/ {
                        proxy_pass $waits/;
                        proxy_http_version 1.1;
                }
                location /closed/ {
                        proxy_pass $echoes/;
                }
                location /open/ {
                        proxy_pass $echoes/;
                        proxy_http_version 1.1;
                        proxy_set_header Upgrade \$http_upgrade;
                        proxy_set_header Connection "upgrade";
                }
        }
CONF
}

# behind URL: how many connections the server there has, and how many of them the other side has ended, as the kernel sees it
behind() {
        awk -v port="$(printf ':%04X' "${1##*:}")" \
                'substr($2, 9) == port && /^ *[0-9]+: [^ ]+ [^ ]+ 0[18]/ { all++; ended += $4 == "08" } END { print all + 0, ended + 0 }' \
                /proc/net/tcp
}

# fetch CURL'S ARGUMENTS: into $work/back
fetch() {
        curl --silent --show-error --fail --max-time 30 --output "$work/back" "$@" || fail "curl $*: $?"
}

start_upload 900000
files=$url file_server=$server
start_server 13-sse-clock
clock=$url clock_server=$server
start_server 04-delay-control
waits=$url wait_server=$server
start_server ../test/e2e/upgrade_server
echoes=$url echo_server=$server
start_nginx

step "bodies of known length and of none, both ways"
for file in small large; do
        upload $file "$url"
        upload $file "$url" --header "Transfer-Encoding: chunked"
        fetch "$url/files/$file"
        cmp "$work/$file" "$work/back" || fail "$file comes back as another one"
        fetch --data-binary "@$work/$file" "$url/upper" # whose reply ends with its connection
        LC_ALL=C tr a-z A-Z <"$work/$file" | cmp - "$work/back" || fail "$file comes back in other capitals"
done
get --range 2-4 "$url/files/small"
expect "part" "$status $body" "206 few"
get --head "$url/files/small"
expect "status of HEAD" "$status" 200
get --request POST "$url/upper"
expect "capitals of nothing" "$status $body" "200 "

step "errors"
get "$url/files/nothing"
expect "what is not there" "$status $body" "404 404 Not Found"
get --request DELETE "$url/files/small"
expect "status of another method" "$status" 405
get --upload-file "$work/large" "$url/files/.hidden" # is refused before its body was read
expect "what is refused" "$status $body" "400 not with that name"

step "events arrive while the stream is open"
subscribe events "$url/time"
until_events "$work/events" 2
is_alive "$subscriber" || fail "the stream has ended"
expect "connections, and those that are ended" "$(behind "$clock")" "1 0"
kill "$subscriber"
wait "$subscriber" 2>/dev/null
comes_to "connections when the subscriber has gone" "0 0" behind "$clock"
subscribe last "$url/time"
last=$subscriber
until_events "$work/last" 1
kill -TERM "$clock_server"
wait "$last"
expect "exit status of curl when the server stops" $? 0

step "a client that goes"
# depart WAY: its request has been sent to the server when a later one has been answered
depart() {
        local client

        curl --silent --max-time 60 "$url$1/wait?name=gone&ms=600000" >/dev/null &
        client=$!
        comes_to "connections" "1 0" behind "$waits"
        get "$url$1/wait?name=later&ms=0"
        expect "a request behind it" "$status $body" "200 waited"
        kill -KILL $client
        wait $client 2>/dev/null
}
cancel() {
        curl --silent --show-error --max-time 30 --request POST "$waits/cancel?name=gone"
}
depart /new
comes_to "connections of HTTP/1.1" "0 0" behind "$waits"
expect "what waits for nobody" "$(cancel)" 0
depart /old
comes_to "connections of HTTP/1.0" "1 1" behind "$waits"
comes_to "what waits, as nobody is asked but each few seconds" 1 cancel
comes_to "connections in the end" "0 0" behind "$waits"

step "Upgrade"
get --header "Connection: Upgrade" --header "Upgrade: echo" "$url/closed/"
expect "an upgrade that nginx does not pass on" "$status $body" "426 this speaks only echo"
get "$url/open/"
expect "a request without" "$status $body" "426 this speaks only echo"
python3 - "${url##*:}" <<'PYTHON' || fail "bytes are not echoed"
import os
import socket
import sys
import threading

sent = os.urandom(3000000)
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=30) as client:
    client.sendall(b"GET /open/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
    with client.makefile("rb") as stream:
        head = b"".join(iter(stream.readline, b"\r\n"))
        assert head.startswith(b"HTTP/1.1 101 ") and b"\r\nUpgrade: echo\r\n" in head, head
        sender = threading.Thread(target=client.sendall, args=(sent,))
        sender.start()
        received = stream.read(len(sent))
        sender.join()
    assert received == sent, len(received)
PYTHON
comes_to "the end of what was upgraded" "upgrade_server: the client has ended: Success" grep ended "$log"

step "stops"
is_content
for server in "$clock_server" "$file_server" "$wait_server" "$echo_server"; do
        kill -TERM "$server" 2>/dev/null
        ends_with 0 "$patience"
done
stop_nginx
exit $failed
