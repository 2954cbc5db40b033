#!/bin/bash
# Functions and objects that no other file needs are static: no other file of the library, no test, no bench.  The symbols of the
# object files tell who needs what.
set -euo pipefail

source=${WEIR_SOURCE:?}
build=${WEIR_BUILD:?}
compiler=${WEIR_CC:?}

# check BUILD SOURCE: prints each symbol weir__... that an object file of a library defines and no other object file needs; fails if
# there is one.  Objects without a source are left over from an older build.
check() (
        cd "$1"
        {
                find CMakeFiles/*_objects.dir -name '*.o' | while read -r file; do
                        name=${file#*.dir/}
                        [ ! -f "$2/${name%.o}" ] || echo "$file: defines"
                done
                find . -name '*.o' -printf '%P\0' | xargs -0 nm -A -P
        } | awk '
                $2 == "defines" && NF == 2 { definers[$1]; next }
                $3 ~ /^[Uwv]$/ { needed[$2] }
                $3 ~ /^[A-TVWu]$/ && $2 ~ /^weir__/ && $1 in definers { definer[$2] = $1 }
                END {
                        for (symbol in definer) {
                                if (symbol in needed)
                                        continue
                                failed = 1
                                sub(/.*_objects\.dir\//, "", definer[symbol])
                                sub(/\.o:$/, "", definer[symbol])
                                printf "%s: %s is needed by no other file; make it static, or delete it\n", definer[symbol], symbol
                        }
                        exit failed
                }'
)

# The check itself must be able to fail.  In a made-up tree b.c needs a of a.c, a test needs b, and nobody needs c.
proof=$(mktemp -d)
trap 'rm -rf "$proof"' EXIT
mkdir -p "$proof"/{CMakeFiles/library_objects.dir,test}
echo 'int weir__a; int weir__a;' >"$proof/a.c"
echo 'extern int weir__a; int weir__b(void); int weir__b(void) { return weir__a; }' >"$proof/b.c"
echo 'void weir__c(void); void weir__c(void) {} static int d; int *weir_d = &d;' >"$proof/c.c"
echo 'int weir__b(void); int main(void) { return weir__b(); }' >"$proof/test.c"
for name in a b c; do
        "$compiler" -O0 -c "$proof/$name.c" -o "$proof/CMakeFiles/library_objects.dir/$name.c.o"
done
"$compiler" -O0 -c "$proof/test.c" -o "$proof/test/test.c.o"
found=$(check "$proof" "$proof" || true)
[ "$found" = 'c.c: weir__c is needed by no other file; make it static, or delete it' ] || {
        printf 'the check of a made-up tree says:\n%s\n' "$found" >&2
        exit 1
}

check "$build" "$source"
