"""What a long computation tells its caller while it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """One report from a running fit; passed to ``on_step``.

    Parameters
    ----------
    step : int
        Updates done so far, from 1 to ``total``.
    total : int
        Updates planned.
    loss : float
        Training loss, in squared standard deviations of the data (smoothed).
    score : float or None
        Latest free-run score on the validation part, higher is better; None before the first one.
    seconds : float
        Seconds since the fit began.
    eta : float
        Estimated seconds until the end.

    Examples
    --------
    >>> Progress(step=300, total=1200, loss=0.125, score=None, seconds=2.0, eta=6.0)
    Progress(300/1200, loss 0.125, score -, 2.0 s, 6.0 s left)
    """

    step: int
    total: int
    loss: float
    score: float | None
    seconds: float
    eta: float

    @property
    def fraction(self) -> float:
        """The part that is done, from 0 to 1."""
        return self.step / self.total if self.total else 1.0

    def __repr__(self) -> str:
        score = "-" if self.score is None else f"{self.score:.3g}"
        return (
            f"Progress({self.step}/{self.total}, loss {self.loss:.3g}, score {score}, "
            f"{self.seconds:.1f} s, {self.eta:.1f} s left)"
        )
