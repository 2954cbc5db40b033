#!/bin/bash
# scripts/repeat.sh BUILD TIMES LOAD JOBS: runs the whole suite TIMES times beside LOAD busy loops.  Stops at the first run with a
# failure and shows what failed.
#
# A run that takes longer than RUN_LIMIT is a failure; ctest limits each test as well.
set -u
build=$1 times=$2 load=$3 jobs=$4
RUN_LIMIT=3600 # seconds
log=$(mktemp) || exit 1
loops=()

end() {
        [ ${#loops[@]} -eq 0 ] || kill "${loops[@]}" 2>/dev/null
        rm -f "$log"
}
trap end EXIT
trap 'exit 130' INT TERM

for ((i = 0; i < load; i++)); do
        while :; do :; done &
        loops+=($!)
done
began=$SECONDS
for ((run = 1; run <= times; run++)); do
        start=$SECONDS
        timeout --foreground --kill-after=10 "$RUN_LIMIT" \
                ctest --test-dir "$build" --parallel "$jobs" --output-on-failure --stop-on-failure >"$log" 2>&1
        status=$?
        if [ $status -ne 0 ]; then
                grep -v ' Passed \|^ *Start ' "$log" | tail -300
                echo "run $run of $times failed after $((SECONDS - start)) s (exit $status), beside $load busy loops" >&2
                exit 1
        fi
        echo "run $run of $times passed in $((SECONDS - start)) s"
done
echo "$times runs passed in $((SECONDS - began)) s, beside $load busy loops"
