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


def test_a_recording_shorter_than_the_shortest_rollout_is_named():
    values = [*BOUNCES.values, BOUNCES.values[0][:2]]
    labels = [*BOUNCES.labels, "cut off"]
    recordings = Trajectories.from_arrays(values, [t[: len(v)] for t, v in zip(
        [*BOUNCES.times, BOUNCES.times[0]], values, strict=True
    )], labels=labels)  # fmt: skip
    with pytest.raises(DataError, match=r"'cut off' has 2 samples.*\(2, 4\) needs 3.*select"):
        small().fit(recordings)


def test_recordings_stacked_without_groups_are_taken_apart_by_their_times():
    stacked = np.vstack(BOUNCES.values[:2])
    with pytest.raises(DataError, match=r"(?s)backwards: times\[40\] is 0 .*group="):
        small().fit(stacked, np.concatenate(BOUNCES.times[:2]))


def test_a_bad_number_is_named_with_its_row():
    values = [v.copy() for v in BOUNCES.values]
    values[3][7, 1] = np.nan
    with pytest.raises(DataError, match=r"values\[3\]\[7, 1\].*nan.*mask="):
        small().fit(values)


def test_a_column_that_never_changes_is_named():
    values = [np.column_stack([v, np.ones(len(v))]) for v in BOUNCES.values]
    with pytest.raises(DataError, match=r"(?i)x2.*constant|constant.*x2"):
        small().fit(values)


def test_angles_in_degrees_are_refused():
    with pytest.raises(DataError, match=r"reaches 350, beyond 2 pi.*deg2rad"):
        small(angle_columns=["x1"]).fit(
            [np.column_stack([v, np.linspace(0, 350, len(v))])[:, ::2] for v in BOUNCES.values]
        )


def test_a_quaternion_that_is_not_of_length_one_is_refused():
    turned = np.zeros((40, 4))
    turned[:, 0], turned[5, 0] = 1.0, 1.02
    values = [np.column_stack([v, turned]) for v in BOUNCES.values]
    with pytest.raises(DataError, match=r"length 1.02 in row 5 of recording 0.*norm"):
        small(quaternion_columns=[("x2", "x3", "x4", "x5")]).fit(values)


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
    for ask in (small().events, small().predict):
        with pytest.raises(NotFittedError, match="fit"):
            ask([1.0, 0.0], [0.0, 1.0])
    with pytest.raises(ParameterError, match="one head"):
        small(decoder_heads=1).fit(BOUNCES).guards()
    with pytest.raises(ParameterError, match="pwl"):
        fitted.latent_cycles()
    with pytest.raises(ParameterError, match="reencode_every"):
        fitted.predict([1.0, 0.0], [0.0, 0.1], reencode_every=0)
    with pytest.raises(DataError, match="variables"):
        fitted.score(Trajectories.from_arrays(np.random.default_rng(0).normal(size=(50, 3))))


def test_times_before_the_start_are_refused(fitted):
    for ask in (fitted.predict, fitted.events):
        with pytest.raises(ParameterError, match=r"times\[1\]=-0.1 follows times\[0\]=0"):
            ask([1.0, 0.0], [0.0, -0.1])


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
