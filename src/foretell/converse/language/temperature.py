"""Probabilities from scores: one temperature, fitted on rows that were held out.

Held-out rows are chosen by the content of the rows (or of their groups), not by their place: equal
rows are never on both sides, and neither order nor repetition of rows changes the choice.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import softmax

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

ONE_IN = 5
_LOWEST, _HIGHEST = 1e-3, 1e4


def held_out(X: Array, codes: NDArray[np.int64], groups: NDArray[np.object_] | None) -> Mask:
    """About a fifth of the rows, such that every class keeps some others.

    Parameters
    ----------
    X : array (n, d)
    codes : array of int (n,)
        Classes.
    groups : array (n,), optional
        Rows of one group stay together.
    """
    n_classes = int(codes.max()) + 1
    keys = np.array([_key(row.tobytes()) for row in np.ascontiguousarray(X)])
    if groups is not None:
        keys = np.array([_key(repr(group).encode()) for group in groups])
        return _whole_groups(keys, codes, n_classes)
    chosen = np.zeros(len(X), dtype=bool)
    for code in range(n_classes):
        rows = np.flatnonzero(codes == code)
        distinct, place = np.unique(keys[rows], return_inverse=True)
        if distinct.size > 1:
            chosen[rows] = place % ONE_IN == 0
    return chosen


def _whole_groups(keys: NDArray[np.str_], codes: NDArray[np.int64], n_classes: int) -> Mask:
    chosen = np.zeros(len(keys), dtype=bool)
    names = np.unique(keys)
    wanted = max(1, names.size // ONE_IN)
    for name in names:
        trial = chosen | (keys == name)
        if np.unique(codes[~trial]).size == n_classes:
            chosen = trial
            wanted -= 1
        if not wanted:
            break
    return chosen


def fit_temperature(scores: Array, codes: NDArray[np.int64], weights: Array) -> float:
    """The T of least cross entropy of softmax(scores / T); targets are slightly smoothed.

    Examples
    --------
    >>> scores = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.2, 0.0]])
    >>> round(fit_temperature(scores, np.array([0, 1, 1, 0]), np.ones(4)), 3)
    1.464
    """
    n_classes = scores.shape[1]
    doubt = 1.0 / (weights.sum() + 2.0)  # so that scores without error give no infinite certainty
    targets = np.full(scores.shape, doubt / n_classes)
    targets[np.arange(len(codes)), codes] += 1.0 - doubt

    def slope(log_s: float) -> float:
        p = softmax(np.exp(log_s) * scores, axis=1)
        return float(weights @ np.sum((p - targets) * scores, axis=1))

    low, high = np.log(_LOWEST), np.log(_HIGHEST)
    if np.ptp(scores, axis=1).max() == 0.0:
        return 1.0
    if slope(low) >= 0:
        return 1.0 / _LOWEST
    if slope(high) <= 0:
        return 1.0 / _HIGHEST
    return float(np.exp(-brentq(slope, low, high, xtol=1e-13)))


def _key(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=12).hexdigest()
