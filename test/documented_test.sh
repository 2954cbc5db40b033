#!/bin/bash
# Each public function is documented, with each error that it returns, and is used in a program that people learn from:
# scripts/reference/check.py says how that is found out.  It finds what is left out.
set -euo pipefail

source=${WEIR_SOURCE:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 "$source/scripts/reference/check.py" || exit 1

# finds FILE SED COMPLAINT: a copy of the tree with that change draws that complaint.
finds() {
        echo "== $3"
        rm -rf "${work:?}"/*
        (cd "$source" && cp -r --parents include kernel factory protocol server tutorial scripts/reference "$work")
        [ ! -d "$source/examples" ] || cp -r "$source/examples" "$work"
        (cd "$source" && find test -name '*guide_test.c' -o -path 'test/change_over/*' -name '*.c') |
                (cd "$source" && xargs cp --parents -t "$work")
        sed -i "$2" "$work/$1"
        ! diff -q "$source/$1" "$work/$1" >/dev/null || { echo "this changes nothing in $1: $2" >&2; exit 1; }
        ! python3 "$work/scripts/reference/check.py" >"$work/said" || { echo "not found: $3" >&2; exit 1; }
        grep -q "$3" "$work/said" || { cat "$work/said" >&2; exit 1; }
}

finds include/weir/timer.h 's/^WEIR_END/\nWEIR_API int weir_task_more(void);\n\n&/' 'weir_task_more has no comment'
finds include/weir/timer.h 's/-EDOM for a task that is no timer; //' 'weir_timer_set_slack can return -EDOM'
finds include/weir/channel.h 's/0; -EALREADY when it was closed before/0; -EALRAEDY when it was closed before/' 'there is no -EALRAEDY'
finds include/weir/series.h 's/^ \* Result:  0; -EINVAL for a NULL series or an empty name;/ * Also/' 'weir_series_set_name can return -EINVAL'
finds include/weir/timer.h 's/^WEIR_END/\n\/* Nothing. *\/\nWEIR_API void weir_task_more(void);\n\n&/' 'weir_task_more is in no program'
