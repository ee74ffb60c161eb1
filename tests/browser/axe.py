"""axe-core, the accessibility checker, in a page: what it finds serious in our outputs."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PACKAGE = "axe-core@4.14.1"
RUN = """async (element, rules) => {
    const only = rules.length ? {runOnly: rules} : {};
    const found = await axe.run(element, {resultTypes: ['violations'], ...only});
    return found.violations.filter(each => ['serious', 'critical'].includes(each.impact))
        .flatMap(each => each.nodes.map(node => `${each.id}: ${node.html.slice(0, 200)} | ${node.failureSummary}`));
}"""


def fetch_axe(folder: Path) -> str:
    """The source of axe-core, from npm, by way of this folder.

    Raises:
        OSError, subprocess.CalledProcessError: npm is not there, or can't fetch it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=folder, capture_output=True, text=True, check=True)
    with tarfile.open(folder / done.stdout.strip()) as packed:
        source = packed.extractfile("package/axe.min.js")
        assert source is not None
        return source.read().decode()


def serious(element: Any, rules: Sequence[str] = ()) -> list[str]:
    """What axe-core finds serious or critical in an element of a page that has it: rule, element, why.

    Args:
        element: A locator of one element.
        rules: Only these; all when there are none.
    """
    return element.evaluate(RUN, list(rules))
