"""Reads the public headers: what they declare, and the comment of each declaration.

A comment stands right above what it describes, and describes everything up to the next empty line.  Its text is read into blocks,
which page.py explains.
"""
import os
import re

LABELS = "Owner|Result|Units|Threads|Source"


class Entry:
    """Declarations with one comment."""

    def __init__(self, comment, code, line):
        self.comment = comment
        self.code = code
        self.line = line
        self.blocks = blocks_of(comment) if comment else []
        text = without_comments(code)
        self.functions = re.findall(r"^WEIR_API [^(;]*?\b(weir_\w+)\(", text, re.M)
        self.functions += re.findall(r"^static inline [^(;]*?\b(weir_\w*[a-z0-9])\(", text, re.M)
        self.macros = re.findall(r"^#define (WEIR_\w*[A-Z0-9])\b", text, re.M)
        self.types = re.findall(r"^(?:struct|enum|union) (weir_\w+) \{", text, re.M)
        self.types += re.findall(r"^typedef [^;]*?\b(weir_\w+)(?:;|\()", text, re.M)
        self.constants = []
        for body in re.findall(r"^enum \w+ \{(.*?)^\}", text, re.M | re.S):
            self.constants += re.findall(r"^\s+(WEIR_\w+)", body, re.M)

    def names(self):
        """Each once: a macro may have one definition for C and one for C++."""
        return list(dict.fromkeys(self.functions + self.types + self.macros + self.constants))

    def synopsis(self):
        """The declarations as a program in C sees them, without the mark that it need not know."""
        code = re.sub(r"^#ifdef __cplusplus\n.*?^#else\n(.*?)^#endif\n?", r"\1", self.code + "\n", flags=re.M | re.S).rstrip("\n")
        return re.sub(r"^WEIR_API ", "", code, flags=re.M)

    def labels(self):
        """What the comment says of owner, result and so on.  "Owner, Result: as for ..." counts for both."""
        found = {}
        for block in self.blocks:
            if block[0] == "label":
                for label in block[1].split(", "):
                    found[label] = " ".join(block[2])
        return found


class Section:
    def __init__(self, title):
        self.title = title
        self.entries = []


class Header:
    def __init__(self, path):
        self.path = path
        self.file = os.path.basename(path)
        self.name = "weir_" + self.file[:-2]
        with open(path, encoding="utf-8") as file:
            self.text = file.read()
        self.sections = [Section("")]
        self.blocks = []
        self.title = ""
        self.read()

    def read(self):
        lines = self.text.split("\n")
        at = 0
        first, at = comment_at(lines, at)
        head, *rest = blocks_of(first)
        title = re.sub(r"^weir/\w+\.h: ", "", head[1])
        # The first sentence is the title; what follows it belongs to the description.
        self.title, _, more = title.partition(".  ")
        self.title = self.title.rstrip(".")
        self.blocks = ([("text", more)] if more else []) + rest
        while at < len(lines):
            line = lines[at]
            section = re.fullmatch(r"/\* -- (.*) -- \*/", line)
            if section:
                self.sections.append(Section(section.group(1)))
                at += 1
            elif line.startswith("/*"):
                comment, at = comment_at(lines, at)
                start = at
                code, at = code_at(lines, at)
                self.add(comment, code, start)
            elif is_declaration(line):
                start = at
                code, at = code_at(lines, at)
                self.add("", code, start)
            else:
                at += 1

    def add(self, comment, code, line):
        entry = Entry(comment, code, line + 1)
        if code and not is_plumbing(entry):
            self.sections[-1].entries.append(entry)

    def entries(self):
        return [entry for section in self.sections for entry in section.entries]


def is_declaration(line):
    return re.match(r"(WEIR_API|typedef|struct|enum|union|static inline|#define WEIR_)", line) and not re.match(r"#define WEIR_\w+_H$", line)


def is_plumbing(entry):
    """What programs never write: helpers of macros, and the marks of export.h."""
    return not entry.names() or all(name.startswith("WEIR_BEGIN") or name.startswith("WEIR_END") for name in entry.names())


