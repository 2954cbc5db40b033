#!/bin/sh
# Checks with spin the models of the timer protocol, of the lock below it, of the end of series, of selects, of the hand-over of
# pollers, of the executor's sleep, of shutdown, of the client's connections, of fibers and their groups, and of
# durable timers.
#
#   check.sh [MODEL.pml ...]
#
# Each model must hold in all its states and have no statement that is never reached.  Each mutant in it (MUTANT_*) breaks one
# rule of the protocol; spin must find it guilty, else the model has lost that rule.  Prints one line each as they are done, and
# a summary; exits with 0 when all is well.  As many checks run at a time as there are processors, or $JOBS; each takes at most
# 1.5 GB.

set -u

here=$(cd "$(dirname "$0")" && pwd) || exit 1
compiler=${CC:-gcc}

# report WORD MODEL WHAT RESULT [FILE]: in one piece, for others report as well.
report() {
        {
                printf '%-5s %-10s %-32s %s\n' "$1" "$2" "$3" "$4"
                [ $# -lt 5 ] || cat "$5"
        } >report
        cat report
        [ "$1" = ok ] && : >passed
}

# verify MODEL [MUTANT]: leaves what the verifier says in ./result; fails when it could not be built.
verify() {
        optimize=-O2
        [ $# -eq 1 ] || optimize=-O0 # a mutant is found out long before optimizing has paid
        spin ${2:+"-D$2"} -a "$here/$1.pml" >build 2>&1 || return 1
        "$compiler" $optimize -w -DSAFETY -DCOLLAPSE -DMEMLIM=2000 -o pan pan.c >>build 2>&1 || return 1
        ./pan -m10000 >result 2>&1 </dev/null
        return 0
}

check_model() {
        if ! verify "$1"; then
                report FAIL "$1" "the protocol" "cannot be built" build
        elif ! grep -q 'errors: 0' result || grep -Eq 'not completed|too small|out of memory|memory limit' result; then
                report FAIL "$1" "the protocol" "$(grep -E '^pan:1:|errors:|too small|memory' result | head -n 1)" result
        elif grep '^	(.* of .* states)' result | grep -qv '(0 of'; then
                sed -n '/^unreached/,$p' result >unreached
                report FAIL "$1" "the protocol" "statements which are never reached:" unreached
        else
                report ok "$1" "the protocol" "$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/holds in \1 states/p' result)"
        fi
}

check_mutant() {
        if ! verify "$1" "$2"; then
                report FAIL "$1" "$2" "cannot be built" build
        elif ! grep -Eq '^pan:1: (assertion violated|invalid end state)' result; then
                report FAIL "$1" "$2" "SURVIVES"
        elif ! grep -qw "$2" "$here/README.md"; then
                report FAIL "$1" "$2" "is not explained in README.md"
        else
                report ok "$1" "$2" "$(sed -n 's/^pan:1: \(.*\) (at depth.*/guilty: \1/p' result)"
        fi
}

# One check, in a directory of its own: this script calls itself.
if [ "${1:-}" = --one ]; then
        mkdir "$2-${3:-protocol}" && cd "$2-${3:-protocol}" || exit 1
        if [ $# -eq 2 ]; then
                check_model "$2"
        else
                check_mutant "$2" "$3"
        fi
        rm -f pan* # the large ones
        exit 0
fi

if ! command -v spin >/dev/null 2>&1; then
        echo "check.sh: spin is missing; on Debian: apt-get install spin" >&2
        exit 1
fi
if ! command -v "$compiler" >/dev/null 2>&1; then
        echo "check.sh: $compiler is missing; on Debian: apt-get install gcc" >&2
        exit 1
fi

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
cd "$scratch" || exit 1

# All of them, the longest first.
if [ $# -eq 0 ]; then
        set -- pool.pml cancel.pml handover.pml ticker.pml wait.pml wakeup.pml select.pml roots.pml promise.pml executor.pml nest.pml timer.pml \
                ids.pml lock.pml fiber.pml durable.pml watch.pml fd.pml group.pml shield.pml hosted.pml partner.pml
        [ $# -eq "$(ls "$here"/*.pml | wc -l)" ] || {
                echo "check.sh: a model of test/model is not in its list" >&2
                exit 1
        }
fi
for file in "$@"; do
        basename "$file" .pml >>checks
done
for file in "$@"; do
        model=$(basename "$file" .pml)
        mutants=$(grep -o 'MUTANT_[A-Z_]*[A-Z]' "$here/$model.pml" | sort -u)
        for mutant in ${mutants:-MUTANT_MISSING}; do
                echo "$model $mutant" >>checks
        done
done

xargs -P "${JOBS:-$(nproc)}" -L 1 sh "$here/check.sh" --one <checks

total=$(wc -l <checks)
failed=$((total - $(find . -name passed | wc -l)))
echo "$total checks, $failed failed"
[ "$failed" -eq 0 ]
