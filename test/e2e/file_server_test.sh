#!/bin/bash
# tutorial/12-file-server, asked by curl: whole files, parts, conditions, redirects, and nothing outside of the directory.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

site=$work/site
mkdir -p "$site/sub"
printf 'secret\n' >"$work/secret"
printf '0123456789' >"$site/digits.txt"
printf '<p>index\n' >"$site/sub/index.html"
head -c 3000000 /dev/urandom >"$site/large.bin"
ln -s ../secret "$site/out"
touch -d 2020-01-02T03:04:05Z "$site/digits.txt"

# The address comes first, as start_server gives it, then the directory.
export site
start_server 12-file-server bash -c 'exec "$0" "$1" "$site"'

# field NAME: of the head in $work/head
field() {
        sed -nE "s/^$1: (.*)\r$/\1/ip" "$work/head"
}

step "a whole file"
get --dump-header "$work/head" "$url/digits.txt"
expect status "$status" 200
expect body "$body" 0123456789
expect type "$(field content-type)" "text/plain; charset=utf-8"
expect "date of modification" "$(field last-modified)" "Thu, 02 Jan 2020 03:04:05 GMT"
get --head "$url/digits.txt"
expect "status of HEAD" "$status" 200
curl --silent --max-time 30 --output "$work/large" "$url/large.bin"
cmp "$site/large.bin" "$work/large" || fail "the large file is another one"

step "the rest of a download that was broken off"
head -c 1234567 "$site/large.bin" >"$work/large"
curl --silent --show-error --max-time 30 --continue-at - --output "$work/large" "$url/large.bin" || fail "curl --continue-at: $?"
cmp "$site/large.bin" "$work/large" || fail "the large file is another one when continued"

step "parts"
get --range 2-4 "$url/digits.txt"
expect "status and body of 2-4" "$status $body" "206 234"
get --range -3 "$url/digits.txt"
expect "status and body of -3" "$status $body" "206 789"
get --range 10- "$url/digits.txt"
expect "status of 10-" "$status" 416

step "conditions"
curl --silent --max-time 30 --etag-save "$work/tag" --output /dev/null "$url/digits.txt"
get --etag-compare "$work/tag" "$url/digits.txt"
expect "status with the tag" "$status" 304
get --time-cond "Thu, 02 Jan 2020 03:04:05 GMT" "$url/digits.txt"
expect "status with the date" "$status" 304
printf 'abcdefghij' >"$site/digits.txt"
get --etag-compare "$work/tag" "$url/digits.txt"
expect "status and body when it has changed" "$status $body" "200 abcdefghij"

step "directories"
get --location "$url/sub"
expect "status and body behind the redirect" "$status $body" "200 <p>index"
get "$url/"
expect "status of a directory without an index" "$status" 404

step "what is not served"
for target in /nothing /../secret /%2e%2e/secret /sub/../../secret /..%2fsecret /out //../secret; do
        get --path-as-is "$url$target"
        expect "status of $target" "$status" 404
        expect "body of $target" "$body" "<!DOCTYPE html><title>Not here</title><p>Not here."
done
get --request DELETE "$url/digits.txt"
expect "status of DELETE" "$status" 405

stop_server TERM 0
exit $failed
