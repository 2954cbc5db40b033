"""Writes pages for a browser: one for each public header, one for each guide, and an index.  They need no network."""
import html
import os
import re
import shutil

import markdown
from man import EXAMPLES

NAME = re.compile(r"(\b(?:weir_|WEIR_)\w+|\bdocs/[a-z-]+\.md\b)")
STYLE = """
body { max-width: 50rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 sans-serif; color: #222; background: #fff; }
pre { overflow-x: auto; padding: .6rem .8rem; background: #f4f4f2; line-height: 1.35; }
pre, code { font-family: monospace; font-size: .9rem; }
table { display: block; overflow-x: auto; border-collapse: collapse; }
th, td { padding: .2rem .6rem; border: 1px solid #ccc; text-align: left; vertical-align: top; }
a { color: #1a5a96; } img { max-width: 100%; } nav { font-size: .9rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; } dt { color: #666; } dd { margin: 0; overflow-wrap: anywhere; }
blockquote { margin: 1rem 0; padding: .6rem .8rem; border-left: .3rem solid #1a5a96; background: #f4f4f2; }
.entry { margin: 2rem 0; border-top: 1px solid #ddd; }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #1b1b1b; } pre, blockquote { background: #282828; } a { color: #7ab8ee; }
        th, td { border-color: #555; } dt { color: #aaa; } .entry { border-color: #444; } }
"""


class Writer:
    def __init__(self, directory, version, homes, pages):
        """homes: of each symbol, the name of the page that describes it; pages: names of the guides' files, without folder."""
        self.directory = directory
        self.version = version
        self.pages = set(pages)
        self.headers = set(homes.values())
        self.home = {name: f"{page}.html#{name}" for name, page in homes.items()}
        os.makedirs(directory, exist_ok=True)

    def header(self, header, example):
        body = [f"<h1>weir/{header.file}</h1>", f"<p>{escape(header.title)}.</p>"]
        body += self.blocks(header.blocks, False)
        for section in header.sections:
            if section.title:
                body.append(f"<h2>{escape(section.title)}</h2>")
            for entry in section.entries:
                anchors = "".join(f'<a id="{name}"></a>' for name in dict.fromkeys(entry.names()) if self.is_here(header, name))
                body.append(f'<div class="entry">{anchors}<pre>{self.linked(entry.synopsis())}</pre>')
                body += self.blocks(entry.blocks, False) + ["</div>"]
        if example:
            body += ["<h2>Examples</h2>"] + self.blocks([("text", EXAMPLES), ("code", example)], False)
        self.write(f"{header.name}.html", f"weir/{header.file}", body)

    def is_here(self, header, name):
        return self.home[name].startswith(f"{header.name}.html#")

    def guide(self, path, blocks):
        title = next(block[2] for block in blocks if block[0] == "heading")
        for block in blocks:
            if block[0] == "image":
                shutil.copy(os.path.join(os.path.dirname(path), block[2]), self.directory)
        self.write(page_of(path), markdown.plain(title, True), self.blocks(blocks, True))

    def index(self, guides, headers):
        body = [f"<h1>weir {self.version}</h1>", "<h2>Guides</h2><ul>"]
        body += [f'<li><a href="{page_of(path)}">{self.words(title, True)}</a></li>' for path, title in guides]
        body += ["</ul><h2>Reference</h2><ul>"]
        body += [f'<li><a href="{header.name}.html">weir/{header.file}</a>: {escape(header.title)}</li>' for header in headers]
        body += ["</ul><h2>All functions</h2><p>"]
        functions = sorted(name for header in headers for entry in header.entries() for name in entry.functions)
        body += [f'<a href="{self.home[name]}">{name}</a><br>' for name in functions] + ["</p>"]
        self.write("index.html", "weir", body)

    def blocks(self, blocks, marked):
        body = []
        for block in blocks:
            kind = block[0]
            if kind == "text":
                body.append(f"<p>{self.words(block[1], marked)}</p>")
            elif kind == "box":
                body.append(f"<blockquote>{self.words(block[1], marked)}</blockquote>")
            elif kind == "code":
                body.append(f"<pre>{self.linked(block[1])}</pre>")
            elif kind in ("list", "numbers"):
                tag = "ul" if kind == "list" else "ol"
                body.append(f"<{tag}>" + "".join(f"<li>{self.words(item, marked)}</li>" for item in block[1]) + f"</{tag}>")
            elif kind == "label":
                words = "<br>".join(self.words(words, marked) for words in block[2])
                body.append(f"<dl><dt>{block[1]}</dt><dd>{words}</dd></dl>")
            elif kind == "heading":
                body.append(f'<h{block[1]} id="{markdown.anchor(block[2])}">{self.words(block[2], marked)}</h{block[1]}>')
            elif kind == "table":
                rows = [f"<tr>{''.join(f'<th>{self.words(cell, marked)}</th>' for cell in block[1])}</tr>"]
                rows += [f"<tr>{''.join(f'<td>{self.words(cell, marked)}</td>' for cell in row)}</tr>" for row in block[2]]
                body.append(f"<table>{''.join(rows)}</table>")
            elif kind == "image":
                body.append(f'<p><img src="{escape(os.path.basename(block[2]))}" alt="{escape(block[1])}"></p>')
        return re.sub(r"</dl>\n<dl>", "\n", "\n".join(body)).split("\n")

    def words(self, text, marked):
        return "".join(self.span(span) for span in markdown.spans(text, marked))

    def span(self, span):
        kind = span[0]
        if kind == "text":
            return self.linked(span[1])
        if kind == "code":
            return f"<code>{self.linked(span[1])}</code>"
        if kind == "link":
            words, target = "".join(self.unlinked(part) for part in span[1]), self.target(span[2])
            return f'<a href="{escape(target)}">{words}</a>' if target else words
        tag = "b" if kind == "bold" else "i"
        return f"<{tag}>{''.join(self.span(part) for part in span[1])}</{tag}>"

    def unlinked(self, span):
        return re.sub(r"</?a\b[^>]*>", "", self.span(span))

    def target(self, target):
        """Where a link of docs/ leads here; nothing for files that are not installed."""
        if re.match(r"https?:|#", target):
            return target
        path, _, anchor = target.partition("#")
        header = re.search(r"include/weir/(\w+)\.h$", path)
        if header and header.group(1) != "weir":
            name = f"weir_{header.group(1)}"
            return f"{name if name in self.headers else name + '.h'}.html"
        if path in self.pages:
            return page_of(path) + (f"#{anchor}" if anchor else "")
        return ""

    def linked(self, text):
        return "".join(self.name(part) if NAME.fullmatch(part) else escape(part) for part in NAME.split(text))

    def name(self, name):
        """A symbol, or the path of a guide."""
        target = self.home.get(name) or (self.target(name[len("docs/"):]) if name.startswith("docs/") else "")
        return f'<a href="{target}">{name}</a>' if target else name

    def write(self, file, title, body):
        home = "" if file == "index.html" else '<nav><a href="index.html">weir</a></nav>'
        lines = ["<!DOCTYPE html>", f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
                 '<meta name="viewport" content="width=device-width, initial-scale=1">', f"<style>{STYLE}</style></head><body>", home]
        with open(os.path.join(self.directory, file), "w", encoding="utf-8") as page:
            page.write("\n".join(lines + body + ["</body></html>", ""]))


def page_of(path):
    return os.path.basename(path)[:-3] + ".html"


def escape(text):
    return html.escape(text)
