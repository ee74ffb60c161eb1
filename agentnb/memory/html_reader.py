"""Read a web page into blocks: its text under its headings, without scripts, styles, menus and what it hides.

What a browser does not show is left out, since it is a usual place for instructions that only a model would read.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

from agentnb.memory.chunks import Block
from agentnb.memory.outline import Outline

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_HEADINGS["title"] = 0
_LEFT_OUT = {"script", "style", "template", "noscript", "svg", "math", "nav", "iframe", "object", "select"}
_BLOCKS = {
    *("address", "article", "aside", "blockquote", "body", "br", "dd", "details", "div", "dl", "dt", "fieldset"),
    *("figcaption", "figure", "footer", "form", "header", "hr", "html", "li", "main", "ol", "p", "pre", "section"),
    *("summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul", *_HEADINGS),
}
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
_ZERO = r"\s*:\s*0(?![\d.])"
_HIDING = re.compile(rf"display\s*:\s*none|visibility\s*:\s*hidden|(?:font-size|opacity){_ZERO}", re.IGNORECASE)
_CELLS = ("td", "th")


def read_html(text: str) -> list[Block]:
    """The blocks of a page that a reader of it sees."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    reader.flush()
    return reader.blocks


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[Block] = []
        self.outline = Outline()
        self._text: list[str] = []
        self._line = 1
        self._begun = False
        """Whether the block has text already."""
        self._hidden = ""
        """The element whose content is left out; its name."""
        self._depth = 0
        self._preformatted = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._hidden in ("p", "li") and tag in _BLOCKS:
            self._hidden = ""  # their end may be left out, and any block ends them
        if self._hidden:
            self._depth += tag == self._hidden
            return
        if tag in _BLOCKS and tag not in _CELLS:
            self.flush()
        if tag not in _VOID and (tag in _LEFT_OUT or _is_hidden(dict(attrs))):
            self._hidden, self._depth = tag, 1
        self._preformatted |= tag == "pre"
        self._text += ["- "] if tag == "li" else [" | "] if tag in _CELLS and self._text else []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _BLOCKS and not self._hidden:
            self.flush()

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            self._depth -= tag == self._hidden
            self._hidden = self._hidden if self._depth else ""
        elif tag in _HEADINGS:
            heading = " ".join("".join(self._text).split())
            self._text, self._begun = [], False
            self.outline.enter(_HEADINGS[tag], heading)
        elif tag in _BLOCKS and tag not in _CELLS:
            self.flush()

    def handle_data(self, data: str) -> None:
        if self._hidden:
            return
        if not self._begun and data.strip():
            self._begun = True
            self._line = self.getpos()[0] + data[: len(data) - len(data.lstrip())].count("\n")
        self._text.append(data)

    def flush(self) -> None:
        """A block ends here."""
        text = "".join(self._text)
        text = text.strip("\n").rstrip() if self._preformatted else " ".join(text.split())
        if text.strip("- |"):
            self.blocks.append(Block(text, self.outline.path, f"line {self._line}", self._preformatted))
        self._text, self._begun, self._preformatted = [], False, False


def _is_hidden(attributes: dict[str, str | None]) -> bool:
    hides = "hidden" in attributes or (attributes.get("aria-hidden") or "").lower() == "true"
    return hides or _HIDING.search(attributes.get("style") or "") is not None
