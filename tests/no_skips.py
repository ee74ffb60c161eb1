"""A pytest plugin for CI: with AGENTNB_NO_SKIPS=1 a skipped test fails the run, since there everything is installed.

`.ci/run` loads it (PYTEST_PLUGINS); elsewhere tests may skip with a reason.
"""

from __future__ import annotations

import os

import pytest

ACTIVE = os.environ.get("AGENTNB_NO_SKIPS", "") not in ("", "0")
skipped: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember every test that was skipped."""
    if report.skipped and not hasattr(report, "wasxfail"):
        skipped.append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Remember every module that was skipped as a whole."""
    if report.skipped:
        skipped.append(report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Turn a green run with skips into a red one."""
    if ACTIVE and skipped and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say so."""
    if ACTIVE and skipped:
        terminalreporter.write_line(f"AGENTNB_NO_SKIPS: {len(skipped)} skipped, but here nothing may be", red=True)
