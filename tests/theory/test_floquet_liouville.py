"""Floquet theory: Liouville's formula, and multipliers that span hundreds of orders.

Deterministic; no false-alarm rate.
"""

from __future__ import annotations

import numpy as np
import pytest

from foretell.data.systems import chua_field, pl_fitzhugh_nagumo_field
from foretell.solve.piecewise.cycles import limit_cycles
from foretell.solve.piecewise.exponents import lyapunov_spectrum
from foretell.solve.piecewise.field import PiecewiseLinearField
from foretell.solve.piecewise.floquet import log_multipliers
from foretell.solve.piecewise.sensitivity import flow_jacobian

START = [0.5, 0.1, 0.375, -0.125]


pytestmark = pytest.mark.theory


def neuron() -> PiecewiseLinearField:
    return PiecewiseLinearField(**pl_fitzhugh_nagumo_field())


def test_liouville_on_stable_and_saddle_cycles():
    cycles = [*limit_cycles(neuron(), START, backward=False)]
    chua = PiecewiseLinearField(**chua_field())
    cycles += limit_cycles(chua, [[0.7, 0.0, 0.0, 1.7, -0.3]], backward=False)
    assert len(cycles) > 3
    for cycle in cycles:
        durations = np.diff([0.0, *cycle.events.times, cycle.period])
        traces = [np.trace(cycle.field.matrix(code)) for code in cycle.codes]
        log_det = cycle.exponents.real.sum() * cycle.period
        assert log_det == pytest.approx(float(np.dot(traces, durations)), rel=1e-9)
        assert cycle.liouville_error <= 1e-8


def test_multipliers_are_the_eigenvalues_of_the_monodromy_matrix():
    (cycle,) = limit_cycles(neuron(), START, backward=False)
    plain = np.linalg.eigvals(flow_jacobian(neuron(), cycle.state, cycle.period).jacobian)
    largest = np.sort(np.abs(plain))[::-1][:2]
    assert np.abs(cycle.multipliers[:2]) == pytest.approx(largest, rel=1e-7)


def test_a_multiplier_that_underflows_keeps_its_exponent():
    """One more linear unit, driven by the cycle, forgets at a rate of 200 per time unit."""
    slow = neuron()
    A, W, h = np.append(-200.0, slow.A), np.zeros((5, 5)), np.append(0.0, slow.h)
    W[1:, 1:] = slow.W
    W[0, 1] = 200.0
    field = PiecewiseLinearField(A, W, h, 2)
    (cycle,) = limit_cycles(field, [0.5, *START], backward=False)
    (bare,) = limit_cycles(slow, START, backward=False)
    assert cycle.multipliers[-1] == 0.0
    assert cycle.exponents[-1].real == pytest.approx(-200.0, rel=1e-10)
    assert cycle.exponents[:4].real == pytest.approx(bare.exponents.real, abs=1e-8)
    assert cycle.liouville_error <= 1e-8
    assert cycle.trivial_error <= 1e-6


@pytest.mark.parametrize("seed", range(5))
def test_products_of_random_factors(seed):
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(6, 6)) for _ in range(4)]
    product = np.linalg.multi_dot(factors[::-1])
    expected = np.sort(np.log(np.abs(np.linalg.eigvals(product))))
    found = log_multipliers(factors)
    assert np.sort(found.real) == pytest.approx(expected, abs=1e-7)
    complex_found = np.sort_complex(np.exp(found))
    assert complex_found == pytest.approx(np.sort_complex(np.linalg.eigvals(product)), rel=1e-6)


def test_complex_pairs_and_signs_survive():
    """60 factors of moderate condition whose product has eigenvalues -2, 1e-30 (+-i), 1e-60."""
    n, rng = 60, np.random.default_rng(0)
    angle = np.pi / 2 / n
    core = np.zeros((4, 4))
    core[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    core[:2, :2] *= 1e-30 ** (1 / n)
    core[2, 2], core[3, 3] = 2.0 ** (1 / n), 1e-60 ** (1 / n)
    bases = [rng.normal(size=(4, 4)) + 3.0 * np.eye(4) for _ in range(n)]
    flip = np.diag([1.0, 1.0, -1.0, 1.0])
    factors = [
        bases[(k + 1) % n] @ core @ (flip if k == 0 else np.eye(4)) @ np.linalg.inv(bases[k])
        for k in range(n)
    ]
    logs = log_multipliers(factors)
    assert logs[0].real == pytest.approx(np.log(2.0), abs=1e-10)
    assert abs(logs[0].imag) == pytest.approx(np.pi)
    assert logs[1:3].real == pytest.approx(np.full(2, np.log(1e-30)), abs=1e-10)
    assert np.sort(logs[1:3].imag) == pytest.approx([-np.pi / 2, np.pi / 2], abs=1e-10)
    assert logs[3].real == pytest.approx(np.log(1e-60), abs=1e-10)


def test_floquet_exponents_are_the_lyapunov_exponents_of_the_cycle():
    (cycle,) = limit_cycles(neuron(), START, backward=False)
    spectrum = lyapunov_spectrum(
        neuron(), cycle.state, 32 * 25 * cycle.period, transient=10 * cycle.period
    )
    assert spectrum.exponents == pytest.approx(cycle.exponents.real, abs=1e-5)
