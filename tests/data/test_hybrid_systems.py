"""Systems that jump in closed form: against the piecewise-linear engine, and by their laws."""

import numpy as np
import pytest

from foretell.core import NumericalError, ParameterError
from foretell.data import hybrid_systems
from foretell.data.hybrid_systems import JumpingSystem, ball, box_ball, klein, lif_pair, torus
from foretell.solve.piecewise import AffineMode, Guard, PWLHybridSystem, bouncing_ball


@pytest.mark.parametrize("restitution", [1.0, 0.9])
def test_the_ball_is_that_of_the_exact_engine(restitution):
    data = ball(3, 90, restitution=restitution, random_state=0)
    system = bouncing_ball(restitution, gravity=9.81)
    for values, t, jumps in zip(
        data.trajectories.values, data.trajectories.times, data.jump_times, strict=True
    ):
        run = system.simulate(values[0], t)
        assert np.allclose(run.states, values, atol=1e-9)
        assert np.allclose(run.jumps.times, jumps, atol=1e-10)


def test_a_ball_stops_before_its_bounces_pile_up():
    data = ball(5, 2000, restitution=0.5, random_state=0)
    assert max(t.size for t in data.trajectories.times) < 200
    with pytest.raises(NumericalError, match="accumulate"):
        JumpingSystem(lambda z, t: z + 0 * t[:, None], lambda z: 0.0, lambda z: z, ("x",)).follow(
            np.zeros(1), np.arange(3.0)
        )


def test_the_pair_of_neurons_is_that_of_the_exact_engine():
    data = lif_pair(2, 120, coupling=0.02, random_state=1)
    leak = AffineMode(-np.eye(2), [1.2, 1.3])
    guards = [
        Guard(
            mode=0, target=0, normal=np.eye(2)[k], level=1.0, direction=1,
            reset_matrix=np.diag(np.eye(2)[1 - k]), reset_offset=0.02 * np.eye(2)[1 - k],
        )
        for k in (0, 1)
    ]  # fmt: skip
    system = PWLHybridSystem([leak], guards)
    for values, t, jumps in zip(
        data.trajectories.values, data.trajectories.times, data.jump_times, strict=True
    ):
        run = system.simulate(values[0], t)
        together = np.diff(run.jumps.times, prepend=-1.0) > 1e-9
        assert np.allclose(run.jumps.times[together][: len(jumps)], jumps, atol=1e-9)
        assert np.allclose(run.states, values, atol=1e-8)


def test_torus_and_klein_bottle_follow_their_formulas():
    data = torus(4, 80, random_state=0).trajectories
    for values, t in zip(data.values, data.times, strict=True):
        assert np.allclose(values, (values[0] + np.outer(t, [1.0, 0.5])) % 1.0, atol=1e-9)
    bottle = klein(4, 80, compatible=True, random_state=0).trajectories
    for values, t in zip(bottle.values, bottle.times, strict=True):
        turns = np.floor(values[0, 0] + t + 1e-9).astype(int)
        y = np.where(turns % 2 == 1, 1.0 - values[:, 1], values[:, 1])
        law = np.tan(np.pi * values[0, 1]) * np.exp(2 * np.pi * 0.35 * t)
        assert np.allclose(np.arctan(1 / np.tan(np.pi * y)), np.arctan(1 / law), atol=1e-6)


def test_a_ball_in_a_box_stays_inside_and_keeps_its_energy_between_floors():
    data = box_ball(4, 100, restitution=1.0, random_state=0).trajectories
    for values in data.values:
        assert values[:, :2].min() >= -1e-9
        assert values[:, :2].max() <= 1 + 1e-9
        assert values[:, 2].min() >= -1e-9
        energy = 9.81 * values[:, 2] + (values[:, 3:] ** 2).sum(axis=1) / 2
        assert np.allclose(energy, energy[0], rtol=1e-9)


@pytest.mark.parametrize(
    ("system", "arguments", "message"),
    [
        ("ball", {"restitution": 0.0}, "restitution"),
        ("torus", {"speed": (1.0, -1.0)}, "speed"),
        ("lif_pair", {"drive": (0.9, 1.2)}, "threshold"),
        ("arcs", {"step": 0.0}, "step"),
    ],
)
def test_impossible_parameters_are_refused(system, arguments, message):
    with pytest.raises(ParameterError, match=message):
        getattr(hybrid_systems, system)(2, 50, **arguments)
