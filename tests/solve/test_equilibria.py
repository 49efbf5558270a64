"""Equilibria: agreement of the three searches, kinds in words, singular and boundary cases."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from foretell.core.errors import ParameterError
from foretell.solve.piecewise.equilibria import equilibria
from foretell.solve.piecewise.field import PiecewiseLinearField
from foretell.solve.piecewise.stability import classify


def random_field(seed: int, M: int, P: int) -> PiecewiseLinearField:
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(M, M)) * 2.0 / math.sqrt(M)
    return PiecewiseLinearField(-np.abs(rng.normal(size=M)) - 0.2, W, rng.normal(size=M), P)


def linear(matrix, h, n_relu=0) -> PiecewiseLinearField:
    matrix = np.asarray(matrix, dtype=float)
    return PiecewiseLinearField(np.zeros(len(matrix)), matrix, h, n_relu)


def chua() -> PiecewiseLinearField:
    """Chua's circuit with v1 carried twice as the rectified v1 - 1 and v1 + 1 (M=5, P=2).

    dx = a (y - x - f(x)), dy = x - y + z, dz = -b y, f(x) = m1 x + (m0 - m1) (|x+1| - |x-1|) / 2
    """
    a, b, m0, m1 = 15.6, 28.0, -8 / 7, -5 / 7
    rows = np.zeros((5, 5))
    # (|x+1| - |x-1|) / 2 = relu(x + 1) - relu(x - 1) - 1
    rows[0, :3] = [-a * (1 + m1), a, 0.0]
    rows[0, 3:] = [-a * (m0 - m1), a * (m0 - m1)]
    h0 = a * (m0 - m1)
    rows[1, :3] = [1.0, -1.0, 1.0]
    rows[2, 1] = -b
    A = np.array([0.0, 0.0, 0.0, -1.0, -1.0])
    for unit in (3, 4):  # d(q - x - shift)/dt = -(q - x - shift), shift = 1 and -1
        rows[unit] = rows[0]
        rows[unit, 0] += 1.0
    h = np.array([h0, 0.0, 0.0, h0 + 1.0, h0 - 1.0])
    return PiecewiseLinearField(A, rows, h, 2)


@pytest.mark.parametrize("seed", range(4))
def test_found_points_are_real_equilibria(seed):
    field = random_field(seed, 20, 10)
    for point in equilibria(field):
        assert np.abs(field(point.state)).max() < 1e-12 * max(1, np.abs(point.state).max())
        assert (field.code(point.state) == point.code).all()
        expected = np.linalg.eigvals(field.matrix(point.code)).real
        assert point.unstable_dimension == (expected > 0).sum()
        assert point.stable == (expected < 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_exhaustive_search_matches_solving_each_region(seed):
    field = random_field(seed, 7, 5)
    slow = []
    for number in range(32):
        code = np.array([number >> bit & 1 for bit in range(5)], dtype=bool)
        state = np.linalg.solve(field.matrix(code), -field.h)
        if (field.code(state) == code).all():
            slow.append(state)
    found = equilibria(field, method="exhaustive")
    assert found.completeness == "complete"
    assert found.n_solves == 32
    assert len(found) == len(slow)
    for state in slow:
        assert min(np.abs(state - point.state).max() for point in found) < 1e-10


def test_fourteen_rectified_units_of_fifty_are_solved_exhaustively():
    field = random_field(6, 50, 14)
    found = equilibria(field)
    assert found.n_solves == 2**14
    assert found.completeness == "complete"
    for point in found:
        assert np.abs(field(point.state)).max() < 1e-11


def test_chua_has_its_three_known_equilibria():
    found = equilibria(chua())
    x = sorted(point.state[0] for point in found)
    assert x == pytest.approx([-1.5, 0.0, 1.5], abs=1e-12)
    kinds = {round(point.state[0], 6): point for point in found}
    assert kinds[0.0].unstable_dimension == 1
    assert kinds[1.5].unstable_dimension == kinds[-1.5].unstable_dimension == 2
    assert kinds[1.5].kind == "saddle-focus"


@pytest.mark.parametrize("method", ["exhaustive", "scyfi", "milp"])
def test_linear_field_without_rectified_units(method):
    found = equilibria(linear([[-1.0, 2.0], [-2.0, -1.0]], [1.0, 0.0]), method=method)
    assert len(found) == 1
    assert found[0].kind == "stable focus"
    assert found[0].state == pytest.approx([0.2, -0.4])


def test_control_moves_the_equilibrium():
    field = PiecewiseLinearField([-1.0], [[0.0]], [0.0], 0, C=[[2.0]])
    assert equilibria(field, control=[1.5])[0].state == pytest.approx([3.0])


def test_boundary_equilibrium_lists_both_sides_and_is_merged():
    # relaxes at rate 1 below zero and at rate 3 above, with the equilibrium exactly between
    found = equilibria(PiecewiseLinearField([-1.0], [[-2.0]], [0.0], 1))
    assert len(found) == 1
    point = found[0]
    assert point.status == "boundary"
    assert [side.eigenvalues[0].real for side in point.sides] == pytest.approx([-1.0, -3.0])
    assert point.stable  # one quadratic function serves both sides
    assert "boundary" in repr(point)


def test_boundary_equilibrium_with_a_growing_side_is_not_called_stable():
    point = equilibria(PiecewiseLinearField([-1.0], [[3.0]], [0.0], 1))[0]
    assert not point.stable
    assert point.unstable_dimension == 1
    assert point.kind == "stable node | unstable node"


def test_boundary_equilibrium_without_a_common_quadratic_function_is_undecided():
    field = PiecewiseLinearField([-0.01, -0.01], [[0.0, 9.9], [-1.0, 0.0]], [0.0, 0.0], 1)
    point = equilibria(field)[0]
    assert point.status == "boundary"
    assert point.unstable_dimension == 0
    assert not point.stable
    assert "not decided" in point.kind


def test_all_units_at_the_origin_is_one_point_with_a_bounded_list_of_sides():
    field = PiecewiseLinearField(-np.ones(12), 0.05 * np.ones((12, 12)), np.zeros(12), 10)
    found = equilibria(field)
    assert len(found) == 1
    assert len(found[0].sides) == 64


def test_unit_at_rest_gives_a_continuum_and_no_crash():
    # the rectified unit never moves (its row is zero), so every value of it is an equilibrium
    field = PiecewiseLinearField([-1.0, 0.0], [[0.0, 1.0], [0.0, 0.0]], [0.5, 0.0], 1)
    found = equilibria(field)
    assert len(found) == 0
    assert len(found.continua) == 2
    assert found.n_singular == 2
    for flat in found.continua:
        for step in (-0.1, 0.3):
            assert np.abs(field(flat.state + step * flat.directions[0])).max() < 1e-12
    assert "EquilibriumContinuum(1-dimensional" in repr(found)


def test_singular_region_without_solution_is_counted_and_skipped():
    field = PiecewiseLinearField([-1.0, 0.0], [[0.0, 1.0], [0.0, 0.0]], [0.5, 1.0], 1)
    found = equilibria(field)
    assert len(found) == len(found.continua) == 0
    assert found.n_singular == 2


def test_zero_field_is_a_continuum_in_every_direction():
    found = equilibria(PiecewiseLinearField(np.zeros(3), np.zeros((3, 3)), np.zeros(3), 1))
    assert {len(flat.directions) for flat in found.continua} == {3}


def test_continuum_that_misses_its_region_is_not_reported():
    # singular with solutions z_1 = -1 only, so nothing lives in the region z_1 > 0
    field = PiecewiseLinearField([0.0, -1.0], np.zeros((2, 2)), [0.0, -1.0], 1)
    found = equilibria(field)
    assert [bool(flat.code[0]) for flat in found.continua] == [False]


def test_large_p_uses_the_certificate():
    rng = np.random.default_rng(4)
    W, h = 0.1 * rng.normal(size=(16, 16)), rng.normal(size=16)
    field = PiecewiseLinearField(-np.ones(16), W, h, 16)
    found = equilibria(field)
    assert found.method == "milp"
    assert found.completeness == "complete in box"
    assert found.statement == "complete in box |z| <= 50"
    assert len(found) == 1


def test_certificate_without_time_says_heuristic():
    found = equilibria(random_field(0, 8, 4), method="milp", time_limit=0.0)
    assert found.completeness == "heuristic"


def test_same_seed_same_answer():
    field = random_field(2, 20, 10)
    first, again = (equilibria(field, method="scyfi", random_state=5) for _ in range(2))
    assert first.n_solves == again.n_solves
    assert [p.state.tolist() for p in first] == [p.state.tolist() for p in again]


@pytest.mark.parametrize(
    ("kwargs", "fragment"),
    [
        ({"method": "newton"}, "'newton' is unknown"),
        ({"box": -1.0}, "box=-1.0"),
        ({"box": np.inf}, "box=inf"),
        ({"n_restarts": 0}, "n_restarts=0"),
    ],
)
def test_impossible_arguments(kwargs, fragment):
    with pytest.raises(ParameterError, match=fragment):
        equilibria(random_field(0, 4, 2), **kwargs)


def test_exhaustive_search_refuses_too_many_regions():
    with pytest.raises(ParameterError, match=r"2\^21 regions.*milp"):
        equilibria(random_field(0, 21, 21), method="exhaustive")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([-1.0, -2.0], "stable node"),
        ([1.0, 2.0], "unstable node"),
        ([1 + 1j, 1 - 1j], "unstable focus"),
        ([-0.1, -1 + 2j, -1 - 2j], "stable node"),
        ([1.0, -2.0], "saddle"),
        ([1.0, -2 + 1j, -2 - 1j], "saddle-focus"),
        ([0.0, -1.0], "centre-like"),
        ([2j, -2j, 1.0], "centre-like, 1 unstable"),
        ([0.0, 0.0], "centre-like"),
    ],
)
def test_kinds_in_words(values, kind):
    assert classify(np.array(values, dtype=complex)) == kind


def test_results_can_be_written_as_json():
    text = json.dumps(equilibria(chua()).to_dict())
    assert "saddle-focus" in text


def test_scaling_the_state_changes_nothing():
    field = chua()
    small = PiecewiseLinearField(field.A, field.W, 1e-9 * field.h, 2)
    states = [1e9 * point.state for point in equilibria(small)]
    assert np.allclose(states, [point.state for point in equilibria(field)], atol=1e-9)
