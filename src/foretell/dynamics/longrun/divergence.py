"""How differently two sets of recordings visit state space.

    D = sum over cells of p log(p / q),   p, q = (count + alpha) / (total + alpha * cells)

on a grid over the range of the true data. Only visited cells are stored; all others hold the same
two probabilities and are summed in closed form, so 30^5 cells cost no more than the samples. Above
five variables a grid is empty almost everywhere, and both sets become Gaussian mixtures instead.

Source: Koppe, Toutounji, Kirsch, Lis, Durstewitz, "Identifying nonlinear dynamical systems via
generative recurrent neural networks", PLoS Computational Biology 2019; Brenner et al., "Tractable
dendritic RNNs for reconstructing nonlinear dynamical systems", ICML 2022.
Differs from the code of that group: the first cell of every axis counts, and samples outside the
range are counted, in one cell of their own. ``reference=True`` gives their number.

Legend: T samples, N variables.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import ParameterError
from foretell.core.random import as_generator
from foretell.dynamics.longrun.stretches import Recordings, as_pair, points, true_points

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

_MOST_VARIABLES = 5


def state_space_divergence(
    true: Recordings,
    generated: Recordings,
    *,
    bins: int = 30,
    alpha: float = 1e-5,
    reference: bool = False,
    variance: float = 1.0,
    random_state: int | np.random.Generator | None = 0,
) -> float:
    """Kullback-Leibler divergence of the states visited, from true to generated (D_stsp).

    0 means that all states are visited equally often; a run of 1e5 samples that stays at one point
    of a chaotic attractor in three variables gets 15 to 16. The value depends on bins, alpha and
    the number of samples: compare numbers from equally long runs, next to `noise_floor`.

    Parameters
    ----------
    true, generated : Trajectories or arrays of shape (T, N), or lists of them
        Recordings are pooled. Incomplete rows of ``true`` are left out; rows of ``generated`` that
        are not finite count as outside the range.
    bins : int
        Cells per variable, over the range of the true data.
    alpha : float
        Laplace smoothing, in samples per cell.
    reference : bool
        Use the convention of the code behind the published numbers: the first cell of every axis
        is dropped, and samples outside the range are discarded silently. NaN when nothing is left.
    variance, random_state
        Passed to `state_space_divergence_gmm`, which is used above 5 variables.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> law = lambda n: rng.normal(size=(n, 2))
    >>> round(state_space_divergence(law(50_000), law(50_000)), 1)
    0.0
    >>> round(state_space_divergence(law(50_000), 0.5 * law(50_000)), 1)
    2.4
    """
    if bins < 1 or not alpha > 0:
        raise ParameterError(f"bins={bins} must be at least 1 and alpha={alpha} above 0.")
    first, second = as_pair(true, generated)
    n_variables = first[0].values.shape[1]
    if n_variables > _MOST_VARIABLES:
        return state_space_divergence_gmm(
            true, generated, variance=variance, random_state=random_state
        )
    data, run = true_points(first), points(second)
    low, high = data.min(axis=0), data.max(axis=0)
    cells = _reference_cells if reference else _cells
    p_codes, q_codes = cells(data, low, high, bins), cells(run, low, high, bins)
    n_cells = float(bins) ** n_variables + (0 if reference else 1)
    return _divergence_of_counts(p_codes, q_codes, n_cells, alpha)


def state_space_divergence_gmm(
    true: Recordings,
    generated: Recordings,
    *,
    variance: float = 1.0,
    max_points: int = 2000,
    n_draws: int = 1000,
    random_state: int | np.random.Generator | None = 0,
) -> float:
    """Kullback-Leibler divergence of the states visited, with a Gaussian at every sample.

    Both sets become mixtures of equal Gaussians around at most ``max_points`` randomly chosen
    samples; the divergence is the mean log ratio over draws from the true mixture. It is never
    quite 0 between two runs of one system: see `noise_floor`.

    Parameters
    ----------
    true, generated : Trajectories or arrays of shape (T, N), or lists of them
        As in `state_space_divergence`.
    variance : float
        Variance of every Gaussian, in units of the variance of the true variable.
    max_points : int
        Most samples used of each set.
    n_draws : int
        Monte Carlo draws.
    random_state : int, numpy.random.Generator or None
        The default gives the same number every time.

    Returns
    -------
    float
        Infinite when no generated sample is finite.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> law = lambda n: rng.normal(size=(n, 6))
    >>> near = state_space_divergence_gmm(law(3000), law(3000))
    >>> far = state_space_divergence_gmm(law(3000), law(3000) + 1.0)
    >>> near < 0.1 < 1.0 < far
    True
    """
    if not variance > 0 or max_points < 1 or n_draws < 1:
        raise ParameterError(
            f"variance={variance} must be above 0, max_points={max_points} and n_draws={n_draws} "
            "at least 1."
        )
    first, second = as_pair(true, generated)
    data, run = true_points(first), points(second)
    finite = np.isfinite(run).all(axis=1)
    if not finite.any():
        return math.inf
    rng = as_generator(random_state)
    middle, spread = data.mean(axis=0), data.std(axis=0)
    spread[spread == 0] = 1.0
    p_centres = _thinned((data - middle) / spread, max_points, rng)
    q_centres = _thinned((run[finite] - middle) / spread, max_points, rng)
    draws = p_centres[rng.integers(len(p_centres), size=n_draws)]
    draws = draws + math.sqrt(variance) * rng.normal(size=draws.shape)
    ratio = _log_mixture(draws, p_centres, variance) - _log_mixture(draws, q_centres, variance)
    return float(ratio.mean() - math.log(finite.mean()))


def _cells(values_TN: Array, low: Array, high: Array, bins: int) -> Codes:
    """Cell of every sample, -1 outside; the upper edge belongs to the last cell."""
    width = np.where(high > low, high - low, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        inside = ((values_TN >= low) & (values_TN <= high)).all(axis=1)
        place = bins * ((values_TN[inside] - low) / width)
    index = np.minimum(place.astype(np.int64), bins - 1)
    codes = np.full(len(values_TN), -1, dtype=np.int64)
    codes[inside] = _flat(index, bins)
    return codes


def _reference_cells(values_TN: Array, low: Array, high: Array, bins: int) -> Codes:
    """Cells by truncation towards zero, kept only where 0 < index < bins on every axis."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        place = bins * (values_TN - low) / (high - low)
        # Truncation commutes with these comparisons: 0 < trunc(v) < bins is 1 <= v < bins.
        inside = ((place >= 1) & (place < bins)).all(axis=1)
    return _flat(place[inside].astype(np.int64), bins)


