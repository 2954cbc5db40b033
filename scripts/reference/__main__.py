"""The reference, from the comments of the public headers and the pages of docs/: manual pages and HTML.

    python3 scripts/reference OUTPUT VERSION      writes OUTPUT/man/man3, OUTPUT/man/man7 and OUTPUT/html

It needs Python 3.7 or later, and nothing else.
"""
import glob
import os
import sys
import time

sys.dont_write_bytecode = True

import headers  # noqa: E402
import man  # noqa: E402
import markdown  # noqa: E402
import web  # noqa: E402

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# What apropos(1) says of guides; of others, their titles.
WORDS = {
    "quick-start": "a session store in fifteen minutes",
    "cheat-sheet": "the library on a page",
    "installing": "from the source or packages, with CMake or pkg-config, glibc or musl",
    "flows": "series, parallels, graphs, races, retries, cancelling and deadlines",
    "fibers": "functions that await tasks, on stacks of their own",
    "timers": "timers by example",
    "time": "tickers, slack, clocks and lateness",
    "waiting": "counters, mailboxes, channels, guards and the like",
    "datagrams": "UDP: receiving, sending, asking, serving",
    "urls": "URLs: parsed, resolved, built and compared; forms",
    "http-server": "the HTTP server: limits, streaming bodies, TLS, files, restart",
    "recipes": "a daemon that stops in order, another context for a timer, Retry-After",
    "files": "reads, writes and syncs of files as tasks",
    "scheduler": "what callbacks may do, blocking, functions that compute",
    "debugging": "what hangs, traces, metrics",
    "testing-your-flows": "tests on the virtual clock",
    "contract": "what holds for programs",
    "own-tasks": "promises: tasks that the program ends",
}
# Pages that become HTML only.
NO_MANUAL = {"README", "benchmarks", "design", "glossary"}


def name_of(guide):
    return "weir-" + guide


def date():
    """Of the build, or what a reproducible build says it is."""
    return time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))


def overview(all_headers, manuals):
    """weir(7): the parts, and where they are described."""
    blocks = [("text", "weir is a library of asynchronous task flows for C on Linux: timers, HTTP exchanges and callbacks that are "
               "composed into series, parallels, graphs, races and retries.  Any thread can cancel timers and whole flows by name, and "
               "deadlines hold for everything inside a flow.  Each function has a manual page, which is that of its header.")]
    blocks += [("heading", 2, "HEADERS")]
    blocks += [("table", ["", ""], [[f"{header.name}(3)", header.title + "."] for header in all_headers])]
    blocks += [("heading", 2, "GUIDES")]
    blocks += [("table", ["", ""], [[f"{name_of(guide)}(7)", words + "."] for guide, words in manuals.items()])]
    return blocks


def main():
    output, version = sys.argv[1:]
    all_headers = [header for header in headers.read(os.path.join(SOURCE, "include", "weir")) if header.entries()]
    folder = os.path.join(SOURCE, "docs")
    guides = {name[:-3]: markdown.read(os.path.join(folder, name)) for name in sorted(os.listdir(folder)) if name.endswith(".md")}
    titles = {guide: next(block[2] for block in blocks if block[0] == "heading") for guide, blocks in guides.items()}
    manuals = {guide: WORDS.get(guide) or markdown.plain(titles[guide], True) for guide in guides if guide not in NO_MANUAL}
    tests = [os.path.join(SOURCE, "test", folder, "reference*_guide_test.c") for folder in ("", "addon")]
    samples = headers.examples([path for pattern in tests for path in sorted(glob.glob(pattern))])

    homes = headers.homes(all_headers)
    manual = man.Writer(os.path.join(output, "man"), date(), version, homes, headers.addons(SOURCE))
    for header in all_headers:
        related = [other.name for other in all_headers if other is not header and f"<weir/{other.file}>" in header.text]
        manual.header(header, related, samples.get(header.file))
    for guide, words in manuals.items():
        others = [(name_of(other), 7) for other in manuals if other != guide]
        manual.guide(name_of(guide), words, guides[guide], [("weir", 7)] + others)
    manual.guide("weir", "asynchronous task flows, timers and an HTTP server", overview(all_headers, manuals),
                 [(header.name, 3) for header in all_headers] + [(name_of(guide), 7) for guide in manuals])

    site = web.Writer(os.path.join(output, "html"), version, homes, [guide + ".md" for guide in guides])
    for header in all_headers:
        site.header(header, samples.get(header.file))
    for guide, blocks in guides.items():
        site.guide(os.path.join(folder, guide + ".md"), blocks)
    site.index([(guide + ".md", titles[guide]) for guide in guides if guide != "README"], all_headers)


main()
