#!/bin/bash
# The client of HTTP against nginx: methods and bodies, connections that are kept and closed, codings, redirects, and new
# workers in the middle of it.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
PATH=$PATH:/usr/sbin
skip_without nginx openssl
. "$(dirname "$0")/nginx.sh"

site() {
        cat <<CONF
        gzip_types *;
        gzip_min_length 1;
        server {
                listen 127.0.0.1:$1;
                root $work/site;
                client_max_body_size 2m;
                keepalive_requests 100000;
                location /kept/ {
                        dav_methods PUT DELETE;
                }
                location /zipped/ {
                        gzip on;
                        alias $work/site/;
                }
                location /secret/ {
                        auth_basic "the cellar";
                        auth_basic_user_file $work/users;
                        alias $work/site/;
                }
                location = /said { return 200 "\$request_method \$content_length \$http_transfer_encoding\n"; }
                location = /count { return 200 "\$connection_requests"; }
                location = /three { keepalive_requests 3; return 200 "\$connection_requests"; }
                location = /one { keepalive_timeout 0; return 200 "\$connection_requests"; }
                location = /brief { keepalive_timeout 1s; return 200 "here"; }
                location = /none { return 204; }
                location = /cut { return 444; }
                location = /301 { return 301 /said; }
                location = /302 { return 302 /said; }
                location = /303 { return 303 /said; }
                location = /307 { return 307 /said; }
                location = /308 { absolute_redirect off; return 308 /said?again; }
                location = /loop { return 302 /loop; }
        }
CONF
}

mkdir -p "$work/site/kept"
chmod -R a+rwX "$work"
printf 'a small page\n' >"$work/site/small"
: >"$work/site/empty"
head -c 10485760 /dev/zero | tr '\0' x >"$work/site/large"
seq 500000 >"$work/site/many"
printf 'anna:%s\n' "$(openssl passwd -apr1 sesame)" >"$work/users"
start_nginx

step "methods and bodies"
asks "methods" "$url" <<END
GET /small show=Content-Length => 200 13 a small page|
HEAD /small show=Content-Length => 200 13
GET /empty show=Content-Length => 200 0
GET /large => 200 bytes 10485760
HEAD /large show=Content-Length => 200 10485760
GET /none => 204
GET /absent => 404 bytes *
POST /said body=5 => 200 POST 5 |
POST /said body=0 => 200 POST 0 |
POST /said body=1048576 => 200 POST 1048576 |
PUT /kept/a body=1048576 => 201
GET /kept/a => 200 pattern 1048576
PUT /kept/a body=50 => 204
PUT /kept/b body=0 => 201
GET /kept/b show=Content-Length => 200 0
DELETE /kept/a => 204
GET /kept/a => 404 *
PUT /kept/c file=$work/site/small => 201
GET /kept/c => 200 a small page|
CALL POST /said body=1000 length => 200 POST 1000 |
CALL PUT /kept/d body=1048576 piece=10000 => 201
CALL GET /kept/d => 200 pattern 1048576
CALL PUT /kept/e body=0 => 201
CALL GET /kept/e => 200
CALL HEAD /large show=Content-Length => 200 10485760
GET /small If-None-Match:* => 304
GET /small Range:bytes=2-6 show=Content-Range => 206 bytes 2-6/13 small
GET /small Range:bytes=50- show=Content-Range => 416 bytes \*/13 *
GET /large Range:bytes=-5 => 206 xxxxx
stats => connections [12] idle [12] * replayed 0 failed 0
END

step "too large a body"
asks "too large" "$url" <<END
PUT /kept/f body=10485760 => 413 *
PUT /kept/f file=$work/site/large => 413 *
CALL PUT /kept/f body=10485760 length => 413 *
CALL PUT /kept/f body=10485760 piece=65536 => 413 *
GET /small => 200 a small page|
END

