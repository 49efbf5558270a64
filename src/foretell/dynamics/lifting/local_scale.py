"""How wide residuals are, as a smooth function of state and inputs: log variance, in features.

What is lifted is then equally wide everywhere. Without this the label network has to learn from a
single draw at each state how wide the law is there, which takes far more transitions.

Legend: N transitions, n numbers of a state = C channels x L cells, K inputs, P features.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MOST_VARIABLES = 8  # states and inputs on all of which the scale depends; on fewer beyond
_EDGE = 3.0  # standard deviations at which features are held
_RIDGE = 2.0  # in transitions, on every coefficient but the level
_NEWTON = 50
_LONGEST = 1.0  # step of a coefficient
_RANGE = 3.0  # logarithm of the variance, around its level


def features(states: Array, n_channels: int, context: Array | None = None) -> Array:
    """Features (N, C, L, P) of standardised states (N, n) and inputs (N, K).

    The value in the cell and its square, and the inputs and their squares; with up to 8 variables
    and inputs in all and no cells, all of them, their squares and products.
    """
    N, n = states.shape
    x = np.clip(states, -_EDGE, _EDGE)
    u = np.zeros((N, 0)) if context is None else np.clip(context, -_EDGE, _EDGE)
    if n_channels == n and n + u.shape[1] <= MOST_VARIABLES:
        every = np.concatenate([x, u], axis=1)
        one, two = np.triu_indices(every.shape[1])
        row = np.concatenate([np.ones((N, 1)), every, every[:, one] * every[:, two]], axis=1)
        return np.broadcast_to(row[:, None, None, :], (N, n, 1, row.shape[1]))
    cells = x.reshape(N, n_channels, -1)
    own = np.stack([np.ones_like(cells), cells, cells**2], axis=-1)
    given = np.concatenate([u, u**2], axis=1)[:, None, None, :]
    return np.concatenate([own, np.broadcast_to(given, (*cells.shape, given.shape[-1]))], axis=-1)


def fit_local_scale(
    states: Array, residuals: Array, n_channels: int, context: Array | None = None
) -> Array:
    """Coefficients (C, P) of the log variance of residuals (N, n) at standardised states (N, n).

    Those with which squares of the residuals are most likely as squares of Gaussian numbers, with
    a ridge; by Newton's method, since that likelihood is concave. ``context`` (N, K) are inputs.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(4000, 1))
    >>> found = fit_local_scale(x, np.exp(0.3 * x) * rng.normal(size=x.shape), 1)
    >>> (found.round(1) + 0.0).tolist()
    [[0.0, 0.6, 0.0]]
    """
    N = len(states)
    X = features(states, n_channels, context)
    squares = (residuals**2).reshape(N, n_channels, -1)
    return np.array([_newton(X[:, c], squares[:, c], N) for c in range(n_channels)])


def local_scale(states: Array, coefficients: Array, context: Array | None = None) -> Array:
    """Standard deviations (N, n) of residuals at standardised states (N, n) and inputs (N, K)."""
    C, P = coefficients.shape
    if P == 1:
        return np.asarray(np.exp(0.5 * np.repeat(coefficients[:, 0], states.shape[1] // C)))
    X = features(states, C, context)
    if X.shape[-1] != P:  # a model kept by a version that did not look at inputs
        X = features(states, C)
    log = np.einsum("nclp,cp->ncl", X, coefficients)
    level = coefficients[:, :1, None].transpose(1, 0, 2)
    log = np.clip(log, level - _RANGE, level + _RANGE)
    return np.asarray(np.exp(0.5 * log).reshape(len(states), -1))


def _newton(X: Array, squares: Array, n_transitions: int) -> Array:
    """Minimise mean(y exp(-Xw) + Xw) with a ridge; cells of one transition count as one."""
    P = X.shape[-1]
    X, y = X.reshape(-1, P), np.maximum(squares.reshape(-1), 1e-300)
    w = np.zeros(P)
    w[0] = np.log(max(y.mean(), 1e-300))
    ridge = np.full(P, _RIDGE / n_transitions)
    ridge[0] = 0.0
    for _ in range(_NEWTON):
        share = y * np.exp(np.clip(-X @ w, -700.0, 700.0))
        slope = X.T @ (1.0 - share) / len(y) + ridge * w
        curvature = (X * share[:, None]).T @ X / len(y) + np.diag(ridge + 1e-9)
        step = np.clip(np.linalg.solve(curvature, slope), -_LONGEST, _LONGEST)
        w = w - step
        if np.abs(step).max() < 1e-8:
            break
    return w
