#!/bin/bash
# Clients that are made to load servers: wrk and ab, against the tutorials: not one reply that is missing or wrong.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
need wrk ab

head -c 100000 /dev/urandom >"$work/file"
export work

# wrk_is_content URL CONNECTIONS [WRK'S ARGUMENTS]: requests were served, each with a 2xx, on connections that held.  A machine that
# stands still may take the seconds: then it gets more.
wrk_is_content() {
        local target=$1 connections=$2 duration served

        for duration in 2 10 40; do
                wrk --threads 2 --connections "$connections" --duration ${duration}s --timeout "$patience" "${@:3}" "$target" \
                        >"$work/said" 2>&1 || fail "wrk $target: $?"
                served=$(awk '/ requests in / { print $1 }' "$work/said")
                [ "${served:-0}" -lt "$connections" ] || break
        done
        between "requests of $connections by wrk" "${served:-0}" "$connections" 1000000000
        grep -E "Socket errors|Non-2xx" "$work/said" && fail "wrk is not content with $target"
}

# ab_is_content URL [AB'S ARGUMENTS]
ab_is_content() {
        local target=$1

        ab -q -s "$patience" "${@:2}" "$target" >"$work/said" 2>&1 || fail "ab $target: $(tail -n 3 "$work/said")"
        expect "failures that ab saw at $target" "$(awk '/^Failed requests:/ { print $3 }' "$work/said")" 0
        grep -E "Non-2xx|Write errors|rror:" "$work/said" && fail "ab is not content with $target"
}

kept_by_ab() {
        awk '/^Keep-Alive requests:/ { print $3 }' "$work/said"
}

start_server 11-router
for connections in 2 64 400; do
        step "a router, wrk with $connections connections"
        wrk_is_content "$url/hello/Anna" "$connections"
done
step "a router, wrk and delays"
wrk_is_content "$url/hello/Anna/in/20" 100
step "a router, wrk with pipelined requests"
cat >"$work/pipeline.lua" <<'LUA'
local batch = {}
init = function()
        for i = 1, 16 do
                batch[i] = wrk.format("GET", i % 2 == 0 and "/hello/Anna" or "/echo/" .. i)
        end
        batch = table.concat(batch)
end
request = function() return batch end
LUA
wrk_is_content "$url" 20 --script "$work/pipeline.lua"
step "a router, ab without and with kept connections"
ab_is_content "$url/hello/Anna" -n 2000 -c 50
expect "connections that ab kept" "$(kept_by_ab)" ""
ab_is_content "$url/hello/Anna" -n 5000 -c 50 -k
expect "connections that ab kept" "$(kept_by_ab)" 5000
step "a router, ab and bodies that nobody wants"
ab_is_content "$url/echo/body" -n 500 -c 20 -k -p "$work/file" -T application/octet-stream
stop_server INT 0

start_server 12-file-server bash -c 'exec "$0" "$1" "$work"'
step "a file, wrk"
wrk_is_content "$url/file" 50
step "a file, ab"
ab_is_content "$url/file" -n 2000 -c 50 -k
expect "bytes that ab received" "$(awk '/^HTML transferred:/ { print $3 }' "$work/said")" 200000000
stop_server INT 0

start_server 20-upload bash -c 'exec "$0" "$1" "$work"'
step "uploads, ab"
ab_is_content "$url/files/upload" -n 500 -c 20 -k -u "$work/file" -T application/octet-stream
cmp "$work/file" "$work/upload" || fail "the upload is another file"
step "bodies both ways, ab"
ab_is_content "$url/upper" -n 200 -c 20 -p "$work/file" -T application/octet-stream
step "bodies both ways, wrk"
cat >"$work/post.lua" <<'LUA'
wrk.method = "POST"
wrk.body = string.rep("letters", 1000)
response = function(status, headers, body)
        if body ~= string.rep("LETTERS", 1000) then
                print("Non-2xx: the body is another one")
        end
end
LUA
wrk_is_content "$url/upper" 50 --script "$work/post.lua"
stop_server INT 0

"${WEIR_BUILD:?}/test/e2e/make_certificate" "$work" pair localhost || fail "no certificate"
start_server 14-https bash -c 'exec "$0" "$1" "$work/pair.pem" "$work/pair.key"'
url=https://${url#http://}
step "TLS, wrk"
wrk_is_content "$url/" 50
step "TLS, ab without and with kept connections"
ab_is_content "$url/" -n 500 -c 20
ab_is_content "$url/" -n 2000 -c 20 -k
expect "connections that ab kept" "$(kept_by_ab)" 2000
stop_server INT 0

exit $failed
