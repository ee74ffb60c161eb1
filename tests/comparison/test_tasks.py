"""Task sets: from lists, files and tables; ids that are unique and safe; errors that name file and line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentnb import Task
from agentnb.comparison.tasks import safe_name, task_set_hash, tasks_from_text, to_tasks
from agentnb.errors import UsageError


def test_a_list_holds_goals_dicts_and_tasks():
    """Each form becomes a Task; missing ids are numbered by their place."""
    tasks = to_tasks(["What is 2 + 2?", {"goal": "Capital?", "expected": "Paris", "level": 3}, Task("x", "Go", 5)])

    assert [task.id for task in tasks] == ["1", "2", "x"]
    assert tasks[1].expected == "Paris"
    assert tasks[1].metadata == {"level": 3}
    assert tasks[2] == Task(id="x", goal="Go", expected=5)


@pytest.mark.parametrize("missing", [{}, {"id": ""}, {"id": None}, {"id": "  "}])
def test_missing_ids_are_numbered(missing):
    """No id, None and empty text are the same."""
    assert to_tasks([{"goal": "a", **missing}, {"goal": "b", "id": "b"}])[0].id == "1"


@pytest.mark.parametrize("ids", [("a", "a"), (1, "1"), (1.0, 1), ("a", " a ")])
def test_equal_ids_stop_before_anything_runs(ids):
    """Ids that are equal as text are refused, with the ids and where they stand."""
    with pytest.raises(UsageError, match=r"not unique: '.' \(task 1 of the list\), '.' \(task 2 of the list\)"):
        to_tasks([{"id": each, "goal": "g"} for each in ids])


def test_a_numbered_task_may_not_take_a_given_id():
    """A number that was given away is found out like any other double."""
    with pytest.raises(UsageError, match="not unique"):
        to_tasks([{"id": "2", "goal": "a"}, "b"])


NASTY = ["../evil", "/tmp/evil", "x/y", r"C:\x", "a b?*", "org/model:free", "CON", "nul.txt", ".", "..", "...", "a.", "A", "a",
         "é", "e\u0301", "北京", "🙂", "x" * 300, "-", "--help", "a\nb", "a\x00b", "\u202eabc", "%2e%2e", "~", "$HOME"]  # fmt: skip


@pytest.mark.parametrize("text", NASTY)
def test_file_names_stay_in_their_folder(tmp_path, text):
    """Whatever the id, its file lies directly in the folder and can be made."""
    path = tmp_path / safe_name(text)
    path.write_text(text, encoding="utf-8")

    assert path.resolve().parent == tmp_path.resolve()
    assert set(path.name) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-")
    assert path.name[0] not in ".-"
    assert len(path.name) <= 60


def test_different_ids_never_share_a_file():
    """Not by case, not by what was replaced, not by what was cut off."""
    names = [safe_name(text).casefold() for text in (*NASTY, "x" * 301, "x y", "x_y", "x-y")]

    assert len(set(names)) == len(names)


@given(st.lists(st.text(min_size=1).filter(str.strip), min_size=2, max_size=6, unique_by=str.strip))
@settings(max_examples=30, deadline=None)
def test_any_ids_make_a_task_set(ids):
    """Text of every kind is taken, the person's id is kept, and the file names differ."""
    tasks = to_tasks([Task(each, "g") for each in ids])

    assert len({task.file_name.casefold() for task in tasks}) == len(ids)
    assert all(
        task.id == each.encode("utf-8", "replace").decode().strip() or "\ufffd" in task.id
        for task, each in zip(tasks, ids, strict=True)
    )


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ('{"goal": "a"}\n\n{"goal": "b"', r"tasks\.jsonl line 3 is not JSON"),
        ('{"goal": "a"}\n["b"]', r"line 2 holds '\[\"b\"\]', expected a JSON object"),
        ('{"goal": "a"}\n{"question": "b"}', r"line 2 has no 'goal'; it has 'question'.*columns=\{\"goal\": \"question\"\}"),
        ('{"goal": "a"}\n{"goal": ""}', r"line 2: .*expected a text"),
        ('{"goal": "a"}\n{"goal": null}', r"line 2: 'goal' is empty"),
        ('{"goal": 12}', r"line 1: .*12, expected a text"),
        ('{"id": [1], "goal": "a"}', r"line 1: the id \[1\] is list"),
        ('{"id": "t", "goal": "a"}\n{"id": "t", "goal": "b"}', r"'t' \(tasks\.jsonl line 1\), 't' \(tasks\.jsonl line 2\)"),
        ("\n\n", "the task set is empty"),
    ],
)  # fmt: skip
def test_errors_of_json_lines_name_the_line(tmp_path, lines, told):
    """Every fault is found before the first request, with file and line."""
    path = tmp_path / "tasks.jsonl"
    path.write_text(lines, encoding="utf-8")

    with pytest.raises(UsageError, match=told):
        to_tasks(path)


def test_json_lines_keep_types_and_odd_line_ends(tmp_path):
    """A BOM, Windows line ends and U+2028 inside a string do no harm; other keys are metadata."""
    path = tmp_path / "tasks.jsonl"
    text = json.dumps({"id": 7, "goal": "a\u2028b", "expected": {"n": 1}, "source": "s"}, ensure_ascii=False)
    path.write_bytes(b"\xef\xbb\xbf" + text.encode() + b"\r\n")
    (task,) = to_tasks(str(path))

    assert (task.id, task.goal, task.expected, task.metadata) == ("7", "a\u2028b", {"n": 1}, {"source": "s"})


