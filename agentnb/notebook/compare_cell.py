"""`%%compare`: the body is the task list, the line says what is compared; the result shows itself below.

    %%compare -m openai:gpt-5-mini,local -r 3 --folder runs/sums -o result
    {"id": "sum", "goal": "What is 2 + 2?", "expected": 4}

The body is JSON Lines, CSV with a head line, or one goal a line. The cell does what `compare(...)` does; Stop and an
interrupt keep what is finished.
"""

from __future__ import annotations

import asyncio
import html
from collections.abc import Callable, Mapping
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from IPython.core.magic_arguments import argument, magic_arguments

from agentnb.agent import Agent
from agentnb.comparison.progress import Display, Progress, on_terminal
from agentnb.core.limits import Limits
from agentnb.errors import AgentInterrupted, UsageError
from agentnb.notebook.follow import CellWork, front_end_is_live
from agentnb.notebook.names import chosen_tools, model_named, text_of
from agentnb.notebook.options import parsed, without_markers
from agentnb.threads import run_in_thread, within

if TYPE_CHECKING:
    from agentnb.notebook.magics import AgentMagics

_END_SECONDS = 1.0
"""So long an interrupted cell waits for its finished runs to be told."""
_AGAIN_SECONDS = 0.05
"""What is begun after a stop is cancelled so soon."""
_OPTIONS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("-m", "--models"), "names with commas between, or variables that hold models"),
    (("-r", "--repeats"), "how often each does each task; once when not given"),
    (("-c", "--concurrency"), "runs at once; 3 when not given"),
    (("-o", "--out"), "the variable that holds the result"),
    (("-t", "--tools"), 'names with commas between, or "none"; all tools of the notebook when not given'),
    (("--folder",), "where results go and are found again"),
    (("--planners",), '"tools,json", or variables that hold planners'),
    (("--system-prompts",), "variables that hold one each, with commas between"),
    (("--temperatures",), "numbers with commas between"),
    (("--variants",), "a variable that holds agents or changes, instead"),
    (("--agent",), "a variable that holds an Agent, of which all variants are made"),
    (("--system-prompt",), "for all: a text, or a variable that holds one"),
    (("--steps",), "for all: at most so many model calls in a run"),
    (("--scorer",), "a name such as number, or a variable that holds a scorer"),
    (("--first",), "so many tasks are run as samples, with an estimate for the rest"),
    (("--retry",), '"failed", or outcomes with commas between, are run once more'),
    (("--max-cost",), "no run is started that would take the cell beyond so many US dollars"),
    (("--max-tokens",), "the same for tokens"),
    (("--seed",), "of the order in which tasks are run"),
)


def compare_options(function: Any) -> Any:
    """The magic with its options, for `%%compare?` and for `compare_work`."""
    for flags, words in reversed(_OPTIONS):
        function = argument(*flags, help=words)(function)
    return magic_arguments()(function)


def compare_work(magics: AgentMagics, magic: Any, line: str, cell: str) -> CellComparison:
    """What a `%%compare` cell does, not begun.

    Args:
        magics: Holds the notebook's default model.
        magic: The method that carries the options.
        line: The options.
        cell: The tasks.

    Raises:
        UsageError: An option or a task can't be used.
    """
    from agentnb.comparison.tasks import tasks_from_text

    options = parsed(magic, line, "%%compare")
    if options.out and not options.out.isidentifier():
        raise UsageError(f"--out {options.out!r} can't be a variable", remedy="Use a name such as result.")
    given = _arguments(options, magics.model, magics.shell.user_ns)
    return CellComparison(magics, given | {"tasks": tasks_from_text(without_markers(cell))}, options.out)


class CellComparison(CellWork):
    """One comparison, in a thread of its own: a Stop button and other cells' buttons work meanwhile.

    Args:
        magics: Whose shell gets the result.
        given: The arguments of `compare`.
        out: The variable that holds the result, also what there is of it after a stop; or None.
    """

    def __init__(self, magics: AgentMagics, given: dict[str, Any], out: str | None) -> None:
        super().__init__(magics)
        self.given, self.out = given, out
        self.result: Any = None
        self._told = ""
        """What was told of the interrupt; "" when it came too late, or before anything began."""
        self._now = Progress(0)
        self._given_up, self._over = Event(), Event()
        self._scope = within()

    async def work(self, live: bool) -> None:
        """Compare; where a person looks on, the bar tells how far it has come."""
        if live:
            self.given["progress"] = self._note
        with self._scope:
            try:
                await run_in_thread(self._compare)
            except asyncio.CancelledError:
                self._give_up()
                await asyncio.to_thread(self._over.wait, _END_SECONDS)
                raise

    def _compare(self) -> None:
        from agentnb.comparison.compare import compare

        try:
            if not self._given_up.is_set():
                self.result = compare(**self.given)
        except AgentInterrupted as error:
            self.result, self._told = error.state, str(error)
        finally:
            self._over.set()

    def _note(self, progress: Progress) -> None:
        self._now = progress

    def stop(self) -> None:
        """End it from a button: what is finished is kept, the cell ends normally. May be called in any thread."""
        self.stopped = True
        self._give_up()

    def _give_up(self) -> None:
        """Cancel what runs, and again what begins later: the tasks may only now be read."""
        self._given_up.set()
        self._scope.give_up()
        Thread(target=self._go_on_giving_up, daemon=True).start()

    def _go_on_giving_up(self) -> None:
        while not self._over.wait(_AGAIN_SECONDS):
            self._scope.give_up()

    def status(self) -> str:
        """How far it has come."""
        return bar_html(self._now)

    def end(self) -> None:
        """Show the result, or what there is of it, and keep it."""
        from IPython.display import display

        if self.result is None:
            if self.stopped:
                print("Stopped before the first run; the same cell begins it.")
            return
        if self.stopped and self._told:
            self.result.notes += (f"Stopped; {self._told}.",)
        if self.out:
            self.magics.shell.user_ns[self.out] = self.result
        display(self.result)

    def interrupted(self) -> AgentInterrupted:
        """What is kept, and how to go on."""
        return AgentInterrupted(self._told or "interrupted before the first run; nothing was asked", self.result)


