# test/e2e/lib.sh: for the scripts beside it: programs that are started at a free port, waited for and ended, and assertions.
#
#   . "$(dirname "$0")/lib.sh"
#   start_server 01-delay-server        sets $server, its process, and $url; its standard error is in $log
#   curl "$url/"
#   stop_server INT 0                   the signal, and the exit status that it has to have
#
# Whatever happens, a script ends the programs that it started, and no others.

# The servers are on this machine, behind no proxy.
unset http_proxy https_proxy HTTPS_PROXY all_proxy ALL_PROXY no_proxy NO_PROXY
tutorial=${WEIR_BUILD:?}/tutorial
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
log=$work/log
declare -A started=() # process => its program; one that has ended is not in it, as its number may be another's
failed=0

finish() {
        local status=$? pid

        for pid in "${!started[@]}"; do
                kill -KILL "$pid" 2>/dev/null
        done
        [ "$status" -eq 0 ] && [ "$failed" -eq 0 ] || sed 's/^/log: /' "$log" >&2 2>/dev/null
        rm -rf "$work"
}
trap finish EXIT

step() {
        echo "== $*"
}

fail() {
        echo "FAILED: $*" >&2
        failed=1
}

# need COMMAND...: ends the script where one is missing
need() {
        local each

        for each; do
                command -v "$each" >/dev/null || {
                        fail "$each is missing: scripts/dependencies.sh check installs it"
                        exit 1
                }
        done
}

# expect WHAT ACTUAL EXPECTED
expect() {
        [ "$2" = "$3" ] || fail "$1: \"$2\", not \"$3\""
}

# between WHAT ACTUAL LEAST MOST, numbers that may have a fraction
between() {
        awk -v actual="$2" -v least="$3" -v most="$4" 'BEGIN { exit !(actual >= least && actual <= most) }' ||
                fail "$1: $2 is not between $3 and $4"
}

# How late something may be, in seconds.  A machine that stands still for some seconds stays below this; only an event that never
# comes exceeds it.  Nothing may ever be early.
patience=30

now() {
        date +%s.%N
}

since() {
        awk -v from="$1" -v to="$(now)" 'BEGIN { print to - from }'
}

# comes_true COMMAND...: waits until it succeeds, or $patience is over
comes_true() {
        local began

        began=$(now)
        until "$@"; do
                ! awk -v took="$(since "$began")" -v within="$patience" 'BEGIN { exit !(took > within) }' || return 1
                sleep 0.02
        done
}

prints() {
        [ "$("${@:2}")" = "$1" ]
}

# comes_to WHAT EXPECTED COMMAND...: waits until that is what the command prints
comes_to() {
        comes_true prints "${@:2}" || fail "$1: \"$("${@:3}")\", not \"$2\", after $patience s"
}

