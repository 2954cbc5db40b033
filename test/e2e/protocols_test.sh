#!/bin/bash
# tutorial/21-key-value and 22-lines: clients of their own, and others that know only the bytes.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
need python3

# serve PROGRAM MODE: at a Unix socket; sets $server
serve() {
        rm -f "$work/socket"
        "$tutorial/$1" "$2" "unix:$work/socket" >"$work/out" 2>"$log" &
        server=$!
        started[$server]=$1
        comes_true test -S "$work/socket" || fail "$1 does not serve"
}

# stop_it: with SIGINT, as Ctrl-C does
stop_it() {
        kill -INT "$server"
        wait "$server"
        expect "exit status" $? 0
        unset "started[$server]"
}

# talk BYTES: as printf has them; prints what comes back until the end
talk() {
        printf "$1" | python3 -c '
import socket, sys
peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])
peer.sendall(sys.stdin.buffer.read())
peer.shutdown(socket.SHUT_WR)
while True:
    data = peer.recv(4096)
    if not data:
        break
    sys.stdout.buffer.write(data)
' "$work/socket"
}

step "21-key-value"
serve 21-key-value serve
expect "a set" "$("$tutorial/21-key-value" set color blue "unix:$work/socket")" ""
expect "a get" "$("$tutorial/21-key-value" get color "unix:$work/socket")" blue
"$tutorial/21-key-value" get nothing "unix:$work/socket" 2>"$work/err" && fail "what is not there is found"
expect "why" "$(cat "$work/err")" "not found"
expect "its bytes" "$(talk '\0\0\0\6gcolor\0\0\0\1x' | od -An -c | tr -s ' \n' ' ' | sed 's/ $//')" \
        " \\0 \\0 \\0 005 + b l u e \\0 \\0 \\0 020 - u n k n o w n r e q u e s t"
expect "4 GB" "$(talk '\377\377\377\377')" ""
stop_it
"$tutorial/21-key-value" get color "unix:$work/socket" 2>"$work/err" && fail "a server that has gone answers"
grep -q '^connecting: ' "$work/err" || fail "it does not say that it cannot connect: $(cat "$work/err")"

step "22-lines echo"
serve 22-lines echo
expect "two lines" "$(talk 'one\r\n\r\n' | od -An -c | tr -s ' \n' ' ' | sed 's/ $//')" " o n e \\r \\n \\r \\n"
stop_it

step "22-lines mail"
serve 22-lines mail
expect "a dialogue" "$(talk 'HELO me\r\nDATA\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\nHi.\r\n..\r\n.\r\nQUIT\r\nNOOP\r\n' | tr -d '\r')" \
        "220 hello
250 hello
503 RCPT first
250 ok
250 ok
354 end with a point
250 taken
221 bye"
expect "the mail" "$(cat "$work/out")" "from <a@b> to <c@d>:
Hi.
."
stop_it

exit $failed
