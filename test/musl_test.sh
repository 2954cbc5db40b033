#!/bin/bash
# The library builds without a warning with musl, and programs of the tutorial run with it, the HTTP server among them.
#
# The libraries that it needs are those of the system, made for glibc.  http-parser, zlib and c-ares do not mind.  OpenSSL is linked, but what
# it lacks is left out; so these programs use no TLS.
set -euo pipefail

source=${WEIR_SOURCE:?} cmake=${WEIR_CMAKE:-cmake}
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT

fail() {
        echo "$*" >&2
        exit 1
}

command -v musl-gcc >/dev/null || fail "musl-gcc is missing: on Debian, apt-get install musl-tools"
# Headers of the libraries and the kernel, without those of glibc.
multiarch=$(cc -print-multiarch)
mkdir "$work/include"
ln -s /usr/include/{http_parser.h,ares*.h,zlib.h,zconf.h,openssl,linux,asm-generic} "$work/include/"
ln -s "/usr/include/$multiarch/asm" "$work/include/"
# Of OpenSSL's, some lie with the architecture's.
mkdir "$work/arch"
[ ! -d "/usr/include/$multiarch/openssl" ] || ln -s "/usr/include/$multiarch/openssl" "$work/arch/"
[ ! -e "/usr/include/$multiarch/zconf.h" ] || ln -sf "/usr/include/$multiarch/zconf.h" "$work/include/"
# libgcc for glibc asks it for unwinding tables.
echo 'int _dl_find_object(void *address, void *result); int _dl_find_object(void *address, void *result) { (void)address, (void)result; return -1; }' >"$work/find.c"
musl-gcc -c "$work/find.c" -o "$work/find.o"
libraries=$(dirname "$(cc -print-file-name=libz.a)")

"$cmake" -S "$source" -B "$work/build" -DCMAKE_C_COMPILER=musl-gcc -DCMAKE_BUILD_TYPE=Debug -DBUILD_SHARED_LIBS=OFF -DWEIR_WERROR=ON \
        -DWEIR_BUILD_TESTS=OFF -DWEIR_BUILD_BENCH=OFF -DWEIR_BUILD_TUTORIAL=ON -DWEIR_BUILD_EXAMPLES=OFF -DWEIR_URING=OFF -DWEIR_BROTLI=OFF -DWEIR_ZSTD=OFF -DWEIR_PSL=OFF -DOPENSSL_USE_STATIC_LIBS=ON \
        -DCMAKE_C_FLAGS="-g0 -idirafter $work/include -idirafter $work/arch" \
        -DCMAKE_EXE_LINKER_FLAGS="-static -Wl,--unresolved-symbols=ignore-all $work/find.o" \
        -D{OPENSSL,HTTP_PARSER,ZLIB,CARES}_INCLUDE_DIR="$work/include" -DZLIB_LIBRARY="$libraries/libz.a" \
        -DOPENSSL_SSL_LIBRARY="$libraries/libssl.a" -DOPENSSL_CRYPTO_LIBRARY="$libraries/libcrypto.a" \
        -DHTTP_PARSER_LIBRARY="$libraries/libhttp_parser.a" -DCARES_LIBRARY="$libraries/libcares.a" >"$work/said" || fail "$(<"$work/said")"
programs=(02-series 03-named-timer 07-virtual-clock 09-go-tasks 16-graph 19-channel-pipeline)
"$cmake" --build "$work/build" --parallel "$(nproc)" --target tutorial-01-delay-server "${programs[@]/#/tutorial-}" >"$work/said" 2>&1 ||
        fail "$(tail -40 "$work/said")"

for program in "${programs[@]}"; do
        echo "== $program"
        timeout 60 "$work/build/tutorial/$program" >"$work/said" 2>&1 || fail "$program: $? $(tail "$work/said")"
        [ -s "$work/said" ] || fail "$program says nothing"
done

echo "== 01-delay-server"
"$work/build/tutorial/01-delay-server" "unix:$work/socket" &
server=$!
reply=$(curl --silent --retry 50 --retry-all-errors --retry-delay 1 --max-time 60 --unix-socket "$work/socket" http://x/) || fail "no reply"
[ "$reply" = "hello, one second late" ] || fail "the reply was: $reply"
kill "$server"
wait "$server" || fail "the server ended with $?"
server=
