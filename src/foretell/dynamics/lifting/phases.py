"""Several trainings in a row as one task: one progress bar, one checkpoint, the same bits resumed.

A later phase may need what an earlier one learned, so its task is made when it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.dynamics.module_task import ModuleTask
from foretell.train import Gradient
from foretell.train.task import State

_LOOKS = 20


@dataclass(frozen=True)
class Look:
    """What a phase says of itself now and then.

    Attributes
    ----------
    score : float
        Higher is better.
    facts : tuple of float
        Kept in the history.
    """

    score: float
    facts: tuple[float, ...] = ()


@dataclass(frozen=True)
class Phase:
    """One training.

    Attributes
    ----------
    name : str
    n_steps : int
    begin : callable
        Makes its task; what earlier phases learned is there by then.
    look : callable, optional
        Asked twenty times, evenly spread.
    keep_best : bool
        Whether the parameters of the best look are the result; the last ones otherwise.
    stop_at : float
        The rest is left out once a score reaches this.
    """

    name: str
    n_steps: int
    begin: Callable[[], ModuleTask]
    look: Callable[[], Look] | None = None
    keep_best: bool = False
    stop_at: float = np.inf


class PhasedTask:
    """Phases as one ``TrainTask``; call ``finish`` when the training is over.

    Parameters
    ----------
    phases : sequence of Phase
    """

    def __init__(self, phases: Sequence[Phase]) -> None:
        self._phases = list(phases)
        self._starts = np.cumsum([0, *(p.n_steps for p in self._phases)])
        self._thetas: list[NDArray[Any]] = []  # of finished phases
        self._curves: list[list[list[float]]] = [[] for _ in self._phases]
        self._index, self._done, self._loss = -1, False, float("nan")
        self._best: NDArray[Any] | None = None
        self._best_score = -np.inf
        self._task: ModuleTask
        self._enter(0)

    @property
    def n_steps(self) -> int:
        """Steps of all phases."""
        return int(self._starts[-1])

    def curve(self, name: str) -> NDArray[np.float64]:
        """Looks of a phase, one row each: step, score, facts."""
        return np.array(self._curves[[p.name for p in self._phases].index(name)])

    def parameters(self) -> NDArray[np.floating]:
        """Parameters of the present phase, a copy."""
        return self._task.parameters()

    def n_shards(self, step: int) -> int:
        """One: the whole batch."""
        return 1

    def gradient(self, step: int, shard: int) -> Gradient:
        """Gradient of that step; zero where the phase has already come to its end."""
        self._move_to(step)
        if self._done:
            return Gradient(self._loss, np.zeros(1))
        found = self._task.gradient(step - int(self._starts[self._index]), shard)
        self._loss = found.loss
        return found

    def apply(self, step: int, gradient: NDArray[np.floating]) -> None:
        """Follow a gradient, and look at the result now and then."""
        if self._done:
            return
        phase, local = self._phases[self._index], step - int(self._starts[self._index])
        self._task.apply(local, gradient)
        every = max(1, phase.n_steps // _LOOKS)
        if phase.look is None or not ((local + 1) % every == 0 or local + 1 == phase.n_steps):
            return
        look = phase.look()
        self._curves[self._index].append([local + 1.0, look.score, *look.facts])
        if look.score > self._best_score:
            self._best_score = look.score
            self._best = self._task.parameters() if phase.keep_best else None
        self._done = look.score >= phase.stop_at

    def finish(self) -> None:
        """End the last phase."""
        while self._index < len(self._phases):
            self._close()

    def state(self) -> State:
        """Parameters of all phases so far, and the moments of the present one."""
        arrays: State = {f"done.{i}": theta for i, theta in enumerate(self._thetas)}
        arrays |= {f"now.{k}": v for k, v in self._task.state().items()}
        arrays["facts"] = np.array([self._best_score, self._loss, float(self._done)])
        arrays |= {f"curve.{i}": np.array(c) for i, c in enumerate(self._curves) if c}
        if self._best is not None:
            arrays["best"] = self._best.copy()
        return arrays

    def restore(self, state: State) -> None:
        """Take over what ``state`` returned."""
        n_done = sum(k.startswith("done.") for k in state)
        self._thetas, self._index = [], -1
        self._enter(0)
        for i in range(n_done):
            self._task.restore({"theta": np.asarray(state[f"done.{i}"])})
            self._best = None
            self._close()
        own = {k.removeprefix("now."): v for k, v in state.items() if k.startswith("now.")}
        self._task.restore(own)
        facts = np.asarray(state["facts"], dtype=np.float64)
        self._best_score, self._loss, self._done = float(facts[0]), float(facts[1]), bool(facts[2])
        self._best = np.array(state["best"]) if "best" in state else None
        self._curves = [
            np.asarray(state[f"curve.{i}"], dtype=np.float64).tolist()
            if f"curve.{i}" in state
            else []
            for i in range(len(self._phases))
        ]

    def _move_to(self, step: int) -> None:
        while step >= self._starts[self._index + 1]:
            self._close()

    def _close(self) -> None:
        if self._best is not None:
            self._task.restore({"theta": self._best})
        self._thetas.append(self._task.parameters())
        self._enter(self._index + 1)

    def _enter(self, index: int) -> None:
        self._index, self._done, self._loss = index, False, float("nan")
        self._best, self._best_score = None, -np.inf
        if index < len(self._phases):
            self._task = self._phases[index].begin()
