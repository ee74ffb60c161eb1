"""HTML as a browser reads it, for tests of what is shown."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser

VOID = {"br", "hr"}


class Seen(HTMLParser):
    """HTML as a browser would read it: its tags, attributes and text; complains when tags don't close in order."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember the tag."""
        self.tags.append((tag, dict(attrs)))
        self.text += "\n" if tag == "br" else ""
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """It closes the newest open one."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Text between tags."""
        self.text += data

    def handle_comment(self, data: str) -> None:
        """There are none."""
        raise AssertionError(f"a comment: {data}")

    def handle_decl(self, decl: str) -> None:
        """There are none."""
        raise AssertionError(f"a declaration: {decl}")

    def unknown_decl(self, data: str) -> None:
        """There are none."""
        raise AssertionError(f"a declaration: {data}")

    def handle_pi(self, data: str) -> None:
        """There are none."""
        raise AssertionError(f"an instruction: {data}")

    def attributes(self) -> Iterator[tuple[str, str, str | None]]:
        """Tag, attribute and value, of every tag."""
        return ((tag, name, value) for tag, attrs in self.tags for name, value in attrs.items())
