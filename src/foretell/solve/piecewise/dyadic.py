"""Engine R3: the flow by dyadic pieces, with an exact adjoint. Made for training.

Time is counted in units of u = (one sample interval) / 2^J. For every region that is visited the
affine maps z -> E_l z + G_l w for durations 2^l u are built once, by squaring. An interval is
crossed by the largest pieces that keep the region code; where a piece would end in another region
it is halved, and at the finest level the code is read off the signs. The overshoot of a crossing
is at most u, and because the field is continuous across the boundary the state error is O(u^2).
A unit that crosses and comes back within one accepted piece, at most one time unit long, is not
noticed; that changes the state by O(piece^3), which a larger J does not cure and shorter intervals
do. The certified engine notices every crossing.
Only affine maps are recorded, so the adjoint is exact for what was computed:

    lam <- E^T lam,  dE += lam z^T,  dG += lam w^T,  then the squaring chain is unwound.

The part of an interval that is no whole number of units is a Taylor step of order three.

Legend: B sequences, T intervals, M units (padded to a multiple of four inside), P rectified,
N observed, K inputs, Q = K + 1 drive columns (the constant one first), L = J + 1 levels,
R regions. ``key = region * (L + 1) + level`` names a map; level L names the generator W_s itself.

Differs from the paper: no eigen-decomposition, no root finding while training, gradients through
switching times are dropped because they are exactly zero (the field is continuous).

Source: Braendle et al., ICML 2026, arXiv 2602.15649 (model, training); scaling and squaring.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import NumericalError, ParameterError
from foretell.solve.piecewise.dyadic_sweeps import (
    ESCAPED,
    OK,
    REGIONS_FULL,
    TAPE_FULL,
    forward,
    free_run,
    gather_gradient,
    loss as squared_loss,
    sweep_back,
)

Array = NDArray[np.float64]

_LONGEST = 1e9  # time units; such an interval would take hours
MOST_BYTES = 2e9  # of region maps
SAME_TIME = 1e-6  # share of a time unit below which two durations are the same


@dataclass(frozen=True)
class SequenceGradient:
    """Loss of a batch and its gradient; ``escaped`` when a state left the allowed range."""

    loss: float
    dA: Array
    dW: Array
    dh: Array
    dC: Array
    dL: Array
    escaped: bool
    n_regions: int
    n_maps: int


class DyadicFlow:
    """The fused flow of a continuous piecewise-linear field for batches of sequences.

    Parameters
    ----------
    n_units : int
        M, the number of latent units.
    n_relu : int
        P, how many of the last units are rectified (at most 62).
    n_controls : int
        K, the number of inputs.
    n_levels : int
        J; the shortest piece is 2^-J of the time unit.

    Notes
    -----
    An object keeps its work arrays between calls and must not be shared by threads.

    Examples
    --------
    >>> import numpy as np
    >>> flow = DyadicFlow(n_units=1, n_relu=0)
    >>> states, reached = flow.free_run(
    ...     np.array([-1.0]), np.zeros((1, 1)), np.zeros(1), None, np.ones((1, 1)), None,
    ...     np.ones((1, 2)),
    ... )
    >>> np.round(states[0, :, 0], 6)
    array([1.      , 0.367879, 0.135335])
    """

    def __init__(
        self, *, n_units: int, n_relu: int, n_controls: int = 0, n_levels: int = 5
    ) -> None:
        if not 0 <= n_relu <= min(n_units, 62):
            raise ParameterError(
                f"n_relu={n_relu} is not possible; it must lie between 0 and "
                f"min(n_units, 62) = {min(n_units, 62)}."
            )
        if not 0 <= n_levels <= 20:
            raise ParameterError(f"n_levels={n_levels} is not between 0 and 20.")
        self.n_units, self.n_relu, self.n_controls = n_units, n_relu, n_controls
        self.n_levels = n_levels
        self._pad = -(-max(n_units, 1) // 4) * 4
        self._n_drive = n_controls + 1
        self._allocate(64)
        self._n_tape = 0
        self._tape(1)

    def loss_and_gradient(
        self,
        A: Array,
        W: Array,
        h: Array,
        C: Array | None,
        L: Array,
        x: Array,
        u: Array | None,
        dt: Array,
        *,
        forcing_interval: int,
        alpha: float = 1.0,
        z_max: float = 1e6,
    ) -> SequenceGradient:
        """Mean squared error of forced predictions over a batch, and its gradient.

        Parameters
        ----------
        A, W, h, C : arrays (M,), (M, M), (M,), (M, K) or None
            The field. C is None without inputs.
        L : array (M - N, N)
            Initial values of the unobserved units, z_0 = [x_0; L x_0].
        x : array (B, T + 1, N)
            Observed sequences; NaN marks a value that is neither forced nor counted. The first
            sample of each sequence must be complete.
        u : array (B, T, K) or None
            Inputs, held over each interval.
        dt : array (B, T)
            Interval lengths in model time.
        forcing_interval : int
            After so many samples the observed units are moved to the data.
        alpha : float
            How far they are moved (1 replaces them).
        z_max : float
            A larger state ends the evaluation with ``escaped=True`` and a zero gradient.
        """
        A_M, W_MM, H_QM = self._pad_field(A, W, h, C)
        x_BTN = np.ascontiguousarray(x, dtype=np.float64)
        n_batch, n_samples, n_obs = x_BTN.shape
        w_BTQ, pieces, rest = self._drive_and_pieces(u, dt)
        n_hidden = self.n_units - n_obs
        L_map = np.ascontiguousarray(L, dtype=np.float64).reshape(n_hidden, n_obs)
        start = np.empty((n_batch, n_samples), np.int64)
        states = np.empty((n_batch, n_samples - 1, n_obs))
        unit = 2.0**-self.n_levels
        self._tape(2 * n_batch * n_samples)
        while True:
            self._reset()
            status, used = forward(
                A_M, W_MM, H_QM, L_map, x_BTN, w_BTQ, pieces, rest, self.n_units, self.n_relu,
                unit, forcing_interval, alpha, z_max, *self._regions, self._table, self._codes,
                self._count, *self._records, start, states,
            )  # fmt: skip
            if not self._grow(status):
                break
        dA, dh = np.zeros(self.n_units), np.zeros(self.n_units)
        dW, dL = np.zeros((self.n_units, self.n_units)), np.zeros((n_hidden, n_obs))
        dH = np.zeros((self._n_drive, self._pad))
        loss = np.inf
        if status == OK:
            tape_z, tape_key, tape_interval = self._records
            loss, n_seen = squared_loss(x_BTN, states)
            E, Ws = self._regions[0], self._regions[4]
            sweep_back(
                x_BTN, w_BTQ, rest, self.n_units, forcing_interval, alpha, n_seen, E, Ws,
                self._tape_lam, tape_key, start, states, dH, dL,
            )  # fmt: skip
            gather_gradient(
                H_QM, w_BTQ.reshape(-1, self._n_drive), self.n_units, self.n_relu, unit,
                *self._regions, self._codes, int(self._count[0]), tape_z, self._tape_lam, tape_key,
                tape_interval, used, dA, dW, dH,
            )  # fmt: skip
            dh[:] = dH[0, : self.n_units]
        return SequenceGradient(
            loss=float(loss),
            dA=dA,
            dW=dW,
            dh=dh,
            dC=np.ascontiguousarray(dH[1:, : self.n_units].T),
            dL=dL,
            escaped=status == ESCAPED,
            n_regions=int(self._count[0]),
            n_maps=int(used),
        )

    def free_run(
        self,
        A: Array,
        W: Array,
        h: Array,
        C: Array | None,
        z0: Array,
        u: Array | None,
        dt: Array,
        *,
        z_max: float = 1e6,
    ) -> tuple[Array, NDArray[np.int64]]:
        """States of shape (B, T + 1, M) that start at ``z0`` (B, M) and see no data.

        Returns the states and, for each sequence, how many samples were reached before a state
        exceeded ``z_max``; the samples after that are NaN.
        """
        A_M, W_MM, H_QM = self._pad_field(A, W, h, C)
        w_BTQ, pieces, rest = self._drive_and_pieces(u, dt)
        n_batch, n_steps = pieces.shape
        states = np.full((n_batch, n_steps + 1, self.n_units), np.nan)
        states[:, 0] = z0
        done = np.ones(n_batch, np.int64)
        self._reset()
        while True:
            reached = int(done.sum())
            status = free_run(
                A_M, W_MM, H_QM, states, w_BTQ, pieces, rest, self.n_units, self.n_relu,
                2.0**-self.n_levels, z_max, *self._regions, self._table, self._codes, self._count,
                states, done,
            )  # fmt: skip
            if status == OK:
                break
            # Where there is no room for more regions, those behind are forgotten.
            self._grow(status, can_forget=int(done.sum()) > reached)
            self._reset()
        for b in range(n_batch):
            states[b, done[b] :] = np.nan
        return states, done

    # ------------------------------------------------------------------ work arrays
    def _pad_field(
        self, A: Array, W: Array, h: Array, C: Array | None
    ) -> tuple[Array, Array, Array]:
        M, pad = self.n_units, self._pad
        if (np.shape(A), np.shape(W), np.shape(h)) != ((M,), (M, M), (M,)):
            raise ParameterError(
                f"A, W and h have shapes {np.shape(A)}, {np.shape(W)} and {np.shape(h)}; needed "
                f"are ({M},), ({M}, {M}) and ({M},)."
            )
        A_M, W_MM, H_QM = np.zeros(pad), np.zeros((pad, pad)), np.zeros((self._n_drive, pad))
        A_M[:M], W_MM[:M, :M], H_QM[0, :M] = A, W, h
        if C is not None and self.n_controls:
            H_QM[1:, :M] = np.asarray(C).T
        return A_M, W_MM, H_QM

    def _drive_and_pieces(
        self, u: Array | None, dt: Array
    ) -> tuple[Array, NDArray[np.int64], Array]:
        """Drive columns (B, T, Q), whole time units and rests (B, T) of the intervals."""
        dt_BT = np.asarray(dt, dtype=np.float64)
        if not ((dt_BT >= 0.0) & (dt_BT < _LONGEST)).all():
            raise ParameterError(
                f"dt holds an interval of {dt_BT[~((dt_BT >= 0.0) & (dt_BT < _LONGEST))][0]} time "
                f"units; intervals must be finite, not negative and below {_LONGEST:g}. Cut the "
                "recording at its gaps, or give a longer time_scale."
            )
        w_BTQ = np.ones((*dt_BT.shape, self._n_drive))
        if self.n_controls:
            if u is None:
                raise ParameterError(
                    f"this field has {self.n_controls} inputs, and none were given; pass controls."
                )
            w_BTQ[..., 1:] = u
        units = dt_BT * 2.0**self.n_levels
        pieces = np.rint(units).astype(np.int64)
        rest = dt_BT - pieces * 2.0**-self.n_levels
        rest[np.abs(rest) < SAME_TIME * np.maximum(1.0, dt_BT)] = 0.0  # rounding of the stamps
        return w_BTQ, pieces, rest

    def _allocate(self, n_regions: int) -> None:
        pad, levels = self._pad, self.n_levels + 1
        self._regions = (
            np.empty((n_regions, levels, pad, pad)),
            np.empty((n_regions, levels, self._n_drive, pad)),
            np.empty((n_regions, pad, pad)),
            np.empty((n_regions, pad, pad)),
            np.empty((n_regions, pad, pad)),
        )
        self._table = np.empty(1 << (2 * n_regions - 1).bit_length(), np.int64)
        self._codes = np.zeros(n_regions, np.int64)
        self._count = np.zeros(1, np.int64)

    def _tape(self, n_maps: int) -> None:
        if n_maps <= self._n_tape:
            return
        self._n_tape = n_maps
        self._records = (
            np.empty((n_maps, self._pad)),
            np.empty(n_maps, np.int64),
            np.empty(n_maps, np.int64),
        )
        self._tape_lam = np.empty((n_maps, self._pad))

    def _reset(self) -> None:
        self._table[:] = -1
        self._count[0] = 0

    def _grow(self, status: int, *, can_forget: bool = False) -> bool:
        """Enlarge what was full; False when there was nothing to enlarge."""
        if status == TAPE_FULL:
            self._tape(2 * self._n_tape)
            return True
        if status == REGIONS_FULL:
            n_regions = self._codes.size
            bytes_needed = 2 * n_regions * (self.n_levels + 4) * self._pad**2 * 8
            if bytes_needed < MOST_BYTES:
                self._allocate(2 * n_regions)
            elif not can_forget:
                raise NumericalError(
                    f"the batch visits more than {n_regions} regions, which would need "
                    f"{bytes_needed / 1e9:.1f} GB. Use fewer rectified units (n_relu), a smaller "
                    "batch_size or a shorter sequence_length."
                )
            return True
        return False
