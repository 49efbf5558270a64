"""Accept, pass on or withhold: a threshold on the doubt, calibrated on questions with answers.

The promise is that of `foretell.trust.SelectiveThreshold`; what it speaks of is named with it: the
population of the calibration questions, and nothing else.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from foretell.converse.answer.statements import Verdict
from foretell.core.errors import ForetellWarning
from foretell.trust.decision import Certificate

if TYPE_CHECKING:
    from foretell.trust import SelectiveThreshold

SCORE = "doubt"
_STEPS = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0)  # thresholds that are tried, in levels
_SURELY_WRONG = 0.6  # from this doubt on there is nothing to pass on
_HIGHEST = 0.95


@dataclass(frozen=True, eq=False)
class Gate:
    """Decides on answers.

    Parameters
    ----------
    rule : SelectiveThreshold or None
        None: nothing was calibrated, so that nothing is accepted.
    population : str
        Which questions the promise speaks of, as a clause.
    elsewhere : bool
        Whether those are questions about other notes: then nothing is promised about these.

    Examples
    --------
    >>> doubts, wrong = [0.01] * 80 + [0.4] * 20, [False] * 80 + [True] * 20
    >>> gate = Gate.calibrated(doubts, wrong, level=0.1, population="the cases are like mine")
    >>> gate.decide(0.01).action, gate.decide(0.5).action, gate.decide(0.9).action
    ('accept', 'pass_on', 'withhold')
    >>> gate.certificate.assumptions[0]
    'the cases are like mine'
    """

    rule: SelectiveThreshold | None = None
    population: str = ""
    elsewhere: bool = False

    @classmethod
    def calibrated(
        cls,
        doubts: Sequence[float],
        wrong: Sequence[bool],
        *,
        level: float,
        population: str,
        confidence: float = 0.9,
        thresholds: Sequence[float] | None = None,
        elsewhere: bool = False,
    ) -> Gate:
        """A gate from questions whose answers were judged.

        Parameters
        ----------
        doubts : sequence of float
            Of the answers, from `Judge.doubt`.
        wrong : sequence of bool
            Whether each would have been wrong.
        level : float
            Share of wrong answers among the accepted.
        population : str
        confidence : float
            Probability over the calibration questions that the promise holds.
        thresholds : sequence of float, optional
            Doubts that are tried, chosen without a look at these questions; by default `steps`.
        elsewhere : bool
            The questions are about other notes than those that will be asked.
        """
        from foretell.trust import SelectiveThreshold  # with scikit-learn, which takes time

        rule = SelectiveThreshold(
            alpha=level,
            guarantee="pac",
            delta=round(1 - confidence, 12),
            test_at=steps(level) if thresholds is None else list(thresholds),
            score=SCORE,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ForetellWarning)  # the certificate says the same
            rule.fit(list(doubts), [float(w) for w in wrong])
        return cls(rule, population, elsewhere)

    @property
    def certificate(self) -> Certificate | None:
        """The promise, with the population first among its assumptions; None without one."""
        if self.rule is None or self.elsewhere:
            return None
        made = self.rule.certificate_
        return replace(made, assumptions=(self.population, *made.assumptions))

    @property
    def threshold(self) -> float | None:
        """The largest doubt that is accepted; None where nothing is."""
        return None if self.rule is None else self.rule.threshold_

    def decide(self, doubt: float) -> Verdict:
        """What to do with an answer."""
        limit = self.threshold
        chance = f"the estimated chance that it is wrong is {_percent(doubt)}"
        if self.rule is None:
            reason = "nothing was calibrated, so that no answer can be vouched for"
        elif limit is None:
            more = self.rule.certificate_.needed_n
            enough = f"; about {more} would be enough" if more else ""
            reason = (
                f"no threshold keeps the level {self.rule.alpha:g} on the "
                f"{self.rule.certificate_.n} calibration questions{enough}, so that everything is "
                "withheld"
            )
            return Verdict("withhold", reason, doubt, None)
        elif doubt <= limit:
            reason = f"{chance}, and up to {_percent(limit)} is accepted"
            if self.elsewhere:
                reason += "; both come from other notes than yours, so that nothing is promised"
            return Verdict("accept", reason, doubt, limit)
        else:
            reason = f"{chance}, and only up to {_percent(limit)} is accepted"
        action: str = "withhold" if doubt >= _SURELY_WRONG else "pass_on"
        return Verdict("withhold" if action == "withhold" else "pass_on", reason, doubt, limit)


def steps(level: float) -> list[float]:
    """Doubts that are tried as thresholds: multiples of the level, chosen before any calibration.

    The doubt estimates the chance of an error at the threshold; the share of errors below it is
    smaller, so that thresholds above the level may keep it.

    Examples
    --------
    >>> steps(0.1)[:3]
    [0.1, 0.125, 0.15]
    """
    return sorted({min(round(level * step, 6), _HIGHEST) for step in _STEPS})


def _percent(share: float) -> str:
    return "under 1 %" if share < 0.01 else f"{100 * share:.0f} %"
