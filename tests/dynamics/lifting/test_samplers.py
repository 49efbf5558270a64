"""The siblings have one interface: learn, draw, run, save, resume, and refuse what cannot be."""

import numpy as np
import pytest

from foretell.core import DataError, ForetellWarning, NotFittedError, ParameterError
from foretell.data import Trajectories
from foretell.dynamics import Model, Stochastic, lifting, load
from foretell.dynamics.lifting import AnalogueTransition
from tests.dynamics.lifting.data import noisy_paths

NETWORKS = {
    "GaussianTransition": {},
    "EngressionTransition": {"noise_dim": 3},
    "FlowMatchingTransition": {"n_evaluations": 3},
}
SMALL = {"width": 8, "depth": 1, "max_steps": 12, "batch_size": 8, "random_state": 0}


def make(name, **changes):
    if name == "AnalogueTransition":
        return AnalogueTransition(**{"k": 5, **changes})
    pytest.importorskip("torch", reason="torch is not installed")
    return getattr(lifting, name)(**{**SMALL, **NETWORKS[name], **changes})


every = pytest.mark.parametrize("name", [*NETWORKS, "AnalogueTransition"])


@every
def test_it_learns_draws_runs_and_comes_back(name, tmp_path) -> None:
    model = make(name)
    assert isinstance(model, Model)
    assert isinstance(model, Stochastic)
    with pytest.raises(NotFittedError, match="fit"):
        model.rollout([0.0], 2)
    assert model.fit(noisy_paths(12, 10)) is model
    draws = model.sample_next(np.zeros((3, 1)), 20, 0)
    assert draws.shape == (3, 20, 1)
    assert np.ptp(draws[0]) > 0
    runs = model.rollout([0.1], 5, 4, 1)
    assert runs.shape == (1, 4, 6, 1)
    assert np.allclose(runs[:, :, 0], 0.1)
    assert np.array_equal(runs, model.rollout([0.1], 5, 4, 1))
    assert not np.array_equal(runs, model.rollout([0.1], 5, 4, 2))
    later = noisy_paths(4, 10, seed=1)
    for again in (type(model).load(model.save(tmp_path / "m")), load(tmp_path / "m")):
        assert type(again) is type(model)
        assert np.array_equal(again.rollout([0.1], 5, 4, 1), runs)
        assert again.score(later) == model.score(later)
    pairs = later[:, :-1].reshape(-1, 1), later[:, 1:].reshape(-1, 1)
    assert np.isclose(model.score_transitions(*pairs), model.score(later))
    assert model.evaluations_per_step == {"FlowMatchingTransition": 3}.get(
        name, int(name in NETWORKS)
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_resuming_gives_the_same_bits(name, tmp_path) -> None:
    paths = noisy_paths(12, 10)
    whole = make(name).fit(paths)

    def stop(report) -> None:
        if report.step == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(name).fit(paths, on_step=stop, checkpoint=tmp_path / "c")
    resumed = make(name).fit(paths, checkpoint=tmp_path / "c", resume=True)
    assert np.array_equal(resumed.rollout([0.0], 3, 9, 0), whole.rollout([0.0], 3, 9, 0))


@every
def test_inputs_act(name) -> None:
    rng = np.random.default_rng(0)
    u = rng.normal(size=(150, 1))
    x = np.zeros((150, 1))
    for t in range(149):
        x[t + 1] = 0.5 * x[t] + u[t] + 0.01 * rng.normal()
    changes = {} if name == "AnalogueTransition" else {"max_steps": 60, "lr": 1e-2}
    model = make(name, **changes).fit(
        Trajectories.from_arrays(x, controls=u, control_names=["push"])
    )
    up = model.rollout([0.0], 1, 50, 0, controls=[1.0]).mean(axis=1)[0, -1, 0]
    down = model.rollout([0.0], 1, 50, 0, controls=[[-1.0]]).mean(axis=1)[0, -1, 0]
    assert up > down
    for wrong in (None, np.zeros((3, 1)), [np.nan]):
        with pytest.raises(ParameterError, match="controls"):
            model.rollout([0.0], 1, controls=wrong)


def test_history_is_padded_alike_in_learning_and_running() -> None:
    from foretell.dynamics.lifting.transitions import cut

    x = np.arange(24.0).reshape(2, 12, 1) ** 1.5
    found = cut(Trajectories.from_arrays(x), 3)
    assert np.array_equal(found.past[0, :, 0], [0.0, 0.0, 0.0])
    assert np.array_equal(found.past[1, :, 0], [0.0, 0.0, 1.0])
    assert np.array_equal(found.past[2, :, 0], x[0, :3, 0])
    assert np.array_equal(found.past[11, :, 0], [x[1, 0, 0]] * 3)
    model = AnalogueTransition(k=1, history=3).fit(x)
    increments = model._targets(found)[:, 0] * model.scale_.step[0]
    assert np.allclose(increments, np.diff(x[..., 0], axis=1).ravel())
    run = model.rollout(x[0, 0], 4, 1, 0)[0, 0, :, 0]
    assert np.allclose(run, x[0, :5, 0])
    given = model.rollout(x[:1, 2:5], 3, 1, 0)[0, 0, :, 0]
    assert np.allclose(given, x[0, 4:8, 0])


def test_transitions_across_gaps_and_missing_cells_are_left_out() -> None:
    from foretell.dynamics.lifting.transitions import cut

    t = np.arange(40.0)
    t[20:] += 30.0
    values = np.sin(t)[:, None] * [1.0, 2.0]
    values[5, 1] = np.nan
    data = Trajectories.from_arrays(values, t, mask=np.isfinite(values))
    found = cut(data, 2)
    rows = set(found.ids[:, 1].tolist())
    assert rows == set(range(39)) - {4, 5, 6, 19}
    assert np.array_equal(found.past[found.ids[:, 1] == 20][0, 0], values[20])


def test_uneven_intervals_are_an_input_or_refused() -> None:
    rng = np.random.default_rng(0)
    t = np.cumsum(rng.uniform(0.5, 1.5, 200))
    x = np.cumsum(np.diff(t, prepend=0.0) + 0.1 * rng.normal(size=200))[:, None]
    with pytest.raises(DataError, match="dt_feature=True"):
        AnalogueTransition(dt_feature=False).fit(x, t)
    model = AnalogueTransition(k=3).fit(x, t)
    short, long = (model.sample_next([50.0], 50, 0, interval=dt).mean() for dt in (0.6, 1.4))
    assert short < long
    run = model.simulate([50.0], [0.0, 0.7, 10.0], random_state=0)
    assert 5.0 < run.values[0][-1, 0] - run.values[0][0, 0] < 15.0
    with pytest.raises(ParameterError, match="scatters"):
        model.simulate([50.0], [0.0, 0.01])


def test_an_even_model_goes_to_multiples_of_its_step() -> None:
    model = AnalogueTransition().fit(noisy_paths(12, 10)[:, :, 0:1], np.arange(11) * 0.5)
    run = model.simulate([0.0], [0.0, 0.5, 2.0], n_samples=3, random_state=0)
    assert run.n_recordings == 3
    assert all(v.shape == (3, 1) for v in run.values)
    with pytest.raises(ParameterError, match="multiples"):
        model.simulate([0.0], [0.0, 0.7])


def test_a_start_far_outside_is_pointed_out() -> None:
    model = AnalogueTransition().fit(noisy_paths(12, 10))
    with pytest.warns(ForetellWarning, match="beyond the range"):
        model.sample_next([50.0], 5, 0)


@pytest.mark.filterwarnings("ignore:x0 goes more than")
def test_beyond_what_was_recorded_it_goes_on_as_at_the_edge() -> None:
    paths = noisy_paths(12, 10)
    model = AnalogueTransition().fit(paths)
    edge = float(paths.max())
    at, beyond = (model.sample_next([x], 50, 0) - x for x in (edge, edge + 9.0))
    assert np.allclose(at, beyond)


def test_states_can_be_brought_back_after_every_step() -> None:
    model = AnalogueTransition().fit(noisy_paths(12, 10))
    runs = model.rollout([0.1], 20, 30, 0, project=lambda x: np.maximum(x, 0.0))
    assert runs.min() == 0.0


@pytest.mark.parametrize(
    ("x0", "message"),
    [(np.zeros(3), "x0 has shape"), (np.zeros((2, 2, 2)), "x0 has shape"), ([np.nan], "finite")],
)
def test_starts_of_the_wrong_shape_are_refused(x0, message) -> None:
    model = AnalogueTransition().fit(noisy_paths(12, 10))
    with pytest.raises(ParameterError, match=message):
        model.rollout(x0, 2)
    for wrong in ({"n_steps": 0}, {"n_steps": 2, "n_members": 0}, {"n_steps": 1.5}):
        with pytest.raises(ParameterError, match="whole number"):
            model.rollout([0.0], **wrong)


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (lambda: np.zeros((3, 1, 1)), "(?i)row|at least|1"),
        (lambda: np.full((3, 8, 1), 2.0), "constant"),
        (lambda: [np.zeros((8, 1, 4)), np.zeros((8, 1, 5))], "one shape"),
        (lambda: np.full((2, 30, 1), np.nan), "(?i)nan|missing"),
        (lambda: noisy_paths(2, 3), "at least 10"),
    ],
    ids=["one time", "constant", "two shapes", "nan", "few"],
)
def test_bad_recordings_are_refused(paths, message) -> None:
    with pytest.raises(DataError, match=message):
        AnalogueTransition().fit(paths())


