"""Notes: kept, found, changed, forgotten; in sight of their own project and agent only."""

from __future__ import annotations

import asyncio
import pickle

import pytest
from fakes import HandClock, add, says

from agentnb import ScriptedModel, State, calls
from agentnb.errors import AgentnbError, UsageError
from agentnb.memory.notes import Notes
from agentnb.settings import Secret


@pytest.fixture
def notes(tmp_path):
    """Notes in a file, with a clock that stands still."""
    with Notes(tmp_path / "notes.db", clock=HandClock()) as made:
        yield made


def texts(found) -> list[str]:
    """Only what the notes say."""
    return [note.text for note in found]


def test_a_note_is_there_for_the_next_process(tmp_path, notes):
    """What one object has kept, another one on the same file reads."""
    notes.add("The lab closes at six.")

    with Notes(tmp_path / "notes.db") as later:
        assert texts(later.list()) == ["The lab closes at six."]


def test_a_note_is_kept_once(notes):
    """The same words are the same note; a model's copy of a person's note is no second one."""
    first = notes.add("Prefers kelvin.")

    assert notes.add(" Prefers kelvin. ") == first
    assert notes.remember("Prefers kelvin.") == first
    assert len(notes) == 1


def test_edit_changes_what_is_found(notes):
    """The old words are gone from the index, the new ones are in it; the note is the person's from then on."""
    note = notes.remember("The meeting is on Monday.")

    changed = notes.edit(note.id, "The meeting is on Friday.")

    assert (changed.id, changed.author) == (note.id, "user")
    assert notes.search("Monday") == ()
    assert notes.search("friday") == (changed,)


def test_forget_leaves_no_trace(tmp_path, notes):
    """A forgotten note is neither listed nor found."""
    kept, gone = notes.add("Keep this one."), notes.add("Forget that one.")

    notes.forget(gone.id)

    assert notes.list() == (kept,)
    assert notes.search("forget") == ()


def test_forget_is_all_or_nothing(notes):
    """A wrong number among the right ones deletes none, and says which."""
    note = notes.add("Still here.")

    with pytest.raises(UsageError, match="no note 99"):
        notes.forget(note.id, 99)
    assert notes.list() == (note,)


@pytest.mark.parametrize("text", ["", "  \n", "x" * 2_001, None, 7, "\u200b"])
def test_what_is_no_note_is_refused(notes, text):
    """Empty, too long or no text at all: an error, and nothing is kept."""
    with pytest.raises(UsageError, match="note"):
        notes.add(text)
    assert len(notes) == 0


def test_projects_and_agents_do_not_see_each_other(tmp_path):
    """A scope sees its own notes and the shared ones."""
    path = tmp_path / "notes.db"
    Notes(path).add("shared by all")
    Notes(path, project="a").add("shared by project a")
    Notes(path, project="a", agent="one").add("of agent one in project a")
    Notes(path, project="b").add("shared by project b")

    one = Notes(path, project="a", agent="one")
    assert texts(one.list()) == ["shared by all", "shared by project a", "of agent one in project a"]
    assert texts(one.search("shared")) == ["shared by all", "shared by project a"]
    assert texts(Notes(path).list()) == ["shared by all"]
    assert len(Notes(path).list(everywhere=True)) == 4


@pytest.mark.parametrize(
    "query", ["摄氏", "氏", "摄氏度", "度", "TEMPERATURE", "temperatures", "Ｃｅｌｓｉｕｓ", "cafe"]
)
def test_words_of_both_scripts_are_found(notes, query):
    """Two characters, one character, capitals, endings, full-width letters, accents."""
    note = notes.add("用户喜欢摄氏度; temperature in Celsius at the Café")
    notes.add("另一条 note")

    assert notes.search(query) == (note,)


def test_the_oldest_make_room(tmp_path):
    """At the bound summaries of runs go first, then a model's notes, never a person's; a full house is an error."""
    clock = HandClock()
    notes = Notes(tmp_path / "n.db", most=3, clock=clock)
    notes.remember("model's"), notes.keep(State.start("a run")), notes.add("person's 1")
    clock.advance(1)

    notes.add("person's 2")
    assert texts(notes.list()) == ["model's", "person's 1", "person's 2"]
    notes.add("person's 3")
    assert texts(notes.list()) == ["person's 1", "person's 2", "person's 3"]
    with pytest.raises(UsageError, match="no room"):
        notes.remember("one more")
    assert len(notes) == 3


