"""A web page as the text that a reader of it sees, with headings, list items and the addresses of its links.

What a browser does not show is left out, as far as the page itself says so: it is a usual place for instructions that
only a model would read.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import urljoin

_LEFT_OUT = {"script", "style", "template", "noscript", "svg", "math", "iframe", "object", "select", "textarea"}
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
_INLINE = {
    "a",
    "abbr",
    "b",
    "cite",
    "code",
    "em",
    "i",
    "kbd",
    "mark",
    "q",
    "s",
    "small",
    "span",
    "strong",
    "sub",
    "sup",
}
_INLINE |= {"u", "label", "font", "time", "var", "samp", "del", "ins", "img", "wbr", "td", "th", "input", "button"}
_HIDING = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|(?:font-size|opacity)\s*:\s*0(?![\d.])", re.IGNORECASE
)
_MOST_LINK = 300


def page_text(html: str, address: str) -> tuple[str, str]:
    """Title and text of a page.

    Args:
        html: Its source.
        address: Where it was found; links are completed with it.
    """
    reader = _Reader(address)
    reader.feed(html)
    reader.close()
    lines = (" ".join(line.split()) for line in "".join(reader.text).split("\n"))
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    return " ".join("".join(reader.title).split()), text


class _Reader(HTMLParser):
    def __init__(self, address: str) -> None:
        super().__init__(convert_charrefs=True)
        self.address = address
        self.text: list[str] = []
        self.title: list[str] = []
        self._hidden: list[str] = []
        """The elements that are open from the one that is not shown."""
        self._links: list[tuple[str, int]] = []
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if self._hidden or (tag not in _VOID and (tag in _LEFT_OUT or _is_hidden(attributes))):
            self._hidden += [tag] if tag not in _VOID else []
            return
        self._in_title |= tag == "title"
        if tag == "a":
            self._links.append((attributes.get("href") or "", len(self.text)))
        elif re.fullmatch("h[1-6]", tag):
            self.text.append(f"\n\n{'#' * int(tag[1])} ")
        elif tag not in _INLINE:
            self.text.append("\n- " if tag == "li" else "\n")
        self.text += [" "] if tag in ("td", "th") else []

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            if tag in self._hidden:
                del self._hidden[len(self._hidden) - 1 - self._hidden[::-1].index(tag) :]
            return
        self._in_title &= tag != "title"
        if tag == "a" and self._links:
            self._end_link(*self._links.pop())
        elif tag not in _INLINE:
            self.text.append("\n\n" if tag in ("p", "ul", "ol", "table", "h1", "h2", "h3") else "\n")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            (self.title if self._in_title else self.text).append(data.replace("\n", " "))

    def _end_link(self, href: str, start: int) -> None:
        said = "".join(self.text[start:]).strip()
        try:
            target = urljoin(self.address, href)
        except ValueError:
            return
        if (
            said
            and not href.startswith("#")
            and target.startswith(("http://", "https://"))
            and len(target) < _MOST_LINK
        ):
            self.text[start:] = [f"[{said}]({target})"]


def _is_hidden(attributes: dict[str, str | None]) -> bool:
    hides = "hidden" in attributes or (attributes.get("aria-hidden") or "").lower() == "true"
    return hides or _HIDING.search(attributes.get("style") or "") is not None
