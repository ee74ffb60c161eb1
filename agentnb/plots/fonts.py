"""Letters for labels: the fonts of this machine that have them, and a question mark for those that none has."""

from __future__ import annotations

from functools import cache

_LATIN = "DejaVu Sans"
_EAST_ASIAN = (
    *("Noto Sans CJK", "Noto Sans SC", "Source Han Sans", "PingFang", "Hiragino Sans", "Heiti", "STHeiti"),
    *("Microsoft YaHei", "SimHei", "Yu Gothic", "Meiryo", "MS Gothic", "Malgun Gothic", "Apple SD Gothic"),
    *("WenQuanYi", "Droid Sans Fallback", "Noto Serif CJK", "Arial Unicode MS", "Unifont"),
)


@cache
def _files() -> dict[str, str]:
    """Family to file: the font that matplotlib brings along, then at most two East Asian ones in order of liking."""
    from matplotlib import font_manager

    here = {font.name: font.fname for font in font_manager.fontManager.ttflist}
    found = [name for liked in _EAST_ASIAN for name in sorted(here) if name.startswith(liked) and "Mono" not in name]
    return {name: here[name] for name in (_LATIN, *found[:2]) if name in here}


def families() -> list[str]:
    """Font families for labels, to be tried in this order for each letter."""
    return list(_files()) or ["sans-serif"]


@cache
def readable(label: str) -> str:
    """The label with every letter that no font here has replaced by "?", so that no empty box is drawn."""
    if label.isascii():
        return label
    from matplotlib.font_manager import get_font

    fonts = [get_font(file) for file in _files().values()]
    return "".join(c if c.isascii() or any(font.get_char_index(ord(c)) for font in fonts) else "?" for c in label)
