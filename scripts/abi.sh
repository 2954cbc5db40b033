#!/bin/bash
# scripts/abi.sh [update]: compares the interface of the public headers with abi/libweir.abi: that of the last release, or what has been
# agreed on since.  Programs that were linked against that one must run with this one.  Functions may be added, and abi/permitted says
# what else may change.  `update` makes this interface the reference, also in debian/libweir0.symbols.  Sizes and offsets are those of
# one architecture: on another one than the reference's nothing is compared, and the exit status is 77.
#
# What is compared is a library of empty functions, made of the declarations: it has no types but public ones.  test/install_test.sh
# holds the real library to the same declarations.
set -euo pipefail

cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/empty.py" <<'PYTHON'
import glob, re

print("#include <weir/weir.h>")
for header in sorted(glob.glob("include/weir/*.h")):
    text = re.sub(r"/\*.*?\*/", "", open(header, encoding="utf-8").read(), flags=re.S)
    for declaration in re.findall(r"^WEIR_API ([^;]*);", text, re.M):
        print(re.sub(r"\s*__attribute__\(\(.*\)\)$", "", declaration) + "\n{\n        __builtin_trap();\n}")
PYTHON
python3 "$work/empty.py" >"$work/empty.c"
"${CC:-cc}" -g -ffile-prefix-map="$work"=. -shared -fPIC -w -I include "$work/empty.c" -o "$work/libweir.so" \
        -Wl,-soname,libweir.so.0 -Wl,--version-script=libweir.map
describe() {
        abidw --drop-undefined-syms --no-show-locs --no-corpus-path --no-comp-dir-path --no-elf-needed --type-id-style hash \
                --out-file "$1" "$work/libweir.so"
}

if [ "${1:-check}" = update ]; then
        describe abi/libweir.abi
        version=$(sed -nE '1s/.*\((.*)\).*/\1/p' debian/changelog)
        {
                echo 'libweir.so.0 libweir0 #MINVER#'
                echo '* Build-Depends-Package: libweir-dev'
                # A symbol keeps the version that it came with.
                nm -D --defined-only "$work/libweir.so" | awk '{ sub("@@", "@", $NF); print $NF }' | sed 's/^WEIR_.*/&@&/' | sort |
                        while read -r symbol; do
                                grep "^ $symbol " debian/libweir0.symbols || echo " $symbol $version"
                        done
        } >"$work/symbols"
        cp "$work/symbols" debian/libweir0.symbols
        exit
fi
describe "$work/now.abi"
architecture() {
        sed -nE "1s/.* architecture='([^']*)'.*/\1/p" "$1"
}
if [ "$(architecture "$work/now.abi")" != "$(architecture abi/libweir.abi)" ]; then
        echo "not compared: abi/libweir.abi is for $(architecture abi/libweir.abi), this machine is $(architecture "$work/now.abi")"
        exit 77
fi
if ! abidiff --suppressions abi/permitted --no-added-syms abi/libweir.abi "$work/now.abi"; then
        echo "Programs linked against the last release may break.  If no release has this interface yet, and it shall change:" >&2
        echo "    make abi" >&2
        exit 1
fi
