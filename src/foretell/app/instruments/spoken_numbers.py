"""Numbers in words, as a recogniser may write them, to digits."""

from __future__ import annotations

import re

_ONES = dict(
    zip(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen".split(),
        range(20),
        strict=True,
    )
)
_TENS = dict(
    zip(
        "twenty thirty forty fifty sixty seventy eighty ninety".split(),
        range(20, 100, 10),
        strict=True,
    )
)
_SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000}
_NUMBER = "|".join([*_ONES, *_TENS, *_SCALES])
_RUN = re.compile(
    rf"\b(?:minus\s+)?(?:a\s+(?=hundred|thousand|million))?(?:{_NUMBER})(?:(?:\s+and)?[\s-]+(?:{_NUMBER}))*"
    rf"(?:\s+point(?:\s+(?:{'|'.join([*_ONES][:10])}))+)?\b",
    re.IGNORECASE,
)
_AFTER_NUMBER = re.compile(rf"(?:\d|\b(?:{_NUMBER}))\s*\w*\s*$", re.IGNORECASE)


def in_digits(text: str) -> str:
    """A text with its numbers in digits; a lone "one" is left, as it seldom is a number.

    Examples
    --------
    >>> in_digits("What if the pump is at minus two point five for one hundred and twenty seconds?")
    'What if the pump is at -2.5 for 120 seconds?'
    >>> in_digits("Which one keeps it below eighty-five?")
    'Which one keeps it below 85?'
    """
    return _RUN.sub(_value, text)


def _value(found: re.Match[str]) -> str:
    words = found[0]
    said = [word for word in re.split(r"[\s-]+", words.casefold()) if word != "a"]
    if said == ["one"]:
        return words
    sign = "-" if said[0] == "minus" else ""
    if sign and _AFTER_NUMBER.search(found.string[: found.start()]):
        sign = "minus "
    if "point" in said:
        place = said.index("point")
        after = "".join(str(_ONES[word]) for word in said[place + 1 :])
        whole = _whole(said[:place])
        return words if whole is None else f"{sign}{whole}.{after}"
    whole = _whole(said)
    return words if whole is None else f"{sign}{whole}"


def _whole(said: list[str]) -> int | None:
    """The number; None for words that are several numbers, such as "five six"."""
    total, part, last = 0, 0, 0  # `last` is what the word before stood for
    for word in said:
        if word in ("minus", "and"):
            continue
        if word in _SCALES:
            scale = _SCALES[word]
            if scale == 100:
                part = (part or 1) * 100
            else:
                total, part = total + (part or 1) * scale, 0
            last = scale
            continue
        value = _ONES.get(word, _TENS.get(word, 0))
        fits = last == 0 or last >= 100 or (last in _TENS.values() and 0 < value < 10)
        if not fits:
            return None
        part, last = part + value, value or 1
    return total + part
