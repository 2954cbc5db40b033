#!/bin/bash
# nginx in front of tutorial/20-upload, with connections that it keeps: it finds nothing wrong, and hides nothing.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/nginx.sh"
need curl python3

# It takes the place of $url; $direct is what is behind it.
site() {
        cat <<CONF
        client_max_body_size 0;
        upstream weir {
                server 127.0.0.1:${direct##*:};
                keepalive 64;
                keepalive_timeout 20s; # shorter than the server's, so that it never uses one that is just being closed
        }
        server {
                listen 127.0.0.1:$1;
                proxy_http_version 1.1;
                proxy_set_header Connection "";
                proxy_set_header X-Forwarded-For \$proxy_add_x_forwarded_for;
                proxy_next_upstream off;
                location / {
                        proxy_pass http://weir;
                        proxy_request_buffering off;
                }
                location /buffered/ {
                        proxy_pass http://weir/;
                }
                location /unbuffered/ {
                        proxy_pass http://weir/;
                        proxy_request_buffering off;
                        proxy_buffering off;
                }
        }
CONF
}

start_upload 20000000
direct=$url
start_nginx

for way in "" /buffered /unbuffered; do
        step "through ${way:-the proxy}"
        for file in small large; do
                upload $file "$url$way"
                upload $file "$url$way" --header "Transfer-Encoding: chunked"
                curl --silent --show-error --max-time 60 --output "$work/back" "$url$way/files/$file" || fail "curl: $?"
                cmp "$work/$file" "$work/back" || fail "$file comes back as another one"
        done
        get --range 2-4 "$url$way/files/small"
        expect "part" "$status $body" "206 few"
        get --head "$url$way/files/small"
        expect "status of HEAD" "$status" 200
        get --data-binary "@$work/small" "$url$way/upper"
        expect "a reply in chunks" "$status $body" "200 A FEW LETTERS"
        get "$url$way/files/nothing"
        expect "status of what is not there" "$status" 404
        get --http1.0 "$url$way/files/small"
        expect "HTTP/1.0" "$status $body" "200 a few letters"
done

step "who the client is"
get --header "X-Forwarded-For: 192.0.2.7" --upload-file "$work/small" "$url/files/small"
expect "a client that the proxy has from another one of this machine" "$body" "14 bytes from 192.0.2.7"
get --header "X-Forwarded-For: 192.0.2.7, 198.51.100.1" --upload-file "$work/small" "$url/files/small"
expect "one that is not to be believed" "$body" "14 bytes from 198.51.100.1"

step "a hundred at once, again and again"
python3 - "${url##*:}" "$work/small" <<'PYTHON' || fail "not all of them are served"
import http.client
import sys
import threading

port = int(sys.argv[1])
wrong = []


def client(number):
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        for turn in range(10):
            text = f"client {number} {turn} ".encode() * (1 + number * turn)
            connection.request("POST", "/upper", body=text)
            reply = connection.getresponse()
            body = reply.read()
            if reply.status != 200 or body != text.upper():
                wrong.append(f"client {number}, turn {turn}: {reply.status}, {len(body)} bytes of {len(text)}")
    except Exception as error:
        wrong.append(f"client {number}: {error!r}")


threads = [threading.Thread(target=client, args=(number,)) for number in range(100)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit("\n".join(wrong) or 0)
PYTHON

step "connections to the server are kept"
opened() { # how many connections to the server there are, or were a minute ago
        awk -v port="$(printf ':%04X' "${direct##*:}")" 'substr($3, 9) == port { count++ } END { print count + 0 }' /proc/net/tcp
}
before=$(opened)
for _ in {1..40}; do
        get "$url/files/small"
        expect status "$status" 200
done
between "new connections for forty clients" $(($(opened) - before)) -1000 10

step "a client that goes away: the server is told, and gives up"
: >"$log"
curl --silent --max-time 30 --limit-rate 100K --upload-file "$work/large" "$url/files/half" >/dev/null &
sending=$!
for _ in {1..500}; do
        compgen -G "$kept/.upload-*" >/dev/null && break
        sleep 0.02
done
compgen -G "$kept/.upload-*" >/dev/null || fail "the upload has not begun"
kill -KILL $sending
wait $sending 2>/dev/null
for _ in {1..1000}; do
        grep -q 'half: given up after [0-9]* bytes' "$log" && break
        sleep 0.02
done
grep -q 'half: given up after [0-9]* bytes' "$log" || fail "the series of the exchange goes on"
[ ! -e "$kept/half" ] || fail "half of it was kept"
get "$url/files/small"
expect "status afterwards" "$status" 200

step "what nginx has to say"
is_content

step "a stop does not break what the proxy has under way"
python3 - "${url##*:}" "$server" "$kept" <<'PYTHON' || fail "a request was lost"
import glob
import http.client
import os
import signal
import sys
import time

connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=30)
connection.putrequest("PUT", "/files/last")
connection.putheader("Content-Length", "9")
connection.endheaders()
connection.send(b"half ")
while not glob.glob(sys.argv[3] + "/.upload-*"):
    time.sleep(0.02)
os.kill(int(sys.argv[2]), signal.SIGTERM)
time.sleep(0.2)
connection.send(b"done")
reply = connection.getresponse()
assert reply.status == 201 and reply.read() == b"9 bytes from 127.0.0.1\n", reply.status
PYTHON
ends_with 0 "$patience"
stop_nginx
exit $failed
