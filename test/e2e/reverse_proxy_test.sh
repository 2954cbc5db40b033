#!/bin/bash
# tutorial/26-reverse-proxy.c as curl sees it, with 11-router behind it.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

start_server 11-router
backend=${url#http://}
with_backend() {
        exec "$@" "$backend"
}
start_server 26-reverse-proxy with_backend

step "a page"
get "$url/hello/Anna%20B.%2FC"
expect "status" "$status" 200
expect "body" "$body" "hello Anna B./C"
get -X PURGE --path-as-is "$url/echo/a?d"
expect "body" "$body" "PURGE a"
get "$url/nowhere"
expect "status" "$status" 404
