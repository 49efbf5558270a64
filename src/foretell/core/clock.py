"""Where time comes from: one clock that is real, and one that a test or a replay moves by hand."""

from __future__ import annotations

import math
import time
from typing import Protocol, runtime_checkable

from foretell.core.errors import ParameterError


@runtime_checkable
class Clock(Protocol):
    """Seconds since its own beginning; never runs backwards."""

    def now(self) -> float:
        """Seconds since the clock was made."""
        ...


class MonotonicClock:
    """The time that really passes; changing the date does not move it.

    Examples
    --------
    >>> clock = MonotonicClock()
    >>> 0 <= clock.now() <= clock.now()
    True
    """

    def __init__(self) -> None:
        self._began = time.monotonic()

    def now(self) -> float:
        """Seconds since the clock was made."""
        return time.monotonic() - self._began


class VirtualClock:
    """Time that passes only when it is told to.

    Parameters
    ----------
    start : float
        Seconds.

    Raises
    ------
    ParameterError
        When it is asked to run backwards, or to a time that is not a number.

    Examples
    --------
    >>> clock = VirtualClock()
    >>> clock.advance(1.5)
    1.5
    >>> clock.advance_to(1.0)
    Traceback (most recent call last):
    ...
    foretell.core.errors.ParameterError: The clock is at 1.5 s and cannot go back to 1 s. ...
    """

    def __init__(self, start: float = 0.0) -> None:
        self._now = _finite(start)

    def now(self) -> float:
        """Seconds."""
        return self._now

    def advance(self, seconds: float) -> float:
        """Let some seconds pass; gives the new time."""
        return self.advance_to(self._now + _finite(seconds))

    def advance_to(self, time: float) -> float:
        """Go to a time that is not in the past; gives it back."""
        if _finite(time) < self._now:
            raise ParameterError(
                f"The clock is at {self._now:.6g} s and cannot go back to {time:.6g} s. Make a new "
                "VirtualClock(start=...) for another run."
            )
        self._now = float(time)
        return self._now


def _finite(value: float) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value):
        raise ParameterError(f"{value!r} is no time; needed is a finite number of seconds.")
    return float(value)
