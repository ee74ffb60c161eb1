"""Runs killed at random moments while they are saved; `killed_runs.py` says what must hold then."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that are copies of this one")
def test_a_killed_run_loses_nothing_and_repeats_nothing():
    """After 20 kills at random moments every file loads, and each call that ran has exactly one result."""
    script = Path(__file__).with_name("killed_runs.py")
    done = subprocess.run([sys.executable, str(script), "20"], capture_output=True, text=True, check=False, timeout=100)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "20 kills" in done.stdout
    assert done.stderr == ""
