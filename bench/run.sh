#!/bin/bash
# bench/run.sh [quick]: runs all measuring programs of build/bench: JSON lines to standard output, a table to standard error.
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
                        if (!(key in peers)) { order[++lines] = key; names[key] = name; metrics[key] = metric }
                        if (!((key, peer) in seen)) { seen[key, peer] = 1; peers[key] = peers[key] SUBSEP peer }
                        values[key, peer, kind] = value
                }
                function text(number) {
                        return number >= 100 || number == int(number) ? sprintf("%.0f", number) : sprintf("%.3g", number)
                }
                END {
                        for (i = 1; i <= lines; i++) {
                                key = order[i]
                                if (names[key] != last) printf "\n%s\n", last = names[key]
                                printf "  %-44s", metrics[key]
                                count = split(peers[key], list, SUBSEP)
                                for (j = 2; j <= count; j++) {
                                        printf "  %s %s", list[j], text(values[key, list[j], "median"])
                                        if ((key, list[j], "min") in values)
                                                printf " [%s..%s]", text(values[key, list[j], "min"]), text(values[key, list[j], "max"])
                                }
                                printf "\n"
                        }
                }'
}

[ -x "$build/bench/http" ] || { echo "bench: $build/bench is not built" >&2; exit 1; }
if [ "${1:-}" = quick ]; then takes="a minute"; else takes="five to six minutes"; fi
echo "bench: this takes $takes; the machine should be idle" >&2
began=$SECONDS
measure 140 timers "$@"
measure 215 http "$@"
table >&2
printf '\n%s\n' "bench: $((SECONDS - began)) s" >&2
