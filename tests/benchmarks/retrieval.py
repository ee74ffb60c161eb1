"""How well and how fast `Knowledge` finds: recall@5 beside plain `bm25s`, queries a second at 100,000 passages.

    python tests/benchmarks/retrieval.py [recall] [speed]
    python tests/benchmarks/retrieval.py meaning smollm2-135m [other.gguf ...]     by words, by meaning, and by both

Two kinds of question sets, neither downloaded:

docstrings   Natural English: of each docstring of the standard library with two paragraphs or more the first line is
             the question and the rest the document. The right answer is the document it was taken from.
synthetic    Made from a seed: 2,000 documents of 60 words out of 5,000, as unevenly used as words are (Zipf). A
             question has two words of one document and the two commonest of all; in "other forms" each
             English word has another ending; Chinese has words of two characters without spaces; "mixed" has both scripts.

Times are of CPU, so that a busy machine matters little; each search runs in one thread.
`bm25s` is used as its README shows it: its own tokenizer, English stop words, no stemmer.
"""

from __future__ import annotations

import ast
import asyncio
import random
import statistics
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path

from agentnb import Knowledge
from agentnb.memory.documents import WORDS

Questions = list[tuple[str, str]]
"""Question, name of the right document."""
MANY = 100_000
VOWELS, CONSONANTS = "aeiou", "bdfgklmnprstv"
SIGNS = "".join(chr(code) for code in range(0x4E00, 0x4E00 + 400))


def main() -> None:
    """Print what is asked for, or everything."""
    asked = sys.argv[1:] or ["recall", "speed"]
    with tempfile.TemporaryDirectory() as folder:
        if asked[0] == "meaning":
            asyncio.run(meaning(Path(folder), asked[1:]))
            return
        if "recall" in asked:
            recall(Path(folder))
        if "speed" in asked:
            speed(Path(folder))


def recall(folder: Path) -> None:
    """One line for each set."""
    print(f"{'set':28} {'documents':>9} {'questions':>9} {'Knowledge':>9} {'bm25s':>9}   recall@5")
    for name, (documents, questions) in sets().items():
        with Knowledge(folder / f"{name}.db") as knowledge:
            knowledge.add(documents)
            ours = share(questions, lambda query, k=knowledge: [hit.source for hit in k.search(query)])
        theirs = share(questions, by_bm25s(documents))
        print(f"{name:28} {len(documents):9,} {len(questions):9,} {ours:9.3f} {theirs:9.3f}")


async def meaning(folder: Path, files: list[str]) -> None:
    """One line for each embedding model: 250 docstrings, cut to 45 words, and half of their first lines."""
    documents, questions = docstrings()
    random.Random(7).shuffle(questions)
    chosen = {name: " ".join(documents[name].split()[:45]) for _, name in questions[:250]}
    print(f"{'embedder':40} {'words':>7} {'meaning':>7} {'both':>7}   recall@5")
    for number, file in enumerate(files):
        with Knowledge(folder / f"{number}.db", embedder=f"local:{file}") as knowledge:
            await knowledge.aadd(chosen)
            await compared(knowledge, questions[:125])


async def compared(knowledge: Knowledge, questions: Questions) -> None:
    """The line of one embedding model."""
    assert knowledge.vectors is not None
    found: dict[str, list[list[str]]] = {"words": [], "meaning": [], "both": []}
    names = dict(
        knowledge.database.rows("SELECT chunks.id, sources.name FROM chunks JOIN sources ON sources.id = source")
    )
    for query, _ in questions:
        both = await knowledge.asearch(query)
        nearest = knowledge.vectors.nearest(await knowledge._vector(query), 5)
        found["words"].append([names[row] for row, _ in WORDS.search(knowledge.database, query, 5)])
        found["meaning"].append([names[row] for row in nearest])
        found["both"].append([hit.source for hit in both])
    shares = [
        sum(right in each for each, (_, right) in zip(its, questions, strict=True)) / len(questions)
        for its in found.values()
    ]
    print(f"{knowledge.vectors.model:40} " + " ".join(f"{each:7.3f}" for each in shares))


def share(questions: Questions, find: Callable[[str], list[str]]) -> float:
    """Of the questions, how many have their document among the first five."""
    return sum(right in find(query)[:5] for query, right in questions) / len(questions)


def by_bm25s(documents: dict[str, str]) -> Callable[[str], list[str]]:
    """A search of the same documents with plain bm25s."""
    import bm25s

    names = list(documents)
    index = bm25s.BM25()
    index.index(bm25s.tokenize(list(documents.values()), show_progress=False), show_progress=False)

    def find(query: str) -> list[str]:
        tokens = bm25s.tokenize(query, show_progress=False)
        if not any(tokens.ids):
            return []
        rows, scores = index.retrieve(tokens, k=5, show_progress=False)
        return [names[row] for row, score in zip(rows[0], scores[0], strict=True) if score > 0]

    return find


def sets() -> dict[str, tuple[dict[str, str], Questions]]:
    """Name to documents and questions."""
    return {
        "docstrings": docstrings(),
        "synthetic, English": synthetic(english, other_forms=False),
        "synthetic, other forms": synthetic(english, other_forms=True),
        "synthetic, Chinese": synthetic(chinese),
        "synthetic, mixed": synthetic(lambda chance: [*english(chance)[:2500], *chinese(chance)[:2500]]),
    }


