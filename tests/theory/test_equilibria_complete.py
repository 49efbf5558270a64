"""Completeness: the certificate and the exhaustive search list the same equilibria.

Deterministic fields; no false-alarm rate.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from foretell.solve.piecewise.equilibria import equilibria
from foretell.solve.piecewise.field import PiecewiseLinearField

pytestmark = pytest.mark.theory


def random_field(seed: int, M: int, P: int) -> PiecewiseLinearField:
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(M, M)) * 2.0 / math.sqrt(M)
    return PiecewiseLinearField(-np.abs(rng.normal(size=M)) - 0.2, W, rng.normal(size=M), P)


def same(a, b) -> bool:
    return bool(np.abs(a.state - b.state).max() < 1e-9 * max(1.0, np.abs(a.state).max()))


@pytest.mark.parametrize("seed", range(8))
def test_three_searches_agree(seed):
    field = random_field(seed, 16, 10)
    complete = equilibria(field, method="exhaustive")
    boxed = equilibria(field, method="milp", box=50.0)
    quick = equilibria(field, method="scyfi", random_state=seed)
    inside = [point for point in complete if np.abs(point.state).max() <= 50.0]
    assert boxed.completeness == "complete in box"
    assert len(boxed) == len(inside)
    assert all(any(same(a, b) for b in boxed) for a in inside)
    assert all(any(same(a, b) for b in complete) for a in quick)


def test_equilibria_of_many_regions_are_all_listed():
    """Eight uncoupled units have an equilibrium in each of the 2^8 regions, and none is missed.

    Each unit has dz/dt = -z + 3 relu(z) - 1/2: equilibria at -1/2 and 1/4, so 2^8 in all.
    """
    field = PiecewiseLinearField(-np.ones(8), 3.0 * np.eye(8), np.full(8, -0.5), 8)
    found = equilibria(field)
    assert len(found) == 2**8
    assert sum(point.stable for point in found) == 1
    field = PiecewiseLinearField(-np.ones(5), 3.0 * np.eye(5), np.full(5, -0.5), 5)
    boxed = equilibria(field, method="milp")
    assert len(boxed) == 2**5
