"""EDMDc: a lifted linear model with a fixed dictionary and one regression. No torch.

z = [s; dictionary(s)], W = argmin sum |z+ - W [z; u]|^2 + ridge |W|^2.

Sources: Williams, Kevrekidis and Rowley, J. Nonlinear Science 25 (2015); with inputs, Korda and
Mezic, Automatica 93 (2018).
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import ParameterError, as_generator
from foretell.data import Trajectories
from foretell.dynamics.checks import as_trajectories, whole
from foretell.dynamics.koopman.base import KoopmanModel
from foretell.dynamics.koopman.lifts import DictionaryLift
from foretell.dynamics.koopman.linear import Moments, clipped, features
from foretell.dynamics.koopman.windows import States


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
        self.random_state = random_state

    def fit(self, X: Trajectories | ArrayLike, times: ArrayLike | None = None) -> Self:
        """Learn from recordings; see `KoopmanQP.fit`."""
        self._check_common()
        if not whole(self.degree, 1) or not whole(self.n_centres, 0):
            raise ParameterError(
                f"degree={self.degree!r}, n_centres={self.n_centres!r}; needed are whole numbers, "
                "at least 1 and 0."
            )
        states = self._prepare(as_trajectories(X, times))
        train, held = states.hold_back(float(self.validation), int(self.horizon))
        lift = DictionaryLift.make(
            np.concatenate(states.s),
            degree=int(self.degree),
            n_centres=int(self.n_centres),
            rng=as_generator(self.random_state),
        )
        self.facts_ = {"constraint": "none"}
        windows = (held or train).windows(int(self.horizon), most=400)
        self._finish(self._regressed(train, lift), lift, windows, held_back=held is not None)
        self._adopt(self._regressed(states, lift), lift)
        return self

    def _regressed(self, states: States, lift: DictionaryLift) -> NDArray[np.float64]:
        moments = []
        for s, u in zip(states.s, states.u, strict=True):
            z = lift(s)
            moments.append(Moments.of(features(z[:-1], u[:-1], self._bilinear), z[1:]))
        W = sum(moments[1:], moments[0]).least_squares(float(self.ridge))
        return clipped(W) if self.stable else W
