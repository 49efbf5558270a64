"""Encoders in closed form glue: positions and velocities meet at the jumps, or do not.

The two conditions of the embedding theorem, checked on exact pre- and post-jump states. Nothing is
random but the places; there are no false alarms.
"""

import numpy as np
import pytest

from foretell.dynamics.hybrid import position_gaps, velocity_gaps
from foretell.solve.piecewise import bouncing_ball

pytestmark = pytest.mark.theory

TURN = 2 * np.pi
PLACES = np.random.default_rng(0).uniform(0.02, 0.98, 200)


def gaps(encode, field, before, after):
    return (
        float(position_gaps(encode, before, after).max()),
        float(velocity_gaps(encode, field, before, after).max()),
    )


def test_arcs_become_one_circle():
    def encode(x):
        first = np.column_stack([np.sin(np.pi * x), np.cos(np.pi * x)])
        second = np.column_stack([0.5 * np.sin(np.pi * (x - 1)), np.cos(np.pi * (x - 1))])
        return np.where(x < 1.5, first, second)

    def field(x):
        return np.where(x < 1.5, 1.0, 2.0)

    before, after = np.array([[1.0], [3.0]]), np.array([[2.0], [0.0]])
    assert np.allclose(encode(before[:1]), [[0.0, -1.0]])
    position, velocity = gaps(encode, field, before, after)
    assert position < 1e-12
    assert velocity < 1e-8


def test_a_square_with_opposite_sides_becomes_a_torus():
    def encode(x):
        a, b = TURN * x[:, 0], TURN * x[:, 1]
        return np.column_stack([np.cos(a), np.sin(a), np.cos(b), np.sin(b)])

    one = np.ones_like(PLACES)
    before = np.concatenate([np.column_stack([one, PLACES]), np.column_stack([PLACES, one])])
    after = np.where(before == 1.0, 0.0, before)
    position, velocity = gaps(encode, lambda x: np.tile([1.0, 0.5], (len(x), 1)), before, after)
    assert position < 1e-12
    assert velocity < 1e-7


def klein(x):
    a, b = TURN * x[:, 0], TURN * x[:, 1]
    ring = 2 + np.cos(b)
    return np.column_stack(
        [ring * np.cos(a), ring * np.sin(a), np.sin(b) * np.cos(a / 2), np.sin(b) * np.sin(a / 2)]
    )


def test_a_klein_bottle_glues_a_field_that_respects_the_flip_and_no_other():
    before = np.column_stack([np.ones_like(PLACES), PLACES])
    after = np.column_stack([np.zeros_like(PLACES), 1.0 - PLACES])

    def compatible(x):
        return np.column_stack([np.ones(len(x)), 0.35 * np.sin(TURN * x[:, 1])])

    position, velocity = gaps(klein, compatible, before, after)
    assert position < 1e-12
    assert velocity < 1e-7
    position, velocity = gaps(klein, lambda x: np.tile([1.0, 0.35], (len(x), 1)), before, after)
    assert position < 1e-12
    assert velocity > 4.0  # 2 * 0.35 * 2 pi, where the sine turns


def ball_states():
    """Exact states around the bounces of an elastic ball."""
    jumps = bouncing_ball(1.0, gravity=9.81).simulate([1.0, 0.3], [0.0, 6.0]).jumps
    return jumps.states_before, jumps.states_after


def fall(x):
    return np.column_stack([x[:, 1], np.full(len(x), -9.81)])


def test_squaring_glues_the_positions_of_a_ball_and_not_its_velocities():
    def encode(x):
        return np.column_stack([x[:, 0] ** 2 - x[:, 1] ** 2, 2 * x[:, 0] * x[:, 1]])

    position, velocity = gaps(encode, fall, *ball_states())
    assert position < 1e-10
    assert velocity > 10.0


def test_energy_and_phase_glue_both():
    g = 9.81

    def encode(x):
        energy = g * x[:, 0] + x[:, 1] ** 2 / 2
        fastest = np.sqrt(2 * energy)
        phase = np.pi * (1 - x[:, 1] / fastest)  # 0 after a bounce, 2 pi before the next one
        return np.column_stack([energy, energy * np.cos(phase), energy * np.sin(phase)])

    position, velocity = gaps(encode, fall, *ball_states())
    assert position < 1e-9
    assert velocity < 1e-5


@pytest.mark.parametrize("restitution", [1.0, 0.9])
def test_the_saltation_matrix_is_the_derivative_across_a_jump(restitution):
    system = bouncing_ball(restitution, gravity=9.81)
    start, duration, near = np.array([0.8, 0.1]), 0.7, 1e-6
    exact = system.jacobian(start, duration).jacobian
    ends = [
        system.simulate(start + sign * near * axis, [0.0, duration]).states[-1]
        for axis in np.eye(2)
        for sign in (1, -1)
    ]
    differences = np.column_stack(
        [(ends[0] - ends[1]) / (2 * near), (ends[2] - ends[3]) / (2 * near)]
    )
    assert np.allclose(exact, differences, rtol=1e-6, atol=1e-6)
    (guard,) = system.guards
    velocity = -np.sqrt(0.1**2 + 2 * 9.81 * 0.8)
    S = system.saltation_matrix(0, [0.0, velocity])
    flow_before, flow_after = (
        np.array([velocity, -9.81]),
        np.array([-restitution * velocity, -9.81]),
    )
    assert np.allclose(S @ flow_before, flow_after)  # motion goes over into motion
    assert guard.direction == -1


def test_gluing_across_a_step_does_not_hold_the_motion_up():
    """On exact samples the gap falls with the third power of the step, a difference with the first.

    The gap of velocities falls with the first power: between the two lies a curved piece.
    """
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from foretell.data.hybrid_systems import torus
    from foretell.dynamics.hybrid.training import _seam_gaps

    found = []
    for step in (0.04, 0.02):
        values = torus(1, 200, step=step, random_state=0).trajectories.values[0]
        angle = TURN * torch.from_numpy(np.stack([values], axis=1))
        Z = torch.cat([torch.sin(angle), torch.cos(angle)], dim=-1)
        jump = torch.from_numpy((np.abs(np.diff(values, axis=0)).max(axis=1) > 0.5) * 1.0)[:, None]
        position, velocity = _seam_gaps(
            Z, torch.full_like(jump, step), jump, torch.ones(200, 1, dtype=Z.dtype)
        )
        apart = (Z[1:] - Z[:-1]).pow(2).mean(dim=-1)[jump > 0].mean()
        found.append([float(v.sqrt()) for v in (position, velocity, apart)])
    position, velocity, apart = np.divide(*found)
    assert position > 7.0
    assert 1.9 < velocity < 2.1
    assert 1.9 < apart < 2.1
