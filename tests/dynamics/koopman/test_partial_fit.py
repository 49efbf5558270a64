"""EDMDc takes in recordings one after the other and is the model of all of them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from foretell.core import ArtifactError, DataError, ParameterError
from foretell.core.progress import Progress
from foretell.data import Trajectories
from foretell.data.controlled_systems import duffing
from foretell.dynamics import EDMDc, load
from foretell.dynamics.koopman.linear import features
from foretell.dynamics.koopman.windows import states_of

DATA = duffing().recordings(24, 60, random_state=0)


def made(**changes):
    return EDMDc(**{"degree": 3, "n_centres": 8, "horizon": 10, "random_state": 0, **changes})


@pytest.mark.parametrize("input", ["linear", "bilinear"])
def test_parts_in_any_order_give_the_regression_on_everything(input):
    first = DATA.select(range(8))
    one = made(input=input).fit(first)
    for part in (range(8, 9), range(9, 24)):
        one.partial_fit(DATA.select(part))
    other = made(input=input).partial_fit(first)
    for part in (range(20, 24), range(8, 20)):
        other.partial_fit(DATA.select(part))
    assert_allclose(other.W_, one.W_, atol=1e-9)
    states = states_of(one.scaler_.transform(DATA), 0)
    z = [one.lift_(s) for s in states.s]
    pairs = zip(z, states.u, strict=True)
    phi = np.concatenate([features(a[:-1], u[:-1], input == "bilinear") for a, u in pairs])
    ahead = np.concatenate([a[1:] for a in z])
    n, Q = phi.shape
    rows = np.vstack([phi, np.sqrt(n * one.ridge) * np.eye(Q)])
    goal = np.vstack([ahead, np.zeros((Q, ahead.shape[1]))])
    assert_allclose(one.W_.T, np.linalg.lstsq(rows, goal, rcond=None)[0], atol=1e-6)


def test_more_recordings_forecast_better():
    test = duffing().recordings(10, 60, random_state=9)
    model = made().fit(DATA.select(range(2)))
    before = model.score(test)
    assert model.partial_fit(DATA.select(range(2, 24))).score(test) > before


def test_it_goes_on_after_a_rest_in_a_folder(tmp_path):
    model = made(stable=True).fit(DATA.select(range(8)))
    model.save(tmp_path / "model")
    rest = DATA.select(range(8, 24))
    again = load(tmp_path / "model").partial_fit(rest)
    assert_array_equal(again.W_, model.partial_fit(rest).W_)
    assert again.fingerprint_ == model.fingerprint_ != made().fit(DATA).fingerprint_


def test_residuals_are_those_of_the_model_before():
    model = made().fit(DATA.select(range(8)))
    before, rest = model.W_.copy(), DATA.select(range(8, 12))
    model.partial_fit(rest)
    windows = states_of(model.scaler_.transform(rest), 0).windows(10, most=400)
    z = model.lift_(windows.s)
    e = z[:, 1:] - features(z[:, :-1], windows.u, False) @ before.T
    assert_array_equal(model.residuals_[0], e[0])


def test_other_recordings_and_older_models_are_refused():
    model = made().fit(DATA.select(range(8)))
    with pytest.raises(DataError, match="variables"):
        model.partial_fit(np.random.default_rng(0).normal(size=(50, 3)))
    slower = Trajectories.from_arrays(
        list(DATA.values), [2 * t for t in DATA.times], controls=list(DATA.controls)
    )
    with pytest.raises(DataError, match="a sample every"):
        model.partial_fit(slower)
    del model.moments_
    with pytest.raises(ArtifactError, match="older version"):
        model.partial_fit(DATA)


def test_it_can_be_fitted_like_the_others(tmp_path):
    heard: list[Progress] = []
    made().fit(DATA, on_step=heard.append, checkpoint=tmp_path / "state", resume=False)
    assert [(p.step, p.total) for p in heard] == [(1, 1)]
    assert np.isfinite(heard[0].loss)


def test_forgetting_is_a_regression_with_weights_that_decay():
    rest = [DATA.select([n]) for n in range(8, 11)]
    model = made(forget=0.98).fit(DATA.select(range(8)))
    before = model.moments_
    for part in rest:
        model.partial_fit(part)
    z = [model.lift_(model.scaler_.transform(part).values[0]) for part in rest]
    u = [model.scaler_.transform(part).controls[0] for part in rest]
    phi = np.concatenate([features(a[:-1], b[:-1], False) for a, b in zip(z, u, strict=True)])
    ahead, weight = np.concatenate([a[1:] for a in z]), 0.98 ** np.arange(3 * 59 - 1, -1, -1)
    left = 0.98 ** (3 * 59)
    assert_allclose(
        model.moments_.phi_phi, left * before.phi_phi + (phi.T * weight) @ phi, rtol=1e-9
    )
    assert_allclose(model.moments_.z_phi, left * before.z_phi + (ahead.T * weight) @ phi, rtol=1e-9)
    assert model.moments_.n == pytest.approx(left * before.n + weight.sum())


def test_a_plant_that_changes_is_followed_by_forgetting(tmp_path):
    changed = duffing(damping=2.0)
    test = changed.recordings(10, 60, random_state=9)
    scores = {}
    for forget in (1.0, 0.99):
        model = made(forget=forget).fit(DATA)
        model.save(tmp_path / f"{forget}")
        again = load(tmp_path / f"{forget}").partial_fit(changed.recordings(6, 60, random_state=5))
        scores[forget] = again.score(test)
    assert scores[0.99] > 0.75 * scores[1.0]  # less than three quarters of the error


@pytest.mark.parametrize("forget", [0.0, 1.2, -1.0, float("nan"), "slowly"])
def test_impossible_forgetting_is_refused(forget):
    with pytest.raises(ParameterError, match="forget="):
        made(forget=forget).fit(DATA)
