#!/bin/bash
# Each public symbol is documented, each function with each error that it returns, and is used in a program that people learn from:
# scripts/reference/check.py says how that is found out.  It finds what is left out.
set -euo pipefail

source=${WEIR_SOURCE:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 "$source/scripts/reference/check.py" || exit 1

mapfile -t addons < <("$source/scripts/addons.sh" | cut -d' ' -f2)
(cd "$source" && cp -r --parents CMakeLists.txt include kernel factory io protocol net client server proxy "${addons[@]}" tutorial scripts/reference "$work")
[ ! -d "$source/examples" ] || cp -r "$source/examples" "$work"
(cd "$source" && find test -name '*guide_test.c' -o -path 'test/change_over/*' -name '*.c') |
        (cd "$source" && xargs cp --parents -t "$work")

# finds FILE SED COMPLAINT: a copy of the tree with that change draws that complaint.  All changes are made before one check.
complaints=()
finds() {
        cp "$work/$1" "$work/before"
        sed -i "$2" "$work/$1"
        ! diff -q "$work/before" "$work/$1" >/dev/null || { echo "this changes nothing in $1: $2" >&2; exit 1; }
        complaints+=("$3")
}

finds include/weir/timer.h 's/^WEIR_END/\nWEIR_API int weir_task_more(void);\n\n&/' 'weir_task_more has no comment'
finds include/weir/timer.h 's/-EDOM for a task that is no timer; //' 'weir_timer_set_slack can return -EDOM'
finds include/weir/channel.h 's/0; -EALREADY when it was closed before/0; -EALRAEDY when it was closed before/' 'there is no -EALRAEDY'
finds include/weir/series.h 's/^ \* Result:  0; -EINVAL for a NULL series or an empty name;/ * Also/' 'weir_series_set_name can return -EINVAL'
# A function behind a macro that defines functions, a static inline function of a header that makes the error, and an error in errno.
finds include/weir/conditional.h 's/-EALREADY when it was signalled before; //' 'weir_condition_signal can return -EALREADY'
finds include/weir/conditional.h 's/-ENOMEM for NULL; -ECHILD in a forked/nothing else in a forked/' 'weir_condition_signal can return .*-ECHILD'
finds include/weir/watch.h 's/ -EPIPE when the watch is closed;//; s/-EPIPE/-EAGAIN/' 'weir_watch_set can return -EPIPE'
finds include/weir/rate.h 's/EEXIST (it exists and was/(it exists and was/' 'weir_rate_open can set errno to -EEXIST'
# The statuses of tasks.
finds include/weir/semaphore.h 's/-EPIPE: the semaphore is/the semaphore is/; s/-EPIPE when/when/; s/^ \* -EPIPE\./ * an error./' 'weir_semaphore_acquire_new can make a task that ends with.*-EPIPE'
finds include/weir/race.h 's/; -ENOENT without/; -ENODATA without/' 'weir_race_new can make a task that ends with.*-ENOENT'
finds include/weir/log.h 's/Result:  0; -ECHILD/Result:  0; -ENOMEM; -ECHILD/' 'no function there returns -ENOMEM'
# Symbols that are no functions.
finds include/weir/channel.h '/^\/\* The capacity of a channel that/d' 'WEIR_UNBOUNDED has no comment'
finds include/weir/ticker.h '/^\/\* How many missed ticks/d' 'WEIR_TICK_BURST_MOST has no comment'
finds include/weir/series.h '/^\/\* Why a series ended/d' 'weir_series_cause has no comment'
finds include/weir/log.h 's/WEIR_LOG_INFO = 2, .*/WEIR_LOG_INFO = 2,/' 'weir_log_level: WEIR_LOG_INFO has no comment'
finds include/weir/http_access.h 's/ int status; .*/ int status;/' 'weir_http_access: status has no comment'
finds include/weir/timer.h 's/^WEIR_END/\n\/* Nothing. *\/\nWEIR_API void weir_task_other(void);\n\n&/' 'weir_task_other is in no program'

! python3 "$work/scripts/reference/check.py" >"$work/said" || { echo "nothing was found" >&2; exit 1; }
for complaint in "${complaints[@]}"; do
        echo "== $complaint"
        grep -q "$complaint" "$work/said" || { cat "$work/said" >&2; echo "not found: $complaint" >&2; exit 1; }
done
