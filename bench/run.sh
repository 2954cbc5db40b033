#!/bin/bash
# bench/run.sh [timers|executor|channel|blocking|http|queue|stall|tickers|graph] [quick]: runs all measuring programs of build/bench, or one:
# JSON lines to standard output, a table to standard error.
# WEIR_BUILD names the build directory.  README.md says what is measured.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${WEIR_BUILD:-$here/../build}
results=$(mktemp -d) || exit 1
child=

end()
{
        [ -n "$child" ] && kill "$child" 2>/dev/null && wait "$child"
        rm -rf "$results"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# measure SECONDS PROGRAM [quick]: a program that hangs is ended, as are its children then.
measure()
{
        local limit=$1
        shift
        [ "${only:-$1}" = "$1" ] || return
        timeout --foreground --kill-after=10 "$limit" "$build/bench/$@" >"$results/part" &
        child=$!
        wait "$child" || echo "bench: $1 failed" >&2
        child=
        cat "$results/part"
        cat "$results/part" >>"$results/all"
}

# One line for each case and metric, the peers beside each other: median [least .. greatest].
table()
{
        sed 's/^{//; s/}$//' "$results/all" | awk -F'", "|": "|", "value": ' '
                {
                        peer = $4; name = $6; metric = $8; value = $9; kind = "median"
                        sub(/"$/, "", metric)
                        if (sub(/ \(min\)$/, "", metric)) kind = "min"
                        else if (sub(/ \(max\)$/, "", metric)) kind = "max"
                        key = name SUBSEP metric
                        if (!(name in metrics)) order[++cases] = name
                        if (!(key in peers)) metrics[name] = metrics[name] SUBSEP metric
                        if (!((key, peer) in seen)) { seen[key, peer] = 1; peers[key] = peers[key] SUBSEP peer }
                        values[key, peer, kind] = value
                }
                function text(number) {
                        return number >= 100 || number == int(number) ? sprintf("%.0f", number) : sprintf("%.3g", number)
                }
                function line(metric, key,    list, count, i) {
                        printf "  %-44s", metric
                        count = split(peers[key], list, SUBSEP)
                        for (i = 2; i <= count; i++) {
                                printf "  %s %s", list[i], text(values[key, list[i], "median"])
                                if ((key, list[i], "min") in values)
                                        printf " [%s..%s]", text(values[key, list[i], "min"]), text(values[key, list[i], "max"])
                        }
                        printf "\n"
                }
                END {
                        for (i = 1; i <= cases; i++) {
                                printf "\n%s\n", order[i]
                                count = split(metrics[order[i]], list, SUBSEP)
                                for (j = 2; j <= count; j++) line(list[j], order[i] SUBSEP list[j])
                        }
                }'
}

[ -x "$build/bench/http" ] || { echo "bench: $build/bench is not built" >&2; exit 1; }
only=
case ${1:-} in
timers | executor | channel | blocking | http | queue | stall | tickers | graph) only=$1; shift ;;
esac
takes="seventeen to twenty minutes"
[ "$only" ] && takes="up to six minutes"
[ "${1:-}" = quick ] && takes="up to three minutes"
echo "bench: this takes $takes; the machine should be idle" >&2
began=$SECONDS
measure 480 timers "$@"
measure 120 executor "$@"
measure 60 channel "$@"
measure 300 blocking "$@"
measure 420 http "$@"
measure 200 queue "$@"
measure 120 stall "$@"
measure 120 tickers "$@"
measure 120 graph "$@"
table >&2
printf '\n%s\n' "bench: $((SECONDS - began)) s" >&2
