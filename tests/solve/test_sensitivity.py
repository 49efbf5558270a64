"""Jacobians and parameter gradients of the exact flow against central differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import expm

from foretell.core.errors import NumericalError, ParameterError
from foretell.solve.piecewise import (
    PiecewiseLinearField,
    flow,
    flow_jacobian,
    flow_parameter_gradient,
    segments,
)
from foretell.solve.piecewise.sensitivity import region_exponential
from tests.solve.random_fields import central_difference, exact_map, fitzhugh_nagumo, random_field


@pytest.mark.parametrize("seed", range(10))
def test_jacobian_against_central_differences(seed):
    field, z0 = random_field(seed, n_units=5, n_relu=4)
    result = flow_jacobian(field, z0, 4.0)
    slope = central_difference(lambda z: flow(field, z, [0.0, 4.0]).states[-1], z0)
    assert_allclose(result.jacobian, slope, rtol=0, atol=1e-8 * max(1.0, np.abs(slope).max()))


@pytest.mark.peer
@pytest.mark.parametrize("duration", [0.0, 1e-9, 0.3, 7.0, 60.0])
def test_region_exponential_against_scipy(duration):
    rng = np.random.default_rng(1)
    for matrix in (
        rng.normal(size=(20, 20)) / 4 - np.eye(20),
        np.diag([-1.0, -1.0, -1.0]) + np.diag([1.0, 1.0], 1),
        np.diag([2.0, 3.0], 1),
        np.zeros((2, 2)),
        np.diag([-1e4, -1.0]) + np.diag([1e3], 1),
    ):
        ours, peer = region_exponential(matrix, duration), expm(matrix * duration)
        assert_allclose(ours, peer, rtol=1e-9, atol=1e-12 * np.abs(peer).max())


def test_jacobian_chain_rule():
    field, z0 = fitzhugh_nagumo()
    first = flow_jacobian(field, z0, 13.0)
    second = flow_jacobian(field, first.state, 8.0)
    whole = flow_jacobian(field, z0, 21.0)
    assert_allclose(second.jacobian @ first.jacobian, whole.jacobian, rtol=0, atol=1e-10)
    assert_allclose(first.log_det + second.log_det, whole.log_det, rtol=1e-12)
    assert len(whole.events) == len(first.events) + len(second.events)


@pytest.mark.parametrize("seed", range(10))
def test_liouville(seed):
    field, z0 = random_field(seed, n_units=4, n_relu=3)
    result = flow_jacobian(field, z0, 3.0)
    sign, log_det = np.linalg.slogdet(result.jacobian)
    assert sign == 1.0
    assert abs(result.log_det - log_det) <= 1e-8


def test_segments_rebuild_the_run():
    field, z0 = fitzhugh_nagumo()
    run = flow(field, z0, [0.0, 7.0, 25.0])
    stays, z = segments(run), np.append(z0, 1.0)
    assert len(stays) == len(run.events) + 1 > 3
    for stay in stays:
        assert_allclose(z[:-1], stay.state, rtol=0, atol=1e-11)
        z = exact_map(field, stay.code, stay.duration) @ z
    assert_allclose(z[:-1], run.states[-1], rtol=0, atol=1e-11)
    assert abs(sum(stay.duration for stay in stays) - 25.0) < 1e-13


def test_segments_end_at_the_escape():
    field = PiecewiseLinearField(A=[1.0], W=[[0.0]], h=[0.0], n_relu=1)
    (stay,) = segments(flow(field, [1.0], [0.0, 100.0], max_norm=np.e))
    assert abs(stay.duration - 1.0) < 1e-12


def test_jacobian_with_input_and_from_a_boundary():
    field = PiecewiseLinearField(A=[0.0], W=[[-1.0]], h=[0.0], n_relu=1, C=[[1.0]])
    assert_allclose(flow_jacobian(field, [0.0], 2.0, control=[1.0]).jacobian, np.exp(-2.0))
    assert_allclose(flow_jacobian(field, [0.0], 2.0, control=[-1.0]).jacobian, 1.0)
    assert_array_equal(flow_jacobian(field, [3.0], 0.0, control=[1.0]).jacobian, [[1.0]])


@pytest.mark.parametrize("seed", range(8))
def test_parameter_gradient_against_central_differences(seed):
    field, z0 = random_field(seed, n_units=4, n_relu=3, n_inputs=2)
    rng = np.random.default_rng(seed)
    times, controls = np.array([0.0, 0.7, 1.0, 2.6, 3.0]), rng.normal(size=(5, 2))
    weights = rng.normal(size=(5, 4))
    start = {"A": field.A, "W": field.W, "h": field.h, "C": field.C, "z0": z0}

    def loss(name, value):
        p = {**start, name: value}
        changed = PiecewiseLinearField(p["A"], p["W"], p["h"], 3, p["C"])
        return np.sum(weights * flow(changed, p["z0"], times, controls=controls).states)

    gradient = flow_parameter_gradient(field, z0, times, weights, controls=controls)
    exact = {name: getattr(gradient, name) for name in start}
    scale = max(np.abs(value).max() for value in exact.values())
    for name, value in start.items():
        slope = central_difference(lambda x, name=name: loss(name, x), value)
        assert_allclose(exact[name], slope, rtol=0, atol=1e-6 * scale, err_msg=name)


def test_parameter_gradient_over_many_crossings():
    field, z0 = fitzhugh_nagumo()
    times, weights = np.linspace(0.0, 45.0, 16), np.ones((16, 4))
    gradient = flow_parameter_gradient(field, z0, times, weights)

    def loss(h):
        return flow(PiecewiseLinearField(field.A, field.W, h, 2), z0, times).states.sum()

    slope = central_difference(loss, field.h, 1e-7)
    assert len(flow(field, z0, times).events) > 8
    assert_allclose(gradient.h, slope, rtol=0, atol=1e-6 * np.abs(slope).max())
    jacobian = flow_jacobian(field, z0, 45.0).jacobian
    last = np.zeros((16, 4))
    last[-1] = [1.0, 2.0, 0.0, 0.0]
    backward = flow_parameter_gradient(field, z0, times, last)
    assert_allclose(backward.z0, last[-1] @ jacobian, rtol=0, atol=1e-11)
    assert backward.C is None


def test_a_grazing_run_has_a_finite_gradient():
    field = PiecewiseLinearField(A=[0.0, 0.0], W=[[0.0, 1.0], [1.0, 0.0]], h=[1.0, 0.0], n_relu=1)
    gradient = flow_parameter_gradient(field, [-1.0, 0.3], [0.0, 2.0], [[0.0, 0.0], [1.0, 1.0]])
    assert np.isfinite(gradient.W).all()


def test_bad_arguments():
    field, z0 = fitzhugh_nagumo()
    with pytest.raises(ParameterError, match="not negative"):
        flow_jacobian(field, z0, -1.0)
    with pytest.raises(ParameterError, match=r"cotangents has shape \(4,\)"):
        flow_parameter_gradient(field, z0, [0.0, 1.0], np.ones(4))
    unstable = PiecewiseLinearField(A=[1.0], W=[[0.0]], h=[0.0], n_relu=0)
    with pytest.raises(NumericalError, match=r"escapes .* at t=13\.8"):
        flow_jacobian(unstable, [1.0], 20.0)
    with pytest.raises(NumericalError, match="escapes"):
        flow_parameter_gradient(unstable, [1.0], [0.0, 20.0], np.ones((2, 1)))
