#!/bin/bash
# What the build files promise: CMake 3.22 suffices, and the tutorial is numbered without a gap.  A file that cmake/ablate.cmake
# builds in the place of another defines what that one does, and a name that it defines for all files means one thing.
#
# CMake takes the policies of the version that cmake_minimum_required names, also when it is a newer one.  So it behaves as 3.22
# does, but for commands, properties and options that 3.22 does not have.  Those are looked for by name.
set -euo pipefail

source=${WEIR_SOURCE:?}
compiler=${WEIR_CC:?}
suffices=3.22
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What came with 3.23 and later, as a regular expression.
newer='\bblock *\(|\bendblock *\(|\bPROPAGATE\b|\bFILE_SET\b|\bHEADER_SETS?\b|\bVERIFY_INTERFACE_HEADER_SETS\b|\bGET_MESSAGE_LOG_LEVEL\b'
newer+='|\bPATH_EQUAL\b|\bLINK_LIBRARY:|\bLINK_GROUP:|\bCOMPILE_ONLY:|\bBUILD_LOCAL_INTERFACE:|\$<(LIST|PATH|QUOTE):|\bDEPENDS_EXPLICIT_ONLY\b'
newer+='|\bCOLOR_DIAGNOSTICS\b|\bCOMPILE_WARNING_AS_ERROR\b|\bLINKER_TYPE\b|\bOVERRIDE_FIND_PACKAGE\b|\bcmake_(file_api|instrumentation|diagnostic)\b'
newer+='|\bCODEGEN\b|\bTEST_LAUNCHER\b|\bSYSTEM_AND_GLOBAL\b|\bcmake_language *\( *EXIT\b|\bCMAKE_FIND_PACKAGE_TARGETS_GLOBAL\b'

# look DIRECTORY: prints what is wrong with the files below it.
look() {
        local files file version

        mapfile -t files < <(cd "$1" && find . \( -name CMakeLists.txt -o -name '*.cmake' -o -name '*.cmake.in' \) ! -path './build*' | sort)
        grep -q '^cmake_minimum_required(VERSION [0-9.]*)' "$1/CMakeLists.txt" || echo "CMakeLists.txt names no minimum"
        for file in "${files[@]}"; do
                while read -r version; do
                        [ "$(printf '%s\n' "$version" $suffices | sort -V | tail -1)" = $suffices ] || echo "$file wants CMake $version"
                done < <(sed -nE 's/^ *cmake_(minimum_required|policy) *\( *VERSION +([0-9.]+).*/\2/p' "$1/$file")
                grep -nE "$newer" "$1/$file" | sed "s|^|$file: newer than $suffices: |" || true
                grep -nE 'CMP0(12[9]|1[3-9][0-9]|[2-9][0-9][0-9])' "$1/$file" | sed "s|^|$file: a policy newer than $suffices: |" || true
        done
}

