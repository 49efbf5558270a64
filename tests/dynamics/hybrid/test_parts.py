"""Parts of a HybridLatentODE: rollout and its gradient, jumps, columns, guards, topology."""

import numpy as np
import pytest

from foretell.core import DataError, ParameterError
from foretell.data import Trajectories
from foretell.data.hybrid_systems import ball, torus
from foretell.dynamics.hybrid.columns import column_trajectories, read_columns
from foretell.dynamics.hybrid.guards import read_guards
from foretell.dynamics.hybrid.preparation import as_sequences
from foretell.dynamics.hybrid.seams import (
    LatentRank,
    SeamGaps,
    latent_rank,
    measured_gaps,
    seam_pairs,
)
from foretell.dynamics.hybrid.topology import betti_numbers, loop_rank
from foretell.dynamics.hybrid.windows import find_jumps
from foretell.dynamics.sequences import Sequences


@pytest.mark.parametrize("n_layers", [1, 2, 3])
@pytest.mark.parametrize("n_controls", [0, 2])
def test_the_compiled_rollout_is_the_one_of_torch_with_its_gradient(n_layers, n_controls):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from foretell.dynamics.hybrid.latent_model import Shape
    from foretell.dynamics.hybrid.modules import NetworkField
    from foretell.dynamics.hybrid.rollout import roll_out, roll_out_eagerly
    from foretell.dynamics.module_task import seeded

    shape = Shape(2, 3, n_controls, 16, n_layers, (1,))
    field = seeded(lambda: NetworkField(shape), 0)
    rng = np.random.default_rng(0)

    def tensor(*size):
        return torch.from_numpy(rng.normal(size=size).astype(np.float32))

    z0, dt = tensor(5, 3).requires_grad_(), 0.2 + 0.1 * torch.rand(4, 5)
    u = tensor(4, 5, n_controls) if n_controls else None
    weights, substeps = tensor(5, 5, 3), np.array([1, 2, 1, 3])
    found = []
    for roll in (roll_out, roll_out_eagerly):
        states = roll(field, z0, dt, u, substeps)
        gradients = torch.autograd.grad((states * weights).sum(), [z0, *field.parameters()])
        found.append([states.detach(), *gradients])
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, rtol=2e-5, atol=2e-5)


def test_the_networks_without_torch_are_those_of_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from foretell.dynamics.hybrid.latent_model import LatentModel, Shape
    from foretell.dynamics.hybrid.modules import HybridNetworks
    from foretell.dynamics.module_task import module_arrays, seeded

    x = np.random.default_rng(0).normal(size=(7, 2))
    for activation, field in (("silu", "mlp"), ("sin_last", "pwl")):
        shape = Shape(2, 5, 0, 8, 2, (1, 3), activation, field, 2)
        net = seeded(lambda s=shape: HybridNetworks(s), 0)
        model = LatentModel(shape, module_arrays(net), 1)
        with torch.no_grad():
            z = net.encoder(torch.from_numpy(x.astype(np.float32)))
            velocity = net.field(z)
            candidates, logits = net.decoder(z)[1]
        assert np.allclose(model.encode(x), z.numpy(), atol=1e-5)
        assert np.allclose(model.velocity(z.numpy().astype(float)), velocity.numpy(), atol=1e-5)
        mine = model.heads(z.numpy().astype(float))
        assert np.allclose(mine[0], candidates.numpy(), atol=1e-5)
        assert np.allclose(mine[1], logits.numpy(), atol=1e-5)


def test_the_decoder_with_fewer_heads_pulls_on_the_latent_space_with_a_fifth():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from foretell.dynamics.hybrid.latent_model import Shape
    from foretell.dynamics.hybrid.modules import Decoder

    shared = Decoder(Shape(2, 5, 0, 8, 2, (1, 3)))
    alone = Decoder(Shape(2, 5, 0, 8, 2, (1,)))
    last = alone.network.layers[-1]
    with torch.no_grad():  # the same network with the first of its two decoders only
        for own, theirs in zip(alone.parameters(), shared.parameters(), strict=True):
            own.copy_(theirs[: len(own)])
    z = torch.randn(4, 5, requires_grad=True)
    (full,) = torch.autograd.grad(alone(z)[0][0].pow(2).sum(), z)
    (part,) = torch.autograd.grad(shared(z)[0][0].pow(2).sum(), z)
    torch.testing.assert_close(part, 0.2 * full)
    assert len(last.weight) == 2


