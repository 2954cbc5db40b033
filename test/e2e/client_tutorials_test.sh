#!/bin/bash
# tutorial/23-get, 24-first-two and 25-download, which ask other tutorials.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

step "23-get"
start_server 01-delay-server
"$tutorial/23-get" "$url/" $((patience * 1000)) >"$work/out" || fail "exit status of 23-get: $?"
expect "the status that 23-get prints" "$(sed 's/,.*//;q' "$work/out")" 200
"$tutorial/23-get" "$url/" 100 >"$work/out" 2>"$work/err" && fail "23-get waits for longer than it may"
expect "what a limit prints" "$(cat "$work/out")$(sed 's/.*: GET/GET/' "$work/err" | grep -c "$url")" 1
"$tutorial/23-get" "no url" 2>"$work/err" && fail "23-get takes what is no URL"
stop_server INT 0

step "24-first-two"
start_server 17-hedged
"$tutorial/24-first-two" $((patience * 1000)) "$url/?first=1" "$url/?first=2" "$url/?first=40000&second=40000" >"$work/out" ||
        fail "exit status of 24-first-two: $?"
expect "answers" "$(grep -c ': 200$' "$work/out")" 2
expect "what is left" "$(grep -c 'no longer needed$' "$work/out")" 1
expect "the end" "$(tail -n 1 "$work/out")" "two answers are there"
"$tutorial/24-first-two" 300 "$url/?first=1" "$url/?first=40000&second=40000" >"$work/out" && fail "one answer is enough"
expect "the end" "$(tail -n 1 "$work/out")" "there are too few answers"
stop_server INT 0

step "25-download"
export site=$work/site
mkdir "$site"
head -c 3000000 /dev/urandom >"$site/large"
start_server 12-file-server bash -c 'exec "$0" "$1" "$site"'
"$tutorial/25-download" "$url/large" "$work/copy" 2>"$work/err" || fail "exit status of 25-download: $?"
cmp "$site/large" "$work/copy" || fail "the copy is another file"
expect "progress" "$(tr '\r' '\n' <"$work/err" | tail -n 2 | tr '\n' ' ')" "100 % 3000000 bytes "
"$tutorial/25-download" "$url/absent" "$work/absent" 2>"$work/err" && fail "it downloads what is not there"
expect "what it says" "$(head -n 1 "$work/err")" "the server answers 404"
[ -e "$work/absent" ] && fail "it makes a file of what is not there"
"$tutorial/25-download" "$url/large" "$work/nowhere/copy" 2>"$work/err" && fail "it writes nowhere"
"$tutorial/25-download" 2>"$work/err" && fail "it needs no arguments"
stop_server INT 0

exit $failed
