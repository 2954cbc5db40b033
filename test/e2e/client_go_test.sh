#!/bin/bash
# The client of HTTP against Go's net/http, directly and behind haproxy.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
PATH=$PATH:/usr/sbin
server=${WEIR_BUILD:?}/test/e2e/peer-go
skip_without "$server"

# What both must do; haproxy passes all this on.
asks_of_both() {
        step "$1: methods and bodies"
        asks "methods" "$url" <<END
GET /count => 200 GET 0 \[]
HEAD /body?size=1000&length => 200
HEAD /body?size=1000 => 200
GET /body?size=1&length => 200 a
GET /body?size=0&length show=Content-Length => 200 0
GET /body?size=1000000&length show=Content-Length => 200 1000000 pattern 1000000
GET /body?size=1000000 show=Transfer-Encoding => 200 chunked pattern 1000000
POST /echo body=1000 show=X-Framing => 200 1000 \[] pattern 1000
POST /echo body=0 show=X-Framing => 200 0 \[]
PUT /echo body=1048576 => 200 pattern 1048576
PUT /echo file=$work/file => 200 a file|
DELETE /count => 200 DELETE 0 \[]
PATCH /count body=7 => 200 PATCH 7 \[]
CALL POST /echo body=1048576 piece=30000 show=X-Framing => 200 -1 \[chunked] pattern 1048576
CALL POST /echo body=1 show=X-Framing => 200 -1 \[chunked] a
CALL POST /echo body=0 show=X-Framing => 200 0 \[]
CALL POST /echo body=1048576 length show=X-Framing => 200 1048576 \[] pattern 1048576
CALL POST /count body=10485760 => 200 POST 10485760 \[chunked]
CALL GET /body?size=1000000 => 200 pattern 1000000
CALL GET /slow release=/release => 200 one|two|three|
GET /code?code=204 => 204
GET /code?code=304 => 304
GET /code?code=404 => 404
GET /code?code=500 => 500
GET /trailers => 200 with trailers
CALL GET /trailers => 200 with trailers
GET /hints?count=1&code=204 show=Link => 204 -
GET /hints?count=5&code=200 show=Link => 200 -
CALL GET /hints?count=2&code=204 show=Link => 204 -
GET /zipped?size=100000 => 200 pattern 100000
GET /zipped?size=0 => 200
CALL GET /zipped?size=100000 => 406
GET /file => 200 a small file
GET /file Range:bytes=2-6 show=Content-Range => 206 bytes 2-6/12 small
GET /file Range:bytes=99- => 416 *
GET /file If-Modified-Since:Tue,%2014%20Nov%202023%2022:13:20%20GMT => 304
POST /moved?code=302 redirects=1 body=5 => 200 GET 0 \[]
PUT /moved?code=303 redirects=1 body=5 => 200 GET 0 \[]
PUT /moved?code=307 redirects=1 body=1048576 => 200 PUT 1048576 \[]
POST /moved?code=308 redirects=1 body=5 => 200 POST 5 \[]
GET /secret show=WWW-Authenticate => 401 Basic realm="Go"
GET ${url/:\/\//:\/\/anna:sesame%20me@}/secret => 200 open
UPGRADE /shout hello there => 101 HELLO THERE
GET /count => 200 GET 0 \[]
stats => * replayed 0 failed 0
END

        step "$1: an end in the middle of a body"
        asks "an end" "$url" <<END
GET /break => -ECONNABORTED GET $url/break: *
CALL GET /break => 200 -ECONNABORTED GET $url/break: *
GET /count => 200 GET 0 \[]
END

        step "$1: cookies"
        asks "cookies" "$url" jar <<END
GET /cookies => 200
GET /cookies?set=42 => 200
GET /cookies => 200 here=1;id=42;
GET /cookies?set=43 => 200 here=1;id=42;
GET /cookies => 200 here=1;id=43;
GET /cookies?drop => 200 here=1;id=43;
GET /cookies => 200 here=1;
END
        asks "no cookies" "$url" <<END
GET /cookies?set=42 => 200
GET /cookies => 200
END
}

printf 'a file\n' >"$work/file"
start_peer "$server" 1000 "anna:sesame me"
url=http://$address
asks_of_both "Go"

step "Go: connections"
before=$(curl --silent "$url/connections")
asks "one connection" "$url" connections=1 <<END
GET /count times=500 beside=20 => 200 GET 0 \[]
PUT /echo times=20 beside=20 body=100000 => 200 pattern 100000
GET /connections => 200 $((before + 1))
GET /close => 200 closing
GET /connections => 200 $((before + 2))
stats => connections 1 idle 1 * replayed 0 failed 0
END
asks "several" "$url" connections=8 <<END
GET /count times=2000 beside=40 => 200 GET 0 \[]
GET /close times=200 beside=40 => 200 closing
stats => * replayed 0 failed 0
END

step "Go: requests at the end of the time that a connection is kept"
asks "idle" "$url" <<END
GET /count times=80 beside=40 pause=1000 => 200 GET 0 \[]
PUT /count times=40 beside=40 pause=1000 body=2000 => 200 PUT 2000 \[]
stats => * failed 0
END

step "Go: too large a body"
asks "too large" "$url" <<END
PUT /small body=10485760 => 413 too large|
CALL PUT /small body=10485760 => 413 *too large|
PUT /small body=1048576 => 200
END

if ! command -v haproxy >/dev/null; then
        echo "without haproxy, which is missing; scripts/dependencies.sh check installs it"
        exit $failed
fi

# start_haproxy: sets $proxy and $url
start_haproxy() {
        local port try

        for try in 1 2 3 4 5; do
                port=$(free_port)
                cat >"$work/haproxy.cfg" <<CONF
defaults
        mode http
        timeout connect 10s
        timeout client 30s
        timeout server 30s
        timeout http-keep-alive 1s
frontend front
        maxconn 200
        bind 127.0.0.1:$port
        http-request early-hint Link "</style.css>; rel=preload" if { path /hinted }
        http-request return status 200 content-type text/plain lf-string "%[src_port]" if { path /port } || { path /hinted }
        http-request deny deny_status 403 if { path /denied }
        http-request redirect location /port code 307 if { path /elsewhere }
        use_backend nobody if { path /nobody }
        use_backend late if { path /late }
        default_backend go
backend go
        http-reuse always
        server go $address
backend nobody
        retries 0
        server nobody 127.0.0.1:1
backend late
        timeout server 200ms
        http-request set-path /hang
        server go $address
CONF
                haproxy -db -f "$work/haproxy.cfg" 2>>"$log" &
                proxy=$!
                started[$proxy]=haproxy
                while is_alive $proxy; do
                        if is_served "$port"; then
                                url=http://127.0.0.1:$port
                                return
                        fi
                        sleep 0.02
                done
                unset "started[$proxy]"
        done
        echo "haproxy cannot be started" >&2
        exit 1
}

stop_peer
start_peer "$server" 60000 "anna:sesame me"
start_haproxy
asks_of_both "haproxy"

step "haproxy: its own answers"
asks "own answers" "$url" <<END
GET /hinted show=Link => 200 - [1-9]*
CALL GET /hinted => 200 [1-9]*
GET /denied => 403 *
POST /denied body=100000 => 403 *
GET /nobody => 503 *
GET /late => 504 *
POST /elsewhere body=10 redirects=1 => 200 [1-9]*
GET /port => 200 [1-9]*
stats => * replayed 0 failed 0
END

step "haproxy: requests at the end of the time that a connection is kept"
asks "idle" "$url" <<END
GET /port times=80 beside=40 pause=1000 => 200 [1-9]*
PUT /count times=40 beside=40 pause=1000 body=2000 => 200 PUT 2000 *
stats => * failed 0
END

kill -TERM "$proxy"
wait "$proxy" 2>/dev/null
unset "started[$proxy]"
step "no haproxy"
asks "no server" "$url" <<END
GET /port => -ECONNREFUSED GET $url/port: *
END
stop_peer
exit $failed