free_port() {
        python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

is_alive() {
        kill -0 "$1" 2>/dev/null
}

is_served() {
        (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# start_server PROGRAM [PREFIX...]: the prefix, such as env, has to become the program.  Another process may take the port first.
start_server() {
        local program=$1 port try

        shift
        for try in 1 2 3 4 5; do
                port=$(free_port)
                : >"$log"
                "${@:-env}" "$tutorial/$program" "127.0.0.1:$port" 2>>"$log" &
                server=$!
                started[$server]=$program
                url=http://127.0.0.1:$port
                while is_alive "$server"; do
                        is_served "$port" && return 0
                        sleep 0.02
                done
                unset "started[$server]"
                sed "s/^/attempt $try: /" "$log" >&2
        done
        echo "$program cannot be started" >&2
        exit 1
}

# ends_with STATUS WITHIN: waits until the server has ended, at most so many seconds.
ends_with() {
        local began

        began=$(now)
        while is_alive "$server"; do
                if awk -v took="$(since "$began")" -v within="$2" 'BEGIN { exit !(took > within) }'; then
                        fail "the server has not ended within $2 s"
                        kill -KILL "$server"
                fi
                sleep 0.02
        done
        wait "$server"
        expect "exit status of the server" $? "$1"
        unset "started[$server]"
}

stop_server() {
        kill "-$1" "$server"
        ends_with "$2" "$patience"
}

# keep_connection: to 04-delay-control, in descriptor $kept; the server has answered a first request on it.
keep_connection() {
        local line

        exec {kept}<>"/dev/tcp/127.0.0.1/${url##*:}"
        send_kept "/wait?name=first&ms=0"
        while read -r -t "$patience" line <&"$kept"; do
                [ "$line" != waited ] || return 0
        done
        fail "no reply on a connection to be kept"
}

# send_kept TARGET: from the return on the request lies at the server, read or not.
send_kept() {
        printf 'GET %s HTTP/1.1\r\nHost: a\r\n\r\n' "$1" >&"$kept"
}

# receive_kept: sets $body to the bytes that come until the connection ends
receive_kept() {
        body=$(timeout "$patience" cat <&"$kept")
        exec {kept}>&-
}

# get CURL'S ARGUMENTS: sets $status, $took, $body
get() {
        local said

        said=$(curl --silent --show-error --max-time 30 --output "$work/body" --write-out '%{http_code} %{time_total}' "$@") ||
                fail "curl $*: $?"
        status=${said% *} took=${said#* }
        body=$(cat "$work/body" 2>/dev/null)
}

# -- servers of others --

# start_peer COMMAND...: it prints its port; sets $peer and $address
start_peer() {
        : >"$work/port"
        "$@" >"$work/port" 2>>"$log" &
        peer=$!
        started[$peer]=$1
        comes_true grep -qE '[0-9]+$' "$work/port"
        address=127.0.0.1:$(grep -oE '[0-9]+$' "$work/port" | head -n 1)
}

stop_peer() {
        kill "$peer"
        wait "$peer" 2>/dev/null
        unset "started[$peer]"
}

# skip_without PROGRAM...: ends the script as skipped where one is missing
skip_without() {
        local each

        for each; do
                command -v "$each" >/dev/null || {
                        echo "skipped: $each is missing; scripts/dependencies.sh check installs it"
                        exit 77
                }
        done
}

# asks WHAT CLIENT_ASK'S ARGUMENTS: what must come is told on standard input
asks() {
        "${WEIR_BUILD:?}/test/e2e/client_ask" "${@:2}" >"$work/said" 2>>"$log" || fail "$1: $? $(cat "$work/said")"
}

# -- 20-upload --

# start_upload SIZE: it keeps in $kept what it gets.  To send there are $work/small, a few letters, and $work/large, SIZE bytes.
start_upload() {
        export kept=$work/kept
        mkdir "$kept"
        printf 'a few letters\n' >"$work/small"
        head -c "$1" /dev/urandom >"$work/large"
        start_server 20-upload bash -c 'exec "$0" "$1" "$kept"' # the address, then the directory
}

# upload FILE URL [CURL'S ARGUMENTS]: sends $work/FILE to the server there, which has to keep it and to say so
upload() {
        rm -f "$kept/$1"
        get "${@:3}" --upload-file "$work/$1" "$2/files/$1"
        expect "reply to ${*:3} $1" "$status $body" "201 $(stat --format=%s "$work/$1") bytes from 127.0.0.1"
        cmp "$work/$1" "$kept/$1" || fail "$1 has arrived as another one"
}

# -- events --

has_events() {
        [ "$(grep -c '^data: ' "$1")" -ge "$2" ]
}

# until_events FILE COUNT
until_events() {
        comes_true has_events "$1" "$2" || fail "$1 has fewer than $2 events after $patience s"
}

# subscribe NAME URL: sets $subscriber; the events are in $work/NAME, and the head of the reply in $work/NAME.head
subscribe() {
        : >"$work/$1"
        curl --silent --no-buffer --dump-header "$work/$1.head" "$2" >"$work/$1" &
        subscriber=$!
}

# -- programs that start themselves anew; $serving is how their command line ends, with port $port and the Unix socket $socket --

# One that has ended, but was not waited for, has no command line.
servers() {
        local each

        for each in /proc/[0-9]*; do
                tr '\0' ' ' 2>/dev/null <"$each/cmdline" | grep -qF "$serving" && echo "${each#/proc/}"
        done
}

is_alone_after() {
        left=$(servers)
        [ -n "$left" ] && [ "$left" != "$1" ] && [ "$(wc -w <<<"$left")" -eq 1 ]
}

# child OF: sets $server, when only that one is left
child() {
        local left=

        if ! patience=60 comes_true is_alone_after "$1"; then # it has 30 s for what it has begun
                fail "60 s after SIGUSR2 to $1 there are these: $left"
                exit 1
        fi
        server=$left
        started[$server]=${started[$1]}
        unset "started[$1]"
}

are_gone() {
        [ -z "$(servers)" ]
}

has_ended() {
        comes_true are_gone || fail "it has not ended within $patience s"
        unset "started[$server]"
}

# restart_under_load BODY [CERTIFICATE]: three times, while clients come all the time, which expect these (restart_load.c)
restart_under_load() {
        local turn first load hold

        mkfifo "$work/hold"
        "$WEIR_BUILD/test/e2e/restart_load" "$port" "$socket" "$@" <"$work/hold" >"$work/load" 2>&1 &
        load=$!
        exec {hold}>"$work/hold"
        for turn in 1 2 3; do
                sleep 0.5
                first=$server
                kill -USR2 "$server"
                child "$server"
                if [ $turn = 1 ]; then # the others are children of no shell
                        wait "$first"
                        expect "exit status of the first one" $? 0
                fi
        done
        sleep 0.5
        exec {hold}>&-
        wait $load
        expect "exit status of the clients" $? 0
        cat "$work/load"
}
