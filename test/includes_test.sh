#!/bin/bash
# Includes flow proxy -> server or client -> net -> io -> factory -> kernel; protocol is used by server, client and factory, and knows only the dates of kernel; public
# headers know only each other.  What a room says of the library's concepts in its public headers is held to the same order.
# A library beside libweir knows public headers, its own folder, and how all of them write their figures.
# Rooms, files and lines keep their sizes.  docs/design.md lists the rooms in their order.
# One file has the constructor of the library and its handlers of fork and exit.  Each struct has a tag of its own, and each name of
# a constant one value.
set -euo pipefail

source=${WEIR_SOURCE:?}
addons=$("$source/scripts/addons.sh" | cut -d' ' -f2 | tr '\n' ' ')
addons+=$(sed -nE 's/^weir_addon\(.* WITH ([^ )]+).*/\1/p' "$source/CMakeLists.txt" | sort -u | tr '\n' ' ') # and what they share

# What a file of a room may include of ours, as a regular expression of whole names.
allowed() {
        case $1 in
        kernel) echo 'kernel/.*|weir/(export|time|clock|log|stats|runtime|trace)\.h' ;;
        protocol) echo 'protocol/.*|kernel/calendar/calendar\.h|weir/(export|time|http_cookie|url)\.h' ;;
        factory) echo '(factory|kernel|protocol)/.*|weir/(export|time|runtime|task|series|parallel|graph|race|flow|retry|timer|ticker|waitgroup|clock|stats|go|counter|mailbox|conditional|channel|select|guard|rate|semaphore|signal|pool|barrier|promise|watch|topic|debug|trace|metrics|fiber)\.h' ;;
        io) echo '(io|factory|kernel)/.*|weir/(export|time|runtime|task|series|fd|go|loop|file|process)\.h' ;;
        net) echo '(net|io|factory|kernel)/.*|protocol/field/peer\.h|weir/.*' ;;
        client) echo '(client|net|io|factory|kernel|protocol)/.*|weir/.*' ;;
        server) echo '(server|net|io|factory|kernel|protocol)/.*|weir/.*' ;;
        proxy) echo 'proxy/.*|kernel/(base|memory|observe|runtime)/.*|weir/.*' ;;
        include) echo 'weir/.*' ;;
        tutorial) echo 'weir/.*' ;;
        database/pq | database/mariadb) echo "($1|database/sql)/.*|database/figures\.h|weir/.*" ;;
        *) echo "$1/.*|database/figures\.h|weir/.*" ;; # an add-on: database/sqlite
        esac
}

# The rooms within a room, the lowest first: a file includes those of its own and of lower ones.
rooms_of() {
        case $1 in
        kernel) echo 'base data queue calendar memory observe stack loop tls socket worker sched executor runtime' ;;
        factory) echo 'names task timer sync flow graph channel fiber inspect' ;;
        io) echo 'base file process' ;;
        protocol) echo 'text route message field coding' ;;
        net) echo 'transport datagram upstream resolve stream connect listen serve protocol' ;;
        client) echo 'cookies form tunnel origin wire draft request call' ;;
        server) echo 'base observe exchange connection operate' ;;
        proxy) echo 'forward' ;;
        esac
}

