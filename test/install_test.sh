#!/bin/bash
# The library as others get it: installed by make, moved, and used by programs outside the tree through pkg-config and through CMake,
# with the lines that README.md and `make install` say.  Nothing but weir_* is exported, and everything that a public header declares.
set -euo pipefail

build=${WEIR_BUILD:?} source=${WEIR_SOURCE:?} cc=${WEIR_CC:-cc} cmake=${WEIR_CMAKE:-cmake}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset LD_LIBRARY_PATH PKG_CONFIG_PATH DESTDIR MAKEFLAGS

fail() {
        echo "$*" >&2
        exit 1
}

step() {
        echo "== $*"
}

# What is built already is installed.
make_install() {
        make --no-print-directory -C "$source" -o library install BUILD="$build" "$@" >"$work/said" || fail "make install $* failed"
}

step "install, then move"
make_install PREFIX="$work/first"
mv "$work/first" "$work/installed"
prefix=$work/installed
[ -e "$prefix/include/weir/weir.h" ] || fail "weir/weir.h is not installed"
[ -e "$prefix/share/weir/weir-gdb.py" ] || fail "weir-gdb.py is not installed"
foreign=$(find "$prefix/include" -type f ! -path "$prefix/include/weir/*.h")
[ -z "$foreign" ] || fail "installed beside the public headers: $foreign"
library=$(find "$prefix" -name libweir.so)
[ -n "$library" ] || fail "libweir.so is not installed"
real=$(readlink -f "$library")
[ -e "$prefix/share/gdb/auto-load$work/first${real#"$prefix"}-gdb.py" ] || fail "gdb would not load weir-gdb.py"
if grep -rlF -e "$source" -e "$build" "$prefix" --include='*.cmake' --include='*.pc' --include='*.h'; then
        fail "installed files name the tree they were built in"
fi

step "names and exported symbols"
# The libraries beside libweir that are built, and whose foreign library is there.
known=() addons=()
while read -r addon _ package; do
        known+=("$addon")
        if [ -e "${library%/*}/libweir-$addon.so" ]; then
                addons+=("$addon")
        elif [ "$package" = - ] || pkg-config --exists "$package"; then
                fail "libweir-$addon.so is not installed"
        fi