def comment_at(lines, at):
    """The text of the comment that begins there, and the line behind it."""
    text = []
    while True:
        line = lines[at]
        at += 1
        text.append(re.sub(r"^(/\*| \*) ?", "", line))
        if "*/" in line:
            text[-1] = text[-1].split("*/")[0].rstrip()
            return "\n".join(text).rstrip(), at


def code_at(lines, at):
    """Lines up to the next empty one outside of braces."""
    code, depth, start = [], 0, at
    while at < len(lines) and (depth or (lines[at].strip() and not (at > start and lines[at].startswith("/*")))):
        bare = without_comments(lines[at])
        depth += bare.count("{") - bare.count("}")
        code.append(lines[at])
        at += 1
    return "\n".join(code), at


def without_comments(code):
    return re.sub(r"/\*.*?\*/|/\*.*$", "", code, flags=re.S)


def blocks_of(comment):
    """The blocks of a comment.

    ("text", words), ("code", lines), ("list", [items]), and ("label", "Result", [paragraphs]).
    """
    blocks, lines = [], comment.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        label = re.match(rf"((?:{LABELS})(?:, (?:{LABELS}))*): +(.*)", line)
        if not line.strip():
            at += 1
        elif label:
            body = [label.group(2)]
            at += 1
            while at < len(lines) and lines[at].startswith("  "):
                body.append(lines[at])
                at += 1
            blocks.append(("label", label.group(1), paragraphs(body)))
        elif line.startswith("    "):
            code = []
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                code.append(lines[at][4:])
                at += 1
            blocks.append(("code", "\n".join(code).rstrip()))
        elif line.startswith("- "):
            items = []
            while at < len(lines) and (lines[at].startswith("- ") or lines[at].startswith("  ")):
                if lines[at].startswith("- "):
                    items.append(lines[at][2:])
                else:
                    items[-1] += " " + lines[at].strip()
                at += 1
            blocks.append(("list", items))
        else:
            words = []
            while at < len(lines) and lines[at].strip() and not re.match(rf"(    |- |(?:{LABELS})[,:])", lines[at]):
                words.append(lines[at].strip())
                at += 1
            blocks.append(("text", " ".join(words)))
    return blocks


def paragraphs(body):
    """The text of a label.  A line that begins with a result, behind the end of another one, is a paragraph of its own."""
    found = [body[0].strip()]
    for line in body[1:]:
        starts = re.match(r" {9}(-E|WEIR_E|0|\"|errors? )", line)
        if starts and found[-1][-1:] in ";:.":
            found.append(line.strip())
        else:
            found[-1] += " " + line.strip()
    return found


def examples(paths):
    """The code of each header in files of examples, whose parts begin with the names of one header or more."""
    found = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            parts = re.split(r"^/\* -- (.*) -- \*/\n", file.read(), flags=re.M)
        for title, code in zip(parts[1::2], parts[2::2]):
            found.update({name: code.strip() for name in re.findall(r"\bweir/(\w+\.h)", title)})
    return found


def read(include):
    """All headers of a directory, but for the one that only includes the others."""
    names = sorted(name for name in os.listdir(include) if name.endswith(".h") and name != "weir.h")
    found = [Header(os.path.join(include, name)) for name in names]
    for header in found:
        # weir/http_fields.h has a function weir_http_cookie, whose page must not be that of weir/http_cookie.h.
        if any(header.name in entry.functions for other in found if other is not header for entry in other.entries()):
            header.name += ".h"
    return found


def addons(source):
    """The libraries beside libweir: of each the folder of its sources, by its name, which is that of its header."""
    with open(os.path.join(source, "CMakeLists.txt"), encoding="utf-8") as file:
        found = re.findall(r"^weir_addon\((\w+) (\S+) ", file.read(), re.M)
    return {name: os.path.normpath(os.path.join(folder, name)) for name, folder in found}


def homes(all_headers):
    """Of each symbol the name of the page that describes it.  A function goes before a struct of the same name."""
    found = {}
    for names in (lambda entry: entry.functions), Entry.names:
        for header in all_headers:
            for entry in header.entries():
                for name in names(entry):
                    found.setdefault(name, header.name)
    return found
