"""Folds of widgets that the keyboard reaches: a button each, which shows or hides its box. More than one may be open.

(The heads of ipywidgets' Accordion are plain boxes without a role, which Tab passes by.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_ICONS = {True: "caret-down", False: "caret-right"}
_TIPS = {True: "Hide", False: "Show"}


class Folds:
    """One above the other, in `box`.

    Args:
        kit: The module ipywidgets.
        boxes: Title to what it shows; the first is open at first.
        call: Calls a function in the kernel's loop, from any thread.
        told: Told of a title, and whether its fold is open now.
    """

    def __init__(
        self, kit: Any, boxes: Mapping[str, Any], call: Callable[..., None], told: Callable[[str, bool], None]
    ) -> None:
        self._boxes, self._told = dict(boxes), told
        self.heads = {title: self._head(kit, title, call) for title in boxes}
        self.box = kit.VBox([each for title in boxes for each in (self.heads[title], self._boxes[title])])
        for number, title in enumerate(boxes):
            self._draw(title, number == 0)

    def _head(self, kit: Any, title: str, call: Callable[..., None]) -> Any:
        made = kit.ToggleButton(value=title == next(iter(self._boxes)), description=title)
        made.layout = kit.Layout(width="auto", align_self="flex-start")
        made.observe(lambda change: call(self._turn, title, change["new"]), "value")
        return made

    def open(self, title: str, is_open: bool = True) -> None:
        """Open or close a fold, as its button does."""
        self.heads[title].value = is_open

    def _turn(self, title: str, is_open: bool) -> None:
        self._draw(title, is_open)
        self._told(title, is_open)

    def _draw(self, title: str, is_open: bool) -> None:
        self._boxes[title].layout.display = None if is_open else "none"
        self.heads[title].icon, self.heads[title].tooltip = _ICONS[is_open], f"{_TIPS[is_open]} {title}"
