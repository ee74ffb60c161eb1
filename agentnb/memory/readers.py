"""Read files into blocks: Markdown, text, HTML, PDF and notebooks. Bytes in, blocks with headings and places out.

Nothing here opens a file, follows a link or runs anything.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import PurePath
from typing import Any

from agentnb.errors import AgentnbError
from agentnb.memory.chunks import Block
from agentnb.memory.html_reader import read_html
from agentnb.memory.outline import Outline

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_PARAGRAPH = re.compile(r"(?:[^\n]*\S[^\n]*(?:\n|\Z))+")
_GB2312 = re.compile(rb"(?:[\x00-\x7f]|[\xa1-\xf7][\xa1-\xfe])*+")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_LINED = ("bullet_list_open", "ordered_list_open", "table_open", "fence", "code_block", "html_block")
_MOST_OUTPUT = 2_000


def read_blocks(name: str, data: bytes) -> Iterator[Block]:
    """The blocks of a file, read by the end of its name; what has no known end is read as text.

    Raises:
        AgentnbError: It is not what its name says, or holds no text.
    """
    read = READERS.get(PurePath(name).suffix.lower(), read_text)
    try:
        yield from read(data)
    except (AgentnbError, KeyboardInterrupt):
        raise
    except Exception as error:  # files come from anywhere, and parsers fail in their own ways
        raise _unreadable(f"{type(error).__name__}: {error}") from error


def _unreadable(why: str, remedy: str = "") -> AgentnbError:
    return AgentnbError(f"can't be read ({why})", layer="memory", remedy=remedy)


def decoded(data: bytes) -> str:
    """The text of a file: UTF-8, UTF-16 with its mark, GB 2312, else Latin-1; line ends become LF.

    Raises:
        AgentnbError: It holds zero bytes, so it is no text.
    """
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = data.decode("utf-16", "replace")
    elif b"\0" in data:
        raise _unreadable("it is no text")
    else:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = data.decode("gb18030" if _GB2312.fullmatch(data) else "latin-1", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


# ── text and Markdown ────────────────────────────────────────────────────────────────────────────────────────────────


def read_text(data: bytes) -> Iterator[Block]:
    """Paragraphs, set apart by blank lines."""
    return _paragraphs(decoded(data), lined=False)


def read_lines(data: bytes) -> Iterator[Block]:
    """The same for files whose lines mean something: code, tables, logs."""
    return _paragraphs(decoded(data), lined=True)


def _paragraphs(text: str, lined: bool) -> Iterator[Block]:
    line, read = 1, 0
    for found in _PARAGRAPH.finditer(text):
        line += text.count("\n", read, found.start())
        read = found.start()
        yield Block(found.group().rstrip("\n"), (), f"line {line}", lined)


def read_markdown(data: bytes) -> Iterator[Block]:
    """The blocks at the top level, under their headings."""
    return _markdown(decoded(data), Outline())


def _markdown(text: str, outline: Outline) -> Iterator[Block]:
    if front := _FRONT_MATTER.match(text):
        yield Block(front.group(1), (), "line 2", lined=True)
        text = "\n" * front.group().count("\n") + text[front.end() :]
    lines = text.split("\n")
    tokens = _parser().parse(text)
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            outline.enter(int(token.tag[1:]), tokens[place + 1].content)
        elif token.level == 0 and token.map and not token.type.endswith("_close"):
            block = "\n".join(lines[token.map[0] : token.map[1]])
            if token.type not in ("fence", "code_block"):
                block = _visible(block, token.type)
            yield Block(block, outline.path, f"line {token.map[0] + 1}", token.type in _LINED)


def _visible(block: str, kind: str) -> str:
    """Without what a reader of the rendered page does not see."""
    return "\n".join(each.text for each in read_html(block)) if kind == "html_block" else _COMMENT.sub("", block)


@cache
def _parser() -> Any:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


# ── notebooks and PDF ────────────────────────────────────────────────────────────────────────────────────────────────


def read_notebook(data: bytes) -> Iterator[Block]:
    """Its cells: Markdown under its headings, code whole, results as far as they are text."""
    outline = Outline()
    for number, cell in enumerate(_cells(json.loads(decoded(data))), 1):
        text = _joined(cell.get("source", cell.get("input", "")))
        if cell.get("cell_type") in ("markdown", "heading"):
            for block in _markdown(text, outline):
                yield Block(block.text, block.headings, f"cell {number}, {block.place}", block.lined)
        elif text.strip():
            yield Block(text, outline.path, f"cell {number}, line 1", lined=True)
        for output in cell.get("outputs") or ():
            if shown := _output(output).strip():
                yield Block(shown[:_MOST_OUTPUT], outline.path, f"cell {number}, output", lined=True)


def _cells(notebook: Any) -> Iterable[Mapping[str, Any]]:
    """The cells of format 4, or those of the worksheets before it."""
    found = notebook.get("cells")
    if found is None:
        found = [cell for sheet in notebook["worksheets"] for cell in sheet["cells"]]
    return list(found)


def _output(output: Mapping[str, Any]) -> str:
    return _joined(output.get("text") or (output.get("data") or {}).get("text/plain") or "")


def _joined(source: Any) -> str:
    return source if isinstance(source, str) else "".join(map(str, source))


def read_pdf(data: bytes) -> Iterator[Block]:
    """The text of each page.

    Raises:
        AgentnbError: pypdf is not installed.
    """
    try:
        from pypdf import PdfReader
    except ImportError:
        remedy = "pip install 'agentnb-jupyter[knowledge]' reads PDF files."
        raise _unreadable("pypdf is not installed", remedy) from None
    for number, page in enumerate(PdfReader(io.BytesIO(data)).pages, 1):
        yield Block(page.extract_text(), (), f"page {number}")


def _html(data: bytes) -> Iterator[Block]:
    return iter(read_html(decoded(data)))


READERS: Mapping[str, Callable[[bytes], Iterator[Block]]] = {
    **dict.fromkeys((".md", ".markdown"), read_markdown),
    **dict.fromkeys((".txt", ".text", ".rst"), read_text),
    **dict.fromkeys((".html", ".htm"), _html),
    **dict.fromkeys((".py", ".csv", ".tsv", ".log", ".json", ".yaml", ".yml", ".toml", ".sql", ".r"), read_lines),
    ".pdf": read_pdf,
    ".ipynb": read_notebook,
}
"""End of a name to what reads it; a folder is searched for these."""
