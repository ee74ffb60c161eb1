"""Packages that only comparisons need, imported where they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from agentnb.errors import SettingsError

OF_EXTRA = ("numpy", "pandas", "scipy")
"""What the extra `compare` brings."""


def extra(module: str) -> Any:
    """An outside module: numpy, scipy.special, pandas, pyarrow.

    Raises:
        SettingsError: It is not installed; the error names the command.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        command = "pip install " + ("'agentnb-jupyter[compare]'" if package in OF_EXTRA else package)
        raise SettingsError(
            f"{package} is not installed, and this needs it", layer="comparison", remedy=command
        ) from error
