"""When which groups fail: independent clocks, whole domains, or a recorded trace.

A model gives the failures of one epoch, the time from one start of all groups to the next. The
clocks of ``weibull`` and ``exponential`` start anew with each epoch; a trace goes on. State the
model beside every number that comes from it: with a shape below 1, fresh clocks fail early, and
short runs differ from long ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import DataError, ParameterError
from foretell.train.plan.checks import positive, share

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FailureModel:
    """When which groups fail; make one by ``weibull``, ``exponential``, ``trace`` or ``domains``.

    Parameters
    ----------
    mtbf_s : float
        Mean time between failures of the whole system, all groups alive, in seconds.
    shape : float
        Weibull shape of the clock of a group; 1 is exponential.
    labels : int array (N,) or None
        Failure domains, for failures of a whole one.
    domain_share : float
        Probability that a failure takes its whole domain along.
    recorded : tuple of arrays or None
        Times (s, from 0) and domains (-1: anywhere) of a trace.

    Examples
    --------
    >>> FailureModel.weibull(0.78, 300.0)
    FailureModel(weibull, shape 0.78, one failure in 300 s)
    >>> times, groups = FailureModel.exponential(300.0).epoch(600, 0.0, np.random.default_rng(0))
    >>> times.shape, bool((np.diff(times) >= 0).all()), sorted(groups.tolist())[:3]
    ((600,), True, [0, 1, 2])
    """

    mtbf_s: float
    shape: float = 1.0
    labels: Index | None = field(default=None, repr=False)
    domain_share: float = 0.0
    recorded: tuple[Array, Index] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        positive("mtbf_s", self.mtbf_s, "seconds")
        positive("shape", self.shape)
        share("domain_share", self.domain_share)

    @classmethod
    def weibull(cls, shape: float, mtbf_s: float) -> FailureModel:
        """Each group has a Weibull clock of that shape and of mean ``N mtbf_s``."""
        return cls(mtbf_s=mtbf_s, shape=shape)

    @classmethod
    def exponential(cls, mtbf_s: float) -> FailureModel:
        """Each group fails at a constant rate, the whole system once in ``mtbf_s`` seconds."""
        return cls(mtbf_s=mtbf_s)

    @classmethod
    def trace(cls, times_s: ArrayLike, domains: ArrayLike | None = None) -> FailureModel:
        """Recorded failures, replayed from a random moment and over again.

        Parameters
        ----------
        times_s : array (E,)
            Ascending times of the failures, in seconds.
        domains : int array (E,), optional
            Where each happened, counted from 0; each hits a random living group of that domain
            (the groups are cut into as many equal stretches), without it any group.
        """
        times = np.asarray(times_s, dtype=np.float64)
        if times.ndim != 1 or times.size < 2 or not np.isfinite(times).all():
            raise DataError(
                f"times_s has shape {times.shape}; needed are two or more finite times in seconds."
            )
        if (np.diff(times) < 0).any():
            row = int(np.flatnonzero(np.diff(times) < 0)[0]) + 1
            raise DataError(
                f"times_s[{row}] = {times[row]:g} is before times_s[{row - 1}] = "
                f"{times[row - 1]:g}. Sort the events by time: order = numpy.argsort(times_s)."
            )
        where = np.full(times.size, -1) if domains is None else np.asarray(domains)
        if where.shape != times.shape or where.dtype.kind not in "iu" or (where < -1).any():
            raise DataError(
                f"domains must hold one number from 0 on for each of the {times.size} events."
            )
        span = float(times[-1] - times[0])
        if span <= 0:
            raise DataError("All failures of the trace happen at one moment.")
        recorded = times - times[0], where.astype(np.int64)
        return cls(mtbf_s=span / (times.size - 1), recorded=recorded)

    def domains(self, labels: ArrayLike, domain_share: float) -> FailureModel:
        """The same failures, but each takes its whole domain along with that probability.

        Parameters
        ----------
        labels : array (N,)
            A label for each group, its rack for instance.
        domain_share : float
            From 0 to 1.

        Examples
        --------
        >>> FailureModel.exponential(300.0).domains(np.arange(600) // 8, 0.05)
        FailureModel(exponential, one failure in 300 s, 5 % take one of 75 domains)
        """
        if self.recorded is not None:
            raise ParameterError(
                "A trace has domains of its own: FailureModel.trace(times, where)."
            )
        counted = np.unique(np.asarray(labels), return_inverse=True)[1].astype(np.int64)
        return replace(self, labels=counted, domain_share=share("domain_share", domain_share))

    def epoch(self, n_groups: int, start_s: float, rng: np.random.Generator) -> tuple[Array, Index]:
        """The failures of one epoch, in order.

        Parameters
        ----------
        n_groups : int
        start_s : float
            Running time at the start, in seconds; only a trace depends on it.
        rng : numpy.random.Generator

        Returns
        -------
        times : array (N,)
            Seconds since the start, ascending.
        groups : int array (N,)
            Which group fails; each once.
        """
        if self.recorded is not None:
            return self._replayed(n_groups, start_s, rng)
        scale = self.mtbf_s * n_groups / math.gamma(1 + 1 / self.shape)
        times = scale * rng.weibull(self.shape, n_groups)
        if self.labels is not None and self.domain_share > 0:
            times = self._with_domains(times, rng)
        order = np.argsort(times, kind="stable")
        return times[order], order.astype(np.int64)

    def first_s(self, rng: np.random.Generator) -> float:
        """Where in its time a run starts, in seconds: a random moment of a trace, else 0."""
        if self.recorded is None:
            return 0.0
        return float(rng.uniform(0.0, float(self.recorded[0][-1]) + self.mtbf_s))

    def mean_times(self, n_groups: int) -> Array:
        """Expected time of the k-th failure of an epoch, k = 0, ..., N, alone ones; shape (N + 1,).

        Examples
        --------
        >>> FailureModel.exponential(300.0).mean_times(600)[:3].round(1)
        array([  0. , 300. , 600.5])
        """
        k = np.arange(n_groups + 1, dtype=np.float64)
        if self.recorded is not None:
            even: Array = k * self.mtbf_s
            return even
        if self.shape == 1.0:
            gaps = self.mtbf_s * n_groups / (n_groups - k[:-1])
            sums: Array = np.r_[0.0, np.cumsum(gaps)]
            return sums
        scale = self.mtbf_s * n_groups / math.gamma(1 + 1 / self.shape)
        middle = np.clip((k - 0.3) / (n_groups + 0.4), 0.0, None)
        times: Array = scale * (-np.log1p(-middle)) ** (1 / self.shape)
        return times

    def time_to(self, n_failures: float, n_groups: int) -> float:
        """Expected time until that many failures, in seconds, clocks starting together.

        Examples
        --------
        >>> round(FailureModel.weibull(0.78, 300.0).time_to(30.5, 200))
        5178
        """
        if self.recorded is not None:
            return n_failures * self.mtbf_s
        part = min(n_failures / n_groups, 1 - 0.5 / n_groups)
        scale = self.mtbf_s * n_groups / math.gamma(1 + 1 / self.shape)
        return float(scale * (-math.log1p(-part)) ** (1 / self.shape))

    def __repr__(self) -> str:
        kind = "exponential" if self.shape == 1.0 else f"weibull, shape {self.shape:g}"
        if self.recorded is not None:
            kind = f"trace of {self.recorded[0].size} failures"
        extra = ""
        if self.labels is not None and self.domain_share > 0:
            n = int(self.labels.max()) + 1
            extra = f", {100 * self.domain_share:g} % take one of {n} domains"
        return f"FailureModel({kind}, one failure in {self.mtbf_s:g} s{extra})"

    def _with_domains(self, times: Array, rng: np.random.Generator) -> Array:
        assert self.labels is not None
        if self.labels.shape != times.shape:
            raise ParameterError(
                f"The failure model has domains for {self.labels.size} groups; there are "
                f"{times.size}."
            )
        whole = rng.random(times.size) < self.domain_share
        times = times.copy()
        for g in np.argsort(times, kind="stable").tolist():
            if whole[g]:
                members = self.labels == self.labels[g]
                # A group that is dead by then brings nobody down.
                whole[members & (times > times[g])] = False
                times[members] = np.minimum(times[members], times[g])
        return times

    def _replayed(
        self, n_groups: int, start_s: float, rng: np.random.Generator
    ) -> tuple[Array, Index]:
        assert self.recorded is not None
        recorded, where = self.recorded
        span = float(recorded[-1]) + self.mtbf_s
        n_domains = int(where.max()) + 1
        phase = start_s % span
        first = int(np.searchsorted(recorded, phase))
        alive = np.ones(n_groups, dtype=bool)
        times: list[float] = []
        groups: list[int] = []
        event = first
        while len(groups) < n_groups and event < first + 4 * n_groups + recorded.size:
            turn, e = divmod(event, recorded.size)
            event += 1
            candidates = np.flatnonzero(alive)
            if where[e] >= 0:
                inside = candidates * n_domains // n_groups == where[e]
                candidates = candidates[inside]
            if candidates.size:
                g = int(rng.choice(candidates))
                alive[g] = False
                groups.append(g)
                times.append(float(recorded[e]) + turn * span - phase)
        return np.array(times), np.array(groups, dtype=np.int64)
