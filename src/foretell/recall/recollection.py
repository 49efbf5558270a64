"""What a memory answers: candidates with the evidence for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from foretell.recall.role_paths import Role, path_text
from foretell.recall.vocabulary import Symbol


@dataclass(frozen=True, slots=True)
class Candidate:
    """One possible filler of a path.

    Parameters
    ----------
    filler : symbol
        The possible answer.
    score : float
        About the weight that was stored, or about 0; in units of the weight of one fact.
    z : float
        Score over the standard deviation of the noise from all other facts.
    p_value : float
        Bound on the chance that the best of all fillers asked for scores as high as this at a path
        where nothing is stored.
    """

    filler: Symbol
    score: float
    z: float
    p_value: float

    def __repr__(self) -> str:
        return (
            f"Candidate({self.filler!r}, score {self.score:.3g}, z {self.z:.3g}, "
            f"p {self.p_value:.2g})"
        )


@dataclass(frozen=True, slots=True)
class Recollection:
    """The best fillers for a path, best first.

    Parameters
    ----------
    path : tuple of roles
        What was asked.
    candidates : tuple of Candidate
        The k best.
    alpha : float
        Level of `found`.

    Examples
    --------
    >>> best = Candidate("Ada", 1.01, 15.0, 1e-9)
    >>> answer = Recollection(("user", "name"), (best,))
    >>> answer.filler, answer.found
    ('Ada', True)
    >>> answer
    Recollection(user.name = 'Ada', score 1.01, p 1e-09)
    """

    path: tuple[Role, ...]
    candidates: tuple[Candidate, ...]
    alpha: float = 1e-3

    @property
    def best(self) -> Candidate:
        """The candidate with the highest score, whether or not it is significant."""
        return self.candidates[0]

    @property
    def found(self) -> bool:
        """Whether something is stored here: the best p-value is at most ``alpha``."""
        return self.p_value <= self.alpha

    @property
    def filler(self) -> Symbol:
        """The best filler; None where nothing significant is stored (see `found`)."""
        return self.best.filler if self.found else None

    @property
    def score(self) -> float:
        """Score of the best candidate."""
        return self.best.score

    @property
    def z(self) -> float:
        """Score of the best candidate in standard deviations of the noise."""
        return self.best.z

    @property
    def p_value(self) -> float:
        """Chance of so high a best score at an empty path."""
        return self.best.p_value

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.candidates)

    def __len__(self) -> int:
        return len(self.candidates)

    def __getitem__(self, index: int) -> Candidate:
        return self.candidates[index]

    def __repr__(self) -> str:
        what = f"= {self.filler!r}" if self.found else "is empty"
        return (
            f"Recollection({path_text(self.path)} {what}, score {self.score:.3g}, "
            f"p {self.p_value:.2g})"
        )
