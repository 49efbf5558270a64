"""Bad input of a HybridLatentODE: the exact error, and a message that helps."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

from foretell.core import DataError, ForetellWarning, NotFittedError, ParameterError
from foretell.data import Trajectories
from foretell.data.hybrid_systems import ball
from foretell.dynamics.hybrid import HybridLatentODE

BOUNCES = ball(6, 40, random_state=0).trajectories
SMALL = {
    "hidden": 8, "horizons": (2, 4), "updates_per_horizon": 4, "batch_size": 4,
    "random_state": 0,
}  # fmt: skip


def small(**changes):
    return HybridLatentODE(**{**SMALL, **changes})


@pytest.fixture(scope="module")
def fitted():
    return small(decoder_heads=3).fit(BOUNCES)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizons": ()}, "horizons"),
        ({"horizons": (4, 0)}, "horizons"),
        ({"hidden": 0}, "hidden"),
        ({"activation": "relu"}, "sin_last"),
        ({"field": "tree"}, "pwl"),
        ({"decoder_heads": 0}, "decoder_heads"),
        ({"decoder_heads": "many"}, "decoder_heads"),
        ({"head_spread": 0.0}, "head_spread"),
        ({"weights": {"y": 1.0}}, "x, z, a"),
        ({"weights": {"z": -1.0}}, "weights"),
        ({"weights": {"x": 0.0, "a": 0.0}}, "constant encoder"),
        ({"jump_threshold": 0.0}, "jump_threshold"),
        ({"latent_dim": 1}, "latent_dim"),
        ({"field": "pwl", "n_relu": 6}, "n_relu"),
        ({"angle_columns": ("tilt",)}, "tilt"),
    ],
)
def test_impossible_arguments(changes, message):
    with pytest.raises(ParameterError, match=message):
        small(**changes).fit(BOUNCES)


def test_recordings_shorter_than_the_longest_rollout():
    with pytest.raises(DataError, match="horizons up to"):
        small(horizons=(4, 60)).fit(BOUNCES)


def test_too_few_latent_dimensions_are_pointed_out():
    with pytest.warns(ForetellWarning, match="latent_dim > 4"):
        small(latent_dim=3).fit(BOUNCES)


def test_smooth_recordings_are_pointed_out():
    t = 0.1 * np.arange(200)
    with pytest.warns(ForetellWarning, match="no jumps found"):
        small().fit(np.column_stack([np.sin(t), np.cos(t)]), t)


def test_too_many_jumps_are_pointed_out():
    values = np.random.default_rng(0).normal(size=(200, 2))
    with pytest.warns(ForetellWarning, match="count as jumps"):
        small(jump_threshold=0.5).fit(values)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([[3]], "one array"),
        ([[39]] + [[]] * 5, "0 <= k <= 38"),
        ([[-1]] + [[]] * 5, "holds -1"),
        ([[0.5]] + [[]] * 5, "whole numbers"),
    ],
)
def test_a_wrong_jump_index(index, message):
    with pytest.raises(ParameterError, match=message):
        small().fit(BOUNCES, jump_index=index)


def test_a_given_jump_index_is_used():
    index = [np.array([5, 9])] + [np.array([], dtype=int)] * 5
    model = small().fit(BOUNCES, jump_index=index)
    assert model.jumps_.n_jumps == 2
    assert np.flatnonzero(model.jumps_.flags[0]).tolist() == [5, 9]


def test_derivatives_start_the_training_without_rollouts():
    rates = [np.column_stack([v[:, 1], np.full(len(v), -9.81)]) for v in BOUNCES.values]
    one = small().fit(BOUNCES, derivatives=rates)
    assert not np.array_equal(
        one.arrays_["field.layers.0.weight"],
        small().fit(BOUNCES).arrays_["field.layers.0.weight"],
    )
    with pytest.raises(DataError, match="shapes"):
        small().fit(BOUNCES, derivatives=rates[:2])


def test_questions_before_fit_and_to_a_model_that_cannot_answer(fitted):
    with pytest.raises(NotFittedError, match="fit"):
        small().events([1.0, 0.0], [0.0, 1.0])
    with pytest.raises(ParameterError, match="one head"):
        small(decoder_heads=1).fit(BOUNCES).guards()
    with pytest.raises(ParameterError, match="pwl"):
        fitted.latent_cycles()
    with pytest.raises(ParameterError, match="reencode_every"):
        fitted.predict([1.0, 0.0], [0.0, 0.1], reencode_every=0)
    with pytest.raises(DataError, match="variables"):
        fitted.score(Trajectories.from_arrays(np.random.default_rng(0).normal(size=(50, 3))))


def test_events_guards_and_runs_have_the_right_form(fitted):
    times = BOUNCES.times[0]
    starts = np.array([v[0] for v in BOUNCES.values])
    events = fitted.events(starts, times)
    assert len(events) == len(starts)
    for run in events:
        assert all(times[0] <= e.time <= times[-1] for e in run)
        assert [e.time for e in run] == sorted(e.time for e in run)
    points = fitted.guard_samples()
    assert points.before.shape == points.after.shape
    assert 0 <= points.share <= 1
    best, heads = fitted.decode(fitted.encode(starts), return_heads=True)
    assert heads.shape == (len(starts), 3, 2)
    assert (np.abs(heads - best[:, None]).sum(axis=2).min(axis=1) == 0).all()
    again = fitted.predict(starts, times, reencode_every=5)
    assert np.array_equal(again[:, :5], fitted.predict(starts, times)[:, :5])
