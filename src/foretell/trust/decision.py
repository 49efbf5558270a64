"""What is said about a result: accept, pass on or withhold, and the sentence that backs it.

A `Certificate` is made once, when a rule is calibrated. A `Decision` is made for each case and
points to its certificate.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from foretell.core.errors import ArtifactError

Action = Literal["accept", "pass_on", "withhold"]


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a calibrated rule promises, in words and numbers.

    Parameters
    ----------
    kind : str
        The kind of promise, for instance "pac"; "empirical" where nothing is proved.
    statement : str
        One exact sentence.
    assumptions : tuple of str
        What the sentence rests on; each may be violated by your data.
    n : int
        Number of calibration cases.
    level : float
        The level asked for, for instance the share of wrong answers.
    confidence : float or None
        Probability over calibration samples with which the statement holds; None where it is
        about an average.
    abstentions : str
        What happens to cases that are not accepted, and how they count.
    feasible : bool
        False when no threshold could be certified, so that everything is withheld.
    needed_n : int or None
        Where infeasible: the number of calibration cases that would be enough, judged by the
        present sample; None if no number is, because the error is too high at every threshold, or
        if that cannot be told, because the unlabelled cases are not like the calibration cases.
    remarks : tuple of str
        Further facts, for instance what holds for later cases.

    Examples
    --------
    >>> certificate = Certificate(
    ...     kind="marginal",
    ...     statement="At most 5 % of all cases are wrong and accepted.",
    ...     assumptions=("the cases are exchangeable",),
    ...     n=200,
    ...     level=0.05,
    ...     confidence=None,
    ...     abstentions="They are withheld and count as right.",
    ... )
    >>> print(certificate)
    At most 5 % of all cases are wrong and accepted.
    Holds if: the cases are exchangeable.
    Not accepted: They are withheld and count as right.
    Calibrated on 200 cases, level 0.05.
    """

    kind: str
    statement: str
    assumptions: tuple[str, ...]
    n: int
    level: float
    confidence: float | None
    abstentions: str
    feasible: bool = True
    needed_n: int | None = None
    remarks: tuple[str, ...] = ()

    def __str__(self) -> str:
        confidence = "" if self.confidence is None else f", confidence {self.confidence:.6g}"
        return "\n".join(
            [
                self.statement,
                f"Holds if: {'; '.join(self.assumptions) or 'nothing further'}.",
                f"Not accepted: {self.abstentions}",
                *self.remarks,
                f"Calibrated on {self.n} cases, level {self.level:.6g}{confidence}.",
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        content = asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in content.items()}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Certificate:
        """The certificate that `to_dict` described; an ArtifactError when fields are missing."""
        names = {field.name for field in fields(cls)}
        if not isinstance(content, dict) or set(content) != names:
            raise ArtifactError(
                f"This is not a certificate: its fields must be {', '.join(sorted(names))}. "
                "Calibrate again and save the new rule."
            )
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in content.items()
        }
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with one case.

    Parameters
    ----------
    action : {"accept", "pass_on", "withhold"}
        Show it; ask the next, more expensive model; or say that there is no answer.
    score : float
        The score that was judged, as it was given.
    threshold : float or None
        What it was compared with, on the same scale; None where nothing could be certified.
    certificate : Certificate
        What backs the decision.
    route : int or None
        Which model answered, or is asked next; None where there is one model only.

    Examples
    --------
    >>> from foretell.trust import SelectiveThreshold
    >>> rule = SelectiveThreshold(alpha=0.2, guarantee="marginal")
    >>> rule = rule.fit([0.1, 0.2, 0.3, 0.9], [0, 0, 0, 0])
    >>> rule.decide(0.25)
    Decision(accept, score 0.25, threshold 0.9)
    """

    action: Action
    score: float
    threshold: float | None
    certificate: Certificate
    route: int | None = None

    @property
    def accepted(self) -> bool:
        """Whether the answer may be shown."""
        return self.action == "accept"

    def __repr__(self) -> str:
        threshold = "none" if self.threshold is None else f"{self.threshold:.6g}"
        route = "" if self.route is None else f", route {self.route}"
        return f"Decision({self.action}, score {self.score:.6g}, threshold {threshold}{route})"
