"""Knowledge: what is added is found, with its source; nothing else is read."""

from __future__ import annotations

import asyncio
import os
import pickle
import shutil

import pytest

from agentnb import Agent, ScriptedModel, calls
from agentnb.core.messages import ToolCall
from agentnb.errors import AgentnbError, UsageError
from agentnb.memory.knowledge import Knowledge
from agentnb.memory.sources import MOST_BYTES
from agentnb.settings import Secret
from agentnb.tools.quoted import QUOTED

MANUAL = "# Shop\n\n## Refunds\nWithin seven days money comes back.\n\n## 退款\n七天内可以退款。\n"
"""A small document in two languages."""


@pytest.fixture
def docs(tmp_path, monkeypatch):
    """A folder with two documents, in the working folder."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (folder / "manual.md").write_text(MANUAL)
    (folder / "sub" / "notes.txt").write_text("The printer is in room seven.")
    return folder


@pytest.fixture
def knowledge(tmp_path):
    """An empty index beside the folder."""
    with Knowledge(tmp_path / "docs.db") as made:
        yield made


def found(knowledge: Knowledge, query: str) -> list[tuple[str, str]]:
    """Source and place of each hit."""
    return [(hit.source, hit.place) for hit in knowledge.search(query)]


def test_a_folder_is_searched(docs, knowledge):
    """Every document in it, with file, headings and line."""
    added = knowledge.add("docs")

    assert added.added == ["docs/manual.md", "docs/sub/notes.txt"]
    assert knowledge.sources() == ("docs/manual.md", "docs/sub/notes.txt")
    (hit,) = knowledge.search("refund")
    assert (hit.source, hit.headings, hit.place) == ("docs/manual.md", ("Shop", "Refunds"), "line 4")
    assert found(knowledge, "退款") == [("docs/manual.md", "line 7")]
    assert found(knowledge, "printer") == [("docs/sub/notes.txt", "line 1")]


def test_only_what_changed_is_read_again(docs, knowledge):
    """By content: unchanged, changed, new and gone files are told apart, and the index follows."""
    knowledge.add("docs")
    (docs / "manual.md").write_text("# Shop\nNo refunds on Fridays.\n")
    (docs / "new.md").write_text("A new page on umbrellas.")
    (docs / "sub" / "notes.txt").touch()

    added = knowledge.add("docs")
    assert (added.added, added.changed) == (["docs/new.md"], ["docs/manual.md"])
    assert (added.unchanged, added.removed) == (["docs/sub/notes.txt"], [])
    assert found(knowledge, "退款") == []
    assert found(knowledge, "Fridays") == [("docs/manual.md", "line 2")]

    shutil.rmtree(docs / "sub")
    assert knowledge.add("docs").removed == ["docs/sub/notes.txt"]
    assert found(knowledge, "printer") == []


def test_an_emptied_folder_leaves_nothing(docs, knowledge):
    """When every file of a folder is gone, so is what they said; texts beside it stay."""
    knowledge.add(iter([docs, {"faq": "umbrella"}]))
    shutil.rmtree(docs)
    docs.mkdir()

    assert knowledge.add(docs).removed == ["docs/manual.md", "docs/sub/notes.txt"]
    assert knowledge.sources() == ("faq",)


def test_adding_one_file_removes_no_other(docs, knowledge):
    """Only a folder that is read again loses what is gone from it."""
    knowledge.add("docs")

    assert knowledge.add(docs / "manual.md").removed == []
    assert len(knowledge.sources()) == 2


def test_paths_and_texts(docs, knowledge):
    """A path, a text with and without a name, and several of them."""
    added = knowledge.add([docs / "manual.md", {"faq": "# Hours\nWe open at nine."}, "Bring your own cup."])

    assert added.added[:2] == ["manual.md", "faq"]
    assert found(knowledge, "open nine") == [("faq", "line 2")]
    assert found(knowledge, "cup")[0][0].startswith("text ")


@pytest.mark.parametrize("missing", ["docs/gone.md", "gone.pdf", "./gone/", "a/b"])
def test_a_missing_file_is_no_text(docs, knowledge, missing):
    """A mistyped path is an error, not a document with the path as its text."""
    with pytest.raises(UsageError, match="there is no file"):
        knowledge.add(missing)
    assert len(knowledge) == 0


@pytest.mark.parametrize("wrong", [None, 7, "", " ", b"bytes", [None]])
def test_what_is_no_document_is_refused(docs, knowledge, wrong):
    """And says what goes in."""
    with pytest.raises(UsageError, match="no document"):
        knowledge.add(wrong)


def test_what_can_not_be_read_is_told(docs, knowledge):
    """The others are added; the failure is in what is shown; when nothing is left it is an error."""
    (docs / "empty.md").write_text("")
    (docs / "binary.txt").write_bytes(b"\0\1")

    added = knowledge.add("docs")
    assert [name for name, _ in added.failed] == ["docs/binary.txt", "docs/empty.md"]
    assert "2 failed\ndocs/binary.txt: can't be read" in repr(added)
    with pytest.raises(AgentnbError, match="nothing was added"):
        knowledge.add(docs / "binary.txt")


def test_a_large_file_is_told(docs, knowledge):
    """There is a bound on one file."""
    with (docs / "large.txt").open("wb") as file:
        file.truncate(MOST_BYTES + 1)

    assert ("docs/large.txt", "has more than 50,000,000 bytes") in knowledge.add("docs").failed


def test_no_way_out_of_the_folder(docs, knowledge, tmp_path):
    """Links to files and folders outside, hidden files and folders, devices and pipes are not read."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("tulip")
    (docs / "link.md").symlink_to(outside / "secret.md")
    (docs / "up.md").symlink_to("../outside/secret.md")
    (docs / "folder").symlink_to(outside)
    (docs / "zero.txt").symlink_to("/dev/zero")
    (docs / ".env").write_text("tulip")
    (docs / ".git").mkdir()
    (docs / ".git" / "config.md").write_text("tulip")
    os.mkfifo(docs / "pipe.txt")
    (docs / "inside.md").symlink_to(docs / "manual.md")

    added = knowledge.add("docs")

    assert added.added == ["docs/inside.md", "docs/manual.md", "docs/sub/notes.txt"]
    assert found(knowledge, "tulip") == []
    with pytest.raises(UsageError, match="neither a file nor a folder"):
        knowledge.add(docs / "pipe.txt")


