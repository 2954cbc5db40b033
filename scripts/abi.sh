#!/bin/bash
# scripts/abi.sh [update|check [LIBRARY...]]: compares the interface of the public headers with abi/libweir.abi, and that of each
# library beside it with its own file there: that of the last release, or what has been agreed on since.  Programs that were linked
# against that one must run with this one.  Functions may be added, and abi/permitted says what else may change.  `update` makes this
# interface the reference, also in debian/*.symbols.  Without LIBRARY it is about all.  Sizes and offsets are those of one architecture:
# on another one than the reference's nothing is compared, and the exit status is 77.
#
# What is compared is a library of empty functions, made of the declarations: it has no types but public ones.  test/install_test.sh
# holds the real libraries to the same declarations.
set -euo pipefail

cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mapfile -t addons < <(scripts/addons.sh | cut -d' ' -f1)

cat >"$work/empty.py" <<'PYTHON'
import re, sys

for header in sys.argv[1:]:
    print(f"#include <{header[len('include/'):]}>")
for header in sys.argv[1:]:
    text = re.sub(r"/\*.*?\*/", "", open(header, encoding="utf-8").read(), flags=re.S)
    for declaration in re.findall(r"^WEIR_API ([^;]*);", text, re.M):
        print(re.sub(r"\s*__attribute__\(\(.*\)\)$", "", declaration) + "\n{\n        __builtin_trap();\n}")
PYTHON
# empty LIBRARY: makes it in the work folder: libweir of the headers that are of no add-on, libweir-sqlite of weir/sqlite.h.
empty() {
        local headers=() map=() header name

        if [ "$1" = libweir ]; then
                for header in include/weir/*.h; do
                        name=$(basename "$header" .h)
                        [[ " ${addons[*]} " == *" $name "* ]] || headers+=("$header")
                done
                map=("-Wl,--version-script=libweir.map")
        else
                headers=("include/weir/${1#libweir-}.h")
        fi
        python3 "$work/empty.py" "${headers[@]}" >"$work/empty.c"
        "${CC:-cc}" -g -ffile-prefix-map="$work"=. -shared -fPIC -w -I include "$work/empty.c" -o "$work/$1.so" -Wl,-soname,"$1.so.0" "${map[@]}"
}
# describe LIBRARY FILE
describe() {
        abidw --drop-undefined-syms --no-show-locs --no-corpus-path --no-comp-dir-path --no-elf-needed --type-id-style hash \
                --out-file "$2" "$work/$1.so"
}
architecture() {
        sed -nE "1s/.* architecture='([^']*)'.*/\1/p" "$1"
}

# update LIBRARY
update() {
        local symbols=debian/${1}0.symbols version symbol

        describe "$1" "abi/$1.abi"
        version=$(sed -nE '1s/.*\((.*)\).*/\1/p' debian/changelog)
        {
                echo "$1.so.0 ${1}0 #MINVER#"
                echo '* Build-Depends-Package: libweir-dev'
                # A symbol keeps the version that it came with.
                nm -D --defined-only "$work/$1.so" | awk '{ sub("@@", "@", $NF); print $NF ($NF ~ /@/ || $NF ~ /^WEIR_/ ? "" : "@Base") }' |
                        sed 's/^WEIR_.*/&@&/' | sort | while read -r symbol; do
                                grep -s "^ $symbol " "$symbols" || echo " $symbol $version"
                        done
        } >"$work/symbols"
        cp "$work/symbols" "$symbols"
}

# compare LIBRARY: 0, 1 if it breaks programs, or 77.
compare() {
        describe "$1" "$work/now.abi"
        if [ ! -e "abi/$1.abi" ]; then
                echo "there is no abi/$1.abi" >&2
                return 1
        fi
        if [ "$(architecture "$work/now.abi")" != "$(architecture "abi/$1.abi")" ]; then
                echo "not compared: abi/$1.abi is for $(architecture "abi/$1.abi"), this machine is $(architecture "$work/now.abi")"
                return 77
        fi
        abidiff --suppressions abi/permitted --no-added-syms "abi/$1.abi" "$work/now.abi" || return 1
}

libraries=("${@:2}")
[ ${#libraries[@]} -gt 0 ] || libraries=(libweir "${addons[@]/#/libweir-}")
status=0
for library in "${libraries[@]}"; do
        empty "$library"
        if [ "${1:-check}" = update ]; then
                update "$library"
                continue
        fi
        compared=0
        compare "$library" || compared=$?
        [ $compared -eq 0 ] || [ $status -eq 1 ] || status=$compared
done
if [ $status -eq 1 ]; then
        echo "Programs linked against the last release may break.  If no release has this interface yet, and it shall change:" >&2
        echo "    make abi" >&2
fi
exit $status
