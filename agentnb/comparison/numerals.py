"""Numbers as people and models write them: "31.0 °C", "−1,234.5", "1.234,5", "12 %", "٣١", "3 × 10⁵".

How a number is read:

- A comma or a point followed by exactly three digits, once, is a group mark if it is a comma ("1,234" is 1234) and a
  decimal mark if it is a point ("1.234"). Where both stand, the last is the decimal mark; where one stands twice, it
  marks groups. An apostrophe, an underscore or a narrow or unbreakable space between groups of three marks groups; a
  plain space never does, since "12 345" may be two numbers. Marks that part no groups part numbers: "1,2,3" is three.
- A minus sign (-, −, or a dash) counts where nothing or no letter, digit or closing bracket stands before it, so
  "10-20" is 10 and 20, and "GPT-4" is 4; a currency sign may stand after it.
- Digits of every script are read. "e5", "× 10^5", "10^5" and "10⁵" are powers, also in TeX. Dates, times and
  fractions are several numbers.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from decimal import Decimal

_SIGNS = str.maketrans(
    {"−": "-", "﹣": "-", "－": "-", "–": "-", "—": "-", "＋": "+", "％": "%", "﹪": "%", "٪": "%"}
    | {"．": ".", "٫": ".", "，": ",", "٬": ",", "’": "'", "·": "×", "∙": "×", "⋅": "×", "✕": "×", "＾": "^"}
    | dict.fromkeys("\u00a0\u202f\u2009\u2007", "\u00a0")
)
_TEX = tuple(
    (re.compile(form), plain)
    for form, plain in {
        r"\s?\\(?:times|cdot)\s?": "×",
        r"\^\{\s*([-+−]?\d+)\s*\}": r"^\1",
        r"\{,\}|\\,(?=\d{3})": ",",
        r"\\%": "%",
    }.items()
)
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_NUMBER = re.compile(
    r"""(?P<sign>(?<![\w).\]])[-+]\s?[$€£¥₹]?)?
        (?P<body>(?<![\d.,])\.\d+|\d+(?:[.,'_\u00a0]\d+)*)
        (?:[eE](?P<e>[+-]?\d{1,4})(?!\d)
          |\s?[×xX*]\s?10(?:\^|\*\*)?(?P<power>(?<=[\^*])[+-]?\d{1,4}(?!\d)|[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]{1,4})
          |(?:\^|\*\*)?(?P<raised>(?<=[\^*])[+-]?\d{1,3}(?!\d)|[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3}))?
        (?P<percent>\s?(?:%|percent\b|per\ cent\b|pct\b))?""",
    re.VERBOSE | re.IGNORECASE,
)
_GROUPS = re.compile(r"\d{1,3}(?:\D\d{3})+|\d{1,2}(?:,\d{2})+,\d{3}")
"""Groups of three, or as in India: 12,34,567."""
_LONGEST = 100_000
"""Characters of a text that are looked at: its last ones."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A number that stands in a text."""

    value: Decimal
    percent: bool
    """A percent sign follows; the value is what stands before it."""
    text: str

    @property
    def meanings(self) -> tuple[Decimal, ...]:
        """What it may stand for: 12 % is 12 and 0.12."""
        return (self.value, self.value / 100) if self.percent else (self.value,)


def read_numbers(text: str) -> list[Reading]:
    """Every number of a text, in its order.

    >>> [str(each.value) for each in read_numbers("It is −3.5 °C, not 1,234.")]
    ['-3.5', '1234']
    """
    found = _NUMBER.finditer(_ascii_digits(text[-_LONGEST:]))
    return [reading for match in found for reading in _readings(match) if reading.value.is_finite()]


def read_number(value: object) -> Reading | None:
    """The one number that a value is: a number, or a text with nothing else but a unit's percent sign; None for others.

    >>> read_number("1,234.5").value
    Decimal('1234.5')
    """
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        number = Decimal(str(value))
        return Reading(number, False, str(value)) if number.is_finite() else None
    if not isinstance(value, str):
        return None
    match = _NUMBER.fullmatch(_ascii_digits(value.strip()))
    found = _readings(match) if match else []
    return found[0] if len(found) == 1 and found[0].value.is_finite() else None


def _ascii_digits(text: str) -> str:
    for form, plain in _TEX if "\\" in text or "{" in text else ():
        text = form.sub(plain, text)
    text = text.translate(_SIGNS)
    if text.isascii():
        return text
    return "".join(_digit(each) for each in text)


def _digit(character: str) -> str:
    if character.isascii() or not character.isdecimal():
        return character
    return str(unicodedata.decimal(character))


def _readings(match: re.Match[str]) -> list[Reading]:
    """The number of a match; several where its marks part no groups."""
    sign = "-" if (match["sign"] or "").startswith("-") else ""
    plain = _plain(match["body"])
    if plain is None:
        return [Reading(Decimal(part), False, part) for part in re.split(r"\D", match["body"])]
    power = match["e"] or (match["power"] or "").translate(_RAISED)
    value = Decimal(f"{plain}{f'e{power}' if power else ''}")
    if match["raised"]:
        value = _raised(value, int(match["raised"].translate(_RAISED)))
    return [Reading(-value if sign else value, bool(match["percent"]), match.group().strip())]


def _raised(value: Decimal, power: int) -> Decimal:
    try:
        return value**power
    except ArithmeticError:  # out of every range, or 0 to the power of -1
        return Decimal("NaN")


def _plain(body: str) -> str | None:
    """The digits with a point for decimals and no group marks; None when the marks part no groups."""
    marks = [mark for mark in body if not mark.isdigit()]
    if len(marks) == 1 and marks[0] == "," and _GROUPS.fullmatch(body) and not body.startswith("0"):
        return body.replace(",", "")
    decimal = marks[-1] if marks and marks[-1] in ".," and marks.count(marks[-1]) == 1 else ""
    whole, _, part = body.rpartition(decimal) if decimal else (body, "", "")
    if len(set(marks) - {decimal}) > 1 or not (whole.isdigit() or not whole or _GROUPS.fullmatch(whole)):
        return None
    digits = re.sub(r"\D", "", whole) or "0"
    return f"{digits}.{part}" if decimal else digits
