"""KoopmanQP: a deep Koopman model whose linear part is the solution of a quadratic program.

Source: Tian and Kou, "QPKO: Differentiable QP-Embedded Deep Koopman Framework for Modeling
Nonlinear Systems", ICML 2026, of which the abstract was available. The idea:

1. z = [s; network(s)] lifts measured states, and z+ = W [z; u] moves them;
2. W is no weight: it is the argmin of one-step squares under elastic bounds on multi-step errors,
   a strictly convex program, and therefore a smooth function of the encoder almost everywhere;
3. gradients flow through that argmin, so that the encoder knows how W will react to it;
4. after training W is solved for once more, on all recordings.

Differs from the paper, whose exact constraints are not public: bounds are h-step output errors
linearised at the regression of the same encoder (Gauss-Newton), in shares of their mean; the
slacks are eliminated and an active set replaces the interior point; "none", the regression alone
inside the graph, is a candidate, and the default takes whichever forecasts held-back recordings
better. Huang et al. 2023 (arXiv 2307.05884) constrain long-term dynamics in a bi-level program
before.
"""

from __future__ import annotations

from numbers import Real

import numpy as np

from foretell.core import ParameterError
from foretell.dynamics.checks import positive
from foretell.dynamics.koopman.network import NetworkKoopman

_FAMILIES = ("auto", "gauss_newton", "prefix_sum", "rollout", "none")
_BACKENDS = ("active_set", "qpth")


class KoopmanQP(NetworkKoopman):
    """Lifted linear model for control, learned with an embedded quadratic program.

    Parameters
    ----------
    n_observables : int
        Trained coordinates beside the measured ones.
    hidden : tuple of int
        Widths of the hidden layers of the encoder.
    horizon : int
        Steps ahead that matter: of the loss, of the bounds, and of ``score``. Set it to the
        horizon that the model is used for.
    constraint : {"auto", "gauss_newton", "prefix_sum", "rollout", "none"}
        Bounds inside the program. "auto" trains with "none" and with "gauss_newton" and keeps
        what forecasts recordings held back better over the horizon.
    slack_penalty : float
        mu, the price of exceeding the bounds; 10 to 30 with few observables.
    tolerance_ratio : float
        Width of the bounds as a share of the mean error of the regression.
    damping : float
        Weight of staying near the regression, in shares of its mean squared error.
    ridge : float
        Ridge of the regression.
    input : {"linear", "bilinear"}
        Bilinear: the inputs also multiply the lifted states.
    n_delays : int
        Former samples (and inputs) in the state, for plants whose state is not measured.
    qp_backend : {"active_set", "qpth"}
        ``"qpth"``, if installed, for cross-checks.
    max_steps : int
        Gradient steps of each training.
    lr : float
        First learning rate; it falls along a cosine.
    batch_size : int
        Windows that make W, and windows that are forecast with it, in each step.
    latent_weight : float
        Weight of errors of lifted states beside those of the measured ones.
    n_restarts : int
        Trainings from different first encoders, of which the one that forecasts recordings held
        back best is kept; 3 to 5 where trainings with different seeds differ.
    stable : {"auto", True, False}
        Bring eigenvalues outside of the unit circle onto it: always, never, or when that does not
        cost accuracy on recordings held back.
    validation : float
        Share of the recordings held back.
    random_state : int or None

    Attributes
    ----------
    A_, B_, C_, N_ : arrays
        The model in standardised variables; see `KoopmanModel`.
    constraint_ : str
        What was used in the end.
    compared_ : dict
        Error on recordings held back, for each candidate.
    active_fraction_ : float
        Share of the bounds that pull in the last refit.
    history_ : TrainRun
        Steps, losses and scores of the training.

    Examples
    --------
    >>> from foretell.data.controlled_systems import duffing
    >>> data = duffing().recordings(20, 40, random_state=0)
    >>> model = KoopmanQP(n_observables=4, max_steps=40, constraint="none", random_state=0)
    >>> model = model.fit(data)
    >>> model.A_.shape, model.B_.shape
    ((6, 6), (6, 1))
    >>> model.horizon_errors(duffing().recordings(5, 40, random_state=1)).mean() < 0.2
    True
    """

    def __init__(
        self,
        *,
        n_observables: int = 8,
        hidden: tuple[int, ...] = (48, 48),
        horizon: int = 15,
        constraint: str = "auto",
        slack_penalty: float = 1.0,
        tolerance_ratio: float = 0.5,
        damping: float = 1.0,
        ridge: float = 1e-6,
        input: str = "linear",
        n_delays: int = 0,
        qp_backend: str = "active_set",
        max_steps: int = 400,
        lr: float = 1e-2,
        batch_size: int = 64,
        latent_weight: float = 0.1,
        n_restarts: int = 1,
        stable: bool | str = "auto",
        validation: float = 0.2,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            n_observables=n_observables, hidden=hidden, horizon=horizon, ridge=ridge, input=input,
            n_delays=n_delays, max_steps=max_steps, lr=lr, batch_size=batch_size,
            latent_weight=latent_weight, n_restarts=n_restarts, stable=stable,
            validation=validation, random_state=random_state,
        )  # fmt: skip
        self.constraint = constraint
        self.slack_penalty = slack_penalty
        self.tolerance_ratio = tolerance_ratio
        self.damping = damping
        self.qp_backend = qp_backend

    @property
    def constraint_(self) -> str:
        """The family of bounds that was used in the end."""
        self._check_fitted()
        return str(self.facts_["constraint"])

    @property
    def active_fraction_(self) -> float:
        """Share of the bounds that pulled in the last refit; zero without bounds."""
        self._check_fitted()
        return float(self.facts_.get("active_fraction", 0.0))

    def _candidates(self) -> tuple[str, ...]:
        return ("none", "gauss_newton") if self.constraint == "auto" else (self.constraint,)

    def _check_arguments(self) -> None:
        self._check_network()
        if self.constraint not in _FAMILIES:
            raise ParameterError(
                f"constraint={self.constraint!r} is not known; use one of {', '.join(_FAMILIES)}."
            )
        if self.qp_backend not in _BACKENDS:
            raise ParameterError(
                f"qp_backend={self.qp_backend!r} is not known; use one of {', '.join(_BACKENDS)}."
            )
        if not positive(self.slack_penalty):
            raise ParameterError(
                f"slack_penalty={self.slack_penalty!r}; the price of exceeding a bound must be "
                'positive. For no bounds write constraint="none".'
            )
        for name in ("tolerance_ratio", "damping"):
            value = getattr(self, name)
            if not (isinstance(value, Real) and 0 <= float(value) < np.inf):
                raise ParameterError(f"{name}={value!r}; needed is a number >= 0.")


