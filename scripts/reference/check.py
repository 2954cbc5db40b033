"""What the public headers leave out.

    python3 scripts/reference/check.py

- Each public function has a comment.  Each that returns a number says what it returns.
- Each -E... that a comment names is an error of the system or a code of the library.
- Each -E... that a function can return is listed in its Result, or in that of a function that its Result refers to.  What it can
  return is read from its source and from the functions whose results it passes on, without regard to conditions.
- Each function is used in a program that people learn from, and that is compiled: of tutorial/, examples/, the guides' tests.
"""
import errno
import glob
import os
import re
import sys

sys.dont_write_bytecode = True

import headers  # noqa: E402

os.chdir(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

# What a function passes on only elsewhere, and why.
NOT_RETURNED = {
    "weir_clock_advance": {"EAGAIN": "it does not start the runtime", "ENOMEM": "it does not start the runtime"},
    "weir_clock_run_until": {"EAGAIN": "it does not start the runtime", "ENOMEM": "it does not start the runtime"},
    "weir_debug_dump_on": {"EBUSY": "it replaces a handler of the program, and a signal has room for all listeners"},
    "weir_http_server_inherit": {
        "ECANCELED": "only weir_http_serve can be told to give up a successor",
        "EINPROGRESS": "a successor that has not reported yet is waited for",
    },
    "weir_trace_stop": {"ETIMEDOUT": "only the end of the process does not wait for ever"},
}
NUMBERS = r"(?:int|int64_t|ssize_t|size_t|pid_t|weir_nsec)"
ERROR = re.compile(r"-(E[A-Z][A-Z0-9]+)\b")
LISTED = re.compile(r"(?<!WEIR_)\b(E[A-Z][A-Z0-9]+)\b")


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def definitions():
    """Of each name: the file, whether it is static, and the body."""
    found = {}
    for path in glob.glob("kernel/**/*.c", recursive=True) + glob.glob("factory/**/*.c", recursive=True) + \
            glob.glob("protocol/**/*.c", recursive=True) + glob.glob("server/**/*.c", recursive=True):
        with open(path, encoding="utf-8") as file:
            text = without_comments(file.read())
        for match in re.finditer(r"^([^\n(){};#]*)\n(\w+)\([^{};]*?\)\n\{\n(.*?)^\}", text, re.M | re.S):
            found.setdefault(match.group(2), []).append((path, "static" in match.group(1), match.group(3)))
    return found


def flat(expression):
    """Without conditions and arguments."""
    if "?" in expression:
        expression = expression.split("?", 1)[1]
    for _ in range(3):
        expression = re.sub(r"\([^()]*\)", "<>", expression)
    return expression


def returned(name, path, known, seen):
    """The errors that a function names where it returns, or gets from functions whose results it returns."""
    found = set()
    candidates = known.get(name, [])
    for file, _, body in [one for one in candidates if one[0] == path] or [one for one in candidates if not one[1]]:
        if (file, name) in seen:
            continue
        seen.add((file, name))
        expressions, variables = re.findall(r"\breturn\b([^;]*);", body), set()
        while expressions:
            expression = expressions.pop()
            found |= set(ERROR.findall(re.sub(r"[=!]= *-E\w+", "", expression)))
            bare = flat(expression)
            for callee in re.findall(r"(\w+)<>", bare):
                if callee in known:
                    found |= returned(callee, file, known, seen)
            for variable in set(re.findall(r"(?<![\w.>])([a-z]\w*)\b(?! *(?:<>|[.\[]|->))", bare)) - variables:
                variables.add(variable)
                expressions += re.findall(r"(?<![\w.>*])" + variable + r" = ([^;]*);", body)
    return found


def refers_to(entry, entries):
    """The functions whose results a comment refers to; "The same ..." is the entry before."""
    result = entry.labels().get("Result", "")
    named = set(re.findall(r"\bweir_\w+", result or entry.comment))
    before = entries[entries.index(entry) - 1]
    if not result and re.match(r"The same\b", entry.comment) or re.search(r"errors that a start reports", result):
        named |= set(before.functions)
    return named


def listed(entry, home, seen):
    """The errors that a comment lists, itself or by reference."""
    if entry in seen:
        return set()
    seen.add(entry)
    found = set(LISTED.findall(entry.comment))
    for name in refers_to(entry, home[entry.functions[0]][1]):
        if name in home:
            found |= listed(home[name][0], home, seen)
    return found


def main():
    known, home, failures = definitions(), {}, []
    functions = []
    for header in headers.read("include/weir"):
        entries = header.entries()
        for entry in entries:
            for name in entry.functions:
                home[name] = (entry, entries, header)
                functions.append(name)
    for name in functions:
        entry, _, header = home[name]
        where = f"include/weir/{header.file}:{entry.line}: {name}"
        if not entry.comment:
            failures.append(f"{where} has no comment")
            continue
        for error in ERROR.findall(entry.comment):
            if not hasattr(errno, error):
                failures.append(f"{where}: there is no -{error}")
        if not re.search(rf"^WEIR_API (?:const )?{NUMBERS} {name}\(", entry.code, re.M):
            continue
        if not re.search(r"Result|Units|\b(as|As|same|How|how|Time|When|Which|Whether|instant|number|length|present)\b", entry.comment):
            failures.append(f"{where} does not say what it returns")
        lacking = returned(name, None, known, set()) - listed(entry, home, set()) - set(NOT_RETURNED.get(name, {}))
        if lacking:
            failures.append(f"{where} can return {', '.join('-' + error for error in sorted(lacking))}, which its Result does not list")

    text = ""
    for path in glob.glob("tutorial/*.c") + glob.glob("examples/**/*.c*", recursive=True) + glob.glob("test/**/*guide_test.c", recursive=True) + \
            glob.glob("test/change_over/*.c"):
        with open(path, encoding="utf-8") as file:
            text += without_comments(file.read())
    used = set(re.findall(r"\bweir_\w+", text))
    for name in functions:
        if name not in used:
            failures.append(f"{name} is in no program of tutorial/ or examples/, and in no test of a guide")
    print("\n".join(failures))
    sys.exit(1 if failures or len(functions) < 200 else 0)


main()