done < <("$source/scripts/addons.sh")
declared() {
        sed -nE 's/^WEIR_API [^(]*[ *](weir_[a-z0-9_]+)\(.*/\1/p' "$@" | sort
}
# exports LIBRARY HEADER...: it exports what these headers declare, and nothing else.
exports() {
        local name=$1 exported strange declared absent extra

        shift
        readelf -d "${library%/*}/$name.so" | grep -q "SONAME.*\[${name//./\\.}\.so\.0\]" || fail "the SONAME is not $name.so.0"
        exported=$(nm -D --defined-only "${library%/*}/$name.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort)
        strange=$(grep -vE '^weir_[a-z0-9]' <<<"$exported" || true)
        [ -z "$strange" ] || fail "$name exports what is no part of the interface: $strange"
        declared=$(declared "$@")
        [ -n "$declared" ] || fail "no declaration was found in $*"
        absent=$(comm -13 <(echo "$exported") <(echo "$declared"))
        [ -z "$absent" ] || fail "declared, but not exported by $name: $absent"
        extra=$(comm -23 <(echo "$exported") <(echo "$declared"))
        [ -z "$extra" ] || fail "exported by $name, but not declared: $extra"
}
mapfile -t headers < <(find "$prefix/include/weir" -name '*.h' | grep -vE "/weir/($(IFS='|'; echo "${known[*]:-none}"))\.h$")
exports libweir "${headers[@]}"
for addon in "${addons[@]}"; do
        exports "libweir-$addon" "$prefix/include/weir/$addon.h"
done

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
cmake_minimum_required(VERSION 3.22)
project(outside C)
find_package(weir 0.1 REQUIRED)
add_executable(with_shared program.c)
target_link_libraries(with_shared PRIVATE weir::weir)
add_executable(with_static program.c)
target_link_libraries(with_static PRIVATE weir::static)
END

# program_of ADDON...: a program of libraries beside libweir that needs all that their headers declare.
program_of() {
        printf '#include <stdio.h>\n#include <weir/weir.h>\n'
        printf '#include <weir/%s.h>\n' "$@"
        printf '\nstatic void *const all[] = {\n'
        for addon; do
                declared "$prefix/include/weir/$addon.h" | sed 's/.*/        (void *)&,/'
        done
        printf '};\n\nint\nmain(void)\n{\n        puts(all[0] ? weir_version() : "");\n        return 0;\n}\n'
}

for addon in "${addons[@]}"; do
        program_of "$addon" >"$work/outside/of_$addon.c"
        cat >>"$work/outside/CMakeLists.txt" <<END
add_executable(of_$addon of_$addon.c)
target_link_libraries(of_$addon PRIVATE weir::$addon)
add_executable(of_${addon}_static of_$addon.c)
target_link_libraries(of_${addon}_static PRIVATE weir::${addon}_static)
END
done

# One program has all of them: some have files in common.
if [ ${#addons[@]} -gt 0 ]; then
        program_of "${addons[@]}" >"$work/outside/of_all.c"
        cat >>"$work/outside/CMakeLists.txt" <<END
add_executable(of_all_static of_all.c)
target_link_libraries(of_all_static PRIVATE $(printf 'weir::%s_static ' "${addons[@]}"))
END
fi

pkgconfig=$(dirname "$(find "$prefix" -name weir.pc)")
version=$(PKG_CONFIG_PATH=$pkgconfig pkg-config --modversion weir)
debian=$(sed -nE '1s/.*\((.*)\).*/\1/p' "$source/debian/changelog")
[ "$debian" = "$version" ] || fail "debian/changelog has $debian, CMakeLists.txt $version"
expect() {
        [ "$1" = "$version" ] || fail "the program said \"$1\", not \"$version\""
}

# Compiles program.c by a line that users are told, with the compiler of this build, and runs what it makes.
follow() {
        local line=$1 wanted

        wanted=$(sed -nE 's/.* -o +([^ ]+).*/\1/p' <<<"$line")
        wanted=${wanted:-a.out}
        rm -f "$wanted"
        cp program.c "$(grep -oE '[a-z0-9_-]+\.c\b' <<<"$line" | head -1)" 2>/dev/null || true
        cc() {
                command "$cc" -std=gnu11 "$@"
        }
        eval "$line" || fail "this line fails: $line"
        expect "$("./$wanted")"
}

cd "$work/outside"
step "a prefix that the loader does not search: the line that make install says"
make_install PREFIX="$work/elsewhere"
grep -q "LD_LIBRARY_PATH=$work/elsewhere/lib" "$work/said" || fail "make install did not name LD_LIBRARY_PATH: $(<"$work/said")"
follow "$(grep '^    cc ' "$work/said")"

step "a DESTDIR"
make_install PREFIX=/usr/local DESTDIR="$work/stage"
[ -e "$work/stage/usr/local/include/weir/weir.h" ] || fail "DESTDIR has no headers"
grep -q 'ldconfig has to run' "$work/said" || fail "make install did not speak of the staged tree: $(<"$work/said")"

step "paths with spaces"
ln -s "$build" "$work/a build"
make_install BUILD="$work/a build" PREFIX="$work/a prefix"
[ -e "$work/a prefix/include/weir/weir.h" ] || fail "nothing is in a prefix with a space"
[ -n "$(find "$work/a prefix" -name libweir.so)" ] || fail "no library is in a prefix with a space"

step "pkg-config, shared"
export PKG_CONFIG_PATH=$pkgconfig
# shellcheck disable=SC2046
"$cc" -std=c11 -Wall -Wextra -Werror program.c -o shared $(pkg-config --cflags --libs weir)
expect "$(LD_LIBRARY_PATH=$(dirname "$library") ./shared)"

step "pkg-config, static library"
# shellcheck disable=SC2046
"$cc" -std=c11 program.c -o static $(pkg-config --cflags --libs --static weir | sed 's/-lweir/-l:libweir.a/')
expect "$(./static)"

for addon in "${addons[@]}"; do
        step "pkg-config, weir-$addon"
        # shellcheck disable=SC2046
        "$cc" -std=c11 "of_$addon.c" -o "of_$addon" $(pkg-config --cflags --libs "weir-$addon")
        expect "$(LD_LIBRARY_PATH=$(dirname "$library") "./of_$addon")"
        # What libpq.pc names for static programs comes with no package that libpq-dev needs.
        case "$addon $(pkg-config --print-requires "weir-$addon" | tr '\n' ' ')" in
        pq* | *weir-pq*) continue ;;
        esac
        # shellcheck disable=SC2046
        "$cc" -std=c11 "of_$addon.c" -o "of_$addon" $(pkg-config --cflags --libs --static "weir-$addon" | sed -E 's/-l(weir[a-z0-9-]*)/-l:lib\1.a/g')
        expect "$("./of_$addon")"
done

step "pkg-config, static program"
# The linker warns that getaddrinfo of a static glibc needs the shared one.
# shellcheck disable=SC2046
"$cc" -std=c11 -static program.c -o all_static $(pkg-config --cflags --libs --static weir) 2>"$work/linked" ||
        fail "$(<"$work/linked")"
readelf -d all_static | grep -q NEEDED && fail "the static program needs shared libraries"
expect "$(./all_static)"

step "find_package"
"$cmake" -S . -B build -G "Unix Makefiles" --log-level=WARNING -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix"
env -u MAKEFLAGS "$cmake" --build build >/dev/null
expect "$(build/with_shared)"
expect "$(build/with_static)"
for addon in "${addons[@]}"; do
        expect "$("build/of_$addon")"
        expect "$("build/of_${addon}_static")"
done
[ ${#addons[@]} = 0 ] || expect "$(build/of_all_static)"

# The library itself is named by path in one and by name in the other.  glibc 2.34 and later has threads and dl in libc.
flags() {
        tr -s ' \n' '\n' | sed -E "s#^(-isystem|-I) *##; s#^-Wl,-rpath,.*##; s#^.*/lib([a-z_]+)\.(so|a)[.0-9]*\$#-l\1#; s#^-l:lib([a-z_]+)\.a#-l\1#" |
                sed -E '/^-L/d; /^-(lpthread|pthread|ldl|lc)$/d; /^$/d' | sed "s#$prefix/lib/pkgconfig/../..#$prefix#" | sort -u
}
# of TARGET: what CMake adds to the program.
of_cmake() {
        sed -nE 's/^C_(DEFINES|INCLUDES|FLAGS) = //p' "build/CMakeFiles/$1.dir/flags.make" | sed 's/-isystem //g'
        sed -E "s#.*-o $1##" "build/CMakeFiles/$1.dir/link.txt"
}
step "pkg-config and CMake give the same flags"
diff <(pkg-config --cflags --libs weir | flags) <(of_cmake with_shared | flags) || fail "they differ for the shared library"
diff <(pkg-config --cflags --libs --static weir | flags) <(of_cmake with_static | flags) || fail "they differ for the static library"
unset PKG_CONFIG_PATH

step "make build says which examples are left out"
"$cmake" -S "$source" -B "$work/bare" -DCMAKE_C_COMPILER="$cc" -DWEIR_BUILD_TESTS=OFF -DWEIR_BUILD_BENCH=OFF -DWEIR_BUILD_TUTORIAL=OFF \
        -DPKG_CONFIG_EXECUTABLE=false >/dev/null 2>&1 || fail "no configuration"
WEIR_INSTALL=no make --no-print-directory -C "$source" build BUILD="$work/bare" build=: >"$work/said" 2>&1 || fail "$(<"$work/said")"
for left_out in "glib-embed needs GLib" "guest-book needs SQLite"; do
        grep -q "^left out: example $left_out" "$work/said" || fail "it does not say that $left_out: $(<"$work/said")"
done

# From here on in mount namespaces of its own, where root may have them.
if ! unshare -m true 2>/dev/null; then
        echo "not tested, because this user may have no mount namespace: /usr/local, and a machine without CUnit"
        exit 0
fi
export -f fail step expect follow make_install
export build source cc cmake work version

step "/usr/local: the line of README.md"
line=$(grep -E '^ *cc .*pkg-config' "$source/README.md" | head -1)
[ -n "$line" ] || fail "README.md does not say how to compile a program"
LINE=$line unshare -m bash -euo pipefail -c '
        mount -t tmpfs tmpfs /usr/local
        mkdir "$work/etc"
        mount -t tmpfs tmpfs "$work/etc"
        cp -a /etc/. "$work/etc"
        mount --bind "$work/etc" /etc
        [ ! -d /var/cache/ldconfig ] || mount -t tmpfs tmpfs /var/cache/ldconfig
        make_install PREFIX=/usr/local
        ! grep rpath "$work/said" || fail "make install has not let the loader find the library"
        follow "$(grep "^    cc " "$work/said")"
        follow "$LINE"
'

step "no CUnit: all but the tests"
unshare -m bash -euo pipefail -c '
        [ -d /usr/include/CUnit ] || exit 0
        mount -t tmpfs tmpfs /usr/include/CUnit
        export WEIR_INSTALL=no
        cd "$source"
        scripts/dependencies.sh library || fail "the library needs CUnit"
        scripts/dependencies.sh library build 2>"$work/said" || fail "make build does not go on without CUnit"
        grep -q "apt-get install .*libcunit1-dev" "$work/said" || fail "make build does not say what is missing: $(<"$work/said")"
        ! scripts/dependencies.sh library check 2>/dev/null || fail "make check goes on without CUnit"
        "$cmake" -S . -B "$work/untested" -DCMAKE_C_COMPILER="$cc" -DWEIR_BUILD_BENCH=OFF >/dev/null || fail "no configuration without CUnit"
        ! "$cmake" -S . -B "$work/tested" -DCMAKE_C_COMPILER="$cc" -DWEIR_BUILD_TESTS=ON >/dev/null 2>&1 || fail "WEIR_BUILD_TESTS=ON is ignored"
        mount -t tmpfs tmpfs /usr/include/openssl
        ! scripts/dependencies.sh library 2>"$work/said" || fail "a library without OpenSSL"
        grep -q "apt-get install .*libssl-dev" "$work/said" || fail "it does not say that libssl-dev is missing: $(<"$work/said")"
'
