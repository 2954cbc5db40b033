#!/bin/bash
# The client of HTTP against Python: http.server with HTTP/1.0 and HTTP/1.1, and a server of asyncio that is rude.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
skip_without python3

for version in HTTP/1.0 HTTP/1.1; do
        step "$version: methods and bodies"
        start_peer python3 "$here/peer.py" $version
        url=http://$address
        asks "methods" "$url" <<END
GET /body?size=5 => 200 abejq
HEAD /body?size=5 show=Content-Length => 200 5
GET /body?size=1048576 => 200 pattern 1048576
GET /body?size=0 show=Content-Length => 200 0
GET /until?size=1000000 => 200 pattern 1000000
GET /until?size=0 => 200
HEAD /until?size=5 => 200
CALL GET /until?size=1000000 => 200 pattern 1000000
POST /echo body=5 show=X-Framing => 200 length abejq
POST /echo body=0 show=X-Framing => 200 length
PUT /echo body=1048576 => 200 pattern 1048576
DELETE /body?size=1 => 200 a
GET /code?code=204 => 204
GET /code?code=304 => 304
GET /absent => 404 not here
GET /gzip?size=1000000 show=Content-Encoding => 200 gzip pattern 1000000
GET /gzips?size=100 => 200 bytes 105
GET /gzip?size=0 => 200
CALL GET /gzip?size=1000000 => 200 bytes *
GET /cookies => 200
GET ${url/:\/\//:\/\/%C3%A4nna:sesame@}/secret => 200 open
GET /secret show=WWW-Authenticate => 401 Basic realm="Python"
GET /moved?code=301 => 301 elsewhere
GET /moved?code=302 redirects=1 => 200 abe
PUT /moved?code=308 redirects=1 body=100000 => 200 abe
GET /broken?size=1000 => -EBADMSG GET $url/broken: *
GET /short?size=1000 => -ECONNABORTED GET $url/short: *
CALL GET /short?size=1000 => 200 -ECONNABORTED GET $url/short: *
stats => * replayed 0 *
END
        asks "cookies" "$url" jar <<END
GET /cookies => 200
GET /cookies => 200 word="a b"
END
        [ $version = HTTP/1.1 ] || {
                asks "connections" "$url" <<END
GET /body?size=5 times=300 beside=20 => 200 abejq
stats => connections 0 idle 0 reused 0 replayed 0 failed 0
END
                stop_peer
        }
done

step "HTTP/1.1: chunks, interim responses, connections"
asks "more" "$url" connections=1 <<END
GET /chunks?size=100000 => 200 pattern 100000
GET /chunks?size=0 => 200
POST /echo body=100 => 200 *
GET /interim show=Link => 200 - last
GET /body?size=5 times=300 beside=20 => 200 abejq
stats => connections 1 idle 1 reused 303 replayed 0 failed 0
CALL GET /chunks?size=100000 => 200 pattern 100000
CALL GET /interim => 200 last
CALL PUT /echo body=1048576 piece=5000 show=X-Framing => 200 chunked pattern 1048576
CALL PUT /echo body=300000 length show=X-Framing => 200 length pattern 300000
END
asks "several" "$url" connections=10 <<END
PUT /echo times=200 beside=20 body=100000 => 200 pattern 100000
GET /until?size=1000 times=100 beside=20 => 200 pattern 1000
stats => * replayed 0 failed 0
END
stop_peer

step "connections that are closed without a word"
start_peer python3 "$here/peer.py" asyncio
url=http://$address
asks "rude" "$url" connections=10 <<END
GET /rude times=300 beside=20 => 200 here
GET /polite times=300 beside=20 => 200 here
GET /rude times=300 beside=20 => 200 here
PUT /rude times=100 beside=20 => 200 here
CALL GET /rude => 200 here
CALL GET /polite => 200 here
GET /early => 200 0
stats => * failed 0
GET /silent => -ECONNRESET GET $url/silent: *
END
stop_peer
exit $failed
