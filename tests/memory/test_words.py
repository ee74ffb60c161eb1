"""Words of two kinds of script, and queries that no text can break."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentnb.memory.database import Database
from agentnb.memory.words import WordIndex, match_query, spaced, terms

HARD = st.text(st.sampled_from(list("\"'*^(){}:+-ab AND OR NOT NEAR 雨天\0\ud800\u0301é　ﾊ가")), max_size=40)


@pytest.fixture(scope="module")
def index():
    """A small index of two texts."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    words = WordIndex("words", title=2.0, body=1.0)
    connection.execute(words.schema)
    words.add(connection, 1, "天气预报", "北京明天下雨 with rain")
    words.add(connection, 2, "Running", "The runner's café, version 3.5 of GPT模型")
    yield connection
    connection.close()


def found(index, query: str) -> list[int]:
    """The rows that the query finds."""
    match = match_query(terms(query))
    return [row for (row,) in index.execute("SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid", (match,))]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("天气", [1]), ("雨", [1]), ("报", [1]), ("下雨", [1]), ("雨下", []), ("天下雨", [1]), ("模型", [2]), ("GPT模型", [2]),
        ("gpt", [2]), ("ＧＰＴ", [2]), ("cafe", [2]), ("CAFÉ", [2]), ("runs", [2]), ("rains", [1]), ("3.5", [2]),
        ("明天 café", [1, 2]), ("nothing", []),
    ],
)  # fmt: skip
def test_words_are_found(index, query, rows):
    """Pairs, single characters, mixed script, case, accents, full width, English endings, numbers."""
    assert found(index, query) == rows


@given(st.one_of(st.text(max_size=60), HARD))
@settings(max_examples=50, deadline=None)
def test_no_query_is_read_as_a_language(index, query):
    """Whatever is typed, FTS5 finds something or nothing, and never fails."""
    if terms(query):
        found(index, query)


@given(st.text(max_size=60))
@settings(max_examples=25, deadline=None)
def test_a_text_is_found_by_its_own_words(text):
    """What is indexed is found by each of its terms, whatever the script."""
    connection = sqlite3.connect(":memory:")
    words = WordIndex("words", body=1.0)
    connection.execute(words.schema)
    words.add(connection, 1, text)
    for term in terms(text):
        if term.isascii() or "\u4e00" <= term[0] <= "\u9fff":
            assert connection.execute("SELECT rowid FROM words WHERE words MATCH ?", (match_query([term]),)).fetchall()
    connection.close()


def test_what_was_removed_is_not_found(index):
    """To remove takes the words out, and adding again puts them back."""
    words = WordIndex("words", title=2.0, body=1.0)
    words.remove(index, 1, "天气预报", "北京明天下雨 with rain")
    assert found(index, "天气 rain") == []

    words.add(index, 1, "天气预报", "北京明天下雨 with rain")
    assert found(index, "天气 rain") == [1]


def test_a_long_query_is_cut():
    """A pasted page looks for its first 64 words."""
    assert len(terms(" ".join(f"w{number}" for number in range(10_000)))) == 64


def test_pairs_overlap_and_the_last_stands_alone():
    """So that two characters and one are found anywhere in a run."""
    assert spaced("预报员").split() == ["预报", "报员", "员"]


@pytest.mark.slow
def test_words_of_most_texts_are_left_out_of_long_searches(tmp_path):
    """Beside a rare word the commonest ones cost time and tell nothing; alone they still find something."""
    words = WordIndex("words", body=1.0)
    database = Database(tmp_path / "w.db", (words.schema,))
    with database.writing() as connection:
        for row in range(1, 25_001):
            words.add(connection, row, f"common usual {'rare' if row == 24_000 else ''}")

    assert [row for row, _ in words.search(database, "usual rare common", 5)] == [24_000]
    assert len(words.search(database, "common usual", 5)) == 5
