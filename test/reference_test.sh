#!/bin/bash
# The manual pages and the HTML that are made of the headers and docs/: each public symbol has both, each page of a header has an
# example, man and mandoc have nothing to complain about, and links lead somewhere.  What is undocumented, test/documented_test.sh finds.
set -euo pipefail

source=${WEIR_SOURCE:?} build=${WEIR_BUILD:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
        echo "$*" >&2
        exit 1
}

SOURCE_DATE_EPOCH=1 python3 "$source/scripts/reference" "$work" 0.1.0 || fail "the reference cannot be made"
cd "$work/man"

echo "== a manual page for each function"
functions=$(cat "$source"/include/weir/*.h | sed -nE 's/^WEIR_API [^(]*[ *](weir_[a-z0-9_]+)\(.*/\1/p')
[ -n "$functions" ] || fail "no declaration was found in the public headers"
for function in $functions; do
        [ -e "man3/$function.3" ] || fail "$function has no manual page"
        page=$(sed -n 's/^\.so //p' "man3/$function.3")
        grep -q "\\\\fB.*$function(" "${page:-man3/$function.3}" || fail "the page of $function does not declare it"
done

echo "== a manual page for each other public symbol"
symbols=$(python3 - "$source" <<'PYTHON'
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1] + "/scripts/reference")
import headers
print("\n".join(headers.homes(headers.read(sys.argv[1] + "/include/weir"))))
PYTHON
)
for symbol in weir_http_server_config weir_task_fn WEIR_SEC WEIR_CAUSE_NONE WEIR_UNBOUNDED; do
        grep -qx "$symbol" <<<"$symbols" || fail "$symbol was not found in the headers"
done
for symbol in $symbols; do
        [ -e "man3/$symbol.3" ] || fail "$symbol has no manual page"
done

echo "== each page of a header has an example"
for header in "$source"/include/weir/*.h; do
        name=$(basename "$header" .h)
        case $name in weir | export) continue ;; esac
        page=man3/weir_$name.h.3
        [ -e "$page" ] || page=man3/weir_$name.3
        grep -q '^\.SH EXAMPLES' "$page" || fail "$page has no example"
done

echo "== the cheat sheet has its groups"
for group in $(sed -nE 's/^\| ([a-z]+) \| \|$/\1/p' "$source/docs/cheat-sheet.md"); do
        grep -q "^\.SS \"$group\"" man7/weir-cheat-sheet.7 || fail "weir-cheat-sheet(7) has no heading $group"
done

echo "== mandoc and man"
mapfile -t pages < <(grep -L '^\.so' man3/* man7/*)
[ "${#pages[@]}" -gt 40 ] || fail "there are only ${#pages[@]} pages"
mandoc -Tlint -W warning "${pages[@]}" || fail "mandoc complains"
for page in "${pages[@]}"; do
        LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" >/dev/null 2>"$work/said" || fail "man cannot read $page"
        [ ! -s "$work/said" ] || fail "$page: $(<"$work/said")"
done
# Markup that was taken for text, or text for markup.
for page in man3/weir_timer.3 man7/weir-timers.7; do
        MANWIDTH=80 mandoc -Tutf8 "$page" | sed 's/.\x08//g' >"$work/text"
        ! grep -nE '\\(&|f[BIP]|-|e)|\*\*|\]\(' "$work/text" || fail "$page shows markup"
done

echo "== HTML"
python3 - "$work/html" <<'PYTHON'
import os, sys
from html.parser import HTMLParser

VOID = {"meta", "img", "br"}
failures = []


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.path, self.open, self.ids, self.links = path, [], set(), []
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())
        if self.open:
            failures.append(f"{path}: <{self.open[-1]}> is never closed")

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag not in VOID:
            self.open.append(tag)
        if "id" in attributes:
            self.ids.add(attributes["id"])
        self.links += [attributes[name] for name in ("href", "src") if name in attributes]

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            failures.append(f"{self.path}:{self.getpos()[0]}: </{tag}> closes something else")


folder = sys.argv[1]
pages = {name: Page(os.path.join(folder, name)) for name in os.listdir(folder) if name.endswith(".html")}
for name, page in pages.items():
    for link in page.links:
        target, _, anchor = link.partition("#")
        target = target or name
        if link.startswith("http"):
            continue
        if not os.path.exists(os.path.join(folder, target)):
            failures.append(f"{name}: a link to {target}, which is not there")
        elif anchor and anchor not in pages[target].ids:
            failures.append(f"{name}: a link to {link}, which {target} does not have")
print("\n".join(failures))
sys.exit(1 if failures or len(pages) < 40 else 0)
PYTHON

echo "== what is installed"
env -u DESTDIR "${WEIR_CMAKE:-cmake}" --install "$build" --prefix "$work/installed" >/dev/null
MANPATH=$work/installed/share/man man -w 3 weir_timer_cancel >/dev/null || fail "man does not find weir_timer_cancel"
MANPATH=$work/installed/share/man man -w 3 weir_http_server_config >/dev/null || fail "man does not find weir_http_server_config"
MANPATH=$work/installed/share/man man -w 7 weir >/dev/null || fail "man does not find weir(7)"
[ -e "$work/installed/share/doc/weir/html/index.html" ] || fail "the HTML is not installed"