@pytest.mark.parametrize("activation", ["silu", "sin_last"])
def test_the_velocity_of_an_encoded_state_is_a_difference_quotient(activation):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from foretell.dynamics.hybrid.latent_model import Shape
    from foretell.dynamics.hybrid.modules import Encoder

    encoder = Encoder(Shape(2, 5, 0, 8, 2, (1,), activation)).double()
    rng = np.random.default_rng(0)
    x, v = (torch.from_numpy(rng.normal(size=(6, 2))) for _ in range(2))
    with torch.no_grad():
        z, w = encoder.along(x, v)
        quotient = (encoder(x + 1e-5 * v) - encoder(x - 1e-5 * v)) / 2e-5
        torch.testing.assert_close(z, encoder(x))
        torch.testing.assert_close(w, quotient, rtol=1e-6, atol=1e-7)


def test_the_mixture_of_one_head_is_the_square_and_of_several_its_soft_minimum():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from foretell.dynamics.hybrid.losses import collapse_losses, head_loss

    x, seen = torch.zeros(1, 2), torch.tensor([[1.0, 0.0]])
    heads = torch.tensor([[[3.0, 9.0], [0.1, 9.0]]])
    assert head_loss(heads[:, :1], None, x, seen, 0.05).item() == pytest.approx(9.0)
    logits = torch.zeros(1, 2)
    found = head_loss(heads, logits, x, seen, 0.05).item()
    assert found == pytest.approx(0.01 + 0.05 * np.log(2), rel=1e-5)
    same = torch.randn(100, 1).repeat(1, 3)
    hinge, off = collapse_losses(same, 0.3)
    assert hinge.item() == 0.0  # the hinge does not see copies
    assert off.item() > 0.5


def sequences_of(recordings: Trajectories) -> Sequences:
    return as_sequences(recordings.standardise()[0], recordings.median_interval)


@pytest.mark.parametrize("system", [ball, torus])
def test_jumps_are_found_where_they_are_and_smooth_motion_is_not(system):
    data = system(20, 100, random_state=0)
    found = find_jumps(sequences_of(data.trajectories))
    for flags, t, true in zip(found.flags, data.trajectories.times, data.jump_times, strict=True):
        where = set((np.searchsorted(t, true[true > t[0]]) - 1).tolist())
        assert set(np.flatnonzero(flags).tolist()) == where
    t = 0.1 * np.arange(500)
    wave = Trajectories.from_arrays(np.column_stack([np.sin(t), np.sin(1.3 * t)]), t)
    assert find_jumps(sequences_of(wave)).n_jumps == 0


def test_angles_and_quaternions_come_back():
    rng = np.random.default_rng(0)
    t = np.linspace(0, 3, 50)
    half = 0.5 * (2.0 + t)
    q = np.column_stack([np.cos(half), np.sin(half), np.zeros(50), np.zeros(50)])
    q[::3] *= -1
    values = np.column_stack([(6 + t) % (2 * np.pi), q, rng.normal(size=50)])
    recordings = Trajectories.from_arrays(values, t, names=["phi", "w", "x", "y", "z", "speed"])
    columns = read_columns(recordings, ["phi"], [("w", "x", "y", "z")])
    assert (columns.n_columns, columns.flow_dimension) == (7, 5)
    seen = column_trajectories(recordings, columns).values[0]
    assert np.abs(np.diff(seen, axis=0)[:, :4]).max() < 0.1  # no jump of the sign
    back = columns.gather(seen)
    assert np.allclose(back[:, 0], values[:, 0])
    assert np.allclose(np.abs((back[:, 1:5] * q).sum(axis=1)), 1.0)


def test_columns_that_are_no_angles_or_quaternions_are_refused():
    values = np.random.default_rng(0).normal(size=(30, 5)) * 5
    recordings = Trajectories.from_arrays(values)
    with pytest.raises(DataError, match="radians"):
        read_columns(recordings, [0], [])
    with pytest.raises(DataError, match="length"):
        read_columns(recordings, [], [(0, 1, 2, 3)])
    with pytest.raises(ParameterError, match="four columns"):
        read_columns(recordings, [], [(0, 1, 2)])
    with pytest.raises(ParameterError, match="twice"):
        read_columns(Trajectories.from_arrays(values / 50), [1, 1], [])
    with pytest.raises(ParameterError, match="no_such"):
        read_columns(recordings, ["no_such"], [])


