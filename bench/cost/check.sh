#!/bin/bash
# bench/cost/check.sh [NAME]: counts the instructions of each kind of operation and the bytes of each kind of object, and compares
# them with bench/cost.txt.  With a name, it does so for that kind only.
#
# WEIR_BUILD names the build directory, WEIR_COST_TABLE another table.  WEIR_COST_UPDATE=yes writes the table anew.
# Exit: 0 when the table has all that was measured, with the same compiler and C library, and nothing costs more than it allows;
# 1 otherwise.  With another OpenSSL the rows of TLS are shown and decide nothing.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${WEIR_BUILD:-$here/../../build}" && pwd) || exit 1
table=${WEIR_COST_TABLE:-$here/../cost.txt}
program=$build/bench/cost
results=$(mktemp -d) || exit 1
trap 'rm -rf "$results"' EXIT
trap 'exit 130' INT TERM

# The C library and OpenSSL choose variants of their functions by the CPU.  These are the ones that all CPUs of x86-64-v2 have.
export GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-ERMS,-FSRM,-BMI1,-BMI2,-LZCNT,-MOVBE,-SSE4_1,-SSE4_2,-SSSE3
export OPENSSL_ia32cap=~0x1000000000000000:~0x0000000000040328
export MALLOC_ARENA_MAX=1

# count_instructions NUMBER OPERATIONS NAME: the second profile is of OPERATIONS, the third one of twice as many,
# so that their difference is free of what comes once.
count_instructions()
{
        local number=$1 operations=$2 name=$3 profile=$results/profile.$1 first second

        if ! timeout 120 valgrind --tool=callgrind --fair-sched=yes --callgrind-out-file="$profile" \
                "$program" run "$name" >"$results/log.$number" 2>&1; then
                { echo "bench/cost: \"$name\" did not run:"; tail -5 "$results/log.$number"; } >&2
                return 1
        fi
        first=$(awk '/^totals:|^summary:/ { print $2; exit }' "$profile.2")
        second=$(awk '/^totals:|^summary:/ { print $2; exit }' "$profile.3")
        awk -v cost=$((second - first)) -v count="$operations" -v name="$name" \
                'BEGIN { printf "instructions\t%.1f\t%s\n", cost / count, name }' >"$results/part.$number"
        rm -f "$profile"*
}

# The program counts pages, of so many objects that one page more or less is nothing.
count_bytes()
{
        local number=$1 name=$2 bytes

        bytes=$(timeout 60 "$program" bytes "$name") || { echo "bench/cost: \"$name\" did not run" >&2; return 1; }
        printf 'bytes\t%s\t%s\n' "$bytes" "$name" >"$results/part.$number"
}

measure()
{
        local number=$1 kind=$2 operations=$3 name=$4

        if [ "$kind" = instructions ]; then
                count_instructions "$number" "$operations" "$name"
        else
                count_bytes "$number" "$name"
        fi
}

# As many at a time as there are CPUs.
measure_all()
{
        local number=100 kind operations name

        while read -r kind operations name; do
                [ -z "${only:-}" ] || [ "$only" = "$name" ] || continue
                while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do
                        wait -n
                done
                number=$((number + 1))
                measure $number "$kind" "$operations" "$name" &
        done < <("$program" list)
        wait
        cat "$results"/part.* >"$results/all" 2>/dev/null
        [ "${only:-}" ] || [ "$(wc -l <"$results/all")" -eq "$("$program" list | wc -l)" ]
}

# What the figures depend on, beside the sources.  gcc says by which name it was called, which does not matter.
tools()
{
        local compiler

        compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
        compiler=$("$compiler" --version | sed '1s/^[^ ]* (/gcc (/; q')
        echo "# $compiler; $(getconf GNU_LIBC_VERSION); $(openssl version 2>/dev/null | cut -d' ' -f1,2)"
}

tools_of_table()
{
        grep '^#' "$table" | tail -1
}

write_table()
{
        {
                echo "# What an operation costs in instructions, counted by callgrind, and an object in bytes.  Written by"
                echo "# \`make check-cost UPDATE=yes\`; bench/README.md explains it.  Another compiler or C library has other figures:"
                tools
                awk -F'\t' '{ printf "%-12s  %9s  %s\n", $1, $2, $3 }' "$results/all"
        } >"$table"
}

# compare UNDECIDED: prints each difference.  Rows that match the regular expression UNDECIDED decide nothing.
compare()
{
        awk -F'\t' -v most=2 -v undecided="$1" -v is_part="${only:+1}" '
                FILENAME == ARGV[1] {
                        if ($0 ~ /^#/) next
                        split($0, word, /  +/)
                        expected[word[1], word[3]] = word[2]
                        next
                }
                {
                        was = expected[$1, $3]
                        if (was == "") { printf "NEW    %10s  %s (%s)\n", $2, $3, $1; missing++; next }
                        measured[$1, $3]
                        change = ($2 - was) / was * 100
                        verdict = change > most ? "MORE" : change < -most ? "less" : "same"
                        if (undecided && $3 ~ undecided) verdict = "else"
                        printf "%-5s  %10s  %+6.1f %%  %s (%s)\n", verdict, $2, change, $3, $1
                        more += verdict == "MORE"
                        less += verdict == "less"
                }
                END {
                        for (row in expected)
                                if (!is_part && !(row in measured)) {
                                        split(row, word, SUBSEP)
                                        printf "GONE   %10s  %s (%s)\n", expected[row], word[2], word[1]
                                        gone++
                                }
                        if (missing) print missing " are not in the table: make check-cost UPDATE=yes adds them"
                        if (gone) print gone " of the table were not measured: make check-cost UPDATE=yes removes them"
                        if (less) print less " cost less than the table says: lower it with make check-cost UPDATE=yes"
                        if (more) print more " cost more than " most " % above the table"
                        exit more || missing || gone ? 1 : 0
                }' <(sed -E 's/^(instructions|bytes) +([0-9.]+)  /\1  \2  /' "$table") "$results/all"
}

[ -x "$program" ] || { echo "bench/cost: $program is not built; it needs the headers of valgrind" >&2; exit 1; }
only=${1:-}
measure_all || { echo "bench/cost: some did not run" >&2; exit 1; }
if [ "${WEIR_COST_UPDATE:-no}" = yes ] && [ -z "$only" ]; then
        write_table
        cat "$table"
        exit 0
fi
ours=$(tools)
theirs=$(tools_of_table)
[ "$ours" = "$theirs" ] && undecided= || undecided=TLS
compare "$undecided"
status=$?
if [ "${ours%;*}" != "${theirs%;*}" ]; then
        printf 'The table was made with another compiler or C library, so it cannot be compared with:\n%s\n%s\n' "$theirs" "$ours"
        echo "make check-cost UPDATE=yes writes it anew; do that for a tree whose costs are known to be right"
        exit 1
fi
[ "$ours" = "$theirs" ] || printf 'The table was made with another OpenSSL, so its rows of TLS decide nothing:\n%s\n%s\n' "$theirs" "$ours"
exit $status
