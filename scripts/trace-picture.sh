#!/bin/bash
# Takes a picture of a trace in headless Chromium, without the network.
#
#   scripts/trace-picture.sh trace.json docs/trace.png
set -euo pipefail

trace=$(realpath "${1:?a trace is wanted}") picture=$(realpath -m "${2:?and where the picture is to go}")
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 - "$here/trace-picture.html" "$trace" "$work/page.html" <<'PYTHON'
import json, sys

page, trace, to = sys.argv[1:]
events = json.dumps(json.load(open(trace, encoding="utf-8"))).replace("<", "\\u003c")
text = open(page, encoding="utf-8").read()
open(to, "w", encoding="utf-8").write(text.replace("/*TRACE*/[]/*END*/", events))
PYTHON

browser() {
        timeout 60 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" "$@" 2>/dev/null
}
height=$(browser --dump-dom "file://$work/page.html" | sed -nE 's/.*<title>([0-9]+)<.*/\1/p' | head -1)
browser --hide-scrollbars --window-size="1570,$height" --screenshot="$picture" "file://$work/page.html" >/dev/null
[ -s "$picture" ]
