#!/bin/bash
# tutorial/20-upload as curl, Python and Node meet it: bodies that stream, both ways.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
need curl python3 node

start_upload 20000000

step "curl, with a length and in chunks"
for file in small large; do
        upload $file "$url"
        upload $file "$url" --header "Transfer-Encoding: chunked"
        upload $file "$url" --http1.0
done
get --header "Expect: 100-continue" --expect100-timeout 30 --upload-file "$work/large" "$url/files/large"
between "seconds until it is told to go on" "$took" 0 25
get --upload-file - "$url/files/small" <"$work/small"
expect "reply to a pipe" "$status $body" "201 14 bytes from 127.0.0.1"
get --header "X-Forwarded-For: 192.0.2.7" --upload-file "$work/small" "$url/files/small"
expect "reply behind a proxy" "$status $body" "201 14 bytes from 192.0.2.7"
get --upload-file /dev/null "$url/files/empty"
expect "reply to nothing" "$status $body" "201 0 bytes from 127.0.0.1"

step "curl, what it has sent"
get "$url/files/small"
expect "status and body" "$status $body" "200 a few letters"
get --http1.0 "$url/files/small"
expect "status and body with HTTP/1.0" "$status $body" "200 a few letters"
get --head "$url/files/small"
expect "status of HEAD" "$status" 200
curl --silent --show-error --max-time 60 --output "$work/back" "$url/files/large" || fail "curl: $?"
cmp "$work/large" "$work/back" || fail "the large file comes back as another one"
head -c 1234567 "$work/large" >"$work/back"
curl --silent --show-error --max-time 60 --continue-at - --output "$work/back" "$url/files/large" || fail "curl --continue-at: $?"
cmp "$work/large" "$work/back" || fail "the large file is another one when continued"
get --range 2-4 "$url/files/small"
expect "status and part" "$status $body" "206 few"
opened=$(curl --silent --max-time 30 --write-out '%{num_connects} ' --output /dev/null --upload-file "$work/small" "$url/files/small" \
        --next --silent --max-time 30 --write-out '%{num_connects} ' --output /dev/null --head "$url/files/small" \
        --next --silent --max-time 30 --write-out '%{num_connects} ' --output /dev/null "$url/files/small")
expect "connections opened for PUT, HEAD and GET" "$opened" "1 0 0 "

step "curl, while it sends"
head -c 3000000 /dev/zero | tr '\0' 'w' >"$work/letters"
tr w W <"$work/letters" >"$work/capitals"
curl --silent --show-error --max-time 60 --request POST --upload-file - --output "$work/back" "$url/upper" <"$work/letters" ||
        fail "curl: $?"
cmp "$work/capitals" "$work/back" || fail "they do not come back as capitals"
curl --silent --show-error --max-time 60 --http1.0 --data-binary "@$work/letters" --output "$work/back" "$url/upper" || fail "curl: $?"
cmp "$work/capitals" "$work/back" || fail "they do not come back as capitals with HTTP/1.0"

step "what is refused"
for name in .hidden a%2Fb %2e%2e%2fout; do
        get --upload-file "$work/small" "$url/files/$name"
        expect "status of $name" "$status" 400
done
get --request DELETE "$url/files/small"
expect "status of DELETE" "$status" 405

step "a client that goes away leaves nothing"
curl --silent --max-time 30 --limit-rate 100K --upload-file "$work/large" "$url/files/half" >/dev/null &
sending=$!
for _ in {1..500}; do
        compgen -G "$kept/.upload-*" >/dev/null && break
        sleep 0.02
done
compgen -G "$kept/.upload-*" >/dev/null || fail "the upload has not begun"
kill -KILL $sending
wait $sending 2>/dev/null
for _ in {1..500}; do
        compgen -G "$kept/.upload-*" >/dev/null || break
        sleep 0.02
done
compgen -G "$kept/.upload-*" && fail "the file is still there"
[ ! -e "$kept/half" ] || fail "half of it was kept"
grep -q 'half: given up after [0-9]* bytes' "$log" || fail "nobody was told"

step "Python"
python3 "$here/upload.py" "${url##*:}" || fail "Python is not content"

step "Node"
node "$here/upload.mjs" "$url" || fail "Node is not content"

stop_server TERM 0
exit $failed
