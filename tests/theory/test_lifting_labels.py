"""Labels belong to transitions for good, and the spread of the simplest lifting has a closed form.

False-alarm rates: the labels are deterministic, so these tests have one outcome; their bounds hold
for truly random labels with probability above 0.999.
"""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from foretell.dynamics.lifting import linear_spread, stored_labels

pytestmark = pytest.mark.theory


def ids(n: int, recording: int = 0) -> np.ndarray:
    return np.stack([np.full(n, recording), np.arange(n)], axis=1)


def test_a_label_depends_on_seed_and_transition_only() -> None:
    whole = stored_labels(3, ids(500), 33)
    order = np.random.default_rng(0).permutation(500)
    assert np.array_equal(stored_labels(3, ids(500)[order], 33), whole[order])
    shards = [stored_labels(3, ids(500)[k::4], 33) for k in range(4)]
    assert all(np.array_equal(shard, whole[k::4]) for k, shard in enumerate(shards))
    assert not np.array_equal(stored_labels(4, ids(500), 33), whole)
    assert not np.array_equal(stored_labels(3, ids(500, recording=1), 33), whole)


@pytest.mark.parametrize("dim", [1, 7, 64])
def test_labels_are_standard_normal_and_uncorrelated(dim: int) -> None:
    N = 2000
    labels = np.concatenate([stored_labels(0, ids(N // 2, r), dim) for r in (0, 1)])
    assert labels.dtype == np.float32
    size = N * dim
    assert abs(labels.mean()) < 4 / np.sqrt(size)
    assert abs((labels**2).mean() - 1) < 4 * np.sqrt(2 / size)
    assert abs((labels**4).mean() - 3) < 4 * np.sqrt(96 / size)
    products = (labels[::2] * labels[1::2]).mean()  # of different transitions
    assert abs(products) < 4 / np.sqrt(size / 2)
    if dim > 1:
        across = (labels[:, :-1] * labels[:, 1:]).mean()
        assert abs(across) < 4 / np.sqrt(N * (dim - 1))


@pytest.mark.parametrize("dim", [20, 100, 400, 1600])
def test_linear_lifting_has_the_spread_of_the_formula(dim: int) -> None:
    """Least squares of smallest norm on 200 stored labels, 20 repeats, within 10 %."""
    N, found = 200, []
    for repeat in range(20):
        targets = np.random.default_rng(repeat).standard_normal(N)
        labels = stored_labels(repeat, ids(N), dim).astype(float)
        weights = np.linalg.lstsq(labels, targets, rcond=None)[0]
        found.append(float(weights @ weights))  # variance over fresh labels
    assert np.mean(found) == pytest.approx(linear_spread(N, dim), rel=0.1)


def test_the_slope_that_interpolation_needs_falls_with_the_label_dimension() -> None:
    """The least Lipschitz constant is at most diam(Y) over the least distance, near sqrt(2 d)."""
    rng, N = np.random.default_rng(0), 300
    x, y = rng.normal(size=(N, 1)), rng.uniform(size=(N, 1))
    needed = {}
    for d in (4, 64, 1024):
        points = np.concatenate([x, stored_labels(0, ids(N), d).astype(float)], axis=1)
        gaps = np.sqrt(((points[:, None] - points) ** 2).sum(-1)) + np.eye(N)
        needed[d] = (np.abs(y - y.T) / gaps).max()
    assert needed[4] > needed[64] > needed[1024]
    assert needed[1024] == pytest.approx(1 / np.sqrt(2 * 1024), rel=0.15)


def test_the_generated_law_is_bounded_by_the_slope_and_the_distance_of_samples() -> None:
    """W2(F#mu', rho~) <= L W2(mu', mu_N) + W2(rho_N, rho~) for every interpolating F of slope L."""

    def w2(a: np.ndarray, b: np.ndarray) -> float:
        cost = ((a[:, None] - b) ** 2).sum(-1)
        return float(np.sqrt(cost[linear_sum_assignment(cost)].mean()))

    rng = np.random.default_rng(0)
    for seed in range(10):
        direction = rng.normal(size=6)
        slope = float(np.linalg.norm(direction))

        def F(points: np.ndarray, direction: np.ndarray = direction) -> np.ndarray:
            return np.sin(points @ direction)[:, None]

        pairs = [
            np.concatenate([rng.normal(size=(60, 1)), stored_labels(seed, ids(60, r), 5)], axis=1)
            for r in (0, 1, 2)
        ]
        seen, fresh, unseen = F(pairs[0]), F(pairs[1]), 1.2 * F(pairs[2])
        assert w2(fresh, unseen) <= slope * w2(pairs[1], pairs[0]) + w2(seen, unseen) + 1e-9
