"""Units, the calculator, and calls that end in time."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given, settings, strategies as st

from foretell.app.instruments.bounded import GaveUpError, bounded
from foretell.app.instruments.calculator import Calculator
from foretell.app.instruments.units import converted, unit
from foretell.core.errors import ForetellError, ParameterError

calculator = Calculator()


def result(question):
    request = calculator.read(question)
    assert request is not None, question
    assert not request.asks, request.asks
    finding = calculator(request.arguments, cancelled=lambda: False)
    return finding.value, finding.unit


@pytest.mark.parametrize(
    ("question", "value", "measured"),
    [
        ("What is 2 + 3 * 4?", 14, ""),
        ("2 ^ 3 ^ 2", 512, ""),
        ("-2 ^ 2", -4, ""),
        ("(1 + 2) * 3", 9, ""),
        ("convert 80 degrees Fahrenheit to Celsius", 26.6666666667, "°C"),
        ("What is 0 °C in K", 273.15, "K"),
        ("How many litres are in 3 m3?", 3000, "l"),
        ("3.5 l/min * 20 min", 70, "l"),
        ("20 km/h in m/s", 5.55555555556, "m/s"),
        ("10% of 50", 5, ""),
        ("1,200 / 4", 300, ""),
        ("7 times 6", 42, ""),
        ("square root of 16", 4, ""),
        ("2 kWh / 4 h in W", 500, "W"),
        ("How many minutes are in 2 days?", 2880, "min"),
    ],
)
def test_calculations(question, value, measured) -> None:
    found, own = result(question)
    assert found == pytest.approx(value, rel=1e-9)
    assert own == measured


@pytest.mark.parametrize(
    "question",
    ["What is the pump?", "3", "In 1998", "How many pumps are in 3 tanks?", "valve V7", "1 2 3",
     "((((1", "what is 3 of the pump", "9" * 300, "1 + x", "", "+"],
)  # fmt: skip
def test_what_is_no_calculation_is_left_to_others(question) -> None:
    assert calculator.read(question) is None


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("1 / 0", "divided by zero"),
        ("5 m + 3 s", "cannot be added"),
        ("convert 5 m to s", "cannot be told in s"),
        ("9^9^9^9", "too large"),
        ("sqrt(-1)", "no result"),
        ("(-8)^0.5", "no result"),
    ],
)
def test_what_has_no_result_says_why(question, reason) -> None:
    request = calculator.read(question)
    assert request is not None
    with pytest.raises(ForetellError, match=reason):
        calculator(request.arguments, cancelled=lambda: False)


def test_a_decimal_comma_is_asked_about() -> None:
    request = calculator.read("1,5 * 3")
    assert request is not None
    assert "1.5 * 3" in request.asks


@given(st.text(alphabet="0123456789.+-*/^() kmlsbarinto°C%,", max_size=40))
@settings(max_examples=300, deadline=None)
def test_any_text_is_calculated_or_not_without_a_crash(text) -> None:
    request = calculator.read(text)
    if request is not None and not request.asks:
        said = "a result"
        try:
            calculator(request.arguments, cancelled=lambda: False)
        except ParameterError as error:
            said = str(error)
        assert said


@given(st.floats(-1e6, 1e6), st.sampled_from(["°F", "K", "°C"]), st.sampled_from(["K", "°F"]))
def test_there_and_back(value, a, b) -> None:
    assert converted(converted(value, a, b), b, a) == pytest.approx(value, abs=1e-6)


def test_units() -> None:
    assert unit("kg*m/s^2") == unit("N")
    assert unit("litres per minute") == unit("l/min")
    with pytest.raises(ParameterError, match="is no unit"):
        unit("apples")
    with pytest.raises(ParameterError, match="different things"):
        converted(1, "bar", "m")


def test_a_call_that_takes_too_long_is_given_up_and_one_that_is_cancelled_too() -> None:
    stop = threading.Event()
    began = time.monotonic()
    with pytest.raises(GaveUpError, match=r"no result within 0\.05 s"):
        bounded(lambda: stop.wait(20), 0.05, what="The plan")
    with pytest.raises(GaveUpError, match="cancelled"):
        bounded(lambda: stop.wait(20), 20, lambda: True)
    assert time.monotonic() - began < 10
    stop.set()


def test_calls_that_were_given_up_cannot_pile_up() -> None:
    stop = threading.Event()
    refused = 0
    for _ in range(8):
        try:
            bounded(lambda: stop.wait(20), 0.01)
        except GaveUpError as error:
            refused += "still running" in str(error)
    stop.set()
    assert refused >= 4


def test_what_a_call_raises_is_raised() -> None:
    with pytest.raises(KeyError):
        bounded(lambda: {}["x"], 5)