def _flat(index_TN: Codes, bins: int) -> Codes:
    """One number per cell."""
    if bins ** index_TN.shape[1] >= 2**62:
        raise ParameterError(f"bins={bins} gives too many cells; use at most 1000.")
    weights = bins ** np.arange(index_TN.shape[1], dtype=np.int64)
    return np.asarray(index_TN @ weights, dtype=np.int64)


def _divergence_of_counts(p_codes: Codes, q_codes: Codes, n_cells: float, alpha: float) -> float:
    if not p_codes.size or not q_codes.size:
        return math.nan
    visited, position = np.unique(np.concatenate([p_codes, q_codes]), return_inverse=True)
    p_count = np.bincount(position[: p_codes.size], minlength=visited.size)
    q_count = np.bincount(position[p_codes.size :], minlength=visited.size)
    p_total, q_total = p_codes.size + alpha * n_cells, q_codes.size + alpha * n_cells
    p, q = (p_count + alpha) / p_total, (q_count + alpha) / q_total
    visited_part = float(np.sum(p * np.log(p / q)))
    empty_part = (n_cells - visited.size) * alpha / p_total * math.log(q_total / p_total)
    return visited_part + empty_part


def _thinned(values: Array, most: int, rng: np.random.Generator) -> Array:
    if len(values) <= most:
        return values
    return np.asarray(values[np.sort(rng.choice(len(values), most, replace=False))])


def _log_mixture(draws: Array, centres: Array, variance: float) -> Array:
    """Log density up to the normalisation that all mixtures here share."""
    from scipy.special import logsumexp

    logs = np.empty(len(draws))
    for begin in range(0, len(draws), 250):
        block = draws[begin : begin + 250]
        squares = (block**2).sum(axis=1)[:, None] - 2 * block @ centres.T + (centres**2).sum(axis=1)
        logs[begin : begin + 250] = logsumexp(-0.5 / variance * squares, axis=1)
    return logs - math.log(len(centres))
