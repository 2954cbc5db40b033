#!/bin/bash
# tutorial/11-router.c as curl sees it.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

# asked STATUS BODY CURL'S ARGUMENTS
asked() {
        get "${@:3}"
        expect "status of ${*:3}" "$status" "$1"
        expect "reply to ${*:3}" "$body" "$2"
}

# allowed CURL'S ARGUMENTS: prints the value of the field Allow
allowed() {
        curl --silent --show-error --max-time 30 --output /dev/null --dump-header - "$@" | tr -d '\r' | sed -n 's/^Allow: //p'
}

start_server 11-router

step "parameters"
asked 200 "hello Anna" "$url/hello/Anna"
asked 200 "hello Anna B./C" "$url/hello/Anna%20B.%2FC"
asked 200 "hello, all" "$url/hello/world"
asked 200 "PURGE a//b/../c" --path-as-is -X PURGE "$url/echo/a//b/../c?d"
asked 200 "GET " "$url/echo/"
asked 200 "hello Anna" "$url/hello/Anna/in/300"
between "seconds that it waited" "$took" 0.3 $patience
asked 400 "wanted: /hello/NAME/in/MILLISECONDS" "$url/hello/Anna/in/time"

step "what is not there"
asked 404 "404 Not Found" "$url/"
asked 404 "404 Not Found" "$url/hello/"
asked 404 "404 Not Found" "$url/echo"
asked 405 "405 Method Not Allowed" -X DELETE "$url/hello/Anna"
expect "Allow with 405" "$(allowed -X DELETE "$url/hello/Anna")" "GET, HEAD, OPTIONS"
asked 204 "" -X OPTIONS "$url/hello/world"
expect "Allow for OPTIONS" "$(allowed -X OPTIONS "$url/hello/world")" "GET, HEAD, OPTIONS, POST"
expect "Allow for OPTIONS *" "$(allowed -X OPTIONS --request-target '*' "$url")" "GET, HEAD, OPTIONS, POST"

step "HEAD"
expect "length of what HEAD does not send" \
        "$(curl --silent --show-error --max-time 30 --head "$url/hello/Anna" | tr -d '\r' | sed -n 's/^Content-Length: //p')" 11

stop_server INT 0
exit $failed
