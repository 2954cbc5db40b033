#!/bin/bash
# docs/headline.svg, which README.md shows, is made of the figures that docs/benchmarks.md has now.
set -euo pipefail

cd "${WEIR_SOURCE:?}"
scripts/headline-picture - | cmp - docs/headline.svg || {
        echo "docs/headline.svg is out of date: run scripts/headline-picture docs/headline.svg" >&2
        exit 1
}
# It can fail: other figures make another picture.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/docs" "$work/scripts"
cp scripts/headline-picture "$work/scripts"
sed 's/^\(| delay 1 s, steady, c=19500 | resident MB |\) [0-9.]*/\1 1234/' docs/benchmarks.md >"$work/docs/benchmarks.md"
"$work/scripts/headline-picture" - >"$work/picture"
grep -q '1234 MB' "$work/picture" || { echo "the picture does not show the figures of the page" >&2; exit 1; }
echo "docs/headline.svg has the figures of docs/benchmarks.md"
