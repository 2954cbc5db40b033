#!/bin/bash
# tutorial/27-fiber-pipeline to 30-fiber-crawler.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

step "27-fiber-pipeline"
"$tutorial/27-fiber-pipeline" >"$work/out" || fail "exit status of 27-fiber-pipeline: $?"
"$tutorial/19-channel-pipeline" | sort >"$work/callbacks"
sort "$work/out" | cmp - "$work/callbacks" || fail "it does not print what the program with callbacks prints"
for _ in {1..20}; do
        "$tutorial/27-fiber-pipeline" | cmp "$work/out" || fail "27-fiber-pipeline prints something else each time"
done

step "28-gather"
start_server 17-hedged
backend=$url backend_server=$server
gathering() { # MILLISECONDS URL... then what the library appends
        local program=$1 address=$2

        exec "$program" "$address" "${gathered[@]}"
}
gathered=($((patience * 1000)) "$backend/?first=1" "$backend/?first=2" "$backend/?first=40000&second=40000" http://127.0.0.1:1/)
start_server 28-gather gathering
get "$url/"
expect "status" "$status" 200
expect "answers" "$(grep -c "^$backend/?first=[12]:" <<<"$body")" 2
stop_server INT 0
gathered=(300 "$backend/?first=1" "$backend/?first=40000&second=40000")
start_server 28-gather gathering
get "$url/"
expect "one answer within the limit" "$status $body" "504 too few answers"
between "seconds" "$took" 0.3 $patience
stop_server INT 0
gathered=($((patience * 1000)) http://127.0.0.1:1/ "$backend/?first=1")
start_server 28-gather gathering
get "$url/"
expect "a server that is gone" "$status $body" "504 too few answers"
stop_server INT 0
server=$backend_server
stop_server INT 0

step "29-fiber-chat"
# client NAME: its descriptor is ${client[NAME]}, and what it gets is in $work/NAME
declare -A client reader
join() {
        local fd

        exec {fd}<>"/dev/tcp/127.0.0.1/${url##*:}"
        client[$1]=$fd
        cat <&"$fd" >"$work/$1" &
        reader[$1]=$!
        started[${reader[$1]}]=cat
        echo "$1" >&"$fd"
        comes_true grep -q "^$1: has come$" "$work/$1" || fail "$1 cannot join"
}
start_server 29-fiber-chat
join Anna
join Bert
comes_true grep -q "^Bert: has come$" "$work/Anna" || fail "Anna does not see Bert"
echo "hello" >&"${client[Bert]}"
comes_true grep -q "^Bert: hello$" "$work/Anna" || fail "Anna does not hear Bert"
comes_true grep -q "^Bert: hello$" "$work/Bert" || fail "Bert does not hear himself"
kill "${reader[Bert]}"
wait "${reader[Bert]}" 2>/dev/null
unset "started[${reader[Bert]}]"
bert=${client[Bert]}
exec {bert}>&-
comes_true grep -q "^Bert: has gone$" "$work/Anna" || fail "Anna does not see that Bert has gone"
head -c 5000 /dev/zero | tr '\0' x >&"${client[Anna]}"
wait "${reader[Anna]}" 2>/dev/null # a line that is too long ends the connection
unset "started[${reader[Anna]}]"
stop_server INT 0

step "30-fiber-crawler"
export site=$work/site
mkdir -p "$site/more"
echo '<a href="/a.html">a</a> <a href="more/">more</a> <a href="absent">absent</a> <a href="http://127.0.0.1:1/">other</a>' \
        >"$site/index.html"
echo '<a href="/">home</a> <a href="a.html#part">a</a>' >"$site/a.html"
echo '<a href="../a.html">a</a> <a href="b.html">b</a>' >"$site/more/index.html"
echo 'none' >"$site/more/b.html"
start_server 12-file-server bash -c 'exec "$0" "$1" "$site"'
"$tutorial/30-fiber-crawler" "$url/" >"$work/out" || fail "exit status of 30-fiber-crawler: $?"
expect "the pages" "$(sort "$work/out" | sed "s,$url,,")" "200 /
200 /a.html
200 /more/
200 /more/b.html
404 /absent"
"$tutorial/30-fiber-crawler" "no url" >"$work/out" && fail "30-fiber-crawler takes what is no URL"
expect "what that prints" "$(cat "$work/out")" ""
stop_server INT 0

exit $failed
