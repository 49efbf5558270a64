"""What inputs can do: exact for linear models, by differences elsewhere, refused without."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from foretell.core import NotFittedError, ParameterError
from foretell.data import Trajectories
from foretell.data.controlled_systems import duffing
from foretell.dynamics import ALRNN, CPLRNN, Controllable, ReLUNeuralODE
from foretell.dynamics.koopman.linear import markov_parameters
from foretell.dynamics.reachability import Reachability, by_differences
from tests.contracts.learner import driven, recording

pytest.importorskip("torch", reason="EDMDc and GaussianTransition need torch, the extra learn")
from foretell.dynamics import EDMDc, GaussianTransition


def reach_of(A, B, C, H):
    N, K = len(C), np.shape(B)[1]
    response = markov_parameters(*(np.asarray(m, float) for m in (A, B, C)), H)
    names = tuple("abcdefgh"[:N])
    return Reachability(np.arange(1.0, H + 1), response, np.ones(N), np.ones(K), names, ("u",) * K)


def test_a_double_integrator_reaches_everything_and_what_is_apart_stays_out_of_reach():
    A, B = [[1.0, 1.0], [0.0, 1.0]], [[0.0], [1.0]]
    found = reach_of(A, B, np.eye(2), 6)
    assert found.rank == found.n_reached == 2
    blocks = [np.linalg.matrix_power(A, 5 - j) @ B for j in range(6)]
    values = np.linalg.svd(np.hstack(blocks), compute_uv=False)
    assert_allclose(found.reach, values * np.sqrt(6))
    assert found.condition == pytest.approx(values[0] / values[1])
    apart = reach_of(np.diag([0.9, 0.8, 0.7]), [[1.0], [1.0], [0.0]], np.eye(3), 6)
    assert (apart.rank, apart.condition) == (2, np.inf)
    assert_allclose(np.abs(apart.directions[-1]), [0, 0, 1], atol=1e-12)


def test_one_step_of_one_input_moves_one_direction():
    found = reach_of(np.eye(3), [[1.0], [2.0], [2.0]], np.eye(3), 1)
    assert found.rank == 1
    assert_allclose(found.reach, [3, 0, 0], atol=1e-12)
    assert_allclose(found.directions[0], [1 / 3, 2 / 3, 2 / 3])


def test_a_step_response_adds_up():
    found = reach_of([[0.5]], [[2.0]], [[1.0]], 5)
    assert_allclose(found.step_response[:, 0, 0], 2 * np.cumsum(0.5 ** np.arange(5)))


@pytest.fixture(scope="module")
def plant():
    return duffing().recordings(20, 60, random_state=0)


def test_exact_and_by_differences_agree(plant):
    model = EDMDc(degree=1, n_centres=0, random_state=0).fit(plant)
    exact = model.input_response(n_steps=8)
    K, N = len(model.control_names_), len(model.names_)

    def run(u):
        times = model.step_ * np.arange(9)
        return model.predict(np.zeros(N), times, controls=np.concatenate([u, u[-1:]]))[0, 1:]

    scaler = model.scaler_
    found = by_differences(run, scaler.control_mean, scaler.control_scale, 8)
    assert exact.response.shape == (8, N, 8, K)
    assert_allclose(found, exact.response, atol=1e-7)
    assert_allclose(exact.times, model.step_ * np.arange(1, 9))


def test_a_bilinear_model_is_linearised_where_it_is_asked(plant):
    model = EDMDc(degree=2, n_centres=0, input="bilinear", random_state=0).fit(plant)
    here, there = model.input_response(n_steps=5), model.input_response([1.0, 0.0], 5)
    effect = model.B_ + np.einsum("kyz,z->yk", model.N_, model.lift([1.0, 0.0])[0])
    scaler = model.scaler_
    first = (model.C_ @ effect)[:, 0] * scaler.scale / scaler.control_scale[0]
    assert_allclose(there.response[0, :, 0, 0], first, rtol=1e-6, atol=1e-9)
    assert not np.allclose(here.response, there.response)


@pytest.mark.parametrize("learner", [CPLRNN, ALRNN, ReLUNeuralODE])
def test_every_driven_model_can_be_asked(learner):
    settings = {"latent_dim": 3, "n_relu": 1, "sequence_length": 10, "max_updates": 3}
    model = learner(**settings, random_state=0).fit(driven())
    assert isinstance(model, Controllable)
    found = model.input_response(n_steps=4)
    assert found.response.shape == (4, 2, 4, 1)
    assert np.isfinite(found.response).all()
    assert (found.response[0, :, 1:] == 0).all()
    with pytest.raises(ParameterError, match="control has 2 entries"):
        model.input_response(control=[0.0, 1.0])
    with pytest.raises(ParameterError, match="n_steps=0"):
        model.input_response(n_steps=0)


def test_a_model_without_inputs_or_without_a_fit_says_so():
    settings = {"latent_dim": 3, "n_relu": 1, "sequence_length": 10, "max_updates": 3}
    with pytest.raises(NotFittedError):
        CPLRNN(**settings).input_response()
    with pytest.raises(ParameterError, match="without inputs"):
        CPLRNN(**settings, random_state=0).fit(recording()).input_response()


def test_a_sampler_does_not_claim_it():
    assert not isinstance(GaussianTransition(), Controllable)


def test_delays_stand_still():
    rng = np.random.default_rng(0)
    u = rng.normal(size=(200, 1))
    x = np.zeros((200, 1))
    for t in range(199):
        x[t + 1] = 0.5 * x[t] + u[t]
    data = Trajectories.from_arrays(x, controls=u, control_names=("u",))
    model = EDMDc(degree=1, n_centres=0, n_delays=2, input="bilinear", horizon=4).fit(data)
    found = model.input_response(n_steps=4)
    assert_allclose(found.response[:, 0, 0, 0], [1, 0.5, 0.25, 0.125], atol=1e-3)
