"""The sentence of each guarantee, with its assumptions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foretell.trust.bounds import Guarantee, pool_inflation, selection_inflation
from foretell.trust.decision import Certificate
from foretell.trust.selective.enough import advice, cases_needed, level_of_one_test
from foretell.trust.selective.feasible import Choice, SortedCases
from foretell.trust.selective.identity import ScoreShift

IID = "calibration and new cases are independent draws from one law"
EXCHANGEABLE = "calibration and new cases are exchangeable"
FIXED = "the score and the answers were fixed before the calibration cases were looked at"
LABELS = "the calibration labels say what counts as wrong"
GIVEN = "the thresholds to test were chosen without the calibration cases"
MONOTONE = "the probability of being wrong does not fall as the score becomes less sure"
WITHHELD = "They are withheld (or passed on)"
_ELSEWHERE = {"fdr": ("Another batch may be judged with select().",)}  # though nothing here is
WIDE = 10  # fewest accepted cases for which the factor B is worth stating


def certificate(
    guarantee: Guarantee,
    choice: Choice | None,
    cases: SortedCases,
    *,
    alpha: float,
    delta: float,
    k0: int,
    assume_monotone: bool,
    given: bool,
    pool: NDArray[np.float64] | None,
    shift: ScoreShift | None = None,
) -> Certificate:
    """The certificate of a calibrated threshold, or of the fact that there is none.

    `pool` are the unlabelled scores of "fdr", sorted; `shift` is how they compare with those of the
    calibration. Where they are not alike, no number of cases like the present ones is said to do.
    """
    a, loss = f"{alpha:.12g}", "wrong" if cases.binary else "lost (mean loss)"
    statement, assumptions, remarks = _words(
        guarantee, a, loss, alpha, delta, cases.n, k0, assume_monotone, given,
        None if pool is None else pool.size,
    )  # fmt: skip
    counted = {
        "pac": "; the statement is about the accepted ones only.",
        "marginal": " and count as not wrong.",
    }.get(guarantee, "; a run that accepts nothing counts as a share of 0.")
    needed = None
    shifted = shift is not None and shift.shifted
    if choice is None:
        level = level_of_one_test(
            cases.n, alpha, delta, k0, assume_monotone=assume_monotone, given=given
        )
        if not shifted:
            needed = cases_needed(guarantee, cases, alpha, delta, k0, level=level, pool=pool)
        statement = (
            f"No threshold could be certified from {cases.n} cases, so everything is withheld."
        )
        remarks = (
            *(() if shifted else (advice(needed, cases, alpha, k0, pool),)),
            *_ELSEWHERE.get(guarantee, ()),
        )
    if shift is not None and shifted:
        remarks = (_not_alike(shift, feasible=choice is not None), *remarks)
    return Certificate(
        kind=guarantee,
        statement=statement,
        assumptions=assumptions,
        n=cases.n,
        level=float(alpha),
        confidence=float(1 - delta) if guarantee == "pac" else None,
        abstentions=WITHHELD + counted,
        feasible=choice is not None,
        needed_n=needed,
        remarks=remarks,
    )


def _words(
    guarantee: Guarantee,
    a: str,
    loss: str,
    alpha: float,
    delta: float,
    n: int,
    k0: int,
    assume_monotone: bool,
    given: bool,
    pool: int | None,
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    if guarantee == "pac":
        order = (GIVEN,) if given else (MONOTONE,) if assume_monotone else ()
        return (
            f"With probability at least {1 - delta:.12g} over the draw of the calibration cases, "
            f"at most a share of {a} of the cases that the threshold accepts is {loss}.",
            (IID, FIXED, LABELS, *order),
            (),
        )
    if guarantee == "marginal":
        return (
            f"The probability that a new case is {loss} and accepted is at most {a}."
            if loss == "wrong"
            else f"The mean loss of a new case, counted as 0 when withheld, is at most {a}.",
            (EXCHANGEABLE, FIXED, LABELS),
            (
                "This is a share of all cases. Among the accepted the share can be much larger, "
                "when few are accepted.",
            ),
        )
    if guarantee == "plugin_corrected":
        return (
            f"On average over draws of the calibration cases, the share of wrong ones among the "
            f"cases that the threshold accepts, counted as 0 when there is none, is at most {a}.",
            (IID, FIXED, LABELS),
            ("In about half of all calibrations the share is above its average.",),
        )
    if guarantee == "fdr":
        later = (
            f"For later cases of the same law the average is at most "
            f"{alpha * _later(pool, k0):.6g} (at least {k0} of the {pool} unlabelled cases must "
            "be accepted)."
            if pool is not None and k0 >= WIDE
            else "For later cases nothing exact is known: judge each batch with select(), or give "
            "at least 100 unlabelled cases."
        )
        return (
            f"On average over draws of the calibration cases and of the {pool} unlabelled cases, "
            f"the share of wrong ones among those of the {pool} that are accepted, counted as 0 "
            f"when none is, is at most {a}.",
            (EXCHANGEABLE, FIXED, LABELS),
            (later, "In about half of all batches the share is above its average."),
        )
    return (
        "The published rule: nothing is guaranteed about the share of wrong ones among the "
        f"accepted, which can be several times {a}.",
        (IID, FIXED, LABELS),
        (
            (
                f"On average over calibrations, with none counted as 0, the share is at most "
                f"{alpha * selection_inflation(n, k0):.6g}.",
            )
            if k0 >= WIDE
            else ()
        ),
    )


def _not_alike(shift: ScoreShift, *, feasible: bool) -> str:
    return (
        f"An assumption is violated: the {shift.n} unlabelled scores are distributed differently "
        f"from those of the calibration (distance {shift.distance:.2f}). "
        + (
            "The statement does not cover these cases: calibrate on labelled cases like them."
            if feasible
            else "How many cases would be enough for them cannot be told from the present ones: "
            "calibrate on labelled cases like them."
        )
    )


def _later(pool: int | None, k0: int) -> float:
    return pool_inflation(pool or 1, min(k0, pool or 1))
