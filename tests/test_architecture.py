"""The shape of the code: imports point down, the core is small, importing agentnb changes nothing."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "agentnb"
FILES = sorted(PACKAGE.rglob("*.py"))
CORE = sorted((PACKAGE / "core").glob("*.py"))

ONLY_PLACE = {
    "IPython": ("agentnb.notebook",),
    "ipywidgets": ("agentnb.notebook",),
    "matplotlib": ("agentnb.plots",),
    "nest_asyncio2": ("agentnb.bridge",),
    "dotenv": ("agentnb.settings",),
    "httpx": ("agentnb.models", "agentnb.tools", "agentnb.doctor"),
}
"""Outside packages that have one home in the code."""


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """Who imports whom, outside packages included."""
    return grimp.build_graph("agentnb", include_external_packages=True, cache_dir=None)


@pytest.mark.slow
def test_imports_point_down():
    """import-linter finds no arrow that goes up; if it does, its report names the chain."""
    command = [
        sys.executable,
        "-c",
        "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_core_needs_only_the_standard_library(graph):
    """No file of core imports an outside package."""
    for module in graph.find_descendants("agentnb.core"):
        outside = {name for name in graph.find_modules_directly_imported_by(module) if not name.startswith("agentnb")}
        assert outside <= set(sys.stdlib_module_names), f"{module} imports {outside}"


@pytest.mark.parametrize("package", ONLY_PLACE)
def test_outside_packages_stay_in_their_place(graph, package):
    """Jupyter lives in notebook/, matplotlib in plots/, HTTP in models/ and the tools that fetch."""
    users = graph.find_modules_that_directly_import(package) if package in graph.modules else set()

    assert {user for user in users if not user.startswith(ONLY_PLACE[package])} == set()


def test_the_loop_is_small():
    """The file that is read first holds under 300 lines of code."""
    assert code_lines(PACKAGE / "core" / "runtime.py") < 300


def test_core_is_small():
    """Core stays under 800 lines of code in all."""
    lines = {path.name: code_lines(path) for path in CORE}

    assert sum(lines.values()) < 800, lines


def test_environment_variables_are_read_in_one_place():
    """Only settings.py reads the environment; to hand it on whole to a process is no reading."""
    readers = {path.name for path in saying("env") for node in ast.walk(parsed(path)) if reads_environment(node)}

    assert readers == {"settings.py"}


def test_event_loops_are_made_in_one_place():
    """Only bridge.py makes event loops, and the scripted server, whose thread is a program of its own."""
    makers = ("asyncio.run", "asyncio.new_event_loop", "asyncio.set_event_loop", "asyncio.Runner")
    used = {path.name for path in saying("asyncio") for node in ast.walk(parsed(path)) if dotted(node) in makers}

    assert used <= {"bridge.py", "server.py"}


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_and_functions_can_be_read(path):
    """No file has more than 500 lines, no function more than 60."""
    long = [f"{name} ({lines} lines)" for name, lines in functions(parsed(path)) if lines > 60]

    assert len(path.read_text("utf-8").splitlines()) <= 500
    assert long == []


IMPORT = """
import sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
before = set(sys.modules)
{statement}
heavy = {{"matplotlib", "ipywidgets", "IPython", "httpx", "pydantic", "numpy", "pandas"}} & (set(sys.modules) - before)
files = [name for name in opened if name.endswith(".env") or (name.endswith((".json", ".toml")))]
if heavy or files:
    sys.exit(f"imported {{heavy}}, opened {{files}}")
"""


@pytest.mark.parametrize(
    "statement",
    [
        "import agentnb",
        "from agentnb import State, StopReason, Limits, Runtime",
        "from agentnb import ScriptedModel, calls",
    ],
)
def test_importing_changes_nothing(tmp_path, statement):
    """An import prints nothing, reads no settings and brings none of the heavy packages."""
    (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-from-the-file\n")
    done = subprocess.run(
        [sys.executable, "-c", IMPORT.format(statement=statement)],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [each.name for each in tmp_path.iterdir()] == [".env"]


def test_code_lines_leave_out_words(tmp_path):
    """The line count is of code: docstrings, comments and blank lines are free, so nobody saves on them."""
    path = tmp_path / "example.py"
    path.write_text(
        '"""Doc\nstring."""\n\n# a comment\nx = 1  # why\n\ndef f():\n    """Doc."""\n    return (\n        1)\n'
    )

    assert code_lines(path) == 4


def saying(word: str) -> list[Path]:
    """The files in whose text the word stands: only these are worth a look at their tree."""
    return [path for path in FILES if word in path.read_text("utf-8")]


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text("utf-8"))


def reads_environment(node: ast.AST) -> bool:
    """Whether this is `os.environ["X"]`, `os.environ.get(...)` or `os.getenv`."""
    if isinstance(node, ast.Subscript):
        return dotted(node.value) == "os.environ" and isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Attribute) and node.attr == "get":
        return dotted(node.value) == "os.environ"
    return dotted(node) == "os.getenv"


def dotted(node: ast.AST) -> str:
    """`os.environ` for a node that reads so; "" for any other."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def code_lines(path: Path) -> int:
    """Lines that hold code, without docstrings (also those below a field), comments and blank lines."""
    text = path.read_text("utf-8")
    free = {line for node in ast.walk(ast.parse(text)) if is_words(node) for line in span(node)}
    silent = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in silent]
    return len({line for token in tokens for line in range(token.start[0], token.end[0] + 1)} - free)


def is_words(node: ast.AST) -> bool:
    """Whether this is a string that stands alone: a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def span(node: ast.AST) -> range:
    """The lines of a node."""
    return range(node.lineno, node.end_lineno + 1)


def functions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every function's name and how many lines it has."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, len(span(node))
