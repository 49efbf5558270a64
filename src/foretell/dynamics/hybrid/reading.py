"""What a fitted HybridLatentODE says about the system: seams, events, guards, shape, cycles."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import ForetellWarning, ParameterError
from foretell.data import Trajectories
from foretell.dynamics.checks import (
    as_trajectories,
    checked_controls,
    checked_starts,
    checked_times,
)
from foretell.dynamics.hybrid.guards import (
    GuardReset,
    GuardSamples,
    JumpEvent,
    head_switches,
    need_heads,
    read_guards,
)
from foretell.dynamics.hybrid.running import HybridRuns
from foretell.dynamics.hybrid.seams import (
    LatentRank,
    SeamGaps,
    latent_rank,
    measured_gaps,
)
from foretell.dynamics.hybrid.windows import residuals
from foretell.dynamics.sequences import complete_rows
from foretell.solve.piecewise import LimitCycle, PiecewiseLinearField, limit_cycles

if TYPE_CHECKING:
    from foretell.dynamics.hybrid.preparation import Prepared
    from foretell.dynamics.hybrid.topology import Betti
    from foretell.dynamics.hybrid.windows import Jumps

Array = NDArray[np.float64]

_SMALL_JUMP = 0.25  # of the small jumps of the recordings: less is a change of head without a jump


class HybridReading(HybridRuns):
    """Questions to a fitted model about jumps and the shape of the latent space."""

    jumps_: Jumps
    seams_: SeamGaps
    latent_rank_: LatentRank
    seam_pairs_: dict[str, Array]

    def _read_seams(self, prepared: Prepared) -> None:
        """Gaps at held-out jumps and the rank of the encoder; warn of a collapsed one."""
        self.seam_pairs_ = prepared.pairs
        self.seams_ = measured_gaps(
            self.model_, prepared.held_out, self.jumps_.threshold, int(self.substeps)
        )
        self.latent_rank_ = latent_rank(
            self.model_, prepared.held_out, self.seam_pairs_, self.columns_.flow_dimension
        )
        if self.latent_rank_.collapsed:
            warnings.warn(
                f"the latent states have collapsed to fewer directions than an embedding needs: "
                f"{self.latent_rank_}. Raise weights={{'c': 0.3}} or train longer.",
                ForetellWarning,
                stacklevel=3,
            )

    def events(
        self, x0: ArrayLike, times: ArrayLike, *, controls: ArrayLike | None = None
    ) -> list[JumpEvent] | list[list[JumpEvent]]:
        """Jumps of free runs between the first and the last of the times.

        Parameters
        ----------
        x0 : array (N,) or (B, N)
            Observed state at ``times[0]``.
        times : array (T,)
            Increasing stamps; they should be about as dense as the recordings.
        controls : array (T, K), optional
            Inputs.

        Returns
        -------
        list of JumpEvent
            For several starts, one list for each. A decoder with several heads gives the time
            between samples at which it changes its head; one with a single head the step that is
            badly predicted by straight lines.
        """
        self._check_fitted()
        stamps = checked_times(times)
        starts = checked_starts(x0, self.names_)
        u = checked_controls(controls, stamps.size, self.control_names_)
        found = (
            self._smooth_events(starts, stamps, u)
            if self.model_.n_heads == 1
            else self._switch_events(starts, stamps, u)
        )
        return found if np.ndim(x0) == 2 else found[0]

    @property
    def jump_size_(self) -> float:
        """Least distance of the two sides of a jump, in standard deviations."""
        sizes = np.linalg.norm(self.seam_pairs_["after"] - self.seam_pairs_["before"], axis=1)
        small = float(np.quantile(sizes, 0.05)) if sizes.size else 0.0
        return max(_SMALL_JUMP * small, min(self.jumps_.threshold, small))

    def _switch_events(
        self, starts: Array, stamps: Array, u: Array | None
    ) -> list[list[JumpEvent]]:
        B, T = len(starts), stamps.size - 1
        dt = np.broadcast_to(np.diff(stamps) / self.time_scale_, (B, T))
        held = None
        if u is not None:
            held = np.broadcast_to(self.scaler_.transform_controls(u)[:-1], (B, T, u.shape[1]))
        s = head_switches(self.model_, self.encode(starts), dt, held, int(self.substeps))
        candidates = self.model_.heads(s.latent)[0]
        rows = np.arange(len(s.run))
        one, two = candidates[rows, s.old], candidates[rows, s.new]
        real = np.linalg.norm(two - one, axis=1) > self.jump_size_
        before, after = self._to_data(one), self._to_data(two)
        events: list[list[JumpEvent]] = [[] for _ in range(B)]
        for k in np.flatnonzero(real):
            time = float(stamps[0] + s.after[k] * self.time_scale_)
            events[int(s.run[k])].append(JumpEvent(time, before[k], after[k]))
        return events

    def _smooth_events(
        self, starts: Array, stamps: Array, u: Array | None
    ) -> list[list[JumpEvent]]:
        z = self._latent_runs(starts, stamps, u)
        x = self.model_.decode(np.where(np.abs(z) < 1e6, z, 0.0))
        dt = np.diff(stamps) / self.time_scale_
        limit = self.jump_size_ / 2
        events: list[list[JumpEvent]] = []
        for run in x:
            badly = residuals(run, dt)
            steps = np.linalg.norm(np.diff(run, axis=0), axis=1)
            over = (badly > self.jumps_.threshold) & (steps > limit)
            data, found = self._to_data(run), []
            for group in np.split(np.arange(len(over)), np.flatnonzero(np.diff(over)) + 1):
                if over[group[0]]:
                    k = int(group[badly[group].argmax()])
                    middle = 0.5 * float(stamps[k] + stamps[k + 1])
                    found.append(JumpEvent(middle, data[group[0]], data[group[-1] + 1]))
            events.append(found)
        return events

    def guard_samples(self) -> GuardSamples:
        """Points of the learned guard: where the decoder changes its head across known jumps.

        Raises
        ------
        ParameterError
            The decoder has one head and cannot jump.
        """
        self._check_fitted()
        need_heads(self.model_)
        pairs = self.seam_pairs_
        u = pairs["u"][:, None] if "u" in pairs else None
        z0 = self.model_.encode(pairs["before"])
        # Half a step before and after: a jump may sit at either end of its interval.
        s = head_switches(
            self.model_, z0, np.repeat(pairs["dt"][:, None], 2, axis=1) * 0.75,
            None if u is None else np.repeat(u, 2, axis=1), int(self.substeps),
        )  # fmt: skip
        candidates = self.model_.heads(s.latent)[0]
        rows = np.arange(len(s.run))
        one, two = candidates[rows, s.old], candidates[rows, s.new]
        real = np.linalg.norm(two - one, axis=1) > self.jump_size_
        share = len(np.unique(s.run[real])) / max(len(pairs["before"]), 1)
        return GuardSamples(
            self._to_data(one[real]), self._to_data(two[real]), s.latent[real], share
        )

    def guards(self) -> list[GuardReset]:
        """Learned guards as planes and learned resets as affine maps, the fullest first."""
        points = self.guard_samples()
        scale = np.ones(len(self.names_))
        plain = list(self.columns_.plain)
        scale[plain] = self.scaler_.scale[: len(plain)]
        return read_guards(points.before, points.after, scale)

    def topology(
        self, X: Trajectories | ArrayLike, times: ArrayLike | None = None, **options: Any
    ) -> Betti:
        """Holes of the latent space that recordings fill; see `betti_numbers` for the options.

        Raises
        ------
        MissingExtraError
            ripser is not installed.
        """
        from foretell.dynamics.hybrid.topology import betti_numbers

        sequences = self.sequences(as_trajectories(X, times))
        x = np.concatenate([v[complete_rows(v)] for v in sequences.values])
        return betti_numbers(self.model_.encode(x), **options)

    @property
    def latent_field_(self) -> PiecewiseLinearField:
        """The piecewise-linear latent field, in latent units and model time.

        Raises
        ------
        ParameterError
            The model was fitted with another field.
        """
        self._check_fitted()
        shape = self.model_.shape
        if shape.field != "pwl":
            raise ParameterError(
                f'the field of this model is of kind "{shape.field}" and has no exact analysis. '
                'Fit with field="pwl".'
            )
        m = self.model_
        return PiecewiseLinearField(m.A, m.W, m.h, shape.n_relu, m.C if m.C.size else None)

    def latent_cycles(self, **options: Any) -> tuple[LimitCycle, ...]:
        """Cycles of a piecewise-linear latent field, with their Floquet multipliers.

        A cycle here is a cycle of the system with its jumps, glued. Its non-trivial multipliers are
        those of the system (as many as the flow has dimensions, less one) and those across the
        image of the encoder, which must be smaller than 1 in size for long runs. Periods and
        exponents are in data time; states are latent (``decode`` them). The ``options`` are those
        of `foretell.solve.piecewise.limit_cycles`; ``starts`` are latent states (S, m), by default
        encoded samples beside jumps, and ``periods`` (S,) in data time.
        """
        from dataclasses import replace

        tau = self.time_scale_
        if options.get("starts") is None and len(self.seam_pairs_["after"]):
            options["starts"] = self.model_.encode(self.seam_pairs_["after"][:8])
        if options.get("periods") is not None:
            options["periods"] = np.asarray(options["periods"]) / tau
        return tuple(
            replace(cycle, period=cycle.period * tau, exponents=cycle.exponents / tau)
            for cycle in limit_cycles(self.latent_field_, **options)
        )
