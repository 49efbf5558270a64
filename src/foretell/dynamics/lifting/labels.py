"""Labels: one fixed standard normal vector for every transition.

A label is a function of (seed, recording, row) and of nothing else: neither the order of the data,
nor the batch, the process or the moment changes it. So the seed is stored, not the labels. Each
number is hashed from a counter (three rounds of a 64-bit mixer) and made normal by Box and Muller.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

_STEP = np.uint64(0x9E3779B97F4A7C15)
_ONE, _TWO = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def stored_labels(seed: int, ids: ArrayLike, dim: int) -> NDArray[np.float32]:
    """The labels of some transitions.

    Parameters
    ----------
    seed : int
        Seed of the labels, >= 0.
    ids : integer array (N, 2)
        Recording and row of each transition.
    dim : int
        Numbers in a label.

    Returns
    -------
    array (N, dim), float32
        Independent standard normal numbers.

    Examples
    --------
    >>> both = stored_labels(7, [[0, 3], [1, 3]], 4)
    >>> bool((stored_labels(7, [[1, 3]], 4) == both[1]).all())
    True
    """
    pairs = np.asarray(ids, dtype=np.int64).astype(np.uint64)
    with np.errstate(over="ignore"):
        key = _mixed(np.uint64(seed) * _STEP + _ONE)
        key = _mixed(key + (pairs[:, 0] + np.uint64(1)) * _STEP)
        key = _mixed(key + (pairs[:, 1] + np.uint64(1)) * _STEP)
        half = (dim + 1) // 2
        counter = np.arange(2 * half, dtype=np.uint64) * _STEP
        bits = _mixed(key[:, None] + counter) >> np.uint64(11)
    uniform = (bits.astype(np.float64) + 0.5) * 2.0**-53
    length = np.sqrt(-2.0 * np.log(uniform[:, :half]))
    angle = 2.0 * np.pi * uniform[:, half:]
    normal = np.concatenate([length * np.cos(angle), length * np.sin(angle)], axis=1)
    return normal[:, :dim].astype(np.float32)


def linear_spread(n_transitions: int, label_dim: int) -> float:
    """Variance that the simplest lifting generates, over the true one.

    Least squares on labels alone, linear, of smallest norm where labels are longer than the data:
    with N targets of unit variance and labels of d numbers the generated variance is d / (N - d -
    1) for d < N - 1 and N / (d - N - 1) for d > N + 1. It is 1 near d = N / 2 and near d = 2 N,
    infinite between, and falls towards 0 for long labels: the spread of lifting has to be measured
    and set, it does not come out right by itself.

    Examples
    --------
    >>> [round(linear_spread(200, d), 2) for d in (20, 100, 400, 3200)]
    [0.11, 1.01, 1.01, 0.07]
    """
    N, d = n_transitions, label_dim
    if d < N - 1:
        return d / (N - d - 1)
    return N / (d - N - 1) if d > N + 1 else float("inf")


def _mixed(x: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint64]:
    y = np.asarray(x, dtype=np.uint64)
    y = (y ^ (y >> np.uint64(30))) * _ONE
    y = (y ^ (y >> np.uint64(27))) * _TWO
    return np.asarray(y ^ (y >> np.uint64(31)))
