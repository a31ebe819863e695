"""A report as a value, and its two forms: HTML and Markdown.

Text that comes from a directory is escaped here and nowhere else.
"""

import base64
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from genepool.errors import shown


class Text(NamedTuple):
    words: str


class Table(NamedTuple):
    """The first column is flush left, the others flush right."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


class Picture(NamedTuple):
    """A figure by the stem of its files' names."""

    name: str
    caption: str


class Section(NamedTuple):
    title: str
    blocks: Sequence[Text | Table | Picture]


class Document(NamedTuple):
    title: str
    sections: Sequence[Section]


STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1a202c }
h1 { line-height: 1.2 } h2 { margin-top: 2.2rem; border-bottom: 1px solid #cbd5e0 }
.wide { overflow-x: auto } table { border-collapse: collapse; font-size: 14px }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #e2e8f0; text-align: right; vertical-align: top }
th:first-child, td:first-child { text-align: left } td { overflow-wrap: anywhere }
figure { margin: 1.2rem 0 } img { max-width: 100% } figcaption { color: #4a5568; font-size: 14px }
"""
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"  # the page loads nothing and runs nothing


def html_page(document: Document, folder: Path) -> str:
    """The report as one HTML file that contains its figures."""
    body = "\n".join(_html_section(section, folder) for section in document.sections)
    title = _safe(document.title)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
    )


def _html_section(section: Section, folder: Path) -> str:
    blocks = "\n".join(_html_block(block, folder) for block in section.blocks)
    return f"<section>\n<h2>{_safe(section.title)}</h2>\n{blocks}\n</section>"


def _html_block(block: Text | Table | Picture, folder: Path) -> str:
    match block:
        case Text(words):
            return f"<p>{_safe(words)}</p>"
        case Table(header, rows):
            head = "".join(f"<th>{_safe(cell)}</th>" for cell in header)
            body = "\n".join("<tr>" + "".join(f"<td>{_safe(cell)}</td>" for cell in row) + "</tr>" for row in rows)
            return f'<div class="wide"><table>\n<tr>{head}</tr>\n{body}\n</table></div>'
        case Picture(name, caption):
            data = base64.b64encode((folder / f"{name}.png").read_bytes()).decode()
            words = _safe(caption)
            image = f'<img alt="{words}" src="data:image/png;base64,{data}">'
            return f"<figure>{image}<figcaption>{words}</figcaption></figure>"


def _safe(words: str) -> str:
    return escape(_printable(words), quote=True)


def _printable(words: str) -> str:
    """Escape unprintable characters piece by piece, because `shown` truncates long text."""
    return "".join(shown(words[i : i + 300]) for i in range(0, len(words), 300))


def markdown(document: Document) -> str:
    """The report as Markdown, which refers to the figures' files."""
    parts = [f"# {_plain(document.title)}"]
    for section in document.sections:
        parts.append(f"## {_plain(section.title)}")
        parts.extend(_markdown_block(block) for block in section.blocks)
    return "\n\n".join(parts) + "\n"


def _markdown_block(block: Text | Table | Picture) -> str:
    match block:
        case Text(words):
            return _plain(words)
        case Table(header, rows):
            ruler = [":--", *["--:"] * (len(header) - 1)]
            lines = [[_plain(cell) for cell in header], ruler, *[[_plain(cell) for cell in row] for row in rows]]
            return "\n".join(f"| {' | '.join(line)} |" for line in lines)
        case Picture(name, caption):
            return f"![{_plain(caption)}]({name}.png)"


def _plain(words: str) -> str:
    """Escape everything that Markdown would take for markup, a link or HTML."""
    text = re.sub(r"([\\`*_{}\[\]()|!~]|^#)", r"\\\1", escape(_printable(words), quote=False))
    return re.sub(r"^(\s*)([-+]|\d+\.)(?=\s)", r"\1\\\2", text).replace("://", ":\u200b//")
