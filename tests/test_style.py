"""The same checks for everyone: lint, format and types are tests, so that one command runs them all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a Python tool over the repository."""
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )


def test_lint():
    """Ruff finds nothing."""
    done = run("ruff", "check", "agentnb", "tests", "notebooks")

    assert done.returncode == 0, done.stdout + done.stderr


def test_format():
    """Every file is formatted as ruff formats it."""
    done = run("ruff", "format", "--check", "agentnb", "tests")

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(300)
def test_types():
    """Mypy, strict, finds nothing in the package."""
    done = run("mypy", "agentnb")

    assert done.returncode == 0, done.stdout + done.stderr