# flows_down ROOM FILE INCLUDE, both within that room: whether FILE's inner room is not below that of INCLUDE.
flows_down() {
        local inner own=${2%%/*} other=${3%%/*}

        [ -n "$(rooms_of "$1")" ] || return 0
        [[ " $(rooms_of "$1") " == *" $own "* ]] || return 1
        for inner in $(rooms_of "$1"); do
                [ "$inner" = "$other" ] && return 0
                [ "$inner" = "$own" ] && return 1
        done
        return 1
}

includes_of() {
        sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*(["<][^">]*[">]).*/\1/p' "$1"
}

# check TREE: says each include that flows upward, or that hides where it goes; fails if there is one.
check() {
        local tree=$1 room file include name failed=0

        for room in kernel protocol factory io net client server proxy include tutorial $addons; do
                while read -r file; do
                        while read -r include; do
                                name=${include:1:-1}
                                case $include in
                                '<weir/'* | '<kernel/'* | '<database/'* | '<durable/'* | '<protocol/'* | '<factory/'* | '<io/'* | '<client/'* | '<server/'* | '<proxy/'* | '"'*)
                                        [[ $name =~ ^($(allowed $room))$ && $name != *..* ]] &&
                                                { [[ $name != $room/* ]] || flows_down $room "${file#"$tree/$room/"}" "${name#"$room/"}"; } &&
                                                continue ;;
                                '<http_parser.h>')
                                        [ "${file#"$tree"/}" = protocol/message/http_parser_backend.c ] && continue ;;
                                '<libpsl.h>')
                                        [ "${file#"$tree"/}" = client/cookies/suffix.c ] && continue ;;
                                '<brotli/'*)
                                        [ "${file#"$tree"/}" = protocol/coding/brotli.c ] && continue ;;
                                '<zstd'*)
                                        [ "${file#"$tree"/}" = protocol/coding/zstd.c ] && continue ;;
                                '<zlib.h>')
                                        [[ ${file#"$tree"/} == protocol/coding/@(gzip|inflate).c ]] && continue ;;
                                '<ares'*)
                                        [ "${file#"$tree"/}" = net/resolve/dns.c ] && continue ;;
                                '<openssl/'*)
                                        [ $room = kernel ] && continue ;;
                                *) continue ;;
                                esac
                                echo "${file#"$tree"/} must not include $include"
                                failed=1
                        done < <(includes_of "$file")
                done < <(find "$tree/$room" -name '*.[ch]' 2>/dev/null)
        done
        return $failed
}

# -- sizes --

# check_sizes TREE: prints each room, file and line of a wrong size.
check_sizes() (
        cd "$1"
        { find kernel factory io protocol net client server proxy -mindepth 1 -maxdepth 1 -type d | sort; for room in $addons; do echo "$room"; [ ! -d "$room/engine" ] || echo "$room/engine"; done; } | while read -r room; do
                count=$(find "$room" -maxdepth 1 -name '*.[ch]' | wc -l)
                [ "$count" -ge 5 ] || echo "$room has $count files, which is less than 5"
                [ "$count" -le 15 ] || echo "$room has $count files, which is more than 15"
        done
        find kernel factory io protocol net client server proxy -maxdepth 1 -name '*.[ch]' -printf '%p is in no room\n'
        find kernel factory io protocol net client server proxy include $addons -name '*.[ch]' | sort | while read -r file; do
                count=$(wc -l <"$file")
                [ "$count" -le 600 ] || echo "$file has $count lines, which is more than 600"
        done
        find kernel factory io protocol net client server proxy include $addons test bench -name '*.[ch]' -exec awk 'length > 130 { print FILENAME }' {} + | sed 's,/.*,,' | sort | uniq -c | while read -r count room; do
                echo "$room has $count lines above 130 columns"
        done
)

# -- steps --

# check_steps TREE: prints each constructor and each handler of fork or exit outside of the one file that has them.
check_steps() (
        cd "$1"
        grep -rnE '__attribute__.*\bconstructor\b|\bpthread_atfork *\(|\batexit *\(' --include='*.[ch]' kernel factory io protocol net client server proxy |
                grep -v '^kernel/base/phase\.c:' || true
)

# -- tags --

# check_tags TREE: prints each tag that is defined more than once.
check_tags() (
        cd "$1"
        grep -rhoE --include='*.[ch]' '^(typedef )?(struct|union|enum) weir_[a-z0-9_]+ \{' kernel factory io protocol net client server proxy include $addons |
                sed -E 's/^typedef //; s/ \{$//' | sort | uniq -d
)

# -- constants --

# check_constants TREE: prints each name that files of the library define as different numbers.
check_constants() (
        cd "$1"
        grep -roE --include='*.[ch]' '^#define [A-Z_0-9]+ +[(]*([0-9]|WEIR_[NUM]?SEC|\(size_t\)|\(uint).*' kernel factory io protocol net client server proxy include $addons |
                sed -E 's, */\*.*,,; s,^([^:]*):#define ([A-Z_0-9]+) +,\2\t\1\t,' |
                awk -F'\t' '$1 in value && value[$1] != $3 && file[$1] != $2 { print $1 } { value[$1] = $3; file[$1] = $2 }' | sort -u
)

# The check itself must be able to fail: a tree with one wrong include in each room.
proof=$(mktemp -d)
trap 'rm -rf "$proof"' EXIT
mkdir -p "$proof"/{kernel,protocol/{text,message,coding},factory,net/transport,client/cookies,server,proxy/forward,include,io,tutorial}
echo '#include "factory/timer/timer.h"' >"$proof/kernel/a.c"
echo '#include <weir/task.h>' >"$proof/kernel/b.c"
echo '#include "kernel/loop/poller.h"' >"$proof/protocol/text/a.c"
echo '# include <http_parser.h>' >"$proof/protocol/message/b.c"
echo '#include <zlib.h>' >"$proof/protocol/coding/c.c"
echo '#include <brotli/decode.h>' >>"$proof/protocol/coding/c.c"
echo '#include <zstd.h>' >>"$proof/protocol/coding/c.c"
echo '#include "protocol/text/bytes.h"' >>"$proof/protocol/coding/c.c"
echo '#include "protocol/field/cookie.h"' >"$proof/protocol/message/d.c"
echo '#include "protocol/text/bytes.h"' >"$proof/protocol/d.c"
echo '#include <ares.h>' >>"$proof/protocol/d.c"
echo '#include "server/connection.h"' >"$proof/factory/a.c"
echo '#include "kernel/../factory/task.h"' >"$proof/factory/b.c"
echo '#include "server/connection.h"' >"$proof/net/transport/a.c"
echo '#include "protocol/text/bytes.h"' >"$proof/net/transport/b.c"
echo '#include "server/base/server.h"' >"$proof/client/cookies/a.c"
echo '#include "connection.h"' >"$proof/server/a.c"
echo '#include "server/base/server.h"' >"$proof/io/a.c"
echo '#include "client/call/call.h"' >"$proof/proxy/forward/a.c"
echo '#include <openssl/ssl.h>' >"$proof/include/a.h"
echo '#include "kernel/base/lock.h"' >"$proof/tutorial/a.c"
mkdir "$proof"/server/{base,operate,attic}
echo '#include "server/operate/server.h"' >"$proof/server/base/a.c"
echo '#include "server/base/server.h"' >"$proof/server/operate/a.c"
echo '#include "server/base/server.h"' >"$proof/server/attic/a.c"
mkdir "$proof"/kernel/data
echo '#include "kernel/worker/worker.h"' >"$proof/kernel/data/a.c"
echo '#include "kernel/base/lock.h"' >"$proof/kernel/data/b.c"
mkdir -p "$proof"/database/proof
echo '#include "kernel/base/lock.h"' >"$proof/database/proof/a.c"
echo '#include "database/other/other.h"' >>"$proof/database/proof/a.c"
echo '#include <weir/task.h>' >>"$proof/database/proof/a.c"
found=$(addons=database/proof check "$proof" | wc -l || true)
[ "$found" -eq 25 ] || { echo "the check finds $found of 25 wrong includes" >&2; exit 1; }

# The same for sizes: a room that is too small and one that is too large, a file outside of the rooms, a long file and a long line.
rm -r "$proof"
mkdir -p "$proof"/{kernel/{few,many,fit},factory,io,net,client,protocol,server,proxy,include,test,bench,database/few}
touch "$proof"/kernel/few/{1..4}.c "$proof"/kernel/many/{1..16}.c "$proof"/kernel/fit/{1..15}.h "$proof"/server/a.c
seq 600 >"$proof/kernel/fit/1.h"
seq 601 >"$proof/kernel/fit/2.h"
printf '%130s\n%131s\n' . . >"$proof/test/a.c"
found=$(addons=database/few check_sizes "$proof")
[ "$(wc -l <<<"$found")" -eq 6 ] || { printf 'the check of sizes says of a made-up tree:\n%s\n' "$found" >&2; exit 1; }

# docs/design.md lists the rooms, those that include others above these.
listed=$(sed -nE 's,^    ([a-z]+/[a-z]+)/ .*,\1,p' "$source/docs/design.md" | grep -v '^include/')
ordered=$(for room in proxy server client net io factory protocol kernel; do rooms_of $room | tr ' ' '\n' | tac | sed "s,^,$room/,"; done)
[ "$listed" = "$ordered" ] || { diff <(echo "$listed") <(echo "$ordered") || true; echo "docs/design.md does not list the rooms in their order" >&2; exit 1; }

found=$(check_sizes "$source")
[ -z "$found" ] || { echo "$found"; exit 1; }

# The same for tags.
echo 'struct weir__one {' | tee "$proof/kernel/many/1.c" >"$proof/net/tag.h"
echo 'struct weir__two {' >"$proof/client/tag.h"
echo 'struct weir__two;' >"$proof/server/tag.h"
found=$(addons=database/few check_tags "$proof")
[ "$found" = "struct weir__one" ] || { printf 'the check of tags says of a made-up tree:\n%s\n' "$found" >&2; exit 1; }

found=$(check_tags "$source")
[ -z "$found" ] || { printf 'defined more than once:\n%s\n' "$found"; exit 1; }

# The same for constants.  One file may have a value for each kind of compiler.
printf '#define MANY 2 /* sockets */\n#define FEW  (1)\n' >"$proof/kernel/many/1.c"
printf '#define MANY WEIR_SEC(2)\n#define FEW  (1) /* bytes */\n#define ONE  1\n#define ONE  2\n' >"$proof/net/tag.h"
found=$(addons=database/few check_constants "$proof")
[ "$found" = MANY ] || { printf 'the check of constants says of a made-up tree:\n%s\n' "$found" >&2; exit 1; }

found=$(check_constants "$source")
[ -z "$found" ] || { printf 'one name, several values:\n%s\n' "$found"; exit 1; }

# The same for steps.
mkdir "$proof/kernel/base"
echo 'static __attribute__((constructor(101))) void' | tee "$proof/kernel/base/phase.c" >"$proof/net/a.c"
echo '        pthread_atfork(NULL, NULL, on_fork);' >"$proof/net/b.c"
found=$(check_steps "$proof" | wc -l)
[ "$found" -eq 2 ] || { echo "the check finds $found of 2 steps outside of their file" >&2; exit 1; }

found=$(check_steps "$source")
[ -z "$found" ] || { printf 'steps belong into the table of kernel/base/phase.h:\n%s\n' "$found"; exit 1; }
check "$source"
