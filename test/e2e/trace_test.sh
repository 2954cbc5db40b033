#!/bin/bash
# tutorial/15-trace: its trace is read by another reader than the library's tests, and tells what the program did.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

step "the program says what it did"
"$tutorial/15-trace" "$work/trace.json" >"$work/out" || fail "exit status of 15-trace: $?"
expect "its last line" "$(tail -n 1 "$work/out")" "the trace is in $work/trace.json; 0 events were left out"

step "the trace is JSON, and has what was to be seen"
python3 - "$work/trace.json" <<'PYTHON' || fail "the trace is not right"
import collections, json, sys

def once(pairs):
    assert len(pairs) == len(dict(pairs)), pairs
    return dict(pairs)

events = json.load(open(sys.argv[1], encoding="utf-8"), object_pairs_hook=once)
slices = [event for event in events if event["ph"] == "X"]
names = collections.Counter(event["name"] for event in slices)
tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
for name, count in {'timer "order "7""': 1, 'function\'s body "add up"': 2, "function": 2, 'timer "pack"': 1, "parallel": 1,
                    'timer "ask"': 1, 'timer "ask politely"': 1, "series": 1}.items():
    assert names[name] == count, (name, names)
assert names['ticker "beat"'] > 0, names
assert all(event["tid"] in tracks for event in slices), tracks
assert {name.rstrip("0123456789") for name in tracks.values()} >= {"weir/", "weir/go"}, tracks
lost = {event["name"] for event in slices if event["args"].get("lost_poller")}
assert 'timer "ask politely"' in lost, lost  # the other one's is taken unless the machine is too busy for the watchdog
ends = {event["id"]: event for event in events if event["ph"] == "f"}
starts = {event["id"]: event for event in events if event["ph"] == "s"}
assert ends.keys() == starts.keys() and all(starts[id]["ts"] <= ends[id]["ts"] for id in ends)
assert collections.Counter(event["name"] for event in starts.values())["next"] >= 9, starts
assert any(event["name"] == "hand-over" for event in starts.values())
PYTHON

step "where it cannot write it says so"
"$tutorial/15-trace" /nowhere/trace.json >"$work/out" 2>"$work/err" && fail "it writes nowhere"
expect "what it says" "$(cat "$work/err")" "15-trace: -ENOENT: there is no such file, name, entry or inherited socket"

exit $failed
