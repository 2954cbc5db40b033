#!/bin/bash
# What bench/cost/check.sh says of a program and a table that are made up here: it has bytes alone, so valgrind is not needed.
set -euo pipefail

source=${WEIR_SOURCE:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/build/bench" "$work/bin"
echo "CMAKE_C_COMPILER:FILEPATH=$work/bin/compiler" >"$work/build/CMakeCache.txt"
export WEIR_BUILD=$work/build WEIR_COST_TABLE=$work/table WEIR_COST_UPDATE=no PATH=$work/bin:$PATH work

make_tool() {
        printf '#!/bin/sh\n%s\n' "$2" >"$work/$1"
        chmod +x "$work/$1"
}

make_tool bin/compiler 'echo "cc (Made up) 1.0"; echo more'
make_tool bin/getconf 'echo "glibc 1.0"'
make_tool bin/openssl 'echo "OpenSSL 1.0 of a day"'
make_tool build/bench/cost '
case $1 in
list) sed "s/^[^ ]*/bytes 1/" "$work/figures" ;;
bytes) sed -n "s/ $2\$//p" "$work/figures" ;;
esac'

figures() {
        printf '%s\n' "$@" >"$work/figures"
}

# expect STATUS WHAT PATTERN [NAME]: how a check ends, and a line of it.
expect() {
        local status=0

        bash "$source/bench/cost/check.sh" ${4:+"$4"} >"$work/said" 2>&1 || status=$?
        [ $status -eq "$1" ] && grep -q "$3" "$work/said" && return
        { echo "$2: ended with $status instead of $1, or said nothing of \"$3\":"; cat "$work/said"; } >&2
        exit 1
}

as_it_was() {
        figures "100.0 a timer" "200.0 what TLS adds"
        sed -i 's/^# gcc.*/# gcc (Made up) 1.0; glibc 1.0; OpenSSL 1.0/' "$work/table"
}

figures "100.0 a timer" "200.0 what TLS adds"
WEIR_COST_UPDATE=yes expect 0 "a new table" "gcc (Made up) 1.0; glibc 1.0; OpenSSL 1.0"
expect 0 "nothing changed" "^same .* a timer"
figures "103.0 a timer" "200.0 what TLS adds"
expect 1 "one costs more" "^MORE .* a timer"
figures "97.0 a timer" "200.0 what TLS adds"
expect 0 "one costs less" "lower it"
figures "100.0 a timer" "200.0 what TLS adds" "1.0 an event"
expect 1 "one is new" "^NEW .* an event"
figures "100.0 a timer"
expect 1 "one is gone" "^GONE .* what TLS adds"
expect 0 "one alone is measured" "^same .* a timer" "a timer"

as_it_was
for other in 's/Made up/Another/' 's/glibc 1/glibc 2/'; do
        sed -i "$other" "$work/table"
        expect 1 "other tools: $other" "UPDATE=yes writes it anew"
        as_it_was
done
sed -i 's/OpenSSL 1/OpenSSL 2/' "$work/table"
figures "100.0 a timer" "300.0 what TLS adds"
expect 0 "another OpenSSL, and TLS costs more" "decide nothing"
figures "103.0 a timer" "200.0 what TLS adds"
expect 1 "another OpenSSL, and something else costs more" "^MORE .* a timer"
