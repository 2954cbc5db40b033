#!/bin/bash
# scripts/addons.sh: the libraries beside libweir, as CMakeLists.txt says, one a line: its name, the folder of its sources, and what
# pkg-config calls the foreign library, or "-".
set -euo pipefail

cd "$(dirname "$0")/.."
sed -nE 's/^weir_addon\(([a-z0-9]+) ([^ ]+) "[^"]*" ([^ )]+).*/\1 \2\/\1 \3/p' CMakeLists.txt | sed 's, \./, ,'
