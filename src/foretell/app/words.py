"""Numbers and amounts as people write them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def number(value: float, digits: int = 3) -> str:
    """A number with ``digits`` significant digits, thin-spaced thousands and powers of ten.

    Examples
    --------
    >>> number(0.012345), number(-3.0), number(2.5e-9), number(float("nan"))
    ('0.0123', '−3', '2.5 × 10⁻⁹', 'unknown')
    >>> number(68476)
    '68\u202f476'
    """
    if value is None or math.isnan(value):
        return "unknown"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    if float(value).is_integer() and 1000 <= abs(value) < 1e9:
        return f"{int(value):,}".replace(",", "\u202f").replace("-", "−")
    exponent = math.floor(math.log10(abs(value)))
    if exponent < -3 or exponent >= 6:
        mantissa = f"{value / 10.0**exponent:.{digits - 1}f}".rstrip("0").rstrip(".")
        power = "10" + str(exponent).translate(_SUPERSCRIPT)
        if mantissa in ("1", "-1"):
            return mantissa.replace("1", power).replace("-", "−")
        return f"{mantissa} × {power}".replace("-", "−")
    text = f"{value:.{max(0, digits - 1 - exponent)}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text.replace("-", "−")


def amount(value: float, unit: str = "", digits: int = 3) -> str:
    """A number with its unit.

    Examples
    --------
    >>> amount(0.8312, "s"), amount(2.0)
    ('0.831\u00a0s', '2')
    """
    text = number(value, digits)
    return f"{text}\u00a0{unit}" if unit else text


def frequency_unit(time_unit: str) -> str:
    """The unit of a frequency or rate, from the unit of time.

    Examples
    --------
    >>> frequency_unit("s"), frequency_unit("h"), frequency_unit("")
    ('Hz', '1/h', '')
    """
    if time_unit in ("s", "sec", "seconds"):
        return "Hz"
    return f"1/{time_unit}" if time_unit else ""


def count(n: int, noun: str) -> str:
    """A count with its noun, in words up to twelve.

    Examples
    --------
    >>> count(1, "equilibrium"), count(3, "recording"), count(0, "cycle")
    ('one equilibrium', 'three recordings', 'no cycles')
    """
    words = "no one two three four five six seven eight nine ten eleven twelve".split()
    many = {"equilibrium": "equilibria", "series": "series", "crossing": "crossings"}
    said = words[n] if 0 <= n < len(words) else number(float(n), 9)
    return f"{said} {noun if n == 1 else many.get(noun, noun + 's')}"


def seconds(duration: float) -> str:
    """A duration in words.

    Examples
    --------
    >>> seconds(0.4), seconds(75), seconds(4020)
    ('0.4 s', '1 min 15 s', '1 h 7 min')
    """
    if duration < 60:
        return f"{duration:.1f} s" if duration < 10 else f"{duration:.0f} s"
    minutes, rest = divmod(round(duration), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def listing(items: Sequence[str], last: str = "and") -> str:
    """Items joined as in a sentence.

    Examples
    --------
    >>> listing(["a", "b", "c"])
    'a, b and c'
    """
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {last} {items[-1]}"


GRADE_WORDS = {
    "good": "Good model",
    "fair": "Usable with care",
    "poor": "Not good enough",
    "unclear": "Cannot be told",
}


def harmless(text: str) -> str:
    """The text with control signs made visible, which could move the cursor of a terminal.

    Line ends and tabs stay.

    Examples
    --------
    >>> harmless("a\\tb\\x1b[2J")
    'a\\tb\\\\x1b[2J'
    """
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
