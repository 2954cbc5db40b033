#!/bin/bash
# BUILD_SHARED_LIBS says which of the two libraries is built and installed.  Programs find the one that is there, by the same names in
# pkg-config and CMake.
set -euo pipefail

source=${WEIR_SOURCE:?} cc=${WEIR_CC:-cc} cmake=${WEIR_CMAKE:-cmake}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset LD_LIBRARY_PATH PKG_CONFIG_PATH DESTDIR MAKEFLAGS

fail() {
        echo "$*" >&2
        exit 1
}

cat >"$work/program.c" <<'END'
#include <weir/weir.h>

int
main(void)
{
        return weir_task_run(weir_timer_new(WEIR_MSEC(1), NULL, NULL));
}
END
cat >"$work/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.22)
project(outside C)
find_package(weir 0.1 REQUIRED)
add_executable(program program.c)
target_link_libraries(program PRIVATE weir::weir)
END

# The second time, the objects of the first are there.
try() {
        local value=$1 wanted=$2 unwanted=$3 prefix=$work/$1

        echo "== BUILD_SHARED_LIBS=$value"
        "$cmake" -S "$source" -B "$work/build" -DCMAKE_C_COMPILER="$cc" -DCMAKE_BUILD_TYPE=Debug -DBUILD_SHARED_LIBS="$value" \
                -DWEIR_BUILD_TESTS=OFF -DWEIR_BUILD_TUTORIAL=OFF -DWEIR_BUILD_EXAMPLES=OFF -DWEIR_BUILD_BENCH=OFF >/dev/null
        "$cmake" --build "$work/build" --parallel "$(nproc)" >/dev/null
        "$cmake" --install "$work/build" --prefix "$prefix" >/dev/null
        [ -e "$prefix/lib/$wanted" ] || fail "$wanted is not installed"
        [ ! -e "$prefix/lib/$unwanted" ] || fail "$unwanted is installed"

        # shellcheck disable=SC2046
        PKG_CONFIG_PATH=$prefix/lib/pkgconfig "$cc" "$work/program.c" -o "$work/program" \
                $(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs weir) || fail "pkg-config does not suffice"
        LD_LIBRARY_PATH=$prefix/lib "$work/program" || fail "the program of pkg-config fails"

        "$cmake" -S "$work" -B "$work/outside-$value" -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
        "$cmake" --build "$work/outside-$value" >/dev/null || fail "weir::weir does not suffice"
        "$work/outside-$value/program" || fail "the program of CMake fails"
}

try OFF libweir.a libweir.so
try ON libweir.so libweir.a

echo "== without the reference"
rm -rf "$work/build/reference"
"$cmake" --install "$work/build" --prefix "$work/bare" >/dev/null || fail "pages that were not built are missed"
[ -e "$work/bare/lib/libweir.so" ] || fail "without the pages the library is not installed"
