#!/bin/bash
# /debug/flows of a program that hangs, as a browser shows it, with and without its script; and /metrics as its link finds it.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
need chromium curl python3

# browse TARGET [CHROMIUM'S ARGUMENTS]: the document as it is when its scripts have run, in $work/dom
browse() {
        timeout 120 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$work/browser" \
                --virtual-time-budget=1000 "${@:2}" --dump-dom "$url$1" >"$work/dom" 2>"$work/browser.log" ||
                { fail "chromium: $?"; tail -5 "$work/browser.log" >&2; }
}

# What a person would see: the text that is not hidden, without the script and the style, flow by flow.
shown() {
        python3 - "$work/dom" <<'PYTHON'
import html.parser, sys
class Page(html.parser.HTMLParser):
    skipped = 0
    void = {"meta", "input", "link", "br"}
    def handle_starttag(self, tag, attributes):
        if tag in self.void: return
        if self.skipped or tag in ("script", "style", "title") or "hidden" in dict(attributes): self.skipped += 1
    def handle_endtag(self, tag):
        if self.skipped: self.skipped -= 1
        if tag in ("tr", "tbody", "p", "h2"): print()
    def handle_data(self, data):
        if not self.skipped and data.strip(): print(data.strip(), end=" ")
Page().feed(open(sys.argv[1], encoding="utf-8").read())
PYTHON
}

# sees TEXT, sees_not TEXT: in $work/shown
sees() {
        grep -qF -- "$1" "$work/shown" || fail "the page does not show: $1"
}

sees_not() {
        ! grep -qF -- "$1" "$work/shown" || fail "the page shows: $1"
}

start_server ../test/e2e/hung_server

step "what hangs, and what it waits for"
browse /debug/flows
shown >"$work/shown"
sees "month end"
sees 'guard "ledger"'
sees 'held by series "nightly export"'
sees 'counter "uploads"'
sees "retry & wait"
sees "<script>document.title='broken'</script>"
grep -q '<title>Flows</title>' "$work/dom" || fail "a name has become a script that ran"
sees "every 2 s" # only its script shows that

step "the same without a script"
curl --silent --show-error --max-time 30 "$url/debug/flows" >"$work/dom" || fail "curl: $?"
shown >"$work/shown"
sees "nightly export"
sees "uploads"
sees_not "every 2 s"

step "what is looked for"
browse "/debug/flows?find=ledger"
shown >"$work/shown"
sees "month end"
sees_not "retry & wait"

# lay_out WIDTH HEIGHT: looks at $work/page.html in a frame of that size.  Its picture is $work/WIDTH.png; WEIR_TEST_PICTURES is a
# directory that keeps it.
lay_out() {
        python3 - "$work/page.html" "$(dirname "$0")/layout.js" "$@" >"$work/frame.html" <<'PYTHON'
import html, sys
page, script = [open(name, encoding="utf-8").read() for name in sys.argv[1:3]]
print(f"""<!DOCTYPE html><meta charset=utf-8><body style="margin:0"><iframe style="border:0;display:block" width={sys.argv[3]}
height={sys.argv[4]} srcdoc="{html.escape(page)}"></iframe><pre id=wrong></pre><script>{script}</script>""")
PYTHON
        url= browse "file://$work/frame.html" --window-size="$1,$2" --hide-scrollbars --screenshot="$work/$1.png"
        sed -n 's/.*<pre id="wrong">\([^<]*\)<.pre>.*/\1/p' "$work/dom" >"$work/shown"
        cat "$work/shown"
        sees "words of $1 px"
        sees "all is well"
        [ -s "$work/$1.png" ] || fail "no picture of $1 px"
        [ -z "${WEIR_TEST_PICTURES:-}" ] || cp "$work/$1.png" "$WEIR_TEST_PICTURES/"
}

step "on a phone and on a desk: nothing overflows, and no short word is broken"
for ((i = 0; i < 300; i++)); do
        curl --silent --max-time 30 "$url/debug/flows" >"$work/page.html"
        grep -q 'deadlock: ' "$work/page.html" && break
        sleep 0.1
done
grep -q 'deadlock: .*stock &lt;to&gt; orders' "$work/page.html" || fail "no deadlock is told"
grep -q '<tbody class' "$work/page.html" && fail "a flow is marked, but nothing is overdue"
lay_out 400 3200
lay_out 960 2000
lay_out 1280 1600

step "metrics"
get "$url/metrics"
expect "status" "$status" 200
grep -q '^weir_live_series [1-9]' "$work/body" || fail "no live series in the metrics"
grep -q "^weir_http_requests_total{server=\"127.0.0.1:${url##*:}\",code=\"200\"} [1-9]" "$work/body" || fail "no requests in the metrics"

step "who may not read"
get --header "X-Forwarded-For: 192.0.2.1" "$url/debug/flows"
expect "status of what a proxy has passed on" "$status" 403
get --header "Host: example.org" "$url/debug/flows"
expect "status of a page that took the name of this machine" "$status" 403

stop_server INT 0
exit $failed
