#!/bin/bash
# Each library beside libweir has all that a library needs, besides what the compiler and the other tests find: a page, a guide's
# test, a reference for its interface, a package, and the foreign library among the dependencies.
set -euo pipefail

source=${WEIR_SOURCE:?}
failed=0

# needs ADDON WHAT COMMAND...
needs() {
        local addon=$1 what=$2

        shift 2
        "$@" >/dev/null 2>&1 || { echo "libweir-$addon has no $what"; failed=1; }
}

cd "$source"
while read -r addon folder package; do
        needs "$addon" "header include/weir/$addon.h" test -e "include/weir/$addon.h"
        needs "$addon" "folder $folder" test -d "$folder"
        needs "$addon" "page docs/$addon.md" test -e "docs/$addon.md"
        needs "$addon" "line in docs/README.md" grep -q "($addon.md)" docs/README.md
        needs "$addon" "test/addon/reference_${addon}_guide_test.c" test -e "test/addon/reference_${addon}_guide_test.c"
        needs "$addon" "abi/libweir-$addon.abi: make abi" test -e "abi/libweir-$addon.abi"
        needs "$addon" "debian/libweir-${addon}0.symbols: make abi" test -e "debian/libweir-${addon}0.symbols"
        needs "$addon" "debian/libweir-${addon}0.install" test -e "debian/libweir-${addon}0.install"
        needs "$addon" "package in debian/control" grep -qx "Package: libweir-${addon}0" debian/control
        needs "$addon" "package among those that libweir-dev needs" grep -q "libweir-${addon}0 (= \${binary:Version})" debian/control
        [ "$package" = - ] || [ "$(sed -n "s/^weir_addon($addon .* \(lib[a-z0-9-]*-dev\).*/\1/p" CMakeLists.txt |
                xargs -I{} grep -c "package {} " scripts/dependencies.sh)" = 2 ] || {
                echo "scripts/dependencies.sh does not have the package of libweir-$addon twice: for the library, and for the check"
                failed=1
        }
done < <(scripts/addons.sh)
exit $failed
