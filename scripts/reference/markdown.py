"""Reads the pages of docs/, as far as they use Markdown, into the blocks of headers.py and

("heading", level, text), ("table", head, rows), ("image", words, file), ("box", words).  Items of a list may be numbered: ("numbers", [items]).
"""
import re


def read(path):
    with open(path, encoding="utf-8") as file:
        return blocks_of(file.read())


def blocks_of(page):
    blocks, lines = [], page.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip() or line.startswith("<!--"):
            at += 1
        elif line.startswith("```"):
            start = at = at + 1
            while not lines[at].startswith("```"):
                at += 1
            blocks.append(("code", "\n".join(lines[start:at])))
            at += 1
        elif line.startswith("    "):
            start = at
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            blocks.append(("code", "\n".join(line[4:] for line in lines[start:at]).rstrip()))
        elif line.startswith("#"):
            marks, words = line.split(" ", 1)
            blocks.append(("heading", len(marks), words))
            at += 1
        elif line.startswith(">"):
            words = []
            while at < len(lines) and lines[at].startswith(">"):
                words.append(lines[at][1:].strip())
                at += 1
            blocks.append(("box", " ".join(words)))
        elif line.startswith("|"):
            rows = []
            while at < len(lines) and lines[at].startswith("|"):
                rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", lines[at].strip().strip("|"))])
                at += 1
            blocks.append(("table", rows[0], rows[2:]))
        elif re.match(r"(- |\* |\d+\. )", line):
            kind = "numbers" if line[0].isdigit() else "list"
            items = []
            while at < len(lines) and (re.match(r"(- |\* |\d+\. )", lines[at]) or lines[at].startswith("  ")):
                item = re.match(r"(?:- |\* |\d+\. )(.*)", lines[at])
                if item:
                    items.append(item.group(1))
                else:
                    items[-1] += " " + lines[at].strip()
                at += 1
            blocks.append((kind, items))
        elif re.fullmatch(r"!\[[^\]]*\]\([^)]*\)", line):
            blocks.append(("image", *re.fullmatch(r"!\[([^\]]*)\]\(([^)]*)\)", line).groups()))
            at += 1
        else:
            words = []
            while at < len(lines) and lines[at].strip() and not re.match(r"(```|>|#+ |\||- |\* |\d+\. |!\[|<!--)", lines[at]):
                words.append(lines[at].strip())
                at += 1
            if not words:
                raise ValueError(f"line {at + 1} is no Markdown that this script knows: {line}")
            blocks.append(("text", " ".join(words)))
    return blocks


SPAN = re.compile(r"(?P<code>`+[^`]+`+)|\[(?P<words>(?:[^\]`]|`[^`]*`)*)\]\((?P<target>[^)]*)\)|\*\*(?P<bold>.+?)\*\*(?!\*)"
                  r"|(?<![\w*])\*(?P<slanted>[^*\s](?:[^*]*[^*\s])?)\*(?![\w*])")
PLAIN = re.compile(r"(?P<code>`[^`]+`)")


def spans(text, marked):
    """Cuts words into ("text", words), ("code", words), ("link", spans, target), ("bold", spans) and ("slanted", spans).

    Comments in headers are not marked: a star is a pointer there.
    """
    found, at = [], 0
    for match in (SPAN if marked else PLAIN).finditer(text):
        found.append(("text", text[at:match.start()]))
        at = match.end()
        parts = match.groupdict()
        if parts["code"]:
            found.append(("code", parts["code"].strip("`")))
        elif parts["target"] is not None:
            found.append(("link", spans(parts["words"], marked), parts["target"]))
        else:
            kind = "bold" if parts["bold"] else "slanted"
            found.append((kind, spans(parts[kind], marked)))
    found.append(("text", text[at:]))
    return [span for span in found if span[1]]


def plain(text, marked):
    """The words alone."""
    return "".join(span[1] if span[0] in ("text", "code") else "".join(plain_of(span[1])) for span in spans(text, marked))


def plain_of(parts):
    return [part[1] if part[0] in ("text", "code") else "".join(plain_of(part[1])) for part in parts]


def anchor(heading):
    """How links name a heading."""
    return re.sub(r"[^\w\- ]", "", plain(heading, True).lower()).replace(" ", "-")
