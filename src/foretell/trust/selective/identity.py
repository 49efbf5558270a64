"""Which score a rule belongs to, and whether new scores look like those of its calibration.

A threshold means nothing for another score, another version of it, or the other direction.
`ScoreIdentity` is what a rule remembers of the first two, `ScoreProfile` what it remembers of the
numbers: quantiles, against which new ones are compared without labels.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import ArtifactError, ParameterError

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Direction = Literal["lower_is_surer", "higher_is_surer"]

QUANTILES = 256
ENOUGH = 30  # new scores before a comparison means anything
CHANCE = 1e-6  # of calling unshifted scores shifted


@dataclass(frozen=True, slots=True)
class ScoreIdentity:
    """Name, version and direction of a score.

    Parameters
    ----------
    name : str
        For instance "max_proba" or the name of a column.
    version : str
        Whatever changes when the score changes: the version of a model, a prompt, a temperature.
    direction : {"lower_is_surer", "higher_is_surer"}
    fingerprint : str
        Optional hash of the model file or of the code behind the score.

    Examples
    --------
    >>> ScoreIdentity("entropy", version="2").hash[:12]
    'c3672ba4f384'
    """

    name: str = "score"
    version: str = ""
    direction: Direction = "lower_is_surer"
    fingerprint: str = ""

    @property
    def hash(self) -> str:
        """SHA-256 of the four fields."""
        text = json.dumps(asdict(self), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def sign(self) -> float:
        """1 where lower is surer, -1 where higher is."""
        return 1.0 if self.direction == "lower_is_surer" else -1.0

    @classmethod
    def parse(
        cls, text: str, direction: Direction = "lower_is_surer", fingerprint: str = ""
    ) -> ScoreIdentity:
        """The identity written as ``name`` or ``name@version``.

        Examples
        --------
        >>> ScoreIdentity.parse("entropy@2").version
        '2'
        """
        name, _, version = text.partition("@")
        return cls(name.strip(), version.strip(), direction, fingerprint)

    def check(self) -> None:
        """Raise a ParameterError for a direction that does not exist or a field that is no text."""
        if self.direction not in get_args(Direction):
            raise ParameterError(
                f"direction={self.direction!r} is not one of {', '.join(get_args(Direction))}."
            )
        for name in ("name", "version", "fingerprint"):
            if not isinstance(getattr(self, name), str):
                raise ParameterError(f"{name}={getattr(self, name)!r} of the score is not a text.")

    def refuse_other(self, other: ScoreIdentity) -> None:
        """Raise a ParameterError that names the difference and the fix, unless they are equal."""
        if other == self:
            return
        if other.direction != self.direction:
            raise ParameterError(
                f"This rule was calibrated on the score {self.name!r} with "
                f"{_words(self.direction)}; the scores given have {_words(other.direction)}. "
                "Give the score in the direction of the rule (for instance -scores or "
                f"1 - scores), or calibrate again with direction={other.direction!r}."
            )
        if other.name == self.name and self.version and not other.version:
            raise ParameterError(
                f"This rule was calibrated on version {self.version!r} of {self.name!r}, and the "
                "scores given do not say their version. A threshold does not carry over to "
                f"another one; if they are of that version, say {self.name + '@' + self.version!r}."
            )
        if replace(other, fingerprint=self.fingerprint) == self and not other.fingerprint:
            raise ParameterError(
                f"This rule was calibrated on {self.name!r} with the fingerprint "
                f"{self.fingerprint!r}, and the scores given do not say theirs. A threshold does "
                "not carry over to another model or other code; if it is the same, say so: give "
                f"{self}."
            )
        for name in ("name", "version", "fingerprint"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise ParameterError(
                    f"This rule was calibrated on a score of {_field(name, mine)}; the scores "
                    f"given have {_field(name, theirs)}. A threshold does not carry over: "
                    "calibrate again on labelled cases scored the new way, or score the new cases "
                    "the old way."
                )


@dataclass(frozen=True, slots=True)
class ScoreShift:
    """How new scores compare with those of the calibration.

    Parameters
    ----------
    n : int
        New scores seen.
    distance : float
        Largest difference of the two distribution functions (Kolmogorov-Smirnov), 0 to 1.
    mirrored_distance : float
        The same after turning the new scores around, in the way that fits best.
    p_value : float
        Upper bound of the probability of such a distance between samples of one law.
    mirrored : bool
        Whether the new scores look like those of the calibration turned around.
    """

    n: int
    distance: float
    mirrored_distance: float
    p_value: float
    mirrored: bool

    @property
    def shifted(self) -> bool:
        """Whether the difference is too large for chance (probability below one in a million)."""
        return self.p_value < CHANCE


@dataclass(frozen=True, slots=True, eq=False)
class ScoreProfile:
    """Quantiles of the scores of the calibration, lower = surer."""

    values: Array = field(repr=False)
    below: Array = field(repr=False)  # share of the calibration scores <= each value
    n: int

    @classmethod
    def of(cls, u_sorted: Array) -> ScoreProfile:
        """The profile of sorted scores."""
        n = u_sorted.size
        at = np.linspace(0, n - 1, min(n, QUANTILES)).round().astype(np.int64)
        values = np.unique(u_sorted[at])
        return cls(values, np.searchsorted(u_sorted, values, side="right") / n, n)

    def tally(self) -> ScoreTally:
        """A running comparison, for scores that arrive in parts."""
        return ScoreTally(self)

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {"values": self.values.tolist(), "below": self.below.tolist(), "n": self.n}

    @classmethod
    def from_dict(cls, content: Any) -> ScoreProfile:
        """The profile that `to_dict` described."""
        try:
            values = np.asarray(content["values"], dtype=np.float64)
            below = np.asarray(content["below"], dtype=np.float64)
            n = int(content["n"])
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError("The profile of the scores is damaged; calibrate again.") from error
        return cls(values, below, n)


class ScoreTally:
    """Counts of new scores around the quantiles of a profile, and around their mirror images."""

    def __init__(self, profile: ScoreProfile) -> None:
        self.profile, self.n = profile, 0
        v = profile.values
        turned = (-v, 1 - v, v[0] + v[-1] - v)  # of confidences, of probabilities, about the middle
        self._grids = [v, *(grid[::-1] for grid in turned)]
        self._counts = [np.zeros(v.size + 1, dtype=np.int64) for _ in self._grids]

    def update(self, u: Array) -> ScoreTally:
        """Count more scores (lower = surer)."""
        self.n += u.size
        for i, (grid, counts) in enumerate(zip(self._grids, self._counts, strict=True)):
            # Mirrored: new <= v' in the turned score is new >= the turned grid value.
            places = np.searchsorted(grid, u, side="left" if i == 0 else "right")
            counts += np.bincount(places, minlength=counts.size)
        return self

    def result(self) -> ScoreShift:
        """The comparison so far."""
        if not self.n:
            return ScoreShift(0, 0.0, 1.0, 1.0, False)
        profile = self.profile
        shares = [np.cumsum(counts)[:-1] / self.n for counts in self._counts]
        distance = float(np.abs(shares[0] - profile.below).max())
        mirrored = min(
            float(np.abs((1 - share)[::-1] - profile.below).max()) for share in shares[1:]
        )
        effective = self.n * profile.n / (self.n + profile.n)
        p_value = min(1.0, 2 * math.exp(-2 * effective * distance**2))
        turned = (
            self.n >= ENOUGH and distance > 0.3 and mirrored < distance / 3 and p_value < CHANCE
        )
        return ScoreShift(self.n, distance, mirrored, p_value, turned)


def _field(name: str, value: str) -> str:
    return f"{name} {value!r}" if value else f"no {name}"


def _words(direction: str) -> str:
    return "lower = surer" if direction == "lower_is_surer" else "higher = surer"