def _arguments(options: Any, model: Any, space: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `compare` that the options stand for."""
    given: dict[str, Any] = {"folder": options.folder, "scorer": _named(options.scorer, space)}
    for name in ("models", "planners", "system_prompts"):
        words = getattr(options, name)
        read = model_named if name == "models" else _named
        given[name] = None if words is None else {word: read(word, space) for word in _words(words)}
    if options.temperatures is not None:
        numbers = [_number(word, "--temperatures", float) for word in _words(options.temperatures)]
        given["parameter_sets"] = [{"temperature": number} for number in numbers]
    given["retry"] = options.retry if options.retry in (None, "failed") else _words(options.retry)
    for name, kind in (("repeats", int), ("concurrency", int), ("first", int), ("seed", int), ("max_tokens", int)):
        if (word := getattr(options, name)) is not None:
            given[name] = _number(word, f"--{name.replace('_', '-')}", kind)
    if options.max_cost is not None:
        given["max_cost"] = _number(options.max_cost, "--max-cost", float)
    return given | _of_agents(options, model, space)


def _of_agents(options: Any, model: Any, space: Mapping[str, Any]) -> dict[str, Any]:
    """What all variants have, or the variants themselves."""
    if options.variants is not None:
        return {"variants": _held(options.variants, "--variants", space)}
    found: dict[str, Any] = {}
    base = None if options.agent is None else _held(options.agent, "--agent", space)
    if base is not None:
        if not isinstance(base, Agent):
            raise UsageError(f"--agent: {options.agent!r} holds no Agent", remedy="Define it first: name = Agent(...)")
        found["agent"] = base
    if options.tools is not None or base is None:
        found["tools"] = chosen_tools(options.tools, space)
    if options.models is None and base is None:
        found["model"] = model
    if options.system_prompt is not None:
        found["system_prompt"] = text_of(options.system_prompt, space)
    if options.steps is not None:
        found["limits"] = Limits(steps=_number(options.steps, "--steps", int))
    return found


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _named(word: str | None, space: Mapping[str, Any]) -> Any:
    """The value of a variable of that name, else the word."""
    return None if word is None else space.get(word, word)


def _held(name: str, option: str, space: Mapping[str, Any]) -> Any:
    if name not in space:
        raise UsageError(f"{option}: there is no variable {name!r}", remedy="Define it in a cell above.")
    return space[name]


def _number(word: str, option: str, kind: Callable[[str], Any]) -> Any:
    try:
        return kind(word)
    except ValueError as error:
        raise UsageError(f"{option} {word!r} is not a number", remedy=f"Write {option} 3.") from error


# ── progress ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class ProgressBar:
    """One display that changes while a batch runs and is empty in the end, so nothing of it is saved."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, progress: Progress) -> None:
        """Show this state."""
        from IPython.display import display

        bundle = {"text/html": bar_html(progress), "text/plain": str(progress)}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def close(self) -> None:
        """Take it away."""
        if self._handle is not None:
            self._handle.update({}, raw=True)


_BAR_WIDTH = 30


def bar_html(progress: Progress) -> str:
    """A bar of characters: done, failed, running, waiting; and the counts."""
    finished = progress.kept + progress.done
    scale = _BAR_WIDTH / max(1, progress.total)
    failed = round(progress.failed * scale) or int(bool(progress.failed))
    full = max(0, round(finished * scale) - failed)
    bar = "█" * full + "▒" * failed
    return f"<pre>{bar.ljust(_BAR_WIDTH, '░')}</pre><div>{html.escape(str(progress))}</div>"


def source_of_cell(shell: Any) -> Callable[[], str | None]:
    """What tells the text of the cell that runs now; None outside of a kernel."""

    def source() -> str | None:
        kernel = getattr(shell, "kernel", None)
        parent = kernel.get_parent("shell") if kernel is not None else {}
        code = parent.get("content", {}).get("code")
        return code if isinstance(code, str) else None

    return source


def displays_for(shell: Any) -> Callable[[], Display | None]:
    """What makes the display of each batch in this shell: a bar where a person sits, a line in a terminal."""
    return lambda: ProgressBar() if front_end_is_live(shell) else on_terminal()
