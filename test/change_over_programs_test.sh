#!/bin/bash
# The programs that docs/coming-from-libuv.md shows run, and do what it says; those of libuv, where that was there for the build.
# Otherwise the test counts as skipped.
set -euo pipefail

programs=${WEIR_BUILD:?}/test/change_over

# A search that is given up has found something, and not all: unless the machine was busy, so several may be tried.
search() {
        local expected=$1 said

        shift
        for _ in {1..20}; do
                said=$("$@")
                if [[ $said =~ ^searched\ ([0-9]+)\ of\ 16\ pieces$expected$ ]] &&
                        ((BASH_REMATCH[1] > 0 && BASH_REMATCH[1] < 16)); then
                        echo "$said"
                        return
                fi
        done
        echo "$* says: $said" >&2
        exit 1
}

search ": cancelled" "$programs/search_with_weir"
search ": the time limit is over" "$programs/search_with_weir" deadline
if [ -x "$programs/search_with_uv" ]; then
        search "" "$programs/search_with_uv"
        said=$("$programs/uv_beside_weir")
        echo "$said"
        [ "$said" = "the sum of 100 squares is 338350" ]
else
        echo "skipped, because this was not there for the build: libuv"
        exit 77
fi
