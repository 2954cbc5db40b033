#!/bin/bash
# README.md, docs/ and the pages of bench/, examples/ and test/ show code that the tests run.  Each C block names the file that it
# is quoted from in the line before it, <!-- tutorial/01-delay-server.c -->, and stands there word for word.  Links lead somewhere.  A word
# that begins with weir_ is declared in a public header, or is the name of a metric.  No line is longer than 100 columns, but in
# blocks of the output of programs (```text) and in the tables of test/.  The indexes of docs/ and docs/decisions have each page.
#
# The reason of an abort that a page shows is expected by a test, word for word.  docs/design.md has at most 6,000 words.  README.md
# is one screen.  Its program is no quote:
# it compiles as it stands.
set -euo pipefail

cd "$WEIR_SOURCE"
python3 - *.md docs/*.md docs/decisions/*.md bench/README.md examples/README.md test/*/README.md <<'PYTHON'
import decimal, glob, os, re, subprocess, sys

failures, quotes = [], 0

def anchors(page):
    """The headings of a page, as links name them."""
    text = re.sub(r"```.*?```", "", open(page, encoding="utf-8").read(), flags=re.S)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", text, re.M)}

declared = set()
for header in glob.glob("include/weir/*.h"):
    declared |= set(re.findall(r"\bweir_\w+", open(header, encoding="utf-8").read()))
for source in [file for room in ("server", "client", "database", "durable") for file in glob.glob(room + "/**/*.c", recursive=True)]:
    text = open(source, encoding="utf-8").read()
    declared |= set(re.findall(r'"(weir_\w+)', text))
    for library in re.findall(r'\.library = "(\w+)"', text): # of database/figures.h
        declared |= {f"weir_{library}_{figure}" for figure in re.findall(r'\{"(\w+)", "', text)}
for page in sys.argv[1:]:
    text = open(page, encoding="utf-8").read()
    for block in re.finditer(r"([^\n]*)\n```c\n(.*?)```", text, re.S):
        named = re.fullmatch(r"<!-- (\S+) -->", block.group(1).strip())
        line = text[:block.start(2)].count("\n")
        if page == "README.md" and named is None and block.group(1).strip() == "<!-- a whole program -->":
            continue
        if not named:
            failures.append(f"{page}:{line}: a C block that does not say which file it is quoted from")
        elif block.group(2) not in open(named.group(1), encoding="utf-8").read():
            failures.append(f"{page}:{line}: not word for word in {named.group(1)}")
        quotes += 1
    prose = re.sub(r"```\w*\n.*?```", lambda block: "\n" * block.group().count("\n"), text, flags=re.S)
    ours = re.sub(r"```text\n.*?```", lambda block: "\n" * block.group().count("\n"), text, flags=re.S)
    if page.startswith("test/"):
        ours = re.sub(r"^\|.*", "", ours, flags=re.M)
    failures += [f"{page}:{number}: {len(line)} columns" for number, line in enumerate(ours.split("\n"), 1) if len(line) > 100]
    for path, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", prose):
        target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(target):
            failures.append(f"{page}: a link to {path}, which is not there")
        elif anchor and anchor not in anchors(target):
            failures.append(f"{page}: a link to #{anchor}, which {target} does not have")
    for word in re.finditer(r"(?<![\w/-])weir_(?!_|test_)[a-z0-9_]*[a-z0-9](?![\w*])", text):
        if word.group() not in declared:
            failures.append(f"{page}:{text[:word.start()].count(chr(10)) + 1}: {word.group()} is in no public header")
# Reasons of aborts.
tests = "".join(open(test, encoding="utf-8").read() for test in glob.glob("test/*.c") + glob.glob("test/addon/*.c")).replace('\\"', '"')
reasons = 0
for page in sys.argv[1:]:
    for number, line in enumerate(open(page, encoding="utf-8"), 1):
        reason = re.fullmatch(r"    (?:weir: )?((?:weir_\w+|a function that makes tasks): (?:.* was already |expected .* was given ).*)\n", line)
        reasons += 1 if reason else 0
        if reason and f'"{reason.group(1)}"' not in tests:
            failures.append(f"{page}:{number}: no test expects that reason of an abort")
if reasons < 4:
    failures.append(f"only {reasons} reasons of aborts were found")

# What a step's failure means stands in a box.
if "\n> **What a step's failure means.**" not in open("docs/flows.md", encoding="utf-8").read():
    failures.append("docs/flows.md: the rule of a step's failure is in no box")

readme = open("README.md", encoding="utf-8").read()
if not 50 <= readme.count("\n") <= 60:
    failures.append(f"README.md has {readme.count(chr(10))} lines: one screen is 50 to 60")
for wanted in ("docs/headline.svg", "docs/flows.png", "docs/installing.md", "man weir", "HTTP/2", "WebSocket"):
    if wanted not in readme:
        failures.append(f"README.md does not mention {wanted}")
program = re.search(r"<!-- a whole program -->\n```c\n(.*?)```", readme, re.S)
if not program:
    failures.append("README.md has no program")
elif program.group(1).count("\n") > 16:
    failures.append("the program of README.md is too long")
