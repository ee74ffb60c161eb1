"""Cut a document into chunks that each make sense alone: along headings first, then blocks, then sentences.

    Block (a paragraph, a list, a table, code; with its headings and its place) ──chunks──▶ Chunk

Neighbouring blocks under the same headings share a chunk as far as they fit. A block that is too long is cut between
sentences, code and tables between lines; only what has neither is cut inside. What fits is never cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

WIDEST = 1_200
"""Of one chunk, in the width of Latin letters: some 300 tokens. A Chinese character counts as three."""
_WIDE_SIGN = 3
_WIDE = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")
_END = re.compile(
    r"[。！？；…]++[”’」』）》]*+\s*+"
    r"|(?<![.!?])[.!?]++[\"'”’)\]]*+(?:\s++|$)"  # possessive, so that no text takes more than one reading
    r"|\n[ \t]*+\n\s*+"
)
_ABBREVIATED = re.compile(r"(?:^|[\s(])(?:[A-Z]|[Dd]r|Mrs?|Ms|Prof|St|vs|etc|e\.g|i\.e|cf|No|Fig|Eq|pp?|al)\.$")
_LONGEST_ABBREVIATION = 8


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a document that its author set apart."""

    text: str
    headings: tuple[str, ...] = ()
    """Those above it, the outermost first."""
    place: str = ""
    """Where it begins, in words: "line 12", "page 3", "cell 4"."""
    lined: bool = False
    """Its lines mean something (code, a table, a list), so it is cut between them."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """What is indexed and found."""

    text: str
    headings: tuple[str, ...]
    place: str


def chunks(blocks: Iterable[Block], widest: int = WIDEST) -> Iterator[Chunk]:
    """The chunks of a document, in its order.

    Args:
        blocks: In the order of the document.
        widest: Bounds each chunk, in the width of Latin letters.
    """
    open_blocks: list[Block] = []
    taken = 0
    for part in chain.from_iterable(_parts(block, widest) for block in blocks):
        size = width(part.text)
        if open_blocks and (taken + size > widest or _apart(open_blocks[-1], part)):
            yield _joined(open_blocks)
            open_blocks, taken = [], 0
        open_blocks.append(part)
        taken += size
    if open_blocks:
        yield _joined(open_blocks)


def width(text: str) -> int:
    """How much room the text takes in a model's context, in Latin letters."""
    return len(text) if text.isascii() else len(text) + (_WIDE_SIGN - 1) * len(_WIDE.findall(text))


def sentences(text: str) -> list[str]:
    """The sentences, each with the space after it; joined they are the text again.

    >>> sentences("Dr. Wu left. 他走了。 Why?")
    ['Dr. Wu left. ', '他走了。 ', 'Why?']
    """
    ends = [each.end() for each in _END.finditer(text) if not _is_abbreviation(text, each.start())]
    starts = [0, *ends]
    return [piece for start, end in zip(starts, [*ends, len(text)], strict=True) if (piece := text[start:end])]


def _is_abbreviation(text: str, stop: int) -> bool:
    before = text[max(0, stop - _LONGEST_ABBREVIATION) : stop + 1]
    return before.endswith(".") and _ABBREVIATED.search(before) is not None


def _apart(before: Block, after: Block) -> bool:
    """Whether two neighbours never share a chunk: other headings, or another page, which is a place of its own."""
    turned = after.place.startswith("page ") and after.place != before.place
    return turned or before.headings != after.headings


def _joined(blocks: list[Block]) -> Chunk:
    return Chunk("\n\n".join(block.text for block in blocks), blocks[0].headings, blocks[0].place)


def _parts(block: Block, widest: int) -> Iterator[Block]:
    """The block itself when it fits, else pieces that do."""
    text = block.text.strip("\n").rstrip()
    if not text.strip():
        return
    if width(text) <= widest:
        yield Block(text, block.headings, block.place, block.lined)
        return
    lines = 0
    for piece in _packed(text.splitlines(keepends=True) if block.lined else sentences(text), widest):
        if piece.strip():
            yield Block(piece.strip("\n").rstrip(), block.headings, _moved(block.place, lines), block.lined)
        lines += piece.count("\n")


def _packed(pieces: Iterable[str], widest: int) -> Iterator[str]:
    """Pieces joined as far as they fit; a single one that does not is cut."""
    taken, size = "", 0
    for piece in chain.from_iterable(_cut(piece, widest) for piece in pieces):
        wide = width(piece)
        if taken and size + wide > widest:
            yield taken
            taken, size = "", 0
        taken += piece
        size += wide
    if taken:
        yield taken


def _cut(piece: str, widest: int) -> Iterator[str]:
    """What has neither sentences nor lines: cut after a space where there is one, else anywhere."""
    if width(piece) <= widest:
        yield piece
        return
    start = 0
    while start < len(piece):
        window = piece[start : start + widest]
        most = _fitting(window, widest)
        if start + most < len(piece):
            most = window.rfind(" ", most // 2, most) + 1 or most
        yield window[:most]
        start += most


def _fitting(window: str, widest: int) -> int:
    """How many characters of the beginning fit, at least one."""
    size = 0
    for place, sign in enumerate(window):
        size += width(sign)
        if size > widest and place:
            return place
    return len(window)


def _moved(place: str, lines: int) -> str:
    """The place so many lines further on, where it is counted in lines."""
    kind, word, number = place.rpartition("line ")
    return f"{kind}{word}{int(number) + lines}" if word and number.isdigit() else place
