"""Go on as one of the most similar recorded states went on: no network, no torch."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from foretell.core import Progress
from foretell.dynamics.lifting.checks import check_whole
from foretell.dynamics.lifting.learner import TransitionLearner
from foretell.dynamics.lifting.training import Training
from foretell.dynamics.lifting.transitions import Transitions

Array = NDArray[np.float64]


class AnalogueTransition(TransitionLearner):
    """Next states from the increments of the k nearest recorded states.

    It keeps every shape that one step has, two-peaked ones included, and never leaves what was
    seen by far; it needs many recorded transitions near every state.

    Parameters
    ----------
    k : int
        Neighbours; one of them is drawn for each step.
    history : int
        States that are compared.
    increments : bool
        Add the increment of the neighbour; with False take its next state.
    dt_feature : bool or "auto"
        Compare the interval as well; "auto" where intervals vary.
    validation : float
        Share of the groups held back; nothing is tuned on it, so 0 by default.
    random_state : int or None
        Kept for the interface; learning is not random.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 1))
    >>> model = AnalogueTransition(k=20).fit_transitions(x, x + rng.choice([-1.0, 1.0], (500, 1)))
    >>> sorted(set(model.sample_next([0.0], 100, 0).ravel().round(6).tolist()))
    [-1.0, 1.0]
    """

    citations: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        *,
        k: int = 10,
        history: int = 1,
        increments: bool = True,
        dt_feature: bool | str = "auto",
        validation: float = 0.0,
        random_state: int | None = None,
    ) -> None:
        self.k = k
        self.history = history
        self.increments = increments
        self.dt_feature = dt_feature
        self.validation = validation
        self.random_state = random_state

    @property
    def evaluations_per_step(self) -> int:
        """None: neighbours are looked up."""
        return 0

    def _check_parameters(self, shape: tuple[int, ...]) -> None:
        super()._check_parameters(shape)
        check_whole(self, "k", 1)

    def _learn(self, fitted: Transitions, held: Transitions, training: Training) -> None:
        scale = self.scale_
        context = scale.context(fitted.inputs, fitted.interval)
        self._index_of(_features(scale.states(fitted.past), context), self._targets(fitted))
        if training.on_step is not None:
            training.on_step(Progress(step=1, total=1, loss=0.0, score=None, seconds=0.0, eta=0.0))

    def _index_of(self, features: Array, targets: Array) -> None:
        from sklearn.neighbors import NearestNeighbors

        self.features_, self.targets_ = features, targets
        self._neighbours = NearestNeighbors(n_neighbors=min(int(self.k), len(targets)))
        self._neighbours.fit(features)

    def _next(self, past: Array, context: Array, rng: np.random.Generator, kept: Any) -> Array:
        near = self._neighbours.kneighbors(_features(past, context), return_distance=False)
        pick = rng.integers(near.shape[1], size=len(near))
        return np.asarray(self.targets_[near[np.arange(len(near)), pick]])

    def _learned(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return {"features": self.features_, "targets": self.targets_}, {}

    def _restore(self, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> None:
        self._index_of(arrays["features"], arrays["targets"])


def _features(past: Array, context: Array) -> Array:
    return np.concatenate([past.reshape(len(past), -1), context], axis=1)
