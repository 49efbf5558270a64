"""Scores and errors as arrays, or an error that names the row; warnings about their use."""

from __future__ import annotations

import hashlib
import math
import sys
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import DataError, ForetellWarning
from foretell.trust.bounds import Guarantee, smallest_n
from foretell.trust.selective.feasible import SortedCases

Array = NDArray[np.float64]


def scores_array(values: ArrayLike, name: str = "scores", *, empty: bool = False) -> Array:
    """One finite number per case.

    Examples
    --------
    >>> scores_array([0.25, 1])
    array([0.25, 1.  ])
    """
    u = _numbers(values, name)
    if u.ndim != 1:
        raise DataError(
            f"{name} has shape {u.shape}; needed is one number per case, for instance {name}[:, 0]."
        )
    if not u.size and not empty:
        raise DataError(f"{name} is empty (n=0); at least one case is needed.")
    bad = ~np.isfinite(u)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"{name}[{row}] is {u[row]}; every score must be a finite number "
            f"({np.count_nonzero(bad)} of {u.size} are not). Leave those cases out and withhold "
            f"them: keep = numpy.isfinite({name})."
        )
    return u


def errors_array(values: ArrayLike, n: int, *, fractional: bool) -> Array:
    """One error per case: 0 or 1, or where allowed a loss between 0 and 1.

    Examples
    --------
    >>> errors_array([True, False], 2, fractional=False)
    array([1., 0.])
    """
    e = _numbers(values, "errors")
    if e.shape != (n,):
        raise DataError(
            f"errors has shape {e.shape} and scores ({n},); needed is one error per score."
        )
    bad = ~((e >= 0) & (e <= 1)) if fractional else ~((e == 0) | (e == 1))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        inside = 0 <= e[row] <= 1
        hint = (
            "Losses between 0 and 1 are covered by guarantee='marginal', and by guarantee='pac' "
            "with assume_monotone=False."
            if inside
            else "Write for instance errors = (answers != truth)."
        )
        needed = "between 0 and 1" if fractional else "0 (right) or 1 (wrong)"
        raise DataError(f"errors[{row}] is {e[row]:g}; needed is {needed}. {hint}")
    return e


def refuse_reordered(scores: Any, errors: Any) -> None:
    """Refuse two pandas columns with the same index in another order, as rows are what counts."""
    if not (hasattr(scores, "iloc") and hasattr(errors, "iloc")):
        return
    ours, theirs = scores.index, errors.index
    if len(ours) == len(theirs) and not ours.equals(theirs):
        if ours.sort_values().equals(theirs.sort_values()):
            raise DataError(
                "scores and errors have the same index in another order, and are read row by row. "
                "Write errors = errors.loc[scores.index]."
            )


def warn_about_cases(
    cases: SortedCases, guarantee: Guarantee, alpha: float, delta: float, *, told_apart: bool
) -> None:
    """Warn where a rule can be made but is likely to disappoint.

    Equal scores are no sign of repeated cases where the cases were told apart in another way.
    """
    least = smallest_n(guarantee, alpha, delta)
    if cases.n < least:
        warn(
            f"{cases.n} calibration cases are too few for guarantee={guarantee!r} at alpha="
            f"{alpha:g}: nothing can be accepted with fewer than {least}, even if all are right."
        )
    if cases.n > 1 and cases.ends.size == 1:
        warn(
            f"All {cases.n} scores are {cases.u[0]:g}: the threshold can only accept everything "
            "or nothing."
        )
    elif cases.binary and inverse(cases):
        warn(
            "Wrong answers have lower (surer) scores than right ones in this sample. If a higher "
            "score means surer, say direction='higher_is_surer'."
        )
    repeated = 0 if told_apart else suspicious_repeats(cases)
    if repeated:
        warn(
            f"{repeated} cases repeat the score of another one to the last digit. The same case "
            "twice makes the sample look larger than it is: keep one of each; ids of the cases "
            "(case_ids) show which they are."
        )


def warn_about_ids(case_ids: ArrayLike, n: int) -> None:
    """Warn where a case stands twice in the calibration sample."""
    ids = np.asarray(case_ids)
    if ids.shape != (n,):
        raise DataError(f"case_ids has shape {ids.shape}; needed is one per score, ({n},).")
    if ids.dtype.kind == "O":  # of several types, which cannot be sorted
        ids = np.array([f"{one}" for one in ids])
    values, first, counts = np.unique(ids, return_index=True, return_counts=True)
    twice = counts > 1
    if twice.any():
        shown = ids[first[twice].min()]
        warn(
            f"{np.count_nonzero(twice)} cases stand more than once in the calibration sample "
            f"({n} rows, {values.size} cases; for instance {shown!s}). Repeats make the sample "
            "look larger than it is: keep one row of each."
        )


def inverse(cases: SortedCases) -> bool:
    """Whether wrong cases have lower scores beyond chance (about 1 %)."""
    wrong = float(cases.total[-1])
    right = cases.n - wrong
    if not wrong or not right:
        return False
    starts = np.append(0, cases.ends[:-1])
    ranks = (starts + cases.ends + 1) / 2
    in_group = np.diff(cases.total, prepend=0.0)
    area = (float(ranks @ in_group) - wrong * (wrong + 1) / 2) / (wrong * right)
    return area < 0.5 - 2.33 * math.sqrt((cases.n + 1) / (12 * wrong * right))


def suspicious_repeats(cases: SortedCases) -> int:
    """Cases that share a long decimal score with another one, where hardly any scores are tied."""
    repeated = cases.n - cases.ends.size
    if not repeated or repeated > 0.5 * cases.n or cases.ends.size < 20:
        return 0
    sizes = np.diff(cases.ends, prepend=0)
    tied = cases.u[cases.ends[sizes > 1] - 1]
    long = np.round(tied, 6) != tied
    return int((sizes[sizes > 1][long] - 1).sum())


def fingerprint(scores: Array) -> str:
    """SHA-256 of the scores in their order."""
    return hashlib.sha256(np.ascontiguousarray(scores).tobytes()).hexdigest()


def _numbers(values: ArrayLike, name: str) -> Array:
    if np.ma.isMaskedArray(values):
        values = np.ma.filled(np.ma.asarray(values, dtype=np.float64), np.nan)
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        fix = "Turn labels into errors first: errors = (answers != truth)."
        if array.dtype.kind == "O" or name != "errors":
            fix = f"If they are numbers, write {name} = numpy.asarray({name}, dtype=float)."
        raise DataError(
            f"{name} holds {array.dtype} values, for instance {array.ravel()[:1].tolist()}; needed "
            f"are numbers. {fix}"
        )
    return array.astype(np.float64)


def warn(message: str) -> None:
    """Warn at the line that called the library, however deep inside of it this is."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("foretell."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, ForetellWarning, stacklevel=level)
