#!/bin/bash
# Runs the fuzz targets of a build with WEIR_FUZZ, one after the other: the seeds first, then what grows out of them.
#
#   test/fuzz/run.sh BUILD SECONDS [TARGET ...]     SECONDS for each target
#
# What has grown is kept in BUILD/corpus, so that the next run goes on from there.  An input that something is wrong with is put
# in BUILD/findings: it ends the run, and belongs into test/fuzz/seeds once it is mended.
set -euo pipefail

source=$(cd "$(dirname "$0")" && pwd)
build=${1:?} seconds=${2:?}
shift 2
cd "$source"
[ $# -gt 0 ] || set -- *_fuzz.c
targets=("${@%.c}")
cd - >/dev/null
mkdir -p "$build/findings"

run() {
        local name=$1

        shift
        "$build/test/fuzz/$name" -timeout=10 -max_len=8192 -artifact_prefix="$build/findings/$name-" "$@"
}

# What the fuzzer says, in one line; all of it when something is wrong.
report() {
        local name=$1 log=$build/$1.log

        shift
        if ! run "$name" "$@" >"$log" 2>&1; then
                tail -n 60 "$log"
                echo "$name: FAILED; what it found is in $build/findings, and all it said in $log" >&2
                exit 1
        fi
        echo "$name: $(grep -a DONE "$log" | tail -n 1), $(grep -a '^Done' "$log")"
}

for name in "${targets[@]}"; do
        report "$name" -runs=0 "$source/seeds/$name"
done
for name in "${targets[@]}"; do
        mkdir -p "$build/corpus/$name"
        report "$name" -max_total_time="$seconds" -dict="$source/$name.dict" "$build/corpus/$name" "$source/seeds/$name"
done
