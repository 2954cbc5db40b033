#!/bin/bash
# The interface is compatible with the reference in abi/, and scripts/abi.sh sees what breaks programs, and only that.
set -euo pipefail

source=${WEIR_SOURCE:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CC=${WEIR_CC:-cc}

compared=0
"$source/scripts/abi.sh" || compared=$?
[ $compared -eq 0 ] || [ $compared -eq 77 ] || exit 1

# change SED FILE [LIBRARY]: what abi.sh finds after that change to a header.
change() {
        rm -rf "${work:?}"/*
        mkdir "$work/scripts"
        cp -r "$source/include" "$source/libweir.map" "$source/abi" "$source/CMakeLists.txt" "$work"
        cp "$source/scripts/abi.sh" "$source/scripts/addons.sh" "$work/scripts"
        # What is compared with is this tree's: other changes since the reference are not this test's concern.
        mkdir "$work/debian"
        cp "$source/debian/changelog" "$source"/debian/*.symbols "$work/debian"
        "$work/scripts/abi.sh" update "${3:-libweir}"
        sed -i "$1" "$work/include/weir/$2"
        ! diff -q "$work/include/weir/$2" "$source/include/weir/$2" >/dev/null || {
                echo "this changes nothing in $2: $1" >&2
                exit 1
        }
        "$work/scripts/abi.sh" check "${3:-libweir}" >"$work/found" 2>&1
}

breaks() {
        echo "== breaks: $1"
        ! change "$2" "$3" "${4:-}" || { echo "$1: not found" >&2; exit 1; }
        grep -q 'may break' "$work/found" || { cat "$work/found" >&2; exit 1; }
}

keeps() {
        echo "== keeps: $1"
        change "$2" "$3" || { cat "$work/found" >&2; exit 1; }
}

breaks "a function removed" '/^WEIR_API size_t weir_timer_count(/d' timer.h
breaks "the type of a parameter" 's/weir_timer_cancel(const char \*name, size_t max)/weir_timer_cancel(const char *name, int max)/' timer.h
breaks "the value of a constant" 's/WEIR_LOG_INFO = 2/WEIR_LOG_INFO = 5/' log.h
breaks "a field before others" 's/^        size_t size; .*set by WEIR_HTTP_COOKIE_DEFAULT/        int before;\n&/' http_cookie.h
breaks "a field of a struct without size" '/^struct weir_timer_info {/,/^};/s/^};/        int more;\n};/' timer.h
keeps "a field at the end of a struct with size" '/^struct weir_http_cookie {/,/^};/s/^};/        int more;\n        int yet_more;\n};/' http_cookie.h
keeps "a function added" 's/^WEIR_END/WEIR_API int weir_timer_more(int number);\n&/' timer.h

# The libraries beside libweir have files of their own.
for addon in $("$source/scripts/addons.sh" | cut -d' ' -f1); do
        first=$(sed -nE '/^WEIR_API .*;$/{s/^WEIR_API .*[ *](weir_[a-z0-9_]+)\(.*/\1/p;q}' "$source/include/weir/$addon.h")
        breaks "a function of $addon removed" "/^WEIR_API .*$first(.*;\$/d" "$addon.h" "libweir-$addon"
        grep -q "abi/libweir-$addon.abi" "$work/found" || grep -q "$first" "$work/found" || { cat "$work/found" >&2; exit 1; }
        ! grep -q "$first" "$source/abi/libweir.abi" || { echo "abi/libweir.abi has $first" >&2; exit 1; }
done

echo "== another architecture"
keeps "nothing" 's/^WEIR_END/\n&/' timer.h
sed -i "1s/architecture='[^']*'/architecture='elf-other'/" "$work/abi/libweir.abi"
other=0
"$work/scripts/abi.sh" check libweir >"$work/found" 2>&1 || other=$?
[ $other -eq 77 ] && grep -q 'is for elf-other' "$work/found" || { cat "$work/found" >&2; exit 1; }
exit $compared
