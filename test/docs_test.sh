#!/bin/bash
# The code that README.md and docs/ show is code that the tests run: each C block names the file it is quoted from in the line
# before it, <!-- tutorial/01-delay-server.c -->, and stands there word for word.
set -euo pipefail

cd "$WEIR_SOURCE"
python3 - README.md docs/*.md <<'PYTHON'
import re, sys

failures, quotes = [], 0
for page in sys.argv[1:]:
    text = open(page, encoding="utf-8").read()
    for block in re.finditer(r"([^\n]*)\n```c\n(.*?)```", text, re.S):
        named = re.fullmatch(r"<!-- (\S+) -->", block.group(1).strip())
        line = text[:block.start(2)].count("\n")
        if not named:
            failures.append(f"{page}:{line}: a C block that does not say which file it is quoted from")
        elif block.group(2) not in open(named.group(1), encoding="utf-8").read():
            failures.append(f"{page}:{line}: not word for word in {named.group(1)}")
        quotes += 1
    for link in re.finditer(r"\]\(([^)#:]+)(#[^)]*)?\)", text):
        base = page.rsplit("/", 1)[0] + "/" if "/" in page else ""
        try:
            open(base + link.group(1)).close()
        except IsADirectoryError:
            pass
        except OSError:
            failures.append(f"{page}: a link to {link.group(1)}, which is not there")
print("\n".join(failures))
if failures or not quotes:
    sys.exit("docs_test: %d faults, %d quotes" % (len(failures), quotes))
print(f"{quotes} quotes stand word for word where they come from")
PYTHON