else:
    compiler = [os.environ.get("WEIR_CC", "cc"), "-Iinclude", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c", "-"]
    if subprocess.run(compiler, input=program.group(1), text=True).returncode:
        failures.append("the program of README.md does not compile as it stands")
if open("docs/cheat-sheet.md", encoding="utf-8").read().count(chr(10)) > 130:
    failures.append("docs/cheat-sheet.md is longer than a page of 130 lines")
examples = open("examples/README.md", encoding="utf-8").read()
for program in glob.glob("examples/*.c") + glob.glob("examples/*.cpp"):
    if f"**[{os.path.basename(program)}]" not in examples:
        failures.append(f"{program}: examples/README.md has no paragraph on it")
# Sentences that have misled.
misled = ["There is no interval", "nothing: the log names the callback", "wait until it is dropped, whatever their limit",
          "are used up: what has been counted", "unless something has ended it early", "may be late by 0.8 ms"]
for page in glob.glob("docs/*.md") + glob.glob("include/weir/*.h"):
    text = " ".join(open(page, encoding="utf-8").read().replace("\n *", " ").split())
    for sentence in misled:
        if sentence in text:
            failures.append(f"{page}: \"{sentence}\" has misled")
# What README.md and the page of benchmarks quote of the tables, whose figures `make bench` rewrites.
benchmarks = open("docs/benchmarks.md", encoding="utf-8").read()

def quote(bench, case):
    """The first row of a case in a group of tables: peer -> figure; and the commit that the group was measured at."""
    group = re.search(f"<!-- bench: {bench} -->\n(.*?)<!-- end -->", benchmarks, re.S).group(1)
    row = re.search(rf"^\|(.*)\|\n\|[-|]*\|\n(?:\|.*\n)*?\|( {re.escape(case)} \|.*)\|$", group, re.M)
    header, values = ([cell.strip() for cell in row.group(part).split("|")] for part in (1, 2))
    return dict(zip(header, values)), re.search(r"Measured at (\w+)", group).group(1)

def rounded(row, peer, digits=0):
    return str(decimal.Decimal(row[peer]).quantize(decimal.Decimal(10) ** -digits, decimal.ROUND_HALF_UP))

(named, measured), (unnamed, _) = quote("timers", "named, hot, N=1e3, 60 s"), quote("timers", "unnamed, hot, N=1e3, 60 s")
late, measured_late = quote("blocking", "1 callback sleeps")
by_name, by_name_go, by_id, by_id_go = (rounded(row, peer) for row in (named, unnamed) for peer in ("weir", "go"))
libuv = rounded(unnamed, "libuv")
late_by = (rounded(late, "weir", 1), rounded(late, "libuv"), rounded(late, "go", 1))
for text, page, quotation in (
        (readme, "README.md", f"CPU | {by_name} ns | {libuv} ns ² | 1.1 µs or more ³ | {by_name_go} ns |"),
        (readme, "README.md", f"weir {by_id}, Go {by_id_go}."),
        (readme, "README.md", "late by | %s ms | %s ms | 20 threads ¹ | %s ms |" % late_by),
        (benchmarks, "docs/benchmarks.md", f"CPU | {by_name} ns | no names | 1.1 µs or more | {by_name_go} ns |"),
        (benchmarks, "docs/benchmarks.md", f"id | {by_id} ns | {libuv} ns, on one thread only | | {by_id_go} ns |"),
        (benchmarks, "docs/benchmarks.md", f"of timers, measured at {measured},\n"
                                           f"and of callbacks that block, measured at {measured_late}.")):
    if quotation not in text:
        failures.append(f"{page} does not quote the tables of docs/benchmarks.md: {quotation}")
# The page that says how all works together is read in one sitting.
count = len(open("docs/design.md", encoding="utf-8").read().split())
if count > 6000:
    failures.append(f"docs/design.md has {count} words, which is more than 6,000")
# Indexes: the list of decisions in the order of their numbers, with a link for each, and the list of documents.
index = open("docs/decisions/README.md", encoding="utf-8").read()
pages = sorted(os.path.basename(page) for page in glob.glob("docs/decisions/[0-9]*.md"))
if re.findall(r"^- \[(\d{3})\]: .", index, re.M) != [page[:3] for page in pages]:
    failures.append("docs/decisions/README.md: the list is not that of the decisions, in the order of their numbers")
if re.findall(r"^\[\d{3}\]: .*", index, re.M) != [f"[{page[:3]}]: {page}" for page in pages]:
    failures.append("docs/decisions/README.md: the links are not those of the decisions, in the order of their numbers")
terms = [term.lower() for term in re.findall(r"^\| (.*?) \| ", open("docs/glossary.md", encoding="utf-8").read(), re.M)[1:]]
failures += [f"docs/glossary.md: {term} stands behind {before}" for before, term in zip(terms, terms[1:]) if term < before]
documents = open("docs/README.md", encoding="utf-8").read()
for page in glob.glob("docs/*.md"):
    if f"]({page[len('docs/'):]})" not in documents and page != "docs/README.md":
        failures.append(f"{page}: not in docs/README.md")
print("\n".join(failures))
if failures or not quotes:
    sys.exit("docs_test: %d faults, %d quotes" % (len(failures), quotes))
print(f"{quotes} quotes stand word for word where they come from")
PYTHON
