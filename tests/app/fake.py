"""A model with a known answer, for tests of everything around a model.

``Pulse`` goes round one closed curve at a fixed rate. Its state is a pulse-like signal and delayed
copies of it; it offers every capability, with results shaped like those of ``foretell.solve``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from foretell.core.artifact import Artifact
from foretell.core.progress import Progress
from foretell.data import Trajectories


def wave(phase: Any) -> Any:
    """One round of the pulse, for phase 0..1 (periodic)."""
    return np.sin(2 * np.pi * phase) + 0.45 * np.sin(4 * np.pi * phase + 0.8)


def pulse_recording(
    n: int = 6000, *, period: float = 0.83, seed: int = 0, noise: float = 0.03
) -> Trajectories:
    """An irregularly sampled pulse with one long gap."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.choice([0.004, 0.008, 0.012, 0.02], size=n))
    times[n // 3 :] += 1.7
    wander = 0.04 * np.cumsum(rng.normal(size=n)) / np.sqrt(n)
    values = 512 + 90 * wave(times / period + wander) + 90 * noise * rng.normal(size=n)
    return Trajectories.from_arrays(values, times, names=["pulse"], units=["mV"], time_unit="s")


def lag_of(name: str) -> float:
    """The lag in a name like ``pulse(t-0.12)``."""
    return float(name.split("(t-")[1].rstrip(")")) if "(t-" in name else 0.0


@dataclass
class Pulse:
    """Goes round ``period``; ``stall_at`` interrupts the fit at that update."""

    period: float = 0.829
    total: int = 200
    stall_at: int | None = None
    citations: tuple[str, ...] = ("cplrnn",)

    def fit(
        self,
        X: Any,
        times: Any = None,
        *,
        on_step: Any = None,
        checkpoint: Any = None,
        resume: bool = False,
    ) -> Pulse:
        first = int(Path(checkpoint).read_text()) if resume else 0
        flat = np.concatenate(X.values)
        self.middle, self.spread = flat.mean(axis=0), flat.std(axis=0)
        self.names, self.units, self.time_unit = X.names, X.units, X.time_unit
        self.lags = np.array([lag_of(name) for name in X.names])
        for step in range(first + 1, self.total + 1):
            if step == self.stall_at and checkpoint is not None:
                Path(checkpoint).write_text(str(step))
                raise KeyboardInterrupt
            if on_step is not None and step % 10 == 0:
                left = 0.01 * (self.total - step)
                on_step(Progress(step, self.total, 1 / step, -2 / step, 0.01 * step, left))
        return self

    def _states(self, phase: Any) -> Any:
        rounds = np.asarray(phase)[:, None] - self.lags / self.period
        return self.middle + self.spread * wave(rounds) / 0.78

    def simulate(
        self,
        x0: Any,
        times: Any,
        *,
        controls: Any = None,
        n_samples: int = 1,
        random_state: Any = None,
    ) -> Trajectories:
        phases = np.linspace(0, 1, 400, endpoint=False)
        miss = ((self._states(phases) - np.asarray(x0)) / self.spread) ** 2
        start = phases[int(np.argmin(miss.sum(axis=1)))]
        times = np.asarray(times, dtype=float)
        states = self._states(start + (times - times[0]) / self.period)
        return Trajectories.from_arrays(
            states, times, names=self.names, units=self.units, time_unit=self.time_unit
        )

    def score(self, trajectories: Any) -> float:
        return -0.1

    def save(self, path: Any) -> None:
        Artifact(model_class="CPLRNN", arrays={"theta": np.zeros(3)}).save(path)

    @classmethod
    def load(cls, path: Any) -> Pulse:
        return cls()

    def vector_field(self, states: Any, control: Any = None) -> Any:
        return np.zeros_like(states)

    def equilibria(self) -> Any:
        def at(shift: float, stable: bool) -> SimpleNamespace:
            return SimpleNamespace(
                state=self.middle + shift * self.spread,
                eigenvalues=np.array([0.8 + 7.1j, 0.8 - 7.1j, -3.0])
                if not stable
                else np.array([-2.0, -3.0]),
                kind="unstable focus" if not stable else "stable node",
                unstable_dimension=0 if stable else 2,
                stable=stable,
                status="real",
                code=(1, 0),
            )

        return SimpleNamespace(
            items=(at(0.1, False), at(2.2, True)),
            completeness="complete",
            method="exhaustive",
            n_solves=32,
        )

    def limit_cycles(self) -> Any:
        def orbit(n: int) -> Any:
            times = np.linspace(0.0, self.period, n)
            return times, self._states(times / self.period)

        switches = np.array([0.1, 0.3, 0.45, 0.7]) * self.period
        cycle = SimpleNamespace(
            state=self._states(np.zeros(1))[0],
            period=self.period,
            events=SimpleNamespace(times=switches),
            codes=((0, 0), (1, 0), (1, 1), (0, 1), (0, 0)),
            multipliers=np.array([1.0 + 1e-9, 0.31, 0.1 + 0.22j, 0.1 - 0.22j, 0.001]),
            residual=2.5e-12,
            trivial_error=1e-9,
            liouville_error=4e-10,
            transversality=0.4,
            n_crossings=4,
            rank_ok=True,
            stable=True,
            quality="good",
            warnings=(),
            orbit=orbit,
        )
        return (cycle,)

    def lyapunov_spectrum(self) -> Any:
        return SimpleNamespace(
            exponents=np.array([0.002, -1.4, -1.8, -6.0, -7.5, -11.0]),
            standard_errors=np.array([0.01, 0.05, 0.05, 0.1, 0.1, 0.2]),
            duration=120.0,
        )