def test_names_tell_nothing_of_the_folders_above(docs, knowledge):
    """A model sees the last part of an absolute path, not who the user is."""
    knowledge.add(docs.absolute())

    assert knowledge.sources() == ("docs/manual.md", "docs/sub/notes.txt")


def test_folder_and_index_can_be_moved_together(docs, knowledge, tmp_path):
    """Documents are known by their path from the index."""
    knowledge.add("docs")
    knowledge.close()
    (tmp_path / "new").mkdir()
    shutil.move(docs, tmp_path / "new" / "docs")
    shutil.move(tmp_path / "docs.db", tmp_path / "new" / "docs.db")

    with Knowledge(tmp_path / "new" / "docs.db") as moved:
        assert len(moved.add(tmp_path / "new" / "docs").unchanged) == 2


def test_remove_forgets_a_document(docs, knowledge):
    """A wrong name among the right ones removes nothing."""
    knowledge.add("docs")
    with pytest.raises(UsageError, match="no document 'gone'"):
        knowledge.remove("docs/manual.md", "gone")
    assert len(knowledge.sources()) == 2

    knowledge.remove("docs/manual.md")
    assert found(knowledge, "refund") == []


def test_the_best_comes_first_and_k_bounds(knowledge):
    """A passage with more of the words, or with one of them in its heading, is better."""
    knowledge.add({"a": "red apple and red wine", "b": "# Red\napple", "c": "apple"})

    assert [hit.source for hit in knowledge.search("red apple")] == ["b", "a", "c"]
    assert [len(knowledge.search("apple", k)) for k in (0, 1, 2, 9)] == [0, 1, 2, 3]


def test_the_tool_quotes_and_names_its_sources(docs, knowledge):
    """The model reads passages as data, each with document and place."""
    knowledge.add({"shop.md": MANUAL})
    model = ScriptedModel([calls("search_knowledge", query="退款"), "七天"])

    run = Agent(model=model, tools=[knowledge.tool()]).run("退款要多久?")

    assert run.tool_results[0].content == f'{QUOTED}\n[1] "shop.md", line 7\n> # Shop > 退款\n> 七天内可以退款。'


def test_the_tool_says_when_there_is_nothing(knowledge):
    """Not an empty text, and not an error."""
    result = asyncio.run(knowledge.tool().answer(ToolCall("c", "search_knowledge", '{"query": "unicorn"}')))

    assert result.ok
    assert "No passage has any of these words" in result.content


def test_two_tools_have_two_names(knowledge):
    """With a description each, so that a model can choose."""
    one = knowledge.tool(name="search_laws", description="Search the laws.")

    assert (one.name, one.spec.description) == ("search_laws", "Search the laws.")


def test_hits_show_themselves(knowledge):
    """A bounded, escaped table with the words of the query in sight; the tuple travels."""
    knowledge.add({"<b>page</b>.md": "Filler words. " * 60 + "The unicorn lives here. " + "More words. " * 10})

    hits = knowledge.search("unicorn")
    shown = hits._repr_mimebundle_()
    assert "unicorn lives" in shown["text/plain"]
    assert "<b>page" not in shown["text/html"]
    assert max(map(len, shown["text/plain"].splitlines())) < 300
    assert pickle.loads(pickle.dumps(hits)) == hits


def test_secrets_do_not_reach_the_file(tmp_path, knowledge):
    """A known key in a document is hidden before it is written."""
    Secret("sk-test-k7now-1234567890")
    knowledge.add({"a": "key sk-test-k7now-1234567890 of the service"})
    knowledge.close()

    assert b"sk-test-k7now" not in b"".join(each.read_bytes() for each in tmp_path.iterdir() if each.is_file())


def test_the_table_lists_documents(docs, knowledge):
    """With the number of their passages."""
    knowledge.add("docs")

    assert knowledge._repr_mimebundle_()["text/plain"].splitlines() == [
        "2 documents, 3 passages in docs.db", "document            passages", "docs/manual.md      2", "docs/sub/notes.txt  1",
    ]  # fmt: skip


def test_notes_and_knowledge_share_a_file(tmp_path, knowledge):
    """One file may hold both."""
    from agentnb.memory.notes import Notes

    knowledge.add({"a": "apple"})
    Notes(tmp_path / "docs.db").add("pear")

    assert [hit.text for hit in knowledge.search("apple pear")] == ["apple"]


def test_a_file_that_can_not_be_written_is_no_failed_document(docs, knowledge):
    """What stops the index stops the call: nothing is said to have been added."""
    knowledge.add({"a": "apple"})
    with knowledge.database.writing() as connection:
        connection.execute("DROP TABLE chunks")

    with pytest.raises(AgentnbError, match="no such table"):
        knowledge.add("docs")


@pytest.mark.parametrize("query", [None, 5, ["refund"]])
def test_a_query_is_a_text(tmp_path, query):
    """Anything else is an error of ours."""
    with Knowledge(tmp_path / "k.db") as knowledge, pytest.raises(UsageError, match="a query is some text"):
        knowledge.search(query)
