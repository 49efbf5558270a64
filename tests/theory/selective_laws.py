"""Laws of (score, error) with known risk, and every rule applied to many samples at once.

u is uniform on (0, 1), or rounded up to five levels; eta(u) is the probability of an error. The
rules here are a second, vectorised implementation; `library_agrees` compares it with
`SelectiveThreshold` case by case.

Legend: R runs, n calibration cases, lam threshold per run (-inf: none).
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from foretell.core import ForetellWarning
from foretell.trust import SelectiveThreshold, binomial_boundary, selection_inflation

GRID = np.linspace(0, 1, 20_001)


@dataclass(frozen=True)
class Law:
    name: str
    eta: Callable[[np.ndarray], np.ndarray]
    monotone: bool = True
    levels: int = 0

    def draw(
        self, rng: np.random.Generator, shape: tuple[int, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        u = rng.uniform(size=shape)
        if self.levels:
            u = np.ceil(u * self.levels) / self.levels
        return u, (rng.uniform(size=shape) < self.eta(u)).astype(float)

    def risk(self, lam: np.ndarray) -> np.ndarray:
        """R(lam), 0 for -inf."""
        inside = np.clip(lam, 0, 1)
        if self.levels:
            steps = np.arange(1, self.levels + 1) / self.levels
            wrong = np.append(0, np.cumsum(self.eta(steps)) / self.levels)
            count = np.floor(inside * self.levels + 1e-9).astype(int)
            mass, area = count / self.levels, wrong[count]
        else:
            middle = (GRID[1:] + GRID[:-1]) / 2
            area = np.interp(inside, GRID, np.append(0, np.cumsum(self.eta(middle)) * GRID[1]))
            mass = inside
        return np.where(mass > 0, area / np.maximum(mass, 1e-12), 0.0)

    def accepted(self, lam: np.ndarray) -> np.ndarray:
        inside = np.clip(lam, 0, 1)
        return np.floor(inside * self.levels + 1e-9) / self.levels if self.levels else inside


def flat(p: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda u: np.full_like(u, p)


LAWS = [
    Law("uninformative .101", flat(0.101)),
    Law("uninformative .15", flat(0.15)),
    Law("uninformative .6", flat(0.6)),
    Law("weakly informative", lambda u: 0.05 + 0.15 * u),
    Law("u^2", lambda u: u**2),
    Law("u^4", lambda u: u**4),
    Law("step", lambda u: np.where(u < 0.5, 0.02, 0.6)),
    Law("five tied levels", lambda u: 0.3 * u, levels=5),
    Law("all wrong", flat(1.0)),
    Law("all right", flat(0.0)),
    Law("bad start", lambda u: np.select([u < 0.05, u < 0.6], [0.3, 0.02], 0.5), monotone=False),
    Law("bad start, tied", lambda u: np.where(u < 0.3, 0.5, 0.02), monotone=False, levels=5),
]


def thresholds(
    guarantee: str, u: np.ndarray, e: np.ndarray, alpha: float, delta: float = 0.1
) -> np.ndarray:
    """lam of each run; rows are runs."""
    runs, n = u.shape
    order = np.argsort(u, axis=1)
    u, e = np.take_along_axis(u, order, 1), np.take_along_axis(e, order, 1)
    total, k = np.cumsum(e, axis=1), np.arange(1, n + 1)
    end = np.append(u[:, 1:] != u[:, :-1], np.ones((runs, 1), bool), axis=1)
    k0 = min(n, max(20, int(np.ceil(0.1 * n - 1e-9))))
    if guarantee == "any":
        return any_order(u, e, alpha, delta, k0)
    if guarantee == "plugin":
        fits = total + 1 <= alpha * k + 1e-9
    elif guarantee == "plugin_corrected":
        fits = (total + 1 <= alpha / selection_inflation(n, k0) * k + 1e-9) & (k >= k0)
    elif guarantee == "marginal":
        fits = total + 1 <= alpha * (n + 1) + 1e-9
    else:
        fits = total <= binomial_boundary(n, alpha, delta, k0).most_errors[1:]
    fits &= end
    last = n - 1 - np.argmax(fits[:, ::-1], axis=1)
    return np.where(fits.any(axis=1), u[np.arange(runs), last], -np.inf)


def any_order(u: np.ndarray, e: np.ndarray, alpha: float, delta: float, k0: int) -> np.ndarray:
    """lam of each run by exact tests at delta / M on M cuts; rows are sorted runs."""
    runs, n = u.shape
    limits = np.unique(np.round(np.geomspace(k0, n, 12)).astype(int))
    lam, wrong = np.full(runs, -np.inf), np.append(np.zeros((runs, 1)), np.cumsum(e, axis=1), 1)
    for k in limits:  # accept u < u_(k+1); a later cut that passes replaces an earlier one
        cut = u[:, k] if k < n else np.full(runs, 2.0)
        below = (u < cut[:, None]).sum(axis=1)
        p = binom.cdf(wrong[np.arange(runs), below], below, alpha)
        lam = np.where((p <= delta / limits.size) & (below >= k0), cut - 1e-7, lam)
    return lam


def fit(
    guarantee: str, u: np.ndarray, e: np.ndarray, alpha: float, **more: object
) -> SelectiveThreshold:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForetellWarning)
        pool = {"unlabeled_scores": more.pop("pool")} if "pool" in more else {}
        return SelectiveThreshold(alpha=alpha, guarantee=guarantee, **more).fit(u, e, **pool)


def library_agrees(guarantee: str, u: np.ndarray, e: np.ndarray, alpha: float) -> bool:
    lam = thresholds(guarantee, u, e, alpha)
    more = {"assume_monotone": False} if guarantee == "any" else {}
    name = "pac" if guarantee == "any" else guarantee
    found = [fit(name, a, b, alpha, **more).threshold_ for a, b in zip(u, e, strict=True)]
    given = np.array([-np.inf if t is None else t for t in found])
    if guarantee == "any":  # just below a cut, which can be written in many ways
        return bool(((u <= lam[:, None]) == (u <= given[:, None])).all())
    return bool((lam == given).all())


def batch_fdp(
    u: np.ndarray, e: np.ndarray, pool: np.ndarray, wrong: np.ndarray, alpha: float
) -> np.ndarray:
    """False discovery proportion of each run, by the definition of Benjamini and Hochberg."""
    runs, n = u.shape
    m = pool.shape[1]
    p = (1 + (e[:, None, :] * (u[:, None, :] <= pool[:, :, None])).sum(axis=2)) / (n + 1)
    ranked = np.sort(p, axis=1)
    fits = ranked <= alpha * np.arange(1, m + 1) / m + 1e-12
    last = m - 1 - np.argmax(fits[:, ::-1], axis=1)
    cut = np.where(fits.any(axis=1), ranked[np.arange(runs), last], -1.0)
    taken = p <= cut[:, None]
    return (taken * wrong).sum(axis=1) / np.maximum(taken.sum(axis=1), 1)
