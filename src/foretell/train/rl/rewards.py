"""Rewards: plain functions of (task, completion) that return a number.

A strict reader of answers is what stands between learning and finding holes in the reward.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from numbers import Real
from typing import Any

from foretell.core.errors import DataError
from foretell.train.rl.policy import Task

_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")
_MARKED = re.compile(r"####\s*\$?\s*(" + _NUMBER.pattern + r")\s*$")


def exact_match(task: Task, completion: str) -> float:
    """1 where the completion is the answer, spaces at the ends aside.

    Examples
    --------
    >>> exact_match(Task("1+2=", "3"), " 3"), exact_match(Task("1+2=", "3"), "3 or 4")
    (1.0, 0.0)
    """
    return float(completion.strip() == str(task.answer).strip())


def numeric_match(task: Task, completion: str) -> float:
    """1 where the completion holds exactly one number, and that equals the answer.

    Several different numbers count as a guess and give 0. An answer like "... #### 42" is read
    after its mark, and so is a completion.

    Examples
    --------
    >>> sums = Task("What is 2+40?", "#### 42")
    >>> [numeric_match(sums, text) for text in ("It is 42.", "42 or 43", "forty-two", "1 #### 42")]
    [1.0, 0.0, 0.0, 1.0]
    """
    wanted = read_number(str(task.answer))
    if wanted is None:
        raise DataError(f"The answer {task.answer!r} has no number to compare with.")
    return float(read_number(completion) == wanted)


def first_number_match(task: Task, completion: str) -> float:
    """1 where the completion begins with the number of the answer, spaces aside.

    Examples
    --------
    >>> first_number_match(Task("2+2", 4), " 4. And"), first_number_match(Task("2+2", 4), "the 4")
    (1.0, 0.0)
    """
    wanted, found = read_number(str(task.answer)), _NUMBER.match(completion.lstrip())
    return float(found is not None and wanted is not None and _decimal(found[0]) == wanted)


def read_number(text: str) -> Decimal | None:
    """The number after ``####``, else the only number of a text; None where it is ambiguous."""
    marked = _MARKED.search(text.strip())
    if marked:
        return _decimal(marked[1])
    found = {_decimal(number) for number in _NUMBER.findall(text)}
    return found.pop() if len(found) == 1 else None


def _decimal(text: str) -> Decimal | None:
    try:
        return Decimal(text.replace(",", ""))
    except InvalidOperation:
        return None


REWARDS = {
    "exact_match": exact_match,
    "numeric_match": numeric_match,
    "first_number_match": first_number_match,
}


def checked_reward(value: Any, uid: int) -> float:
    """One finite number, or an error that names the row.

    Raises
    ------
    DataError
    """
    if getattr(value, "ndim", None) == 0:
        value = value.item()
    if not isinstance(value, Real):
        raise DataError(
            f"The reward of the row with uid {uid} is {value!r} ({type(value).__name__}); needed "
            "is one number for each call: def reward(task, completion): return 1.0"
        )
    if not math.isfinite(value):
        raise DataError(
            f"The reward of the row with uid {uid} is {float(value)}; needed is a finite number."
        )
    return float(value)
