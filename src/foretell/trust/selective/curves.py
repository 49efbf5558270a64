"""Risk against coverage, and pictures of it.

A risk-coverage curve has no guarantee: it is what happened on the sample. `plot_risk_coverage`
draws the thresholds of the guarantees into it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import MissingExtraError
from foretell.trust.selective import checks
from foretell.trust.selective.feasible import SortedCases
from foretell.trust.selective.identity import Direction

if TYPE_CHECKING:
    from foretell.trust.decision import Certificate
    from foretell.trust.selective.threshold import SelectiveThreshold

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class RiskCoverage:
    """Share of wrong ones among the accepted, for every threshold.

    Parameters
    ----------
    threshold : array of shape (G,)
        One per distinct score, from the surest on; in the units of the scores.
    coverage : array of shape (G,)
        Share of the cases that are accepted.
    risk : array of shape (G,)
        Share of wrong ones (or mean loss) among them.
    n : int
    """

    threshold: Array = field(repr=False)
    coverage: Array = field(repr=False)
    risk: Array = field(repr=False)
    n: int

    @property
    def area(self) -> float:
        """Area under the curve, as a step function from coverage 0 to 1; smaller is better.

        Examples
        --------
        >>> round(risk_coverage_curve([0.1, 0.2, 0.3, 0.4], [0, 0, 0, 1]).area, 4)
        0.0625
        """
        return float(self.risk @ np.diff(self.coverage, prepend=0.0))


def risk_coverage_curve(
    scores: ArrayLike, errors: ArrayLike, *, direction: Direction = "lower_is_surer"
) -> RiskCoverage:
    """The risk-coverage curve of labelled cases.

    Parameters
    ----------
    scores : array of shape (n,)
    errors : array of shape (n,)
        0 or 1, or losses between.
    direction : {"lower_is_surer", "higher_is_surer"}

    Examples
    --------
    >>> curve = risk_coverage_curve([0.1, 0.2, 0.2, 0.9], [0, 0, 1, 1])
    >>> curve.coverage, curve.risk.round(2)
    (array([0.25, 0.75, 1.  ]), array([0.  , 0.33, 0.5 ]))
    """
    u = checks.scores_array(scores)
    checks.refuse_reordered(scores, errors)
    e = checks.errors_array(errors, u.size, fractional=True)
    sign = 1.0 if direction == "lower_is_surer" else -1.0
    cases = SortedCases.of(sign * u, e)
    return RiskCoverage(
        sign * cases.u[cases.ends - 1], cases.ends / cases.n, cases.total / cases.ends, cases.n
    )


def plot_risk_coverage(
    curve: RiskCoverage,
    rules: Mapping[str, SelectiveThreshold] | None = None,
    *,
    alpha: float | None = None,
    ax: Any = None,
) -> Any:
    """Draw the curve, the region at or below the level, and where each rule cuts.

    Parameters
    ----------
    curve : RiskCoverage
    rules : mapping of label to fitted SelectiveThreshold, optional
        A rule without a threshold is listed as withholding everything.
    alpha : float, optional
        The level; by default that of the first rule.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from foretell.trust import SelectiveThreshold
    >>> u, e = np.arange(20.0), [0] * 15 + [1] * 5
    >>> rule = SelectiveThreshold(alpha=0.1, guarantee="marginal").fit(u, e)
    >>> ax = plot_risk_coverage(risk_coverage_curve(u, e), {"marginal": rule})
    >>> ax.get_legend_handles_labels()[1]
    ['on this sample', 'marginal: 80.0%']
    """
    ax = _axes(ax)
    rules = dict(rules or {})
    level = alpha if alpha is not None else next((r.alpha for r in rules.values()), None)
    ax.step(curve.coverage, curve.risk, where="pre", color="0.25", lw=1.2, label="on this sample")
    if level is not None:
        ax.axhspan(0, level, color="tab:green", alpha=0.12, lw=0)
        ax.axhline(level, color="tab:green", lw=0.8)
    for i, (label, rule) in enumerate(rules.items()):
        if rule.threshold_ is None:
            ax.plot([], [], " ", label=f"{label}: nothing accepted")
            continue
        sign = rule.identity_.sign
        accepted = np.count_nonzero(sign * curve.threshold <= sign * rule.threshold_)
        at = float(curve.coverage[accepted - 1]) if accepted else 0.0
        ax.axvline(at, color=f"C{i}", ls="--", lw=1.1, label=f"{label}: {at:.1%}")
    ax.set(xlabel="accepted share", ylabel="wrong among the accepted", xlim=(0, 1), ylim=(0, None))
    ax.legend(frameon=False, fontsize="small")
    return ax


def plot_routes(
    shares: Sequence[float], accepted: Sequence[float], labels: Sequence[str], *, ax: Any = None
) -> Any:
    """Draw which share of the cases each model answers, and which part of it is accepted.

    Parameters
    ----------
    shares, accepted : sequences of K shares
        Routed to each model, and routed and accepted.
    labels : sequence of K names
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> plot_routes([0.6, 0.4], [0.5, 0.1], ["small", "large"]).texts[0].get_text()
    'small\\n60%'
    """
    ax = _axes(ax)
    left = 0.0
    for i, (share, kept, label) in enumerate(zip(shares, accepted, labels, strict=True)):
        ax.fill_between([left, left + share], 0.62, 1.0, color=f"C{i}", alpha=0.35, lw=0)
        ax.text(left + share / 2, 0.81, f"{label}\n{share:.0%}", ha="center", va="center")
        ax.fill_between([left, left + kept], 0.0, 0.38, color="tab:green", alpha=0.5, lw=0)
        ax.fill_between([left + kept, left + share], 0.0, 0.38, color="0.6", alpha=0.5, lw=0)
        ax.fill_betweenx([0.38, 0.62], left, left + share, color=f"C{i}", alpha=0.12, lw=0)
        left += share
    ax.text(0.0, -0.02, "green: accepted, grey: withheld", va="top", fontsize="small")
    ax.set(xlim=(0, max(left, 1e-9)), ylim=(-0.12, 1.02))
    ax.axis("off")
    return ax


def certificate_table(certificates: Mapping[str, Certificate]) -> str:
    """Several certificates side by side, as a Markdown table.

    Examples
    --------
    >>> from foretell.trust import SelectiveThreshold
    >>> rule = SelectiveThreshold(alpha=0.2, guarantee="marginal").fit(range(9), [0] * 9)
    >>> print(certificate_table({"mine": rule.certificate_}).splitlines()[2])
    | mine | marginal | The probability that a new case is wrong and accepted is at most 0.2. | 9 |
    """
    rows = [
        f"| {label} | {c.kind} | {c.statement} | {c.n} |".replace("\n", " ")
        for label, c in certificates.items()
    ]
    return "\n".join(["| rule | guarantee | statement | n |", "| --- | --- | --- | --- |", *rows])


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", "draw a picture") from error
    return Figure(figsize=(6.0, 3.6), layout="constrained").subplots()
