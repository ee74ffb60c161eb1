"""A model's Markdown as HTML that can do nothing: no raw HTML, no images, only http, https and mailto links.

Two walls stand behind each other: markdown-it makes no tag that it does not know, and nh3 lets none through that is
not listed here. Dollar signs stay dollars; only explicit `\\( \\)` and `$$ $$` are handed to the front end as maths.
"""

from __future__ import annotations

import re
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from agentnb.notebook.bounds import shown

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

MATHS_CLASSES = "tex2jax_process mathjax_process"
_TAGS = {
    *("p", "br", "hr", "strong", "em", "s", "b", "a", "span", "code", "pre", "blockquote", "ul", "ol", "li"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
_LEFT = "text-align:left"
_STYLES = {
    "pre": "background:rgba(128,128,128,.12);padding:.4em .6em;white-space:pre-wrap;overflow-wrap:anywhere",
    "th": _LEFT,
    "td": _LEFT,
}
_LINK = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_MOST_MATHS = 2_000
_RISKY_TEX = re.compile(
    r"\\(?:href|url|class|cssid|style|data|require|[egx]?def|let|(?:re)?new|providecommand|csname|input|include|html|bbox"
    r"|mmltoken|texttip|tooltip|toggle|action|unicode|begingroup|label|tag|ref|eqref|catcode|char|loop|repeat)",
    re.IGNORECASE,
)


def answer_html(markdown: str) -> str:
    """The safe HTML of a model's Markdown; a text that can't be read as Markdown comes back as it is, escaped."""
    text = shown(markdown)
    try:
        made = _reader().render(text)
    except Exception:  # a fault of the Markdown reader must not hide the answer
        return f"<pre>{escape(text, quote=True)}</pre>"
    return _cleaned(made)


def _cleaned(html: str) -> str:
    import nh3

    safe = nh3.clean(
        html,
        tags=_TAGS,
        clean_content_tags=set(),
        attributes={"*": set(), "a": {"href"}, "ol": {"start"}, "th": {"style"}, "td": {"style"}},
        allowed_classes={"span": set(MATHS_CLASSES.split())},
        filter_style_properties={"text-align"},
        set_tag_attribute_values={"a": {"target": "_blank"}},
        url_schemes={"http", "https", "mailto"},
        url_relative="deny",
        link_rel="noopener noreferrer",
    )
    for tag, style in _STYLES.items():
        safe = safe.replace(f"<{tag}>", f'<{tag} style="{style}">')
    return safe


@cache
def _reader() -> MarkdownIt:
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False, "maxNesting": 20})
    reader.enable(["table", "strikethrough"]).disable("image")
    reader.validateLink = lambda url: _LINK.match(url) is not None  # type: ignore[method-assign]
    reader.inline.ruler.before("escape", "maths", _inline_maths)
    reader.block.ruler.before("fence", "maths", _block_maths, {"alt": ["paragraph", "blockquote", "list"]})
    for rule in (_maths, _heading_open, _heading_close):
        reader.add_render_rule(rule.__name__[1:], rule)
    return reader


def _inline_maths(state: Any, silent: bool) -> bool:
    for opening, closing in (("\\(", "\\)"), ("$$", "$$")):
        if state.src.startswith(opening, state.pos):
            end = state.src.find(closing, state.pos + 2, state.pos + _MOST_MATHS)
            if end > state.pos + 2:
                if not silent:
                    state.push("maths", "", 0).content = state.src[state.pos : end + 2]
                state.pos = end + 2
                return True
    return False


def _block_maths(state: Any, first: int, last: int, silent: bool) -> bool:
    """A formula between `$$` and `$$` on lines of its own, which Markdown would read as a list or a heading."""
    if not state.getLines(first, first + 1, 0, False).strip().startswith("$$"):
        return False
    for line in range(first, min(last, first + 40)):
        text = state.getLines(first, line + 1, state.blkIndent, False).strip()
        if len(text) > 4 and text.endswith("$$") and text.find("$$", 2) == len(text) - 2:
            if not silent:
                state.push("paragraph_open", "p", 1)
                state.push("maths", "", 0).content = text
                state.push("paragraph_close", "p", -1)
                state.line = line + 1
            return True
    return False


def _maths(renderer: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
    text = tokens[index].content
    safe = escape(text, quote=True)
    return (
        safe if _RISKY_TEX.search(text) or len(text) > _MOST_MATHS else f'<span class="{MATHS_CLASSES}">{safe}</span>'
    )


def _heading_open(renderer: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
    """A heading of an answer is a bold line: it must not become an entry in the notebook's table of contents."""
    return "<p><b>"


def _heading_close(renderer: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
    return "</b></p>\n"
