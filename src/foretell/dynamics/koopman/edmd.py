"""EDMDc: a lifted linear model with a fixed dictionary and one regression. No torch.

z = [s; dictionary(s)], W = argmin sum |z+ - W [z; u]|^2 + ridge |W|^2.

Sources: Williams, Kevrekidis and Rowley, J. Nonlinear Science 25 (2015); with inputs, Korda and
Mezic, Automatica 93 (2018).
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import ArtifactError, ParameterError, Progress, as_generator
from foretell.data import Trajectories
from foretell.dynamics.checks import positive, whole
from foretell.dynamics.koopman.base import KoopmanModel, control_range
from foretell.dynamics.koopman.lifts import DictionaryLift, Lift
from foretell.dynamics.koopman.linear import Moments, clipped, features
from foretell.dynamics.koopman.measured import measured
from foretell.dynamics.koopman.windows import States
from foretell.train.loop import OnStep

Array = NDArray[np.float64]


class EDMDc(KoopmanModel):
    """Lifted linear model with monomials and thin-plate splines as observables.

    Parameters
    ----------
    degree : int
        Highest degree of monomials; 1 for none.
    n_centres : int
        Thin-plate splines, with centres drawn from the box of the data.
    horizon : int
        Steps for which ``score`` forecasts.
    ridge : float
        Ridge of the regression, in units of mean squares.
    input : {"linear", "bilinear"}
        Bilinear: products of lifted states and inputs are features as well.
    n_delays : int
        Former samples in the state.
    stable : bool
        Bring eigenvalues of A outside of the unit circle onto it.
    validation : float
        Share held back from a first regression, whose residuals feed ``ensemble``; the model
        itself is the regression on all data.
    forget : float
        Weight of a pair of samples in ``partial_fit``, relative to the pair after it: the
        forgetting factor of recursive least squares. 1 forgets nothing; 0.99 remembers about 100
        pairs, 0.999 about 1000. ``fit`` weighs all pairs alike.
    random_state : int or None
        Draws the centres.

    Examples
    --------
    >>> from foretell.data.controlled_systems import duffing
    >>> data = duffing().recordings(20, 60, random_state=0)
    >>> model = EDMDc(degree=3, n_centres=30, random_state=0).fit(data)
    >>> model.A_.shape, model.B_.shape
    ((39, 39), (39, 1))
    >>> -0.1 < model.score(duffing().recordings(5, 60, random_state=1)) < 0
    True
    """

    citations = ("edmd", "koopman-mpc")

    def __init__(
        self,
        *,
        degree: int = 3,
        n_centres: int = 50,
        horizon: int = 15,
        ridge: float = 1e-6,
        input: str = "linear",
        n_delays: int = 0,
        stable: bool = False,
        validation: float = 0.2,
        forget: float = 1.0,
        random_state: int | None = None,
    ) -> None:
        self.degree = degree
        self.n_centres = n_centres
        self.horizon = horizon
        self.ridge = ridge
        self.input = input
        self.n_delays = n_delays
        self.stable = stable
        self.validation = validation
        self.forget = forget
        self.random_state = random_state

    def fit(
        self,
        X: Trajectories | ArrayLike,
        times: ArrayLike | None = None,
        *,
        on_step: OnStep | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
    ) -> Self:
        """Learn from recordings; see `KoopmanQP.fit`.

        One regression is one step: ``on_step`` hears of it, and there is nothing to keep in
        ``checkpoint`` or to resume.
        """
        self._check_common()
        if not whole(self.degree, 1) or not whole(self.n_centres, 0):
            raise ParameterError(
                f"degree={self.degree!r}, n_centres={self.n_centres!r}; needed are whole numbers, "
                "at least 1 and 0."
            )
        self._check_forget()
        began = time.monotonic()
        states = self._prepare(measured(X, times))
        train, held = states.hold_back(float(self.validation), int(self.horizon))
        lift = DictionaryLift.make(
            np.concatenate(states.s),
            degree=int(self.degree),
            n_centres=int(self.n_centres),
            rng=as_generator(self.random_state),
        )
        self.facts_ = {"constraint": "none"}
        windows = (held or train).windows(int(self.horizon), most=400)
        self._finish(self._regressed(self._sums(train, lift)), lift, windows, held is not None)
        self.moments_ = self._sums(states, lift)
        self._adopt(self._regressed(self.moments_), lift)
        self.fit_seconds_ = time.monotonic() - began
        if on_step is not None:
            on_step(Progress(step=1, total=1, loss=-self.score(X, times), score=None,
                             seconds=self.fit_seconds_, eta=0.0))  # fmt: skip
        return self

    def partial_fit(self, X: Trajectories | ArrayLike, times: ArrayLike | None = None) -> Self:
        """Take in further recordings without those before: recursive least squares.

        The sums of the regression are kept, so that the model is the one of a regression on all
        recordings so far, in any order and any parts; with ``forget`` below 1, of one in which
        older pairs of samples weigh less. Scale and dictionary stay those of the first call, which
        is ``fit`` for an unfitted model. The residuals of ``ensemble`` are renewed by those of the
        new recordings, under the model before it saw them.

        Raises
        ------
        DataError
            The recordings have other variables, inputs or another sampling interval.

        Examples
        --------
        >>> from foretell.data.controlled_systems import duffing
        >>> data = duffing().recordings(20, 60, random_state=0)
        >>> first, rest = data.select(range(10)), data.select(range(10, 20))
        >>> model = EDMDc(n_centres=10, random_state=0).partial_fit(first).partial_fit(rest)
        >>> model.moments_.n
        1180
        """
        if not hasattr(self, "W_"):
            return self.fit(X, times)
        self._check_forget()
        data = measured(X, times)
        states = self._known(data, int(self.horizon))
        if not hasattr(self, "moments_"):
            raise ArtifactError(
                "this model was saved by an older version of foretell, which did not keep the sums "
                "that partial_fit goes on from. Fit it once more with fit(recordings)."
            )
        before, lift = self.W_, self.lift_
        self._renew_residuals(states.windows(int(self.horizon), most=400), before)
        for phi, z_next in self._pairs(states, lift):
            self.moments_ = self.moments_.then(phi, z_next, float(self.forget))
        self._adopt(self._regressed(self.moments_), lift)
        both = f"{self.fingerprint_}+{data.fingerprint()}"
        self.fingerprint_ = hashlib.sha256(both.encode()).hexdigest()
        low, high = self.facts_["control_range"]
        new_low, new_high = control_range(data)
        self.facts_ = {
            **self.facts_,
            "control_range": [
                np.minimum(low, new_low).tolist(), np.maximum(high, new_high).tolist()
            ],
        }  # fmt: skip
        return self

    def _kept(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, fields = super()._kept()
        sums = {"moments.phi_phi": self.moments_.phi_phi, "moments.z_phi": self.moments_.z_phi}
        return {**arrays, **sums}, {**fields, "n_pairs": self.moments_.n}

    def _take_over(self, arrays: dict[str, NDArray[Any]], fields: dict[str, Any]) -> None:
        super()._take_over(arrays, fields)
        if "n_pairs" in fields:  # a model of an earlier version has no sums to go on from
            self.moments_ = Moments(
                arrays["moments.phi_phi"], arrays["moments.z_phi"], fields["n_pairs"]
            )

    def _pairs(self, states: States, lift: Lift) -> Iterator[tuple[Array, Array]]:
        for s, u in zip(states.s, states.u, strict=True):
            z = lift(s)
            yield features(z[:-1], u[:-1], self._bilinear), z[1:]

    def _sums(self, states: States, lift: Lift) -> Moments:
        moments = [Moments.of(phi, z_next) for phi, z_next in self._pairs(states, lift)]
        return sum(moments[1:], moments[0])

    def _check_forget(self) -> None:
        if not (positive(self.forget) and self.forget <= 1):
            raise ParameterError(
                f"forget={self.forget!r}; needed is a number above 0 and at most 1, 0.99 for a "
                "memory of about 100 pairs of samples."
            )

    def _regressed(self, sums: Moments) -> Array:
        W = sums.least_squares(float(self.ridge))
        return clipped(W) if self.stable else W
