"""What the agents are asked: Task, and a task set from a list, a file or a table.

    to_tasks(["What is 2 + 2?", {"goal": "...", "expected": 4}, Task("t3", "...")])
    to_tasks("tasks.jsonl")     one JSON object a line        to_tasks("tasks.csv")     a head line, then one task a row
    to_tasks(frame)             a pandas DataFrame            tasks_from_text(body)     the body of a cell

A task keeps the id that the person gave it; `Task.file_name` is the same id made safe for every file system. Whatever
is wrong with a task set is found before the first request, with the file and the line.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from hashlib import sha256
from numbers import Number
from os import PathLike
from typing import Any

from agentnb.comparison.task_files import Record, records_from_file, records_from_frame, records_from_text, wrong
from agentnb.errors import UsageError
from agentnb.records.canonical import digest, tidy
from agentnb.text import clean, shorten

FIELDS = ("id", "goal", "expected", "choices", "scorer")
"""What a column or key may be called; every other one goes to `metadata`."""
_REMEDY = "Give a list of goals, dicts or Tasks, a .jsonl or .csv file, or a DataFrame."
_SLUG = 40
_MOST_SHOWN = 5


@dataclass(frozen=True)
class Task:
    """One thing to ask, and what a good answer is."""

    id: str = ""
    """Unique in its task set, as the person wrote it; "" is numbered by `to_tasks`."""
    goal: str = ""
    expected: Any = field(default=None, hash=False)
    """A text, a number, several accepted texts, or JSON fields; None when nobody knows."""
    choices: tuple[str, ...] = ()
    """For multiple choice: the texts of A, B, C, ..."""
    scorer: str = ""
    """The name of this task's own scorer, such as "number"; "" takes the comparison's."""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Whatever else is known of it; it is kept beside the results."""

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "id", _id_text(self.id))
        if not isinstance(self.goal, str) or not self.goal.strip():
            raise wrong(f"task {self.id!r} has the goal {self.goal!r}, expected a text")
        put(self, "goal", clean(self.goal))
        put(self, "choices", _choices(self.choices))
        put(self, "scorer", self.scorer or "")
        put(self, "metadata", dict(self.metadata))

    @property
    def file_name(self) -> str:
        """This id as a file name, without an ending: no two ids share one."""
        return safe_name(self.id)

    @property
    def digest(self) -> str:
        """16 hex digits of everything that this task says."""
        whole = (self.id, self.goal, self.expected, self.choices, self.scorer, self.metadata)
        return digest(tidy(whole))


def to_tasks(source: Any, *, columns: Mapping[str, str] | None = None, encoding: str | None = None) -> tuple[Task, ...]:
    """The task set that a list, a file or a table holds, in its order.

    Args:
        source: Goals, dicts and Tasks; the path of a .jsonl, .csv or .tsv file; or a pandas DataFrame.
        columns: What the source calls our fields: {"goal": "question", "expected": "answer"}.
        encoding: Of a file; None is UTF-8, or UTF-16 where the file says so.

    Raises:
        UsageError: A goal is missing or empty, ids are not unique, a line can't be read. It names the file and line.
    """
    if isinstance(source, str | PathLike):
        records = records_from_file(source, encoding)
    elif hasattr(source, "columns") and hasattr(source, "to_dict"):
        records = records_from_frame(source)
    elif isinstance(source, Iterable) and not isinstance(source, bytes | Mapping | Task):
        records = [_record(each, number) for number, each in enumerate(source, 1)]
    else:
        raise wrong(f"{type(source).__name__} is no task set", _REMEDY)
    return _task_set(records, columns or {})


def tasks_from_text(text: str, name: str = "the cell", *, columns: Mapping[str, str] | None = None) -> tuple[Task, ...]:
    """The task set that a text holds: JSON Lines, CSV with a head line that names the goal, else one goal a line.

    Args:
        text: Such as the body of a cell; blank lines are skipped.
        name: What errors call it.
        columns: As in `to_tasks`.
    """
    goal = (columns or {}).get("goal", "goal")
    return _task_set(records_from_text(text, name, goal), columns or {})


def task_set_hash(tasks: Iterable[Task]) -> str:
    """16 hex digits of the whole set. It is a set: the order of the tasks does not change it, anything else does."""
    return digest(sorted(task.digest for task in tasks))


