"""The long table: one plain dict per variant, task and repeat; and the forms in which it leaves.

    rows = [row(...), ...]      to_frame(rows)   write_csv   write_json_lines   write_parquet
    inspect_rows(rows)          the columns of inspect_ai's samples_df
    evalstats_rows(rows)        the columns that evalstats reads

Unknown is None everywhere, in CSV an empty cell.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from agentnb.comparison.extras import extra
from agentnb.comparison.scores import AS_ZERO, SCORED, Outcome, Score
from agentnb.comparison.tasks import Task
from agentnb.comparison.verdict import Values
from agentnb.core.state import State
from agentnb.records.canonical import tidy
from agentnb.text import mask

Row = dict[str, Any]
_LIMITS = {
    "max_seconds": "time",
    "max_tokens": "token",
    "max_cost": "cost",
    "context_too_long": "context",
    "max_steps": "message",
}
"""Our stop reasons in inspect_ai's words; others are "custom"."""


def row(variant: str, task: Task, repeat: int, run: State | None, score: Score, **more: Any) -> Row:
    """One row of the long table.

    Args:
        variant: The variant's name.
        task: What was asked.
        repeat: Counts from 1.
        run: The finished run; None when it was not run.
        score: From `score_run`.
        more: Further columns, such as waited seconds or the model that answered.
    """
    judged = score.usage
    return {
        "variant": variant,
        "task": task.id,
        "repeat": repeat,
        "outcome": str(score.outcome),
        "score": score.value,
        "explanation": score.explanation,
        "scorer": score.scorer,
        **_of_run(run),
        "scoring_tokens": judged.total if judged and judged.complete else None,
        "scoring_cost": score.cost,
        "goal": mask(task.goal),
        "expected": tidy(task.expected),
        "metadata": tidy(task.metadata),
        **more,
    }


def _of_run(run: State | None) -> Row:
    if run is None:
        return dict.fromkeys(_RUN_COLUMNS)
    usage, models = run.usage, [step.reply for step in run.steps if step.reply]
    told = (
        str(run.stop) if run.stop else None,
        None if run.answer is None else mask(run.answer),
        mask(run.detail) or None,
        run.counters.steps,
        run.counters.tool_calls,
        sum(result.status in ("error", "timeout") for result in run.tool_results),
        *((usage.input, usage.output, usage.total) if usage.complete else (None, None, None)),
        run.counters.cost,
        round(run.counters.seconds, 3),
        models[-1].model if models else None,
        (models[-1].answered_as or None) if models else None,
    )
    return dict(zip(_RUN_COLUMNS, told, strict=True))


_RUN_COLUMNS = (
    "stop",
    "answer",
    "detail",
    "steps",
    "tool_calls",
    "tool_errors",
    "input_tokens",
    "output_tokens",
    "tokens",
    "cost",
    "seconds",
    "model",
    "answered_as",
)


def values_of(rows: Iterable[Mapping[str, Any]], *, success: bool, as_zero: Sequence[Outcome] = AS_ZERO) -> Values:
    """The rows as `verdict` takes them: variant to task to one value per repeat.

    Args:
        rows: With variant, task, outcome and score.
        success: 1 where the score is 1, else 0; False takes the scores themselves.
        as_zero: Outcomes without a score that count as 0; the others have no value.
    """
    found: dict[str, dict[str, list[float | None]]] = {}
    for each in rows:
        value = 0.0 if each["outcome"] in as_zero else each["score"]
        value = float(value == 1) if success and value is not None else value
        found.setdefault(each["variant"], {}).setdefault(each["task"], []).append(value)
    return found


# ── ways out ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def to_frame(rows: Iterable[Mapping[str, Any]]) -> Any:
    """A pandas DataFrame; whole numbers with gaps stay whole (Int64)."""
    rows = [dict(each) for each in rows]
    frame = extra("pandas").DataFrame(rows)
    for name in _columns(rows):
        values = [each.get(name) for each in rows]
        if {type(value) for value in values} == {int, type(None)}:
            frame[name] = extra("pandas").array(values, dtype="Int64")
    return frame


def write_csv(rows: Iterable[Mapping[str, Any]], path: str | PathLike[str]) -> Path:
    """UTF-8 with a head line; what is no text or number is JSON."""
    rows, path = list(rows), Path(path)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, _columns(rows), restval="")
        writer.writeheader()
        writer.writerows({key: _cell(value) for key, value in each.items()} for each in rows)
    return path


