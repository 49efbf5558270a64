"""How well free runs of parameters agree with recordings kept for validation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foretell.dynamics.layout import Layout, SequenceKernel
from foretell.dynamics.longrun import state_space_divergence, state_space_divergence_gmm
from foretell.dynamics.sequences import Sequences, complete_rows

Array = NDArray[np.float64]

CONFIRMING_RUNS = 4  # longer runs that a look has to pass
OUT_OF_RANGE = 1e6  # standard deviations; a free run that goes there has escaped
_LONGEST_RUN = 100_000  # steps
_MOST_HISTOGRAM = 3  # variables up to which a histogram of states is filled
_SMOOTHING = 0.1  # variance of the Gaussians above that, in variances of the data
_MOST_RUNS = 3  # recordings from which a free run starts


class FreeRunScore:
    """How well a free run agrees with the part of the recordings kept for validation.

    Without inputs it is minus the state-space divergence: a histogram up to three variables,
    Gaussians around the samples above, where nearly every cell of a histogram would be empty.
    With inputs the run can follow the recording, and it is minus the root mean square error in
    standard deviations, after the first ``lead`` samples (at most half of a recording), in which
    the hidden units find their state. 0 is perfect, minus infinity is an escape.
    """

    def __init__(self, sequences: Sequences, layout: Layout, lead: int = 0) -> None:
        self._sequences, self._layout, self._lead = sequences, layout, lead
        values = np.concatenate(sequences.values)
        self._truth = values[complete_rows(values)]
        self._bins = int(np.clip(round(len(self._truth) ** (1 / 2)), 6, 30))
        self._n_steps = int(np.clip(10 * len(self._truth), 2_000, 50_000))

    def __call__(self, kernel: SequenceKernel, theta: Array) -> float:
        """Score of the parameters."""
        runs = self._runs(kernel, theta)
        if any(not (np.abs(run) < OUT_OF_RANGE).all() for _, run in runs):
            return -np.inf
        if self._sequences.driven:
            counted = [min(self._lead, len(seen) // 2) for seen, _ in runs]
            errors = np.concatenate(
                [(run - seen)[n:] ** 2 for n, (seen, run) in zip(counted, runs, strict=True)]
            )
            return -float(np.sqrt(np.nanmean(errors)))
        return self._agreement([run for _, run in runs])

    def confirms(self, kernel: SequenceKernel, theta: Array, score: float, start: int) -> bool:
        """Whether a run twice as long, from another place, scores about as well.

        A chaotic transient can last for a whole run and end in another one: at rest, say. ``start``
        counts 0 .. 3 through places spread over the validation part.
        """
        if self._sequences.controls is not None:  # the run follows them, there is no longer one
            return True
        A, W, h, C, L = self._layout.views(theta)
        x0 = self._truth[start * len(self._truth) // CONFIRMING_RUNS]
        dt = np.ones((1, min(2 * self._n_steps, _LONGEST_RUN)))
        z0 = np.concatenate([x0, L @ x0])[None]
        run = kernel.free_run(A, W, h, C, z0, None, dt)[0, :, : self._layout.n_observed]
        return self._agreement([run]) >= 2 * score - 1

    def _agreement(self, runs: list[Array]) -> float:
        if any(not (np.abs(run) < OUT_OF_RANGE).all() for run in runs):
            return -np.inf
        cloud = np.concatenate([run[len(run) // 10 :] for run in runs])
        if self._layout.n_observed > _MOST_HISTOGRAM:
            return -state_space_divergence_gmm(
                self._truth, cloud, variance=_SMOOTHING, max_points=1000, n_draws=500
            )
        return -float(state_space_divergence(self._truth, cloud, bins=self._bins))

    def _runs(self, kernel: SequenceKernel, theta: Array) -> list[tuple[Array, Array]]:
        """(recording, free run) of the observed units from the first complete rows on."""
        A, W, h, C, L = self._layout.views(theta)
        runs = []
        for n, values in enumerate(self._sequences.values):
            complete = np.flatnonzero(complete_rows(values))
            if complete.size == 0:
                continue
            first = complete[0]
            x0 = values[first]
            if self._sequences.controls is None:
                dt, u = np.ones((1, self._n_steps)), None
            else:
                dt = self._sequences.dt[n][None, first:]
                u = self._sequences.controls[n][None, first:-1]
            z0 = np.concatenate([x0, L @ x0])[None]
            run = kernel.free_run(A, W, h, C, z0, u, dt)[0, :, : self._layout.n_observed]
            runs.append((values[first:], run))
            if self._sequences.controls is None and len(runs) == _MOST_RUNS:
                break
        return runs