def safe_name(text: str) -> str:
    """A file name for any text: lower-case ASCII letters, digits, dots and dashes, then 12 digits of its hash.

    So it is the same on file systems that ignore case, it is no reserved name, and it never leaves its folder.

    >>> safe_name("org/model:free")
    'org-model-free-0ccb26a8ad15'
    """
    slug = re.sub(r"[^a-z0-9.]+", "-", text.lower())[:_SLUG].strip(".-") or "task"
    return f"{re.sub(r'[.]{2,}', '.', slug)}-{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


# ── from records to tasks ────────────────────────────────────────────────────────────────────────────────────────────


def _record(given: Any, number: int) -> Record:
    place = f"task {number} of the list"
    if isinstance(given, Task):
        return Record(place, given)
    if isinstance(given, str):
        return Record(place, {"goal": given})
    if isinstance(given, Mapping):
        return Record(place, dict(given))
    raise wrong(f"{place} is {type(given).__name__}", _REMEDY)


def _task_set(records: Sequence[Record], columns: Mapping[str, str]) -> tuple[Task, ...]:
    if not records:
        raise wrong("the task set is empty", _REMEDY)
    if unknown := set(columns) - set(FIELDS):
        raise wrong(f"columns= names {sorted(unknown)}, a task has {', '.join(FIELDS)}")
    tasks = [_task(record, columns, number) for number, record in enumerate(records, 1)]
    _warn_of_slips({name: None for task in tasks for name in task.metadata})
    _check_unique(tasks, [record.place for record in records])
    return tuple(tasks)


def _warn_of_slips(names: Iterable[str]) -> None:
    """Say which field was perhaps meant to be one of ours: without it a task is still one, so a slip goes unseen."""
    for name in names:
        near = get_close_matches(str(name).lower(), ("expected", "choices", "scorer"), n=1, cutoff=0.85)
        if near and name != "score":
            told = f"the field {name!r} of the tasks is kept as metadata; did you mean {near[0]!r}?"
            warnings.warn(told, stacklevel=4)


def _task(record: Record, columns: Mapping[str, str], number: int) -> Task:
    if isinstance(record.content, Task):
        given = record.content
        return given if given.id else Task(str(number), *(getattr(given, name) for name in _AFTER_ID))
    content = {str(key): value for key, value in record.content.items()}
    found = {name: content.pop(columns.get(name, name), None) for name in FIELDS}
    if found["goal"] is None:
        raise _no_goal(record.place, columns, [*map(str, record.content)])
    more = content.pop("metadata", None)
    metadata = {**content, **more} if isinstance(more, Mapping) else content
    try:
        return Task(_id_text(found.pop("id")) or str(number), **found, metadata=metadata)
    except UsageError as error:
        raise wrong(f"{record.place}: {error.message}") from error


_AFTER_ID = ("goal", "expected", "choices", "scorer", "metadata")


def _id_text(given: Any) -> str:
    """The id as text: 1, 1.0 (a column of numbers with a gap) and "1" are the same id; nothing is ""."""
    if given is None:
        return ""
    if isinstance(given, float) and given.is_integer():
        given = int(given)
    if not isinstance(given, str | Number):
        raise wrong(f"the id {given!r} is {type(given).__name__}, expected a text or a number")
    return clean(str(given)).strip()


def _choices(given: Any) -> tuple[str, ...]:
    """Choices from a sequence, or from one cell of a table: "Paris | London"."""
    if not given:
        return ()
    parts = given.split("|") if isinstance(given, str) else given
    return tuple(clean(str(each)).strip() for each in parts)


def _check_unique(tasks: Sequence[Task], places: Sequence[str]) -> None:
    """No id twice, also after conversion to text, and no file name twice."""
    seen: dict[str, list[str]] = {}
    for task, place in zip(tasks, places, strict=True):
        seen.setdefault(task.file_name, []).append(f"{task.id!r} ({place})")
    twice = [", ".join(each) for each in seen.values() if len(each) > 1]
    if twice:
        more = f"; and {len(twice) - _MOST_SHOWN} more" if len(twice) > _MOST_SHOWN else ""
        shown = "; ".join(shorten(each, 200) for each in twice[:_MOST_SHOWN])
        raise wrong(f"these ids are not unique: {shown}{more}", "Give every task an id of its own, or none at all.")


def _no_goal(place: str, columns: Mapping[str, str], keys: Sequence[str]) -> UsageError:
    name = columns.get("goal", "goal")
    if name in keys:
        return wrong(f"{place}: {name!r} is empty")
    example = next((key for key in keys if key != "id"), "question")
    return wrong(
        f"{place} has no {name!r}; it has {', '.join(map(repr, keys)) or 'nothing'}",
        f'Say which one is the goal: columns={{"goal": "{example}"}}.',
    )
