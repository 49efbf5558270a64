"""Compiled Runge-Kutta rollout of a network field, and its adjoint.

    dz/dt = W_out act(W_mid .. act(W_in z + drive) + b_mid ..) + b_out,    act(a) = a sigmoid(a)

Interval t is crossed by ``substeps[t]`` classical fourth-order steps. The forward pass keeps the
stage states and the activations; the backward pass runs through them once for the adjoint of the
state, and leaves the gradients of the weights to a few large matrix products over all stages.

Legend: S steps (the sum of the substeps of T intervals), B batch, m latent, h hidden, L hidden
layers. Weights are (in, out), so that a batch of rows multiplies them from the left. Everything is
float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float32]
Whole = NDArray[np.int64]

_ONE, _HALF, _TWO = np.float32(1), np.float32(0.5), np.float32(2)
_SIXTH, _THIRD = np.float32(1 / 6), np.float32(1 / 3)
_LOG2_E, _LN_2 = np.float32(1.4426950408889634), np.float32(0.6931471805599453)
_C3, _C4, _C5, _C6 = (np.float32(1 / n) for n in (6, 24, 120, 720))
_FURTHEST = np.float32(40)


@njit(fastmath=True, error_model="numpy", cache=True, inline="always")
def _sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)) by halving the range and a short series; relative error below 3e-7."""
    y = min(max(-x * _LOG2_E, -_FURTHEST), _FURTHEST)
    k = np.floor(y + _HALF)
    r = (y - k) * _LN_2
    p = _ONE + r * (_ONE + r * (_HALF + r * (_C3 + r * (_C4 + r * (_C5 + r * _C6)))))
    power = np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)
    return _ONE / (_ONE + p * power)


@njit(fastmath=True, error_model="numpy", cache=True)
def _activate(a: Array, bias: Array, gate: Array, out: Array) -> None:
    """gate = sigmoid(a + bias), out = (a + bias) gate; one row of bias serves all rows."""
    for i in range(a.shape[0]):
        row = bias[min(i, bias.shape[0] - 1)]
        for j in range(a.shape[1]):
            x = a[i, j] + row[j]
            g = _sigmoid(x)
            gate[i, j] = g
            out[i, j] = x * g


@njit(fastmath=True, error_model="numpy", cache=True)
def _activate_adjoint(grad: Array, gate: Array, out: Array, delta: Array) -> None:
    for i in range(grad.shape[0]):
        for j in range(grad.shape[1]):
            delta[i, j] = grad[i, j] * (gate[i, j] + out[i, j] * (_ONE - gate[i, j]))


@njit(cache=True)
def _copy(target: Array, source: Array) -> None:
    """By a loop: an assignment to a slice takes the compiler seconds."""
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            target[i, j] = source[i, j]


@njit(cache=True)
def forward(
    z0: Array, dt: Array, drive: Array, W_in: Array, W_mid: Array, b_mid: Array, W_out: Array,
    b_out: Array, substeps: Whole, states: Array, stages: Array, gates: Array, hidden: Array,
) -> None:  # fmt: skip
    """Fill states (T+1,B,m), stages (S,4,B,m), gates and hidden (L,S,4,B,h).

    ``dt`` is (T,B); ``drive`` (T or 1, B or 1, h) is the bias of the first layer, inputs included.
    """
    B, m = z0.shape
    L = W_mid.shape[0] + 1
    k = np.empty((B, m), np.float32)
    total = np.empty((B, m), np.float32)
    a = np.empty((B, W_in.shape[1]), np.float32)
    z = z0.copy()
    _copy(states[0], z0)
    step = 0
    for t in range(dt.shape[0]):
        bias = drive[min(t, drive.shape[0] - 1)]
        for _ in range(substeps[t]):
            for stage in range(4):
                y = stages[step, stage]
                for i in range(B):
                    d = dt[t, i] / np.float32(substeps[t])
                    share = np.float32(0) if stage == 0 else (d if stage == 3 else _HALF * d)
                    for j in range(m):
                        y[i, j] = z[i, j] + share * k[i, j] if stage else z[i, j]
                np.dot(y, W_in, a)
                _activate(a, bias, gates[0, step, stage], hidden[0, step, stage])
                for layer in range(1, L):
                    np.dot(hidden[layer - 1, step, stage], W_mid[layer - 1], a)
                    _activate(
                        a, b_mid[layer - 1 : layer], gates[layer, step, stage],
                        hidden[layer, step, stage],
                    )  # fmt: skip
                np.dot(hidden[L - 1, step, stage], W_out, k)
                weight = _TWO if 0 < stage < 3 else _ONE
                for i in range(B):
                    for j in range(m):
                        k[i, j] += b_out[j]
                        total[i, j] = (total[i, j] if stage else np.float32(0)) + weight * k[i, j]
            for i in range(B):
                d = dt[t, i] / np.float32(substeps[t]) * _SIXTH
                for j in range(m):
                    z[i, j] += d * total[i, j]
            step += 1
        _copy(states[t + 1], z)


@njit(cache=True)
def backward(
    grad: Array, dt: Array, W_in_T: Array, W_mid_T: Array, W_out_T: Array, substeps: Whole,
    gates: Array, hidden: Array, slopes: Array, deltas: Array,
) -> Array:  # fmt: skip
    """Adjoint of z0 (B,m); fills slopes (S,4,B,m) and deltas (L,S,4,B,h).

    ``slopes`` are the adjoints of the velocities, ``deltas`` those of what goes into the
    activations; ``grad`` (T+1,B,m) is the adjoint of the states.
    """
    T, B = dt.shape
    m = grad.shape[2]
    L = W_mid_T.shape[0] + 1
    lam = grad[T].copy()
    back = np.empty((B, m), np.float32)
    before = np.empty((B, m), np.float32)
    g = np.empty((B, W_in_T.shape[0]), np.float32)
    step = slopes.shape[0]
    for t in range(T - 1, -1, -1):
        for _ in range(substeps[t]):
            step -= 1
            _copy(before, lam)
            for stage in range(3, -1, -1):
                slope = slopes[step, stage]
                for i in range(B):
                    d = dt[t, i] / np.float32(substeps[t])
                    own = d * (_THIRD if 0 < stage < 3 else _SIXTH)
                    share = d if stage == 2 else _HALF * d
                    for j in range(m):
                        v = own * lam[i, j]
                        slope[i, j] = v + share * back[i, j] if stage < 3 else v
                np.dot(slope, W_out_T, g)
                for layer in range(L - 1, -1, -1):
                    delta = deltas[layer, step, stage]
                    _activate_adjoint(
                        g, gates[layer, step, stage], hidden[layer, step, stage], delta
                    )
                    if layer:
                        np.dot(delta, W_mid_T[layer - 1], g)
                np.dot(deltas[0, step, stage], W_in_T, back)
                before += back
            _copy(lam, before)
        lam += grad[t]
    return lam
