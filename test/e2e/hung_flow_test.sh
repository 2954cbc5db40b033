#!/bin/bash
# A flow that hangs is found from /debug/flows alone, as docs/debugging.md says: what it shows of the page and of the dump is what there
# is, but for times.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

need curl python3

page=$(dirname "$0")/../../docs/debugging.md
socket=$work/socket

ask() {
        curl --silent --max-time 30 --unix-socket "$socket" "$@"
}

# The rows of the page as text: what, state, age, what it waits for, what it holds, what is behind.
rows() {
        ask "http://localhost/debug/flows?$1" | python3 -c '
import html, re, sys
for depth, row in re.findall(r"<tr class=d(\d+)><td>(.*?)</tr>", sys.stdin.read()):
        what, *others = [html.unescape(re.sub(r"<[^>]*>", "", cell)) for cell in re.split(r"(?=<td)", row)]
        cells = {title: html.unescape(text) for title, text in re.findall(r"data-is=\"([^\"]*)\"><bdi>(.*?)</bdi>", row)}
        state, age, behind = [cells.pop(title, "") for title in ("State", "Age", "Behind")]
        rest = list(cells.values()) + ([behind + " behind"] if behind else [])
        print(("%-24s %-8s %-6s %s" % ("  " * int(depth) + what, state, age, "; ".join(rest))).rstrip())'
}

# Whether all lines of that block of the document, the NUMBER-th that is text, are among those of standard input, whatever times they say.
expect_shown() {
        python3 -c '
import re, sys
def plain(line):
        return re.sub(r"\s+", " ", re.sub(r"\b\d+(\.\d+)? (s|ms|µs)\b", "TIME", line)).strip()
blocks = re.findall(r"\n```text\n(.*?)```", open(sys.argv[1], encoding="utf-8").read(), re.S)
there = {plain(line) for line in sys.stdin}
absent = [line for line in blocks[int(sys.argv[2])].splitlines() if plain(line) not in there]
sys.exit("not there: " + "; ".join(absent) if absent else 0)' "$page" "$1" || fail "block $1 of docs/debugging.md"
}

"$WEIR_BUILD/examples/hung-flow" "unix:$socket" >"$work/said" 2>"$log" &
server=$!
started[$server]=hung-flow
for ((i = 0; i < 300; i++)); do
        rows find=ledger 2>/dev/null | grep -q 'month end' && break
        sleep 0.1
done

step "the page says who waits for whom"
rows "" >"$work/rows"
cat "$work/rows"
expect_shown 0 <"$work/rows"

step "what has to do with the ledger, and nothing else"
rows find=uploads >"$work/rows"
expect_shown 1 <"$work/rows"
grep -q "month end" "$work/rows" && fail "another flow is shown"

step "the dump at a signal says the same"
kill -USR1 $server
for ((i = 0; i < 300; i++)); do
        [ "$(grep -c ledger "$log")" -ge 2 ] && break
        sleep 0.1
done
cat "$log"
expect_shown 2 <"$log"

step "once the one is cancelled the other goes on"
expect reply "$(ask --request POST "http://localhost/cancel?series=nightly%20export")" cancelled
for ((i = 0; i < 300; i++)); do
        grep -q "month end" "$work/said" && break
        sleep 0.1
done
expect said "$(cat "$work/said")" $'nightly export: cancelled\nmonth end: Success'

stop_server TERM 0
exit $failed
