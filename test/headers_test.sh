#!/bin/bash
# Every public header compiles alone, twice over, as C11, C17 and C++17 without a warning; none of them brings in OpenSSL,
# http-parser or zlib; the umbrella header brings in all of them.
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
umbrella=$(echo '#include <weir/weir.h>' | "$cc" -M -x c -I "$source/include" -)
for header in $headers; do
        compiles "$header" "$cc" c c11 || fail "$header does not compile alone as C11"
        compiles "$header" "$cc" c c17 || fail "$header does not compile alone as C17"
        compiles "$header" "$cxx" c++ c++17 || fail "$header does not compile alone as C++17"
        if "$cc" -M -x c -I "$source/include" "$source/include/$header" | grep -E 'openssl|http_parser|zlib'; then
                fail "$header includes what only the library may see"
        fi
        [[ $umbrella == *"/$header"* ]] || fail "weir/weir.h does not include $header"
done
exit $failed
