"""An answer's Markdown: formatted, harmless, and faithful to dollars and formulas."""

from __future__ import annotations

import time

import pytest
from html_seen import Seen

from agentnb.notebook.markdown import answer_html

MATHS = '<span class="tex2jax_process mathjax_process">{}</span>'


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("two *words* and **more**", "<p>two <em>words</em> and <strong>more</strong></p>\n"),
        ("~~gone~~ `a < b`", "<p><s>gone</s> <code>a &lt; b</code></p>\n"),
        ("# Title\ntext", "<p><b>Title</b></p>\n<p>text</p>\n"),
        ("- a\n- b", "<ul>\n<li>a</li>\n<li>b</li>\n</ul>\n"),
        ("3. a\n4. b", '<ol start="3">\n<li>a</li>\n<li>b</li>\n</ol>\n'),
        ("> quoted", "<blockquote>\n<p>quoted</p>\n</blockquote>\n"),
        ("a\n\n---\n\nb", "<p>a</p>\n<hr>\n<p>b</p>\n"),
        ("use <b> & {x}", "<p>use &lt;b&gt; &amp; {x}</p>\n"),
        ("![alt](https://x.example/y.png)", None),
        ("", ""),
    ],
)
def test_markdown(markdown, html):
    """What the common marks become; raw HTML is text, an image only a link."""
    if html is None:
        assert "<img" not in answer_html(markdown)
        assert '<a href="https://x.example/y.png"' in answer_html(markdown)
    else:
        assert answer_html(markdown) == html


def test_a_table_and_a_code_block():
    """Tables keep the side their numbers stand on; code keeps its spaces and dollars."""
    made = answer_html("| city | °C |\n|---|--:|\n| Oslo | 3 |\n\n```python\nif x:\n    print('$x$')\n```")

    assert '<td style="text-align:left">Oslo</td>\n<td style="text-align:right">3</td>' in made
    assert "if x:\n    print('$x$')\n</code></pre>" in made
    assert Seen(made).text.count("$x$") == 1


def test_dollars_are_dollars():
    """Amounts of money are not set as a formula."""
    made = answer_html("It costs $5 now and $10 later, use <b> & {x}")

    assert made == "<p>It costs $5 now and $10 later, use &lt;b&gt; &amp; {x}</p>\n"


@pytest.mark.parametrize(
    ("markdown", "formula"),
    [
        ("so \\(x^2\\) is", "\\(x^2\\)"),
        ("so $$x^2_a * b_c$$ is", "$$x^2_a * b_c$$"),
        ("\\(a < b\\)", "\\(a &lt; b\\)"),
        ("$$\na\n- b\n= c\n$$", "$$\na\n- b\n= c\n$$"),
        ("before\n$$\n\\frac{a}{b}\n$$\nafter", "$$\n\\frac{a}{b}\n$$"),
    ],
)
def test_explicit_formulas_are_handed_on(markdown, formula):
    """Between \\( \\) and $$ $$ nothing is Markdown, and MathJax may set it."""
    assert MATHS.format(formula) in answer_html(markdown)


@pytest.mark.parametrize(
    "markdown",
    [
        "`\\(x\\)`",
        "    $$x$$",
        "```\n$$x$$\n```",
        "\\(never closed",
        "$$",
        "$$$$",
        "\\(\\)",
        "$$\n\nnot closed",
        "\\(\\href{https://x.example}{x}\\)",
        "$$\\require{html}\\style{color:red}{x}$$",
        "$$" + "x" * 3_000 + "$$",
        "$x$",
    ],
)
def test_what_is_not_handed_on(markdown):
    """Code, what is not closed, single dollars, and commands that can do more than set a formula stay text."""
    assert "process" not in answer_html(markdown)


@pytest.mark.slow
def test_hard_cases_of_markdown_end_soon():
    """Deep nesting and long runs of marks, known to make Markdown readers slow, are read in a moment."""
    for unit in ("[", "*a **b ", "> ", "- ", "`" * 3 + "a", "![", "<", "\\(", "$$ ", "[a](", "_a__b", "|a|\n|-|\n"):
        began = time.perf_counter()
        Seen(answer_html(unit * (6_000 // len(unit))))
        assert time.perf_counter() - began < 8, unit
