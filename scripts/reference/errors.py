"""Which errors the functions of the library can return, and which its tasks can end with, as far as its source names them.

The source is read without regard to conditions, so what is found may be too much.  Errors of the system are not found.
"""
import glob
import re

import headers

ROOMS = ("kernel", "factory", "io", "protocol", "net", "client", "server", "proxy", "include/weir")  # and those of add-ons
# The type on the line above the name or on the same line, parameters without an empty line among them, and a body up to a brace
# at the beginning of a line.
FUNCTION = re.compile(r"^(?P<head>(?:[\w \t*]|__attribute__\(\([^{};\n]*?\)\))*?(?:\n|[ *]))??"
                      r"(?P<name>(?!__attribute__)\w+)\((?:(?!\n\n)[^{};])*?\)\n\{\n(?P<body>.*?)^\}", re.M | re.S)
# Where a task gets its status, or the error that its start reports.
STATUS = [
    r"\bstatus = ([^;]*);",
    r"\bweir__task_poison\([^;]*, ([^;,]*)\);",
    r"\bweir__timer_new_poisoned\(([^;,]*),",
    r"\bweir__wait_(?:decide|finish_start)\([^;]*?, ([^;]*)\);",
    r"\bdeliver\([^;]*, ([^;,]*)\);",
]
ERROR = re.compile(r"-(E[A-Z][A-Z0-9]+)\b")
LISTED = re.compile(r"(?<!WEIR_)\b(E[A-Z][A-Z0-9]+)\b")


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


class Source:
    """A file of the library: its functions, and what it initializes at compile time, such as tables of functions."""

    def __init__(self, path, macros):
        with open(path, encoding="utf-8") as file:
            text = expanded(without_comments(file.read()), macros)
        self.path = path
        self.functions = {}
        for match in FUNCTION.finditer(text):
            self.functions[match.group("name")] = Function(path, match)
        self.tables = dict(re.findall(r"^(?:static )?const struct \w+ (\w+) = \{(.*?)\};", text, re.M | re.S))

    def names_in(self, text):
        return {name for name in re.findall(r"\w+", text) if name in self.functions or name in self.tables}

    def reach(self, name):
        """The functions of this file that a function calls, or puts into a table that it uses."""
        seen, names = set(), [name]
        while names:
            name = names.pop()
            if name not in seen:
                seen.add(name)
                names += self.names_in(self.functions[name].body if name in self.functions else self.tables[name])
        return [self.functions[name] for name in sorted(seen) if name in self.functions]


class Function:
    def __init__(self, path, match):
        self.path = path
        self.name = match.group("name")
        self.is_static = path.endswith(".c") and "static" in (match.group("head") or "")
        self.body = match.group("body")
        self.calls = set(re.findall(r"\b([a-z]\w*)\(", self.body))

    def values(self, expression):
        """An expression, and all that is assigned to the variables in it, and so on."""
        found, variables, expressions = [], set(), [expression]
        while expressions:
            expression = expressions.pop()
            found.append(expression)
            for variable in set(re.findall(r"(?<![\w.>])([a-z]\w*)\b(?! *(?:<>|[.\[]|->))", flat(expression))) - variables:
                variables.add(variable)
                expressions += re.findall(r"(?<![\w.>*])" + variable + r" = ([^;]*);", self.body)
        return found


def expanded(text, macros):
    """With the functions that a macro of the library defines."""
    def expand(match):
        parameters, body = macros[match.group(1)]
        for parameter, argument in zip(parameters, match.group(2).split(", ")):
            body = re.sub(rf"\b{parameter}\b", argument, body)
        return body
    return re.sub(rf"^({'|'.join(macros)})\((.*)\)$", expand, text, flags=re.M) if macros else text


def macros_of(paths):
    """What defines functions: a name, its parameters, and its lines as they would stand outside of a macro."""
    found = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            text = without_comments(file.read())
        for name, parameters, body in re.findall(r"^#define (WEIR__\w+)\(([^()]*)\) *\\\n((?:.*\\\n)+.*)$", text, re.M):
            lines = [re.sub(r"^        ", "", line.rstrip("\\").rstrip()) for line in body.split("\n")]
            if lines[1:2] == ["{"]:
                found[name] = (parameters.split(", "), "\n".join(lines))
    return found