CSV = 'id,goal,expected,choices\nt1,"Say ""hi"",\nplease",hi,\nt2,Capital?,A,Paris | London\n'


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_csv_with_quotes_line_ends_and_marks(tmp_path, encoding):
    """Quoted cells hold commas, quotes and line ends; an empty cell is None; byte order marks are understood."""
    path = tmp_path / "tasks.csv"
    path.write_bytes(CSV.encode(encoding))
    first, second = to_tasks(path)

    assert (first.goal, first.expected, first.choices) == ('Say "hi",\nplease', "hi", ())
    assert second.choices == ("Paris", "London")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_of_other_countries(tmp_path, delimiter):
    """Semicolons and tabs are known by the head line."""
    path = tmp_path / "tasks.tsv"
    path.write_text(delimiter.join(["question", "answer"]) + "\n" + delimiter.join(["Say x", "x"]), "utf-8")
    (task,) = to_tasks(path, columns={"goal": "question", "expected": "answer"})

    assert (task.id, task.goal, task.expected, task.metadata) == ("1", "Say x", "x", {})


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"goal\ncaf\xe9\n", r"tasks\.csv line 2 is not UTF-8 \(byte 0xe9\).*encoding='cp1252'"),
        (b"goal,expected\na,1\nb,2,3\n", r"line 3 has 3 cells, the head line has 2"),
        (b"goal,goal\na,b\n", r"line 1 names the column 'goal' twice"),
        (b'goal\n"a\n', r"tasks\.csv line 2"),
        (b'goal,expected\n"a\nb",1\n,2\n', r"line 4: 'goal' is empty"),
        (b"text\na\n", r"line 2 has no 'goal'; it has 'text'"),
    ],
)
def test_errors_of_csv_name_the_line(tmp_path, data, told):
    """The line is the one in the file, also after cells with line ends."""
    path = tmp_path / "tasks.csv"
    path.write_bytes(data)

    with pytest.raises(UsageError, match=told):
        to_tasks(path)


def test_an_encoding_may_be_named(tmp_path):
    """Nothing is guessed; what is said is done."""
    path = tmp_path / "tasks.csv"
    path.write_bytes("goal\n你好\n".encode("gb18030"))

    assert to_tasks(path, encoding="gb18030")[0].goal == "你好"
    with pytest.raises(UsageError, match="no encoding 'klingon'"):
        to_tasks(path, encoding="klingon")


@pytest.mark.parametrize("source", ["What is 2 + 2?", "missing.jsonl", 7, [], None, ["a", 3], [""]])
def test_what_is_no_task_set(source):
    """A goal instead of a list, a missing file, a number, nothing: each is an error in words."""
    with pytest.raises(UsageError):
        to_tasks(source)


def test_unknown_columns_are_refused():
    """A typing error in columns= is no silence."""
    with pytest.raises(UsageError, match="names \\['gaol'\\]"):
        to_tasks(["a"], columns={"gaol": "x"})


@pytest.mark.slow
@pytest.mark.parametrize(("name", "meant"), [("expcted", "expected"), ("Expected", "expected"), ("choice", "choices")])
def test_a_field_that_looks_like_ours_is_told(name, meant):
    """A task without what it is scored by is still one, so a slip would go unseen."""
    with pytest.warns(UserWarning, match=f"{name!r} of the tasks is kept as metadata; did you mean {meant!r}"):
        tasks = to_tasks([{"goal": "2 + 2?", name: "4"}])
    assert tasks[0].metadata == {name: "4"}
    assert to_tasks([{"goal": "2 + 2?", "score": 1, "source": "x", "expect_error": True}])[0].expected is None
    assert to_tasks([Task(goal="a", metadata={1: 2})])[0].metadata == {1: 2}


def test_a_data_frame():
    """Missing cells are None, numbers of numpy are plain, and ids of a column with gaps are whole."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": [1, None, 3], "goal": ["a", "b", "c"], "expected": [1.5, None, 2], "n": [1, 2, 3]})
    tasks = to_tasks(frame)

    assert [task.id for task in tasks] == ["1", "2", "3"]
    assert [task.expected for task in tasks] == [1.5, None, 2.0]
    assert type(tasks[0].metadata["n"]) is int
    with pytest.raises(UsageError, match=r"row 2 of the table \(index 1\): 'goal' is empty"):
        to_tasks(pandas.DataFrame({"goal": ["a", None]}))


def test_the_body_of_a_cell():
    """JSON Lines, CSV with a head line, or one goal a line."""
    assert [task.expected for task in tasks_from_text('{"goal": "a", "expected": 1}\n{"goal": "b"}')] == [1, None]
    assert tasks_from_text("goal,expected\nSay x,x\n")[0].expected == "x"
    assert [task.goal for task in tasks_from_text("\nWhat is 2 + 2?\n\n  Say hi, please.  \n")] == [
        "What is 2 + 2?",
        "Say hi, please.",
    ]
    with pytest.raises(UsageError, match="the cell line 2 is not JSON"):
        tasks_from_text('{"goal": "a"}\n{')


def test_the_hash_of_a_set_ignores_order_only():
    """The same tasks in another order are the same set; any other word is another set."""
    one, two = Task("a", "g", 1), Task("b", "g", 2)

    assert task_set_hash([one, two]) == task_set_hash([two, one])
    assert task_set_hash([one, two]) != task_set_hash([one, Task("b", "g", 3)])
    assert task_set_hash([one]) != task_set_hash([Task("a", "g", "1")])
    assert len(task_set_hash([one])) == 16


def test_tasks_can_be_hashed_and_pickled():
    """Also with expected values that can't be hashed."""
    import pickle

    task = Task("a", "g", {"n": [1]}, metadata={"x": 1})

    assert pickle.loads(pickle.dumps(task)) == task
    assert len({task, Task("a", "g", {"n": [1]}, metadata={"x": 1})}) == 1
    assert Path(task.file_name).name == task.file_name
