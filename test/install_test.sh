#!/bin/bash
# The library as others get it: installed, moved, and used by programs outside the tree through pkg-config and through CMake.
# Nothing but weir_* is exported, and everything that a public header declares.
set -euo pipefail

build=${WEIR_BUILD:?} source=${WEIR_SOURCE:?} cc=${WEIR_CC:-cc} cmake=${WEIR_CMAKE:-cmake}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
        echo "$*" >&2
        exit 1
}

step() {
        echo "== $*"
}

step "install, then move"
env -u DESTDIR "$cmake" --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/installed"
prefix=$work/installed
[ -e "$prefix/include/weir/weir.h" ] || fail "weir/weir.h is not installed"
foreign=$(find "$prefix/include" -type f ! -path "$prefix/include/weir/*.h")
[ -z "$foreign" ] || fail "installed beside the public headers: $foreign"
library=$(find "$prefix" -name libweir.so)
[ -n "$library" ] || fail "libweir.so is not installed"
if grep -rlF -e "$source" -e "$build" "$prefix" --include='*.cmake' --include='*.pc' --include='*.h'; then
        fail "installed files name the tree they were built in"
fi

step "name and exported symbols"
readelf -d "$library" | grep -q 'SONAME.*\[libweir\.so\.0\.1\]' || fail "the SONAME is not libweir.so.0.1"
exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort)
strange=$(grep -vE '^weir_[a-z0-9]' <<<"$exported" || true)
[ -z "$strange" ] || fail "exported, but no part of the interface: $strange"
declared=$(sed -nE 's/^WEIR_API [^(]*[ *](weir_[a-z0-9_]+)\(.*/\1/p' "$prefix"/include/weir/*.h | sort)
[ -n "$declared" ] || fail "no declaration was found in the public headers"
absent=$(comm -13 <(echo "$exported") <(echo "$declared"))
[ -z "$absent" ] || fail "declared, but not exported: $absent"
extra=$(comm -23 <(echo "$exported") <(echo "$declared"))
[ -z "$extra" ] || fail "exported, but not declared: $extra"

mkdir "$work/outside"
cat >"$work/outside/program.c" <<'END'
#include <stdio.h>
#include <string.h>
#include <weir/weir.h>

static void
on_timer(weir_task *timer, void *context)
{
        *(int *)context = 100 + weir_task_status(timer);
}

int
main(void)
{
        weir_series *series = weir_series_new(NULL, NULL);
        int seen = 0;

        weir_series_push(series, weir_timer_new(WEIR_MSEC(1), on_timer, &seen));
        if (weir_series_run(series) != 0 || seen != 100) {
                return 1;
        }
        puts(weir_version());
        return weir_shutdown();
}
END
cat >"$work/outside/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(outside C)
find_package(weir 0.1 REQUIRED)
add_executable(with_shared program.c)
target_link_libraries(with_shared PRIVATE weir::weir)
add_executable(with_static program.c)
target_link_libraries(with_static PRIVATE weir::static)
END

export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name weir.pc)")
version=$(pkg-config --modversion weir)
expect() {
        [ "$1" = "$version" ] || fail "the program said \"$1\", not \"$version\""
}

cd "$work/outside"
step "pkg-config, shared"
# shellcheck disable=SC2046
"$cc" -std=c11 -Wall -Wextra -Werror program.c -o shared $(pkg-config --cflags --libs weir)
expect "$(LD_LIBRARY_PATH=$(dirname "$library") ./shared)"

step "pkg-config, static"
# shellcheck disable=SC2046
"$cc" -std=c11 program.c -o static $(pkg-config --cflags --libs --static weir | sed 's/-lweir/-l:libweir.a/')
expect "$(./static)"

step "find_package"
"$cmake" -S . -B build --log-level=WARNING -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix"
env -u MAKEFLAGS "$cmake" --build build >/dev/null
expect "$(build/with_shared)"
expect "$(build/with_static)"