def write_json_lines(rows: Iterable[Mapping[str, Any]], path: str | PathLike[str]) -> Path:
    """One JSON object a line, UTF-8."""
    path = Path(path)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(tidy(each), ensure_ascii=False) + "\n" for each in rows)
    return path


def write_parquet(rows: Iterable[Mapping[str, Any]], path: str | PathLike[str]) -> Path:
    """Parquet, by pyarrow; a column that holds dicts, lists or several types is JSON text."""
    rows, path = [dict(each) for each in rows], Path(path)
    arrow = extra("pyarrow")
    columns = {name: _uniform([each.get(name) for each in rows]) for name in _columns(rows)}
    extra("pyarrow.parquet").write_table(arrow.table(columns), path)
    return path


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for each in rows for key in each))


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | float) else _json(value)


def _uniform(values: list[Any]) -> list[Any]:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float}:
        return [None if value is None else float(value) for value in values] if len(kinds) == 2 else values
    plain = len(kinds) == 1 and kinds <= {str, bool}
    return values if plain else [None if value is None else _json(value) for value in values]


def _json(value: Any) -> str:
    return json.dumps(tidy(value), ensure_ascii=False)


# ── other programs' columns ──────────────────────────────────────────────────────────────────────────────────────────


def inspect_rows(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The rows with the columns of inspect_ai's `samples_df`; `score_<scorer>`, `metadata_<key>` as there.

    The variant is `model`, the repeat `epoch`. An outcome that inspect has no word for is in `metadata_outcome`.

    Source: https://inspect.aisi.org.uk/dataframe.html, "Sample columns".
    """
    return [_inspect_row(each) for each in rows]


def _inspect_row(each: Mapping[str, Any]) -> Row:
    failed = each["outcome"] in (Outcome.ERROR, Outcome.SCORE_ERROR)
    limited = each["outcome"] in (Outcome.LIMIT, Outcome.TIMEOUT)
    usage = {"input_tokens": each.get("input_tokens"), "output_tokens": each.get("output_tokens")}
    return {
        "sample_id": f"{each['variant']}/{each['task']}/{each['repeat']}",
        "eval_id": each["variant"],
        "model": each["variant"],
        "id": each["task"],
        "epoch": each["repeat"],
        "input": each.get("goal"),
        "target": _target(each.get("expected")),
        **{f"metadata_{key}": value for key, value in (each.get("metadata") or {}).items()},
        "metadata_outcome": each["outcome"],
        f"score_{each.get('scorer') or 'none'}": each["score"],
        "model_usage": _json({each.get("model") or each["variant"]: usage}),
        "total_tokens": each.get("tokens"),
        "total_time": each.get("seconds"),
        "working_time": each.get("seconds"),
        "error": ((each.get("detail") or each.get("explanation")) if failed else None) or "",
        "limit": _LIMITS.get(each.get("stop") or "", "custom") if limited else None,
        "retries": None,
    }


def _target(expected: Any) -> str:
    if expected is None:
        return ""
    texts = expected if isinstance(expected, list | tuple) else [expected]
    return ", ".join(text if isinstance(text, str) else _json(text) for text in texts)


def evalstats_rows(rows: Iterable[Mapping[str, Any]], as_zero: Sequence[Outcome] = AS_ZERO) -> list[Row]:
    """The rows with the columns that evalstats reads: model, prompt, item, run, score.

    The variant is `model`; `prompt` is one and the same for all. A run without a score has no `score`, but for the
    outcomes that count as 0 here too.

    Source: https://pypi.org/project/evalstats, long format.
    """
    return [
        {
            "model": each["variant"],
            "prompt": "task",
            "item": each["task"],
            "run": each["repeat"],
            "score": 0.0 if each["outcome"] in as_zero else each["score"],
        }
        for each in rows
    ]


def scores_of(rows: Iterable[Mapping[str, Any]]) -> list[Score]:
    """The scores of rows that came from a file, for Average and Rate."""
    return [
        Score(
            Outcome(each["outcome"]), each["score"] if each["outcome"] in SCORED else None, each.get("explanation", "")
        )
        for each in rows
    ]