class JointKoopman(NetworkKoopman):
    """The usual deep Koopman model: W is a trained weight. For comparison with KoopmanQP.

    Parameters are those of `KoopmanQP` that do not concern its program. The loss is the same, the
    error of forecasts over the horizon; after Shi and Meng, IEEE Robotics and Automation Letters 7
    (2022).

    Examples
    --------
    >>> from foretell.data.controlled_systems import duffing
    >>> data = duffing().recordings(20, 40, random_state=0)
    >>> JointKoopman(n_observables=4, max_steps=20, random_state=0).fit(data).A_.shape
    (6, 6)
    """

    citations = ("deep-koopman-control",)

    def _check_arguments(self) -> None:
        self._check_network()


class AlternatingKoopman(NetworkKoopman):
    """Dictionary learning in turns: W by regression, then a step of the encoder with W held fixed.

    The regression uses all recordings before every step; its dependence on the encoder is not
    differentiated. Parameters are those of `JointKoopman`. After Li, Dietrich, Bollt and
    Kevrekidis, Chaos 27 (2017). For comparison with KoopmanQP.

    Examples
    --------
    >>> from foretell.data.controlled_systems import duffing
    >>> data = duffing().recordings(20, 40, random_state=0)
    >>> AlternatingKoopman(n_observables=4, max_steps=20, random_state=0).fit(data).A_.shape
    (6, 6)
    """

    citations = ("edmd-dictionary-learning",)

    def _check_arguments(self) -> None:
        self._check_network()
