"""The register-blocked products against NumPy."""

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_allclose, assert_array_equal

from foretell.solve.piecewise.simd import add_product, add_transposed_product


@njit
def both(out, E, z, out_transposed):
    add_product(out, E, z)
    add_transposed_product(out_transposed, E, z)


@pytest.mark.parametrize("n", range(4, 65, 4))
def test_products(n):
    rng = np.random.default_rng(n)
    E, z = rng.normal(size=(n, n)), rng.normal(size=n)
    start = rng.normal(size=(2, n))
    out = start.copy()
    both(out[0], E, z, out[1])
    atol = 1e-15 * n * np.abs(E).max() * np.abs(z).max()
    assert_allclose(out[0], start[0] + E @ z, rtol=0, atol=atol)
    assert_allclose(out[1], start[1] + E.T @ z, rtol=0, atol=atol)


def test_parts_of_larger_arrays():
    rng = np.random.default_rng(0)
    E, z, out = rng.normal(size=(3, 2, 8, 8)), rng.normal(size=(5, 8)), np.zeros((4, 8))
    both(out[2], E[1, 1], z[3], out[0])
    assert_allclose(out[2], E[1, 1] @ z[3], rtol=1e-13)
    assert_allclose(out[0], E[1, 1].T @ z[3], rtol=1e-13)
    assert not out[[1, 3]].any()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_stays_visible(bad):
    E, z, out = np.ones((8, 8)), np.ones(8), np.zeros((2, 8))
    E[2, 5] = bad
    both(out[0], E, z, out[1])
    assert_array_equal(np.isfinite(out[0]), np.arange(8) != 2)
    assert_array_equal(np.isfinite(out[1]), np.arange(8) != 5)
