"""T1: the field is globally Lipschitz, so solutions are unique and never blow up in finite time.

With L = max|A| + ||W||: |F(x) - F(y)| <= L |x - y|; two solutions obey
e^{-Lt} |x - y| <= |x(t) - y(t)| <= e^{Lt} |x - y|, and |z(t)| <= e^{Lt} (|z(0)| + |h| / L).
The claims are certain, so the false-alarm rate is 0 (a relative slack of 1e-9 covers rounding).
"""

import numpy as np
import pytest

from foretell.solve.piecewise import flow
from tests.solve.random_fields import random_field

pytestmark = pytest.mark.theory


def lipschitz(field):
    return np.abs(field.A).max() + np.linalg.norm(field.W, 2)


def test_the_field_is_lipschitz():
    rng = np.random.default_rng(0)
    tightest = 0.0
    for seed in range(300):
        field, _ = random_field(seed)
        x, y = rng.normal(size=(2, 50, field.n_units)) * 10.0 ** rng.uniform(-3, 3, (2, 50, 1))
        change = np.linalg.norm(field(x) - field(y), axis=1)
        ratio = change / np.linalg.norm(x - y, axis=1) / lipschitz(field)
        assert ratio.max() <= 1 + 1e-9
        tightest = max(tightest, ratio.max())
    assert tightest > 0.8  # the bound is not vacuous


def test_solutions_separate_and_approach_at_most_exponentially():
    for seed in range(200):
        field, x = random_field(seed, gain=1.5)
        y = x + np.random.default_rng(seed).normal(size=x.size) * 1e-2
        times = np.linspace(0.0, 2.0, 21)
        gap = np.linalg.norm(flow(field, x, times).states - flow(field, y, times).states, axis=1)
        growth = np.exp(lipschitz(field) * times)
        assert (gap <= gap[0] * growth * (1 + 1e-9)).all()
        assert (gap >= gap[0] / growth * (1 - 1e-9) - 1e-12).all()


def test_no_blow_up():
    for seed in range(200):
        field, z0 = random_field(seed, gain=3.0)
        times = np.linspace(0.0, 3.0, 16)
        run = flow(field, z0, times, max_norm=1e12)
        bound = lipschitz(field)
        reach = np.linalg.norm(z0) + np.linalg.norm(field.h) / bound
        ceiling = np.exp(bound * times) * reach * (1 + 1e-9)
        assert run.escaped_at is None or ceiling[-1] > 1e12
        sizes = np.linalg.norm(run.states, axis=1)
        assert (sizes[np.isfinite(sizes)] <= ceiling[np.isfinite(sizes)]).all()


def test_finitely_many_crossings():
    # No accumulation: on [0, 3] the number of crossings stays small for every field and start.
    for seed in range(300):
        field, z0 = random_field(seed, gain=2.0)
        assert len(flow(field, z0, [0.0, 3.0]).events) <= 20 * field.n_relu