def test_guards_and_resets_are_read_off_points():
    rng = np.random.default_rng(0)
    speed = rng.uniform(-5, -1, 200)
    floor = np.column_stack([0.01 * rng.normal(size=200), speed])
    bounce = np.column_stack([np.zeros(200), -0.9 * speed])
    (guard,) = read_guards(floor, bounce, np.array([0.5, 3.0]))
    assert abs(guard.level) < 0.01
    assert guard.normal == pytest.approx([1.0, 0.0], abs=0.01)
    assert guard.reset_matrix[1, 1] == pytest.approx(-0.9, abs=0.01)
    assert guard.off_reset < 0.02
    side = np.column_stack([np.ones(150), rng.uniform(0, 1, 150)])
    top = np.column_stack([rng.uniform(0, 1, 90), np.ones(90)])
    before = np.concatenate([side, top])
    after = np.concatenate([side - [1, 0], top - [0, 1]])
    one, two = read_guards(before, after, np.full(2, 0.3))
    assert one.normal == pytest.approx([1.0, 0.0], abs=0.01)
    assert two.normal == pytest.approx([0.0, 1.0], abs=0.01)
    assert two.reset_offset[1] + two.reset_matrix[1, 1] == pytest.approx(0.0, abs=0.01)


def test_seams_of_an_exact_encoder_are_closed_and_those_of_none_are_open():
    recordings = torus(10, 100, random_state=0).trajectories
    scaled, scaler = recordings.standardise()
    sequences = as_sequences(scaled, recordings.median_interval)
    turn = 2 * np.pi * np.array([1.0, 0.5]) * recordings.median_interval

    class Glued:
        def encode(self, x):
            angle = 2 * np.pi * (scaler.mean + scaler.scale * x)
            return np.concatenate([np.cos(angle), np.sin(angle)], axis=-1)

        def step(self, z, dt, u, substeps):
            angle = np.arctan2(z[:, 2:], z[:, :2]) + turn * dt[:, None]
            return np.concatenate([np.cos(angle), np.sin(angle)], axis=-1)

    class Open(Glued):
        def encode(self, x):
            return x

        def step(self, z, dt, u, substeps):
            return z + turn / (2 * np.pi) / scaler.scale * dt[:, None]

    threshold = find_jumps(sequences).threshold
    glued, open_ = (measured_gaps(m(), sequences, threshold, 1) for m in (Glued, Open))
    assert glued.n_jumps == open_.n_jumps > 20
    assert glued.position < 1e-9
    assert glued.velocity == pytest.approx(glued.usual_velocity, rel=0.05)
    assert open_.position > 5
    assert SeamGaps.from_dict(glued.to_dict()) == glued


def test_a_collapsed_encoder_is_noticed():
    """All coordinates equal have variance, which a hinge on it accepts, and one direction."""
    sequences = sequences_of(ball(5, 40, random_state=0).trajectories)
    pairs = seam_pairs(sequences, find_jumps(sequences).flags)

    class Encoder:
        def __init__(self, matrix):
            self.encode = lambda x: x @ np.asarray(matrix)

    whole = latent_rank(Encoder([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]]), sequences, pairs, 2)
    assert not whole.collapsed
    assert whole.inverse_lipschitz > 0.9
    flat = latent_rank(Encoder([[1.0, 1.0, 1.0], [0.5, 0.5, 0.5]]), sequences, pairs, 2)
    assert flat.collapsed
    assert flat.inverse_lipschitz < 0.05
    assert flat.singular_values[0] > 1.0
    assert LatentRank.from_dict(flat.to_dict()) == flat


def test_the_rank_of_loops_follows_one_rule():
    assert loop_rank(np.array([]), 1.0) == 0
    assert loop_rank(np.array([0.05, 0.04]), 1.0) == 0
    assert loop_rank(np.array([1.0, 0.1]), 1.0) == 1
    assert loop_rank(np.array([0.11, 1.0, 0.9]), 1.0) == 2


def test_torus_and_klein_bottle_differ_in_their_loops_modulo_three():
    pytest.importorskip("ripser", reason="ripser is not installed")
    a, b = np.random.default_rng(0).uniform(0, 2 * np.pi, (2, 2000))
    torus = np.column_stack([np.cos(a), np.sin(a), np.cos(b), np.sin(b)])
    ring = 2 + np.cos(b)
    bottle = np.column_stack(
        [ring * np.cos(a), ring * np.sin(a), np.sin(b) * np.cos(a / 2), np.sin(b) * np.sin(a / 2)]
    )
    assert betti_numbers(torus, n_points=150).ranks == (2, 2)
    assert betti_numbers(bottle, n_points=250).ranks == (2, 1)