step "codings"
asks "codings" "$url" <<END
GET /zipped/small show=Content-Encoding show=ETag => 200 gzip W/* a small page|
GET /zipped/many => 200 bytes *
GET /zipped/large => -E2BIG GET $url/zipped/large: *
GET /zipped/small Accept-Encoding:identity => 200 a small page|
HEAD /zipped/many => 200
GET /small => 200 a small page|
stats => * replayed 0 failed 0
END

step "redirects"
asks "redirects" "$url" <<END
GET /301 show=Location => 301 $url/said bytes *
GET /301 redirects=1 => 200 GET  |
POST /301 redirects=1 body=5 => 200 GET  |
POST /302 redirects=1 body=5 => 200 GET  |
POST /303 redirects=1 body=5 => 200 GET  |
PUT /303 redirects=1 body=5 => 200 GET  |
HEAD /302 redirects=1 => 200
POST /307 redirects=1 body=5 => 200 POST 5 |
PUT /308 redirects=1 body=1048576 => 200 PUT 1048576 |
GET /loop redirects=5 => -ELOOP GET $url/loop: *redirect*
stats => connections 1 idle 1 * replayed 0 failed 0
END

step "a name and a password"
asks "passwords" "$url" <<END
GET /secret/small show=WWW-Authenticate => 401 Basic realm="the cellar" *
GET ${url/:\/\//:\/\/anna:sesame@}/secret/small => 200 a small page|
GET ${url/:\/\//:\/\/anna:salad@}/secret/small => 401 *
GET /secret/small Authorization:Basic%20YW5uYTpzZXNhbWU= => 200 a small page|
END

step "connections that are kept"
asks "kept" "$url" connections=1 <<END
GET /count => 200 1
GET /count => 200 2
HEAD /count => 200
GET /none => 204
GET /small If-None-Match:* => 304
GET /count => 200 6
POST /count body=100000 => 200 7
CALL GET /count => 200 8
GET /three => 200 9
GET /count => 200 1
GET /three => 200 2
GET /three => 200 3
GET /three => 200 1
GET /one => 200 2
GET /count => 200 1
GET /three times=600 beside=20 => 200 [1-3]
POST /three times=100 beside=10 body=10 => 200 [1-3]
stats => connections * replayed 0 failed 0
END
asks "many" "$url" connections=20 <<END
GET /three times=3000 beside=40 => 200 [1-3]
GET /one times=300 beside=40 => 200 [1-3]
GET /large times=10 beside=5 => 200 bytes 10485760
CALL GET /large => 200 bytes 10485760
stats => connections * replayed 0 failed 0
END

step "requests at the end of the time that a connection is kept"
asks "idle" "$url" <<END
GET /brief times=80 beside=40 pause=1000 => 200 here
PUT /brief times=40 beside=40 pause=1000 body=2000 => 200 here
stats => * failed 0
END

step "no answer"
asks "no answer" "$url" <<END
GET /cut => -ECONNRESET GET $url/cut: *
GET /small => 200 a small page|
GET /cut => -ECONNRESET GET $url/cut: *
POST /small => 405 *
stats => * failed 2
END

step "new workers in the middle of requests"
{
        asks "new workers" "$url" <<END
GET /small times=2000 beside=16 pause=10 => 200 a small page|
PUT /kept/g times=400 beside=8 pause=10 body=5000 => 20[14]
GET /large times=8 beside=4 => 200 bytes 10485760
stats => * failed 0
END
        : >"$work/over"
} &
load=$!
started[$load]=asks
reloads=0
until [ -e "$work/over" ]; do
        kill -HUP "$proxy"
        reloads=$((reloads + 1))
        sleep 0.1
done
wait $load
unset "started[$load]"
[ -s "$work/said" ] && fail "$(cat "$work/said")"
[ "$reloads" -gt 3 ] || fail "only $reloads reloads"
stop_nginx

step "no server"
asks "no server" "$url" <<END
GET /small => -ECONNREFUSED GET $url/small: *
END

exit $failed
