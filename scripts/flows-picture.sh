#!/bin/bash
# Takes a picture of /debug/flows in headless Chromium: of examples/hung-flow, a few seconds after its start.
#
#   scripts/flows-picture.sh build docs/flows.png
set -euo pipefail

build=$(realpath "${1:?the build is wanted}") picture=$(realpath -m "${2:?and where the picture is to go}")
work=$(mktemp -d)
"$build/examples/hung-flow" "unix:$work/socket" >/dev/null 2>&1 &
program=$!
trap 'kill $program; rm -rf "$work"' EXIT

sleep 9
curl --silent --show-error --unix-socket "$work/socket" 'http://localhost/debug/flows?find=ledger' >"$work/page.html"
timeout 60 chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" --force-device-scale-factor=1 \
        --window-size=1100,476 --screenshot="$picture" "file://$work/page.html" 2>/dev/null
[ -s "$picture" ]
