#!/bin/bash
# The manual page of weir-durable: it has the commands, states and exit codes of the program, no others, and mandoc and man can read it.
set -uo pipefail

source=${WEIR_SOURCE:?}
page=$source/durable/command/weir-durable.1 program=$source/durable/command/weir-durable.c
failed=0

fail() {
        echo "FAILED: $*" >&2
        failed=1
}

# same WHAT OF_THE_PROGRAM OF_THE_PAGE
same() {
        [ -n "$2" ] && [ "$2" = "$3" ] || fail "$1: \"$(tr '\n' ' ' <<<"$2")\", and the page has \"$(tr '\n' ' ' <<<"$3")\""
}

# with KIND: the commands of the program that take a PREFIX or a NAME
with() {
        sed -n '/^} commands\[\]/,/^};/p' "$program" | grep -oE '\{"[a-z-]+", [a-z_A-Z]+, [a-z_A-Z]+\}' |
                awk -F '[{}", ]+' -v kind="$1" '{ if (($3 == "NULL") == (kind == "NAME")) print $2 }' | sort
}

# described KIND: those of the page
described() {
        sed -n '/^\.SH COMMANDS/,/^\.SH STATES/p' "$page" | sed -nE "s/^\\\\fB([a-z-]+)\\\\fP .*\\\\fI$1\\\\fP.*/\\1/p" | sort
}

# in_synopsis KIND: those of its synopsis
in_synopsis() {
        sed -n '/^\.SH SYNOPSIS/,/^\.SH DESCRIPTION/p' "$page" | grep -B1 "$1" | sed -nE 's/^\.BR (.*)/\1/p' | sed 's/ " | " /\n/g' | sort
}

# words SECTION: what stands behind .B in it
words() {
        sed -n "/^\\.SH $1\$/,/^\\.SH /p" "$page" | sed -nE 's/^\.B ([a-z0-9]+)$/\1/p' | sort
}

for kind in PREFIX NAME; do
        same "commands with $kind" "$(with $kind)" "$(described $kind)"
        same "the synopsis with $kind" "$(with $kind)" "$(in_synopsis $kind)"
done
same "states" "$(sed -n '/^state_of/,/^}/p' "$program" | grep -oE '"[a-z]+"' | tr -d '"' | sort)" "$(words STATES)"
same "exit codes" "$(printf '0\n1\n2\n')" "$(words 'EXIT STATUS')"
if [ -x "${WEIR_BUILD:?}/weir-durable" ]; then
        said=$("$WEIR_BUILD/weir-durable" 2>&1)
        [ $? -eq 2 ] || fail "a wrong command line has another status"
        for each in $(with PREFIX) $(with NAME); do
                grep -qE "[ |]$each[| ]" <<<"$said" || fail "the usage has no $each"
        done
fi
if command -v mandoc >/dev/null; then
        said=$(mandoc -T lint -W warning "$page" 2>&1) || fail "mandoc: $said"
fi
if command -v man >/dev/null; then
        said=$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)
        [ -z "$said" ] || fail "man: $said"
fi
grep -q 'weir-durable\.1' "$source/debian/weir-durable.install" || fail "the package has no page"

exit $failed