def test_a_run_is_kept_as_its_goal_answer_and_results(notes, scripted_run):
    """The extract names what was asked, what came out and what was found on the way."""
    run = scripted_run([calls("add", a=1, b=2), says("It is 3.")], tools=[add])

    assert notes.keep(run).text == "Goal: the goal\nAnswer: It is 3.\nFound: add(a=1, b=2) = 3"


def test_the_newest_run_of_a_goal_replaces_the_older(notes, scripted_run):
    """Running a cell ten times leaves one note; one that a person has changed stays beside it."""
    notes.keep(scripted_run([says("first")]))
    second = notes.keep(scripted_run([says("second")]))
    assert notes.list() == (second,)

    notes.edit(second.id, "It was the second.")
    notes.keep(scripted_run([says("third")]))
    assert texts(notes.list()) == ["It was the second.", "Goal: the goal\nAnswer: third"]


def test_a_run_without_an_answer_says_so(notes, scripted_run):
    """A failure is kept as one."""
    run = scripted_run([ValueError("down")])

    assert "Ended without an answer (error)." in notes.keep(run).text


def test_a_model_rewrites_an_extract_once(notes, scripted_run):
    """The model reads the material as quoted data; its words replace the extract and it is not asked again."""
    notes.keep(scripted_run([calls("add", a=1, b=2), says("It is 3.")], tools=[add]))
    model = ScriptedModel(["The user asked for a sum; it was 3."])

    assert asyncio.run(notes.summarise(model)) == 1
    assert texts(notes.list()) == ["The user asked for a sum; it was 3."]
    assert "> Answer: It is 3." in model.requests[0].messages[1]["content"]
    assert asyncio.run(notes.summarise(model)) == 0


def test_an_empty_summary_leaves_the_extract(notes, scripted_run):
    """A model that says nothing takes nothing away."""
    kept = notes.keep(scripted_run([says("It is 3.")]))

    assert asyncio.run(notes.summarise(ScriptedModel([""]))) == 0
    assert texts(notes.list()) == [kept.text]


def test_a_change_during_a_summary_wins(notes, scripted_run):
    """While the model writes, a person edits: the person's words stay."""
    kept = notes.keep(scripted_run([says("It is 3.")]))

    def meanwhile(request):
        notes.edit(kept.id, "My own words.")
        return "The model's words."

    assert asyncio.run(notes.summarise(ScriptedModel([meanwhile]))) == 0
    assert texts(notes.list()) == ["My own words."]


def test_secrets_do_not_reach_the_file(tmp_path, notes):
    """A known key is hidden in notes, summaries and what waits for a model."""
    Secret("sk-memory-1234567890")
    notes.add("the key is sk-memory-1234567890")
    notes.keep(State.start("use sk-memory-1234567890 to log in").stopped("error"))
    notes.close()

    assert b"sk-memory" not in b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert "[hidden]" in notes.list()[0].text


def test_the_file_is_its_owners_alone(tmp_path, notes):
    """No other user of the machine can read what is remembered."""
    notes.add("private")

    assert {each.stat().st_mode & 0o077 for each in tmp_path.iterdir()} == {0}


def test_notes_travel_as_a_path(notes):
    """A pickled Notes opens the same file where it arrives."""
    notes.add("on the way")

    assert texts(pickle.loads(pickle.dumps(notes)).list()) == ["on the way"]


def test_the_table_is_bounded_and_escaped():
    """Sixty notes show fifty, the newest first; markup in a note is text."""
    notes = Notes(":memory:")
    for number in range(59):
        notes.add(f"note {number}")
    notes.add("<script>alert(1)</script>" + "long " * 100)

    shown = notes._repr_mimebundle_()
    assert "<script>" not in shown["text/html"]
    assert shown["text/html"].index("&lt;script&gt;") < shown["text/html"].index("note 58")
    assert "… and 10 more" in shown["text/plain"]
    assert max(map(len, shown["text/plain"].splitlines())) < 220


def test_a_file_that_is_no_database_is_an_error(tmp_path):
    """What happened and what to do; the file stays as it was."""
    path = tmp_path / "README.md"
    path.write_text("# not a database\n" * 100)

    with pytest.raises(AgentnbError, match=r"not a database.*name another file"):
        Notes(path).list()
    assert path.read_text().startswith("# not a database")
