"""JupyterLab and Notebook 7 for tests: a server of its own on a free loopback port, and a notebook opened in a browser page.

Nothing here waits for a fixed time: it waits for a state of the kernel, of the notebook's model or of the page.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat

SECONDS = 60
TOKEN = "for-tests-on-the-loopback"
IDLE = "() => jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'"
KERNEL = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
NOT_NEEDED = ("ipyparallel", "jupyter_lsp", "jupyterlab_jupytext")
"""Extensions of the server that would only make it start late."""
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    "notebook-extension/tracker": {"recordTiming": True},
}
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class LabServer:
    """A JupyterLab server whose settings, notebooks and log lie in `folder`; `stop` it always."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        self.log = folder / "server.log"
        self.url = f"http://127.0.0.1:{free_port()}"
        self._configure(folder)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self._command(),
                cwd=self.folder,
                env=self._environment(folder),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._wait()

    def _command(self) -> list[str]:
        options = {
            "ServerApp.port": self.url.rpartition(":")[2],
            "ServerApp.port_retries": "0",
            "ServerApp.ip": "127.0.0.1",
            "ServerApp.root_dir": str(self.folder),
            "ServerApp.password": "",
            "IdentityProvider.token": TOKEN,
            "JupyterNotebookApp.expose_app_in_browser": "True",
            "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
        }
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--expose-app-in-browser", "--allow-root"]
        return command + [f"--{name}={value}" for name, value in options.items()]

    def _environment(self, folder: Path) -> dict[str, str]:
        own = {
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
            "IPYTHONDIR": "ipython",
            "AGENTNB_CACHE": "no-weights",
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "AGENTNB_"))}
        return {**kept, **{name: str(folder / value) for name, value in own.items()}}

    def _configure(self, folder: Path) -> None:
        for name, values in SETTINGS.items():
            path = folder / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps(values))
        path = folder / "config" / "jupyter_server_config.d" / "quick.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"ServerApp": {"jpserver_extensions": dict.fromkeys(NOT_NEEDED, False)}}))

    def _wait(self) -> None:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            try:
                self.ask("/api/status")
                return
            except OSError:
                time.sleep(0.1)  # the server offers nothing to wait on
        self.stop()
        raise RuntimeError(self.log.read_text(errors="replace")[-4000:])

    def ask(self, path: str, method: str = "GET") -> Any:
        """Ask the server's own interface and return the JSON answer, None for an empty one."""
        request = urllib.request.Request(self.url + path, method=method, headers={"Authorization": f"token {TOKEN}"})
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            content = answer.read()
        return json.loads(content) if content else None

    def write(self, name: str, cells: Sequence[str]) -> str:
        """A notebook with these code cells; returns its name."""
        notebook = nbformat.v4.new_notebook(metadata={"kernelspec": KERNEL})
        notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
        nbformat.write(notebook, self.folder / name)
        return name

    def end_kernels(self) -> None:
        """Shut every kernel down."""
        for kernel in self.ask("/api/kernels"):
            self.ask(f"/api/kernels/{kernel['id']}", "DELETE")

    def stop(self) -> None:
        """End the server with everything that it started."""
        try:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        except ProcessLookupError:
            pass


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class LabPage:
    """JupyterLab in one page of a browser; it loads once and opens one notebook after the other."""

    def __init__(self, browser: Any, server: LabServer) -> None:
        self.errors: list[str] = []
        """What the page logged as an error, and what it raised."""
        self.server = server
        self.page = browser.new_page(viewport={"width": 1200, "height": 1000})
        self.page.set_default_timeout(SECONDS * 1000)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._heard)
        self.start()

    def start(self) -> None:
        """Load JupyterLab."""
        self.page.goto(f"{self.server.url}/lab?reset&token={TOKEN}")
        self.page.wait_for_function("window.jupyterapp && document.querySelector('#jp-main-dock-panel')")

    def open(self, name: str) -> None:
        """Open a notebook."""
        self.run_command("docmanager:open", path=name)

    def _heard(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} ({message.location.get('url', '')})")

    def run_command(self, name: str, **arguments: Any) -> None:
        """Execute a command of JupyterLab and wait for it."""
        execute = "([name, options]) => jupyterapp.commands.execute(name, options).then(() => null)"
        self.page.evaluate(execute, [name, arguments])

    def use_theme(self, name: str) -> None:
        """Switch to a theme and wait for it."""
        self.run_command("apputils:change-theme", theme=name)
        self.page.wait_for_function("name => document.body.dataset.jpThemeName === name", arg=name)
        self.page.locator("#jupyterlab-splash").wait_for(state="detached")

    def picture(self, path: Path) -> None:
        """A screenshot of the page."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=str(path))


class Notebook7Page(LabPage):
    """Notebook 7 in one page of a browser, which loads anew for each notebook."""

    def start(self) -> None:
        """Nothing is loaded before a notebook is opened."""

    def open(self, name: str) -> None:
        """Load the page of a notebook."""
        self.page.goto(f"{self.server.url}/notebooks/{name}?token={TOKEN}")
        self.page.wait_for_function("window.jupyterapp?.shell?.currentWidget")


class OpenNotebook:
    """A notebook open in JupyterLab or Notebook 7.

    Args:
        lab: The page.
        name: The file name, in the server's folder.
    """

    def __init__(self, lab: LabPage, name: str) -> None:
        self.lab = lab
        self.page = lab.page
        self.path = lab.server.folder / name
        lab.errors.clear()
        lab.open(name)
        self._wait_until_shown()
        self.wait_for_kernel()

    @classmethod
    def unserved(cls, lab: LabPage, name: str) -> OpenNotebook:
        """A notebook that is opened to be read, without a kernel."""
        made = cls.__new__(cls)
        made.lab, made.page, made.path = lab, lab.page, lab.server.folder / name
        lab.errors.clear()
        lab.run_command("docmanager:open", path=name, kernelPreference={"shouldStart": False, "canStart": False})
        lab.page.wait_for_function(
            """async name => {
                const panel = jupyterapp.shell.currentWidget;
                if (panel?.context?.path !== name) return false;
                await panel.context.ready;
                await panel.revealed;
                return true;
            }""",
            arg=name,
        )
        return made

    def _wait_until_shown(self) -> None:
        self.page.wait_for_function(
            """async name => {
                const panel = window.jupyterapp?.shell.currentWidget;
                if (panel?.context?.path !== name) return false;
                await panel.context.ready;
                await panel.revealed;
                await panel.sessionContext.ready;
                return Boolean(panel.sessionContext.session?.kernel);
            }""",
            arg=self.path.name,
        )

    def wait_for_kernel(self) -> None:
        """Wait until the kernel has nothing to do."""
        self.page.wait_for_function(IDLE)

    def is_running(self, number: int) -> bool:
        """Whether a cell runs; while it awaits, the kernel may well call itself idle."""
        state = "number => jupyterapp.shell.currentWidget.content.widgets[number].model.executionState === 'running'"
        return bool(self.page.evaluate(state, number))

    def reload(self) -> None:
        """Load the page again, as its button does, whether the kernel works or not."""
        self.page.reload()
        self._wait_until_shown()

    def start_all(self) -> None:
        """Run All, without waiting for the end."""
        self.page.evaluate("() => { jupyterapp.commands.execute('notebook:run-all-cells'); }")

    def run_all(self) -> None:
        """Run All, to the end."""
        self.start_all()
        self.wait_for_cells()

    def start_cell(self, number: int) -> None:
        """Run one cell, without waiting for the end."""
        self.page.evaluate(
            """number => {
                jupyterapp.shell.currentWidget.content.activeCellIndex = number;
                jupyterapp.commands.execute('notebook:run-cell');
            }""",
            number,
        )

    def run_cell(self, number: int) -> None:
        """Run one cell, to its end."""
        self.page.evaluate(
            """number => {
                jupyterapp.shell.currentWidget.content.activeCellIndex = number;
                return jupyterapp.commands.execute('notebook:run-cell').then(() => null);
            }""",
            number,
        )
        self.wait_for_cells()

    def edit(self, number: int, source: str) -> None:
        """Write another text into a cell."""
        write = "([number, text]) => jupyterapp.shell.currentWidget.content.widgets[number].model.sharedModel.setSource(text)"
        self.page.evaluate(write, [number, source])

    def wait_for_cells(self) -> None:
        """Wait until no cell runs or waits, and the kernel is idle."""
        self.page.wait_for_function(
            """() => {
                const panel = jupyterapp.shell.currentWidget;
                const cells = [...panel.content.widgets].filter(cell => cell.model.type === 'code');
                return panel.sessionContext.session?.kernel?.status === 'idle'
                    && cells.every(cell => cell.model.executionState !== 'running' && cell.promptNode?.textContent !== '[*]:')
                    && cells.some(cell => cell.model.executionCount !== null);
            }"""
        )

    def interrupt(self) -> None:
        """Interrupt the kernel, as its button does."""
        self.page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.interrupt()")

    def cell(self, number: int) -> Any:
        """The page's element of a cell; cells count from 0."""
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook-cell").nth(number)

    def show(self, number: int) -> None:
        """Scroll to a cell."""
        self.page.evaluate("number => jupyterapp.shell.currentWidget.content.scrollToItem(number, 'start')", number)
        self.cell(number).wait_for()

    def counts(self) -> list[int | None]:
        """The execution count of every code cell."""
        return [cell["execution_count"] for cell in self.model() if cell["cell_type"] == "code"]

    def outputs(self, number: int) -> list[dict[str, Any]]:
        """The outputs of a cell in the notebook's model."""
        return self.model()[number]["outputs"]

    def ended(self, number: int) -> float:
        """When the kernel ended a cell, in seconds since the epoch."""
        timing = self.model()[number]["metadata"]["execution"]
        return datetime.fromisoformat(timing["shell.execute_reply"]).timestamp()

    def model(self) -> list[dict[str, Any]]:
        """Every cell as the notebook would save it."""
        return self.page.evaluate("() => jupyterapp.shell.currentWidget.context.model.toJSON().cells")

    def save(self) -> dict[str, Any]:
        """Save and return what the file holds now."""
        self.lab.run_command("docmanager:save")
        return json.loads(self.path.read_text("utf-8"))

    def close(self) -> None:
        """Close the notebook as it is and shut its kernel down; nothing happens when it is closed."""
        close = "name => [...jupyterapp.shell.widgets('main')].find(each => each.context?.path === name)?.dispose()"
        self.page.evaluate(close, self.path.name)
        self.lab.server.end_kernels()