def sources():
    """All of the library: the files by their paths, and the functions by their names."""
    rooms = list(ROOMS) + list(headers.addons(".").values())
    paths = [path for room in rooms for end in "ch" for path in sorted(glob.glob(f"{room}/**/*.{end}", recursive=True))]
    paths += sorted(glob.glob("database/*.h"))
    macros, files, functions = macros_of(paths), {}, {}
    for path in paths:
        files[path] = Source(path, macros)
        for function in files[path].functions.values():
            functions.setdefault(function.name, []).append(function)
    return files, functions


def flat(expression):
    """Without conditions and arguments."""
    if "?" in expression:
        expression = expression.split("?", 1)[1]
    for _ in range(3):
        expression = re.sub(r"\([^()]*\)", "<>", expression)
    return expression


class Errors:
    """What functions can return or leave in errno, and how tasks can end."""

    def __init__(self):
        self.files, self.functions = sources()

    def candidates(self, name, path):
        """The definitions that a call in that file may mean."""
        found = self.functions.get(name, [])
        return [one for one in found if one.path == path] or [one for one in found if not one.is_static]

    def returned(self, name, path=None, seen=None):
        """The errors that a function names where it returns, or gets from functions whose results it returns."""
        found, seen = set(), set() if seen is None else seen
        for function in self.candidates(name, path):
            if (function.path, name) not in seen:
                seen.add((function.path, name))
                for expression in re.findall(r"\breturn\b([^;]*);", function.body):
                    found |= self.of_value(function, expression, seen)
                if "weir__wait_at_once(" in function.body:
                    found |= self.of_tries(function.path)
        return found

    def is_complete(self, name, path=None, seen=None):
        """Whether `returned` sees all: no error comes from the system, out of memory, or through a pointer to a function."""
        seen = set() if seen is None else seen
        for function in self.candidates(name, path):
            if (function.path, name) in seen:
                continue
            seen.add((function.path, name))
            for expression in re.findall(r"\breturn\b([^;]*);", function.body):
                for value in function.values(expression):
                    bare = flat(value)
                    if re.search(r"\berrno\b|->|\w\.\w|\[|\*\w", bare):
                        return False
                    variables = re.findall(r"\b[a-z]\w*\b(?!<>)", bare)
                    if any(re.search(rf"&{variable}\b(?!\.|->)", function.body) for variable in variables):
                        return False
                    for callee in re.findall(r"(\w+)<>", bare):
                        if not self.candidates(callee, function.path) or not self.is_complete(callee, function.path, seen):
                            return False
        return True

    def of_tries(self, path):
        """The errors of the functions that do at once what tasks of that file wait for."""
        found = set()
        for tried in re.findall(r"\.try = (\w+)", " ".join(self.files[path].tables.values())):
            found |= self.returned(tried, path)
        return found

    def of_value(self, function, expression, seen):
        """The errors that an expression in a function can stand for."""
        found = set()
        for value in function.values(expression):
            found |= set(ERROR.findall(re.sub(r"[=!]= *-E\w+", "", value)))
            for callee in re.findall(r"(\w+)<>", flat(value)):
                found |= self.returned(callee, function.path, seen)
            if re.search(r"-errno\b", value):
                for callee in function.calls:
                    found |= self.left_in_errno(callee, function.path, set())
        return found

    def left_in_errno(self, name, path, seen):
        """The errors that a function that returns a pointer leaves in errno: itself, or those that it calls."""
        found = set()
        for function in self.candidates(name, path):
            if (function.path, name) not in seen:
                seen.add((function.path, name))
                for expression in re.findall(r"\berrno = ([^;]*);", function.body):
                    found |= set(LISTED.findall(re.sub(r"[=!]= *-?E\w+", "", expression)))
                    found |= self.of_value(function, expression, set())
                for callee in function.calls:
                    found |= self.left_in_errno(callee, function.path, seen)
        return found

    def of_task(self, name):
        """The errors that a task which a function makes can end with, or that its start can report."""
        found = set()
        for maker in self.candidates(name, None):
            file = self.files[maker.path]
            for function in file.reach(name):
                for sink in STATUS:
                    for expression in re.findall(sink, function.body):
                        found |= self.of_value(function, expression, set())
                # One constructor calls another one, of another file.
                for callee in re.findall(r"\b(weir__?\w+_new\w*)\(", function.body):
                    if callee not in file.functions:
                        found |= self.of_task(callee)
            # What ends all tasks that wait ends those of this maker, too.
            if any("weir__wait" in function.body for function in file.reach(name)):
                for function in file.functions.values():
                    for expression in re.findall(r"weir__wait_end_all\([^;]*, ([^;,]*)\);", function.body):
                        found |= self.of_value(function, expression, set())
            found |= self.of_tries(maker.path)
        return found - {"EAGAIN"}  # "wait"
