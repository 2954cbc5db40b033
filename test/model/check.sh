#!/bin/sh
# Checks the models of the timer protocol with spin.
#
#   check.sh [MODEL.pml ...]
#
# Each model must hold in all its states and have no statement that is never reached.  Each mutant in it (MUTANT_*) breaks one
# rule of the protocol; spin must find it guilty, else the model has lost that rule.  Prints one line each and a summary; exits
# with 0 when all is well.

set -u

here=$(cd "$(dirname "$0")" && pwd) || exit 1
compiler=${CC:-gcc}

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

passed=0
failed=0

good() {
        printf 'ok    %-10s %-32s %s\n' "$1" "$2" "$3"
        passed=$((passed + 1))
}

bad() {
        printf 'FAIL  %-10s %-32s %s\n' "$1" "$2" "$3"
        failed=$((failed + 1))
}

# verify MODEL [MUTANT]: leaves what the verifier says in $scratch/result; no result file when it could not be built.
verify() {
        rm -f pan* result build
        optimize=-O1
        [ $# -eq 1 ] || optimize=-O0 # a mutant is found out long before optimizing has paid
        spin ${2:+"-D$2"} -a "$here/$1.pml" >build 2>&1 || return 1
        "$compiler" $optimize -w -DSAFETY -DCOLLAPSE -DMEMLIM=2000 -o pan pan.c >>build 2>&1 || return 1
        ./pan -m10000 >result 2>&1 </dev/null
        return 0
}

check_model() {
        if ! verify "$1"; then
                bad "$1" "the protocol" "cannot be built"
                cat build
        elif ! grep -q 'errors: 0' result || grep -Eq 'not completed|too small|out of memory|memory limit' result; then
                bad "$1" "the protocol" "$(grep -E '^pan:1:|errors:|too small|memory' result | head -n 1)"
                cat result
        elif grep '^	(.* of .* states)' result | grep -qv '(0 of'; then
                bad "$1" "the protocol" "statements which are never reached:"
                sed -n '/^unreached/,$p' result
        else
                good "$1" "the protocol" "$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/holds in \1 states/p' result)"
        fi
}

check_mutant() {
        if ! verify "$1" "$2"; then
                bad "$1" "$2" "cannot be built"
                cat build
        elif ! grep -Eq '^pan:1: (assertion violated|invalid end state)' result; then
                bad "$1" "$2" "SURVIVES"
        elif ! grep -q "$2" "$here/README.md"; then
                bad "$1" "$2" "is not explained in README.md"
        else
                good "$1" "$2" "$(sed -n 's/^pan:1: \(.*\) (at depth.*/guilty: \1/p' result)"
        fi
}

[ $# -gt 0 ] || set -- timer.pml wakeup.pml roots.pml
for file in "$@"; do
        model=$(basename "$file" .pml)
        check_model "$model"
        mutants=$(grep -o 'MUTANT_[A-Z_]*[A-Z]' "$here/$model.pml" | sort -u)
        [ -n "$mutants" ] || bad "$model" "the mutants" "there are none"
        for mutant in $mutants; do
                check_mutant "$model" "$mutant"
        done
done

echo "$((passed + failed)) checks, $failed failed"
[ "$failed" -eq 0 ]
