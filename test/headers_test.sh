#!/bin/bash
# Every public header compiles alone, twice over, as C11, C17 and C++17 without a warning; none of them brings in OpenSSL,
# http-parser, zlib or c-ares; the umbrella header brings in all of them.  Durations of numbers of all kinds are right, without a warning.
set -euo pipefail

source=${WEIR_SOURCE:?} cc=${WEIR_CC:-cc}
case $(basename "$cc") in
*clang*) cxx=${WEIR_CXX:-clang++} ;;
*) cxx=${WEIR_CXX:-g++} ;;
esac
command -v "$cxx" >/dev/null || { echo "no C++ compiler: $cxx" >&2; exit 1; }

failed=0
fail() {
        echo "$*" >&2
        failed=1
}

# compiles HEADER COMPILER LANGUAGE STANDARD
compiles() {
        printf '#include <%s>\n#include <%s>\nextern int here;\n' "$1" "$1" |
                "$2" -x "$3" -std="$4" -Wall -Wextra -Wshadow -Werror -pedantic -fsyntax-only -I "$source/include" -
}

headers=$(cd "$source/include" && find weir -name '*.h' | sort)
[ -n "$headers" ] || fail "no public header was found"
addons=" $("$source/scripts/addons.sh" | cut -d' ' -f1 | tr '\n' ' ')" # each has its own header
umbrella=$(echo '#include <weir/weir.h>' | "$cc" -M -x c -I "$source/include" -)
for header in $headers; do
        compiles "$header" "$cc" c c11 || fail "$header does not compile alone as C11"
        compiles "$header" "$cc" c c17 || fail "$header does not compile alone as C17"
        compiles "$header" "$cxx" c++ c++17 || fail "$header does not compile alone as C++17"
        if "$cc" -M -x c -I "$source/include" "$source/include/$header" | grep -E 'openssl|http_parser|zlib|/ares'; then
                fail "$header includes what only the library may see"
        fi
        name=${header#weir/}
        [[ $addons == *" ${name%.h} "* || $umbrella == *"/$header"* ]] || fail "weir/weir.h does not include $header"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/durations.c" <<'CODE'
#include <assert.h>
#include <weir/time.h>

static_assert(WEIR_SEC(2) == 2000000000, "whole");
static_assert(WEIR_SEC(INT64_MAX) == WEIR_FOREVER && WEIR_MSEC(INT64_MIN) == -WEIR_FOREVER, "saturated");
enum { SIZE = WEIR_USEC(2) };

static const weir_nsec whole = WEIR_MSEC(3), half = WEIR_SEC(0.5), least = WEIR_SEC(1e-9), minus = WEIR_MSEC(-1.5), third = WEIR_SEC(0.3);
typedef char bytes[WEIR_USEC(2)];

static weir_nsec of_int(int n) { return WEIR_SEC(n); }
static weir_nsec of_size(size_t n) { return WEIR_SEC(n); }
static weir_nsec of_double(double n) { return WEIR_SEC(n); }
static weir_nsec of_float(float n) { return WEIR_MSEC(n); }

int main(void)
{
        int once = 0;

        switch (whole) {
        case WEIR_MSEC(3): break;
        default: return 1;
        }
        if (half != 500000000 || least != 1 || minus != -1500000 || third != 300000000 || sizeof(bytes) != SIZE)
                return 2;
        if (of_int(-7) != -7000000000 || of_size(7) != 7000000000 || of_double(0.25) != 250000000 || of_float(2.5f) != 2500000)
                return 3;
        if (of_double(1e300) != WEIR_FOREVER || of_double(-1e300) != -WEIR_FOREVER || WEIR_SEC(1e10) != WEIR_FOREVER)
                return 4;
        if (WEIR_SEC(once++) != 0 || once != 1 || WEIR_SEC((double)once++) != 1000000000 || once != 2)
                return 5;
        return WEIR_SEC(0.5f) != half || WEIR_SEC(0.5L) != half || WEIR_SEC('\2') != 2000000000 ? 6 : 0;
}
CODE

# durations COMPILER LANGUAGE STANDARD OPTIMIZATION
durations() {
        "$1" -x "$2" -std="$3" "$4" -Wall -Wextra -Wshadow -Wconversion -Wdouble-promotion -pedantic -Werror -I "$source/include" \
                "$work/durations.c" -o "$work/durations" && "$work/durations"
}
for optimization in -O0 -O2; do
        durations "$cc" c c11 $optimization || fail "durations are wrong as C11 with $optimization"
        durations "$cc" c gnu17 $optimization || fail "durations are wrong as C17 with $optimization"
        durations "$cxx" c++ c++11 $optimization || fail "durations are wrong as C++11 with $optimization"
        durations "$cxx" c++ c++20 $optimization || fail "durations are wrong as C++20 with $optimization"
done
exit $failed