# finds WHAT FILE TEXT: a tree with that text appended has a fault.
finds() {
        rm -rf "${work:?}"/*
        cp "$source/CMakeLists.txt" "$work"
        echo "$3" >>"$work/$2"
        [ -n "$(look "$work")" ] || { echo "not found: $1" >&2; exit 1; }
}

echo "== CMake $suffices"
wrong=$(look "$source")
[ -z "$wrong" ] || { echo "$wrong" >&2; exit 1; }
grep -q "cmake (>= $suffices)" "$source/debian/control" || { echo "debian/control wants another CMake" >&2; exit 1; }
tr '\n' ' ' <"$source/CONTRIBUTING.md" | grep -q "CMake $suffices suffices" || { echo "CONTRIBUTING.md wants another CMake" >&2; exit 1; }
finds "a newer minimum" more.cmake 'cmake_minimum_required(VERSION 3.25)'
finds "newer policies" CMakeLists.txt 'cmake_policy(VERSION 3.28)'
finds "a newer command" CMakeLists.txt 'block(SCOPE_FOR VARIABLES)'
finds "a newer policy" more.cmake 'cmake_policy(SET CMP0135 NEW)'

# gaps DIRECTORY: what is wrong with the numbers of its programs.
gaps() {
        local expected=0 each number

        for each in "$1"/[0-9]*; do
                number=$(basename "$each")
                number=${number%%-*}
                expected=$((expected + 1))
                [ "$((10#$number))" -eq $expected ] || { echo "$(basename "$each"), where $expected is due"; return; }
        done
        [ $expected -gt 0 ] || echo "no tutorial is there"
}

echo "== the numbers of the tutorial"
wrong=$(gaps "$source/tutorial")
[ -z "$wrong" ] || { echo "$wrong" >&2; exit 1; }
rm -rf "${work:?}"/*
touch "$work/01-one.c" "$work/02-two.c"
[ -z "$(gaps "$work")" ] || { echo "a gap where there is none" >&2; exit 1; }
touch "$work/02-too.c"
[ -n "$(gaps "$work")" ] || { echo "not found: a number twice" >&2; exit 1; }
rm "$work"/02-*
touch "$work/03-three.c"
[ -n "$(gaps "$work")" ] || { echo "not found: a gap" >&2; exit 1; }

# symbols FILE: the external symbols that it defines.
symbols() {
        local object

        object=$(mktemp "$work/XXXXXX.o")
        "$compiler" -std=gnu11 -O1 -D_GNU_SOURCE -I"$source" -I"$source/include" -c "$1" -o "$object" || echo "$1 does not compile"
        nm --defined-only --extern-only --format=posix "$object" | cut -d' ' -f1 | sort
}

# differ FILE OTHER: the symbols that only one of them defines.
differ() {
        diff <(symbols "$1") <(symbols "$2") | grep '^[<>]' || true
}

echo "== files in the place of others"
rm -rf "${work:?}"/*
count=0
while read -r name file other; do
        wrong=$(differ "$source/$file" "$source/$other")
        [ -z "$wrong" ] || { printf 'WEIR_ABLATE=%s: not both of %s (<) and %s (>) define:\n%s\n' "$name" "$file" "$other" "$wrong" >&2; exit 1; }
        count=$((count + 1))
done < <(sed -nE 's/^set\(WEIR_INSTEAD_([a-z]+) ([^ ]+) ([^ ]+)\)$/\1 \2 \3/p' "$source/cmake/ablate.cmake")
[ $count -eq "$(grep -c '^set(WEIR_INSTEAD_' "$source/cmake/ablate.cmake")" ] && [ $count -gt 0 ] || { echo "not all pairs were read" >&2; exit 1; }
echo 'int one; static int two; int three(void) { return two; }' >"$work/one.c"
echo 'int one; int three(void) { return 3; }' >"$work/same.c"
echo 'int one;' >"$work/fewer.c"
[ -z "$(differ "$work/one.c" "$work/same.c")" ] || { echo "a difference where there is none" >&2; exit 1; }
[ -n "$(differ "$work/one.c" "$work/fewer.c")" ] || { echo "not found: a symbol that one of two files lacks" >&2; exit 1; }

# definers DIRECTORY NAME: how many files of the library define it for the preprocessor.
definers() {
        (cd "$1" && grep -rlE "^ *# *define +$2\b" kernel factory io protocol net client server proxy --include='*.[ch]' 2>/dev/null | wc -l)
}

echo "== definitions that leave something out"
names=$(sed -nE 's/^set\(WEIR_WITHOUT_[a-z]+ ([A-Z_]+)=.*/\1/p' "$source/cmake/ablate.cmake")
[ -n "$names" ] || { echo "no name was read" >&2; exit 1; }
for name in $names; do
        count=$(definers "$source" "$name")
        [ "$count" -eq 1 ] || { echo "$name of cmake/ablate.cmake is defined in $count files" >&2; exit 1; }
done
mkdir -p "$work"/{kernel,net}
echo '#define LIMIT 1' | tee "$work/kernel/a.c" >"$work/net/a.c"
[ "$(definers "$work" LIMIT)" -eq 2 ] || { echo "not found: a name with two meanings" >&2; exit 1; }