# ── natural text ─────────────────────────────────────────────────────────────────────────────────────────────────────


def docstrings() -> tuple[dict[str, str], Questions]:
    """First lines and the rest of the docstrings of the standard library."""
    documents, questions = {}, []
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if not {"site-packages", "test", "tests", "idlelib", "lib2to3"} & set(path.parts):
            for first, rest in _split_docstrings(path):
                name = f"d{len(documents)}"
                documents[name] = rest
                questions.append((first, name))
    return documents, questions


def _split_docstrings(path: Path) -> Iterator[tuple[str, str]]:
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            first, _, rest = (ast.get_docstring(node) or "").partition("\n\n")
            if len(first.split()) >= 4 and len(rest.split()) >= 12:
                yield " ".join(first.split()), rest


# ── made text ────────────────────────────────────────────────────────────────────────────────────────────────────────


def synthetic(
    vocabulary: Callable[[random.Random], list[str]], other_forms: bool = False, count: int = 2_000
) -> tuple[dict[str, str], Questions]:
    """Documents and one question for each."""
    chance = random.Random(7)
    words = vocabulary(chance)
    weights = list(accumulate(1 / (rank + 3) for rank in range(len(words))))
    documents, questions = {}, []
    for number in range(count):
        chosen = chance.choices(words, cum_weights=weights, k=60)
        documents[f"d{number}"] = written(chosen)
        known = [word for word in dict.fromkeys(chosen) if word not in words[:50]]
        asked = [*chance.sample(known, 2), *words[:2]]
        questions.append((written([_inflected(word) for word in asked] if other_forms else asked), f"d{number}"))
    return documents, questions


def english(chance: random.Random) -> list[str]:
    """5,000 words that can be spoken."""
    syllables = [consonant + vowel for consonant in CONSONANTS for vowel in VOWELS]
    made = {"".join(chance.choices(syllables, k=3)) + chance.choice("ntkr") for _ in range(12_000)}
    return chance.sample(sorted(made), 5_000)


def chinese(chance: random.Random) -> list[str]:
    """5,000 words of two characters, made of 400."""
    return chance.sample([one + two for one in SIGNS for two in SIGNS], 5_000)


def written(words: list[str]) -> str:
    """Sentences: a space before every word that begins with a Latin letter."""
    text = "".join(f" {word}" if word.isascii() else word for word in words)
    return text.strip() + "."


def _inflected(word: str) -> str:
    return f"{word}s" if len(word) % 2 else f"{word}ing"


# ── speed ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def speed(folder: Path) -> None:
    """Time to index 100,000 passages, and to search them."""
    documents, asked = synthetic(english, count=MANY)
    questions = random.Random(7).sample(asked, 1_000)
    texts = list(documents.values())
    pages = {f"page {first}": page(first, texts[first : first + 100]) for first in range(0, MANY, 100)}
    with Knowledge(folder / "many.db") as knowledge:
        began = time.process_time()
        knowledge.add(pages)
        seconds = time.process_time() - began
        size = sum(each.stat().st_size for each in folder.glob("many.db*")) / 1e6
        print(f"{len(knowledge):,} passages indexed in {seconds:.0f} s, {size:.0f} MB")
        places = {name: f"Part {number - number % 100}.{number % 100}" for number, name in enumerate(documents)}
        parts = [(query, places[name]) for query, name in questions]
        ours = share(parts, lambda query, k=knowledge: [hit.headings[0] for hit in k.search(query)])
        for name, queries in {
            "2 words and the 2 commonest": [query for query, _ in questions[:200]],
            "1 word": [query.split()[0] for query, _ in questions[:200]],
            "the 2 commonest and Part": [
                "Part " + " ".join(query.rstrip(".").split()[2:]) for query, _ in questions[:50]
            ],
        }.items():
            report(f"Knowledge, {name}", queries, lambda query, k=knowledge: len(k.search(query)))
    find = by_bm25s(documents)
    print(f"recall@5 among {MANY:,}: Knowledge {ours:.3f}, bm25s {share(questions, find):.3f}")
    report(
        "bm25s in memory, 2 words and the 2 commonest", [query for query, _ in questions[:200]], lambda q: len(find(q))
    )


def page(first: int, texts: list[str]) -> str:
    """A hundred passages as one document, each under its heading."""
    return "\n\n".join(f"# Part {first}.{number}\n\n{text}" for number, text in enumerate(texts))


def report(name: str, queries: list[str], search: Callable[[str], int]) -> None:
    """One line: queries a second of CPU, the middle one and a slow one."""
    search(queries[0])
    times = []
    for query in queries:
        began = time.process_time()
        search(query)
        times.append(time.process_time() - began)
    middle, slow = statistics.median(times), statistics.quantiles(times, n=20)[-1]
    print(f"{name:46} {len(times) / sum(times):8.0f} queries/s, median {1e3 * middle:.1f} ms, p95 {1e3 * slow:.1f} ms")


if __name__ == "__main__":
    main()
