"""What only a notebook knows, for the record of a comparison; the notebook layer fills it in."""

from __future__ import annotations

from collections.abc import Callable

cell_source: Callable[[], str | None] = lambda: None
"""The text of the cell that runs now; None outside of a notebook."""
