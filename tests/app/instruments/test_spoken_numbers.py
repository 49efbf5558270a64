"""Numbers that were spoken: digits, signs and what is no number."""

import pytest
from hypothesis import given, strategies as st

from foretell.app.instruments.spoken_numbers import _ONES, _TENS, in_digits


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("in a hundred seconds", "in 100 seconds"),
        ("two minus three", "2 minus 3"),
        ("five bar minus three bar", "5 bar minus 3 bar"),
        ("above minus five", "above -5"),
        ("three thousand four hundred and six", "3406"),
        ("three point one four times twenty-one", "3.14 times 21"),
        ("seven million", "7000000"),
        ("five six", "five six"),  # two numbers
        ("nineteen eighty four", "nineteen eighty four"),  # a year, said as two numbers
        ("the one that is often first", "the one that is often first"),
        ("a second", "a second"),
        ("80 mm or 3.5", "80 mm or 3.5"),
    ],
)
def test_what_is_said_and_what_is_meant(said, meant):
    assert in_digits(said) == meant


@given(st.integers(2, 999))
def test_all_numbers_below_a_thousand(number):
    ones, tens = {v: k for k, v in _ONES.items()}, {v: k for k, v in _TENS.items()}
    hundreds, rest = divmod(number, 100)
    words = [f"{ones[hundreds]} hundred"] if hundreds else []
    if rest:
        small = ones.get(rest) or " ".join(filter(None, [tens[rest // 10 * 10], ones[rest % 10]]))
        words += ["and", small.removesuffix(" zero")] if words else [small.removesuffix(" zero")]
    assert in_digits(" ".join(words)) == str(number)
