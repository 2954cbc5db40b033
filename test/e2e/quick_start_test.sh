#!/bin/bash
# The commands that docs/quick-start.md shows print what it says, one after the other.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
need curl

page=$(realpath "$(dirname "$0")/../../docs/quick-start.md")
start_server ../examples/session-store
cd "$work"

commands=0 expected=
check() {
        [ -z "$command" ] || expect "$command" "$said" "${expected%$'\n'}"
}

command=
while IFS= read -r line; do
        if [[ $line == '$ '* ]]; then
                check
                command=${line#'$ '} expected=
                commands=$((commands + 1))
                step "$command"
                said=$(eval "${command//http:\/\/127.0.0.1:8888/$url} --max-time $patience")
        else
                expected+=$line$'\n'
        fi
done < <(sed -n '/^```text$/,/^```$/p' "$page" | grep -v '^```')
check
expect "commands of the page" "$commands" 5

stop_server INT 0
exit $failed