def test_a_bad_number_is_named_with_recording_and_time() -> None:
    paths = noisy_paths(12, 10)
    for wrong in (np.nan, np.inf):
        paths[3, 7] = wrong
        with pytest.raises(DataError, match=rf"values\[3\]\[7, 0\].*{wrong}"):
            AnalogueTransition().fit(paths)


def test_a_constant_channel_of_a_field_is_named() -> None:
    fields = np.random.default_rng(0).normal(size=(3, 20, 2, 4))
    fields[:, :, 1] = 5.0
    with pytest.raises(DataError, match="channel 1 is constant"):
        AnalogueTransition().fit(fields)


def test_extrapolation_begins_six_standard_deviations_outside() -> None:
    model = AnalogueTransition().fit(noisy_paths(12, 10))
    high, spread = float(model.scale_.high[0]), float(model.scale_.spread[0])
    model.sample_next([high + 5.0 * spread], 5, 0)  # warnings are errors
    with pytest.warns(ForetellWarning, match="more than 6 standard deviations"):
        model.sample_next([high + 6.5 * spread], 5, 0)


def test_bad_pairs_are_refused() -> None:
    x = np.random.default_rng(0).normal(size=(40, 2))
    hole = x.copy()
    hole[7, 1] = np.inf
    for X, Y, message in (
        (x[:, :1], x, "shape"), (x, x[:30], "shape"), (hole, x, r"X\[7\]"), (x, hole, r"Y\[7\]"),
        (x[:5], x[:5], "at least 10"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=message):
            AnalogueTransition().fit_transitions(X, Y)
    with pytest.raises(DataError, match="groups"):
        AnalogueTransition().fit_transitions(x, x, np.arange(3))
    with pytest.raises(DataError, match="history=3"):
        AnalogueTransition(history=3).fit([x[:2], x[2:]])


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("AnalogueTransition", {"k": 0}, "k="),
        ("AnalogueTransition", {"history": 1.5}, "history"),
        ("EngressionTransition", {"noise_dim": 0}, "noise_dim"),
        ("FlowMatchingTransition", {"n_evaluations": 0}, "n_evaluations"),
        ("GaussianTransition", {"lr": 0.0}, "lr"),
        ("GaussianTransition", {"validation": 1.0}, "validation"),
    ],
)
def test_impossible_arguments_are_refused(name, changes, message) -> None:
    with pytest.raises(ParameterError, match=message):
        make(name, **changes).fit(noisy_paths(12, 10))
