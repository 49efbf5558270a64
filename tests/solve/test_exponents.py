"""Lyapunov spectra: linear fields, a chaotic circuit, escapes, and long runs."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

from foretell.core.errors import NumericalError, ParameterError
from foretell.data.systems import chua_field, pl_fitzhugh_nagumo_field
from foretell.solve.piecewise.exponents import lyapunov_spectrum
from foretell.solve.piecewise.field import PiecewiseLinearField


def linear(matrix) -> PiecewiseLinearField:
    matrix = np.asarray(matrix, dtype=float)
    return PiecewiseLinearField(np.zeros(len(matrix)), matrix, np.zeros(len(matrix)), 0)


def chua() -> PiecewiseLinearField:
    return PiecewiseLinearField(**chua_field())


CHUA_START = [0.7, 0.0, 0.0, 1.7, -0.3]


@pytest.mark.parametrize("seed", range(3))
def test_linear_fields_have_the_real_parts_of_their_eigenvalues(seed):
    matrix = np.random.default_rng(seed).normal(size=(6, 6)) - 4.0 * np.eye(6)
    spectrum = lyapunov_spectrum(linear(matrix), np.ones(6), 50.0)
    expected = np.sort(np.linalg.eigvals(matrix).real)[::-1]
    assert spectrum.exponents == pytest.approx(expected, abs=1e-10)
    assert spectrum.sum_error < 1e-10
    assert spectrum.n_crossings == 0


def test_crossings_of_a_unit_that_feeds_nothing_do_not_matter():
    W = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    field = PiecewiseLinearField([0.0, 0.0, -0.7], W, np.zeros(3), 1)
    spectrum = lyapunov_spectrum(field, [1.0, 0.0, 0.3], 200.0)
    assert spectrum.n_crossings > 50
    assert spectrum.exponents == pytest.approx([0.0, 0.0, -0.7], abs=5e-3)
    assert spectrum.sum_error < 1e-11


def test_double_scroll_is_chaotic_and_consistent():
    spectrum = lyapunov_spectrum(chua(), CHUA_START, 4000.0)
    assert 0.38 < spectrum.exponents[0] < 0.48
    assert abs(spectrum.exponents[1]) < 4 * spectrum.standard_errors[1] + 5e-3
    assert spectrum.exponents[-1] < -3.0
    assert spectrum.sum_error < 1e-9
    assert spectrum.exponents.sum() == pytest.approx(spectrum.mean_divergence, abs=1e-9)
    # the two copies of x relax at rate 1 and take no part
    assert spectrum.exponents[2:4] == pytest.approx([-1.0, -1.0], abs=1e-2)
    assert 2.0 < spectrum.kaplan_yorke_dimension < 2.6


def test_standard_errors_cover_the_difference_between_runs():
    first = lyapunov_spectrum(chua(), CHUA_START, 2000.0)
    again = lyapunov_spectrum(chua(), first.state, 2000.0, transient=100.0)
    joint = np.hypot(first.standard_errors, again.standard_errors)[0]
    assert 0.0 < joint < 0.1
    assert abs(first.exponents[0] - again.exponents[0]) < 6 * joint


def test_the_largest_exponents_alone_agree_with_the_whole_spectrum():
    whole = lyapunov_spectrum(chua(), CHUA_START, 1000.0)
    leading = lyapunov_spectrum(chua(), CHUA_START, 1000.0, n_exponents=2)
    assert leading.exponents.shape == (2,)
    assert leading.exponents == pytest.approx(whole.exponents[:2], abs=2e-2)
    assert leading.sum_error is None
    assert leading.kaplan_yorke_dimension is None


def test_time_unit_scales_the_exponents():
    field = PiecewiseLinearField(**pl_fitzhugh_nagumo_field())
    fast = PiecewiseLinearField(1e3 * field.A, 1e3 * field.W, 1e3 * field.h, 2)
    start = [0.5, 0.1, 0.375, -0.125]
    slow, quick = lyapunov_spectrum(field, start, 2000.0), lyapunov_spectrum(fast, start, 2.0)
    assert quick.exponents == pytest.approx(1e3 * slow.exponents, abs=1e-3)


def test_twenty_units_for_ten_thousand_time_units_take_seconds():
    # fifteen damped linear units driven by a double scroll
    rng, inner = np.random.default_rng(5), chua()
    A, big, h = -np.ones(20), 0.05 * rng.normal(size=(20, 20)), rng.normal(size=20)
    big[15:, 15:] = inner.W
    big[15:, :15] = 0.0
    A[15:], h[15:] = inner.A, inner.h
    field = PiecewiseLinearField(A, big, h, 2)
    start = np.concatenate([np.zeros(15), CHUA_START])
    lyapunov_spectrum(field, start, 1.0)
    begin = time.process_time()
    spectrum = lyapunov_spectrum(field, start, 1e4)
    assert time.process_time() - begin < 20.0
    assert spectrum.exponents[0] == pytest.approx(0.43, abs=0.04)
    assert spectrum.sum_error < 1e-8
    assert spectrum.n_crossings > 5000


def test_an_escaping_orbit_is_an_error_with_its_time():
    with pytest.raises(NumericalError, match=r"escapes.*basin"):
        lyapunov_spectrum(linear([[1.0]]), [1.0], 100.0)


def test_growth_in_regions_met_later_does_not_overflow():
    # starts where every rate is -1; other regions of this inhibitory network grow fast
    rng = np.random.default_rng(0)
    W = rng.normal(size=(20, 20)) * 3.0 / np.sqrt(20) - 6.0 / np.sqrt(20)
    field = PiecewiseLinearField(-np.ones(20), W, 0.3 * rng.normal(size=20) + 1.0, 20)
    spectrum = lyapunov_spectrum(field, np.zeros(20), 1000.0)
    assert np.isfinite(spectrum.exponents).all()
    assert spectrum.sum_error < 1e-9


def test_coupled_double_scrolls_have_one_positive_exponent_each():
    arrays, n = chua_field(), 3
    order = [5 * k + i for k in range(n) for i in (0, 1, 2)]
    order += [5 * k + i for k in range(n) for i in (3, 4)]
    W = np.kron(np.eye(n), arrays["W"])
    for k in range(n):
        W[5 * k + 1, 5 * ((k + 1) % n) + 1] += 0.02
    A, h = (np.tile(arrays[name], n)[order] for name in ("A", "h"))
    field = PiecewiseLinearField(A, W[np.ix_(order, order)], h, 2 * n)
    start = np.array([[0.7 + 0.1 * k, 0, 0, 1.7 + 0.1 * k, 0.1 * k - 0.3] for k in range(n)])
    spectrum = lyapunov_spectrum(field, start.ravel()[order], 1000.0)
    assert (spectrum.exponents[:3] > 0.25).all()
    assert spectrum.exponents[3] < 0.1
    assert spectrum.n_regions > 20
    assert spectrum.sum_error < 1e-9


def test_zero_field():
    spectrum = lyapunov_spectrum(linear(np.zeros((2, 2))), [1.0, 2.0], 10.0)
    assert spectrum.exponents.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("kwargs", "fragment"),
    [
        ({"duration": 0.0}, "duration=0.0"),
        ({"duration": 1.0, "transient": -1.0}, "transient=-1.0"),
        ({"duration": 1.0, "n_exponents": 7}, "n_exponents=7"),
        ({"duration": 1.0, "n_exponents": 0}, "n_exponents=0"),
    ],
)
def test_impossible_arguments(kwargs, fragment):
    with pytest.raises(ParameterError, match=fragment):
        lyapunov_spectrum(chua(), CHUA_START, **kwargs)


def test_repr_and_dict_are_for_people_and_files():
    spectrum = lyapunov_spectrum(chua(), CHUA_START, 100.0)
    assert "+-" in repr(spectrum)
    assert len(json.loads(json.dumps(spectrum.to_dict()))["exponents"]) == 5
