"""Writes pages for man(1): section 3 has one for each public header, and links to it; section 7 has the guides."""
import os
import re

import markdown

NAME = re.compile(r"(\bweir_\w+(?:\.\w+)?|\bWEIR_[A-Z0-9_]+|-E[A-Z][A-Z0-9]+\b)")

EXAMPLES = "The project tests these on the virtual clock (`weir_clock_advance`).  `CU_ASSERT` is the assertion of the tests."


class Writer:
    def __init__(self, directory, date, version, homes, addons):
        """homes: of each symbol, the name of the page that describes it.  addons: the names of libraries beside libweir."""
        self.addons = addons
        self.directory = directory
        self.date = date
        self.version = version
        self.homes = homes
        # Symbols get no link of such a name: enum weir_clock is in weir/runtime.h, but weir_clock(3) is the page of weir/clock.h.
        self.pages = set(homes.values())

    def header(self, header, see, example):
        """The page of a public header, and a link to it for each function, type, macro and constant."""
        addon = header.file[:-2] if header.file[:-2] in self.addons else None
        package = f"weir\\-{addon}" if addon else "weir"
        names = [header.name] + [name for entry in header.entries() for name in entry.functions if name != header.name]
        lines = [self.title(header.name, 3), ".SH NAME", ", ".join(escape(name) for name in names) + r" \- " + escape(header.title),
                 ".SH SYNOPSIS", ".nf", rf"\fB#include <weir/{header.file}>\fP", ".fi", ".PP",
                 rf"\fBcc\fP program.c $(\fBpkg-config \-\-cflags \-\-libs {package}\fP)"]
        if header.blocks:
            lines += [".SH DESCRIPTION"] + self.blocks(header.blocks, False)
        for section in header.sections:
            if not section.entries:
                continue
            lines.append(".SH " + quoted((section.title or "interface").upper()))
            for number, entry in enumerate(section.entries):
                lines += [".PP"] if number else []
                lines += [".nf"] + code_lines(entry.synopsis(), bold) + [".fi"]
                if entry.blocks:
                    lines += [".RS 4"] + self.blocks(entry.blocks, False) + [".RE"]
        if example:
            lines += [".SH EXAMPLES"] + self.blocks([("text", EXAMPLES), ("code", example)], False)
        lines += self.see_also([(other, 3) for other in see] + [("weir", 7)])
        self.write(header.name, 3, lines)
        for name in sorted(name for name, home in self.homes.items() if home == header.name and name not in self.pages):
            self.write(name, 3, [f".so man3/{header.name}.3"])

    def guide(self, name, words, blocks, see):
        """A page of docs/."""
        lines = [self.title(name, 7), ".SH NAME", rf"{name} \- " + escape(words), ".SH DESCRIPTION"]
        lines += self.blocks([block for block in blocks if block[:2] != ("heading", 1)], True)
        lines += self.see_also(see)
        self.write(name, 7, lines)

    def title(self, name, section):
        # Names are not broken at the end of a line.
        return f'.TH {name.upper()} {section} {self.date} "weir {self.version}" "weir manual"\n.nh\n.ad l'

    def see_also(self, pages):
        named = [rf"\fB{name}\fP({section})" for name, section in pages]
        return [".SH SEE ALSO", ",\n".join(named)]

    def blocks(self, blocks, marked):
        lines, fresh = [], True
        for block in blocks:
            kind = block[0]
            # A paragraph macro right behind a heading would add an empty line.
            if kind in ("text", "code", "image", "box") and not fresh:
                lines.append(".PP")
            fresh = kind == "heading"
            if kind == "text":
                lines.append(self.words(block[1], marked))
            elif kind == "box":
                lines += [".RS 4", self.words(block[1], marked), ".RE"]
            elif kind == "code":
                lines += [".RS 4", ".nf"] + code_lines(block[1], escape) + [".fi", ".RE"]
            elif kind in ("list", "numbers"):
                for number, item in enumerate(block[1], 1):
                    lines += [rf".IP \(bu 2" if kind == "list" else f".IP {number}. 4", self.words(item, marked)]
            elif kind == "label":
                lines += [".TP 9", rf"\fI{block[1]}\fP", "\n.br\n".join(self.words(words, marked) for words in block[2])]
            elif kind == "heading":
                lines.append((".SH " if block[1] == 2 else ".SS ") + quoted(escape(markdown.plain(block[2], marked))))
            elif kind == "table":
                if block[1][0] and not any(block[1][1:]):  # a heading of the rows, and not of the column
                    lines.append(".SS " + quoted(escape(markdown.plain(block[1][0], marked))))
                lines += self.table(block[1], block[2], marked)
            elif kind == "image":
                lines.append(escape(f"[{block[1]}]"))
        return lines

    def table(self, head, rows, marked):
        """The first column as a term, the others below it: a terminal is narrow."""
        lines = []
        for number, row in enumerate(rows):
            lines += [".TP", rf"\fB\&{self.words(row[0], marked, bare=True) or head[0]}\fP"]
            cells = [(title, cell) for title, cell in zip(head[1:], row[1:]) if cell]
            text = ["%s%s" % (escape(f"{title}: ") if title and len(head) > 2 else "", self.words(cell, marked)) for title, cell in cells]
            lines.append("\n.br\n".join(text) or r"\&")
        return lines

    def words(self, text, marked, bare=False):
        """A paragraph as roff."""
        return guarded("".join(self.span(span, bare) for span in markdown.spans(text, marked)))

    def span(self, span, bare):
        kind = span[0]
        if kind == "link":
            return "".join(self.span(part, bare) for part in span[1])
        if kind == "text":
            words = re.sub(r"\bdocs/([a-z-]+)\.md\b", r"weir-\1(7)", span[1])
            return "".join(escape(part) if bare or not NAME.fullmatch(part) else bold(part) for part in NAME.split(words))
        if kind in ("code", "bold"):
            words = span[1] if kind == "code" else "".join(markdown.plain_of(span[1]))
            return escape(words) if bare else bold(words)
        return r"\fI" + escape("".join(markdown.plain_of(span[1]))) + r"\fP"

    def write(self, name, section, lines):
        folder = os.path.join(self.directory, f"man{section}")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"{name}.{section}"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


def escape(text):
    for character, roff in (("\\", r"\e"), ("-", r"\-"), ("'", r"\(aq"), ("`", r"\(ga"), ("^", r"\(ha"), ("~", r"\(ti"), ('"', r"\(dq")):
        text = text.replace(character, roff)
    return guarded(text)


def guarded(text):
    return r"\&" + text if text[:1] in (".", "'") else text


def bold(text):
    return rf"\fB{escape(text)}\fP" if text.strip() else ""


def quoted(text):
    return f'"{text}"'


def code_lines(code, write):
    """Lines of code.  roff does not like empty ones, and a tab is as wide as the terminal says."""
    return [write(line.expandtabs(8)) if line.strip() else r"\&" for line in code.split("\n")]
