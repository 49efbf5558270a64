"""The excitation model: its EM, its gate, what it recovers, and both controls on drawn logs."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from foretell.core import ForetellWarning
from foretell.trust import EventLog, ExcitationModel
from foretell.trust._excitation_fit import Excitation, Marks, decayed_counts
from tests.trust.exposure_worlds import known_model, runs_log


def drawn(seed, n_users=150, n_events=120, decay=0.2, diagonal=0.25):
    alpha = np.full((4, 4), 0.01) + (diagonal - 0.01) * np.eye(4)
    model = known_model(np.full((1, 4), 0.25), alpha, decay)
    return model.sample(n_users, n_events, random_state=seed)


def slow_counts(log, decay):
    """The definition: every earlier event of the user, faded by the time between."""
    S = np.zeros((log.categories.size, log.n_categories))
    for start, stop in zip(log.starts, log.starts[1:], strict=False):
        clock = np.cumsum(log.waits[start:stop])
        for t in range(start, stop):
            for k in range(start, t):
                age = clock[t - start] - clock[k - start]
                S[t, log.categories[k]] += log.engaged[k] * np.exp(-decay * age)
    return S


def test_the_recursion_is_the_definition():
    rng = np.random.default_rng(0)
    n = 60
    log = EventLog.from_columns(
        rng.integers(4, size=n),
        rng.integers(3, size=n),
        engaged=rng.integers(2, size=n),
        times=rng.uniform(0, 50, n),
        time_unit=2.0,
        sort=True,
    )
    assert_allclose(decayed_counts(log, 0.3)[0], slow_counts(log, 0.3), atol=1e-12)


def test_the_penalised_likelihood_never_falls():
    log = drawn(0, n_users=40)
    S, _ = decayed_counts(log, 0.2)
    marks = Marks.of(S, np.full(S.shape[0], 0.25), log.categories, 4)
    excitation = Excitation.start("full", 4, 1, np.random.default_rng(0))
    values = []
    for _ in range(25):
        values.append(marks.objective(excitation.matrix))
        excitation = excitation.improved(marks)
    assert (np.diff(values) > -1e-9).all()
    assert values[-1] > values[0] + 1


@pytest.mark.parametrize("kind", ["full", "diag", "diag+lowrank"])
def test_the_decay_is_found_and_the_diagonal_stands_out(kind):
    model = ExcitationModel(kind=kind).fit(drawn(1))
    assert model.gate_.passed
    assert model.decay_ in (0.1, 0.2)
    diagonal = np.diagonal(model.excitation_)
    # The user's usual shares absorb part of the clustering: too low.
    assert (diagonal > 0.1).all()
    assert (diagonal < 0.35).all()
    off = model.excitation_[~np.eye(4, dtype=bool)]
    assert off.max() < 0.4 * diagonal.min()
    assert_allclose(model.relative_excitation_.mean(), 1.0)


def test_standard_errors_are_those_of_repeated_logs():
    # 12 logs: the ratio of standard deviations lies in [0.4, 2] unless the errors are wrong;
    # false-alarm rate below 1e-4 for the mean over 4 diagonal entries.
    long = {"decay": 0.2, "n_iterations": 150}  # to convergence: stopping early shrinks
    fits = [ExcitationModel(**long).fit(drawn(seed, n_users=60)) for seed in range(12)]
    spread = np.std([np.diagonal(fit.excitation_) for fit in fits], axis=0, ddof=1).mean()
    told = np.mean([np.diagonal(fit.standard_errors_) for fit in fits])
    assert 0.4 < told / spread < 2.0


def test_controls_the_order_carries_the_gain():
    log = drawn(2)
    ordered = ExcitationModel().fit(log).gate_
    rng = np.random.default_rng(0)
    order = np.lexsort((rng.random(log.categories.size), log.user_of_row))
    shuffled = EventLog.from_columns(log.labels[log.user_of_row], log.categories[order])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForetellWarning)
        flat = ExcitationModel().fit(shuffled).gate_
    gain = ordered.nll_habits - ordered.nll
    assert ordered.passed
    assert gain > 0.02
    assert flat.nll_habits - flat.nll < 0.15 * gain


def test_a_failed_gate_falls_back_to_recent_shares():
    rng = np.random.default_rng(0)
    log = EventLog.from_columns(np.repeat(np.arange(50), 40), rng.integers(3, size=2000))
    with pytest.warns(ForetellWarning, match="excess of recent over usual"):
        model = ExcitationModel().fit(log)
    assert not model.gate_.passed
    assert_allclose(model.excitation_, (1 - np.exp(-model.decay_)) * np.eye(3))


def test_ties_are_shuffled_by_the_seed_and_only_ties():
    times = np.tile([0.0, 0.0, 0.0, 1.0], 50)
    columns = np.repeat(np.arange(50), 4), np.tile([0, 1, 2, 3], 50)
    logs = [
        EventLog.from_columns(*columns, times=times, sort=True, random_state=seed)
        for seed in (0, 0, 1)
    ]
    assert (logs[0].categories == logs[1].categories).all()
    assert (logs[0].categories != logs[2].categories).any()
    assert (logs[2].categories[3::4] == 3).all()


def test_an_update_is_a_fit_that_goes_on():
    whole = drawn(3)
    first = whole.first(0.7)
    rest = ~whole.early(0.7)
    later = EventLog.from_columns(
        whole.labels[whole.user_of_row[rest]], whole.categories[rest], n_categories=4
    )
    model = ExcitationModel(decay=0.2).fit(first)
    before = model.excitation_.copy()
    model.update(later)
    full = ExcitationModel(decay=0.2).fit(whole)
    assert_allclose(model.state_, full.state_, atol=1e-12)
    assert_allclose(model.baseline_, full.baseline_, atol=1e-12)
    gap, old_gap = (np.abs(x - full.excitation_).max() for x in (model.excitation_, before))
    assert gap < 0.1
    assert gap < old_gap + 0.02


def test_groups_give_the_usual_shares_of_users_with_few_events():
    users = np.r_[np.repeat(np.arange(10), 60), [90, 91]]
    group = np.where(users < 5, "a", "b")
    group[-2:] = ["a", "b"]
    categories = np.where(group == "a", 0, 1)
    categories[::7] = 2
    log = EventLog.from_columns(users, categories, groups=group, n_categories=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForetellWarning)
        model = ExcitationModel().fit(log)
    a, b = model.usual([90, 91])
    assert a[0] > 0.7 > 0.3 > a[1]
    assert b[1] > 0.7 > 0.3 > b[0]
    assert_allclose(model.baseline_.sum(1), 1.0)


def test_the_same_log_gives_the_same_model_and_fit_leaves_it_alone():
    log = runs_log()
    copy = log.categories.copy()
    one, two = (ExcitationModel(kind="diag+lowrank").fit(log) for _ in range(2))
    assert (one.excitation_ == two.excitation_).all()
    assert (log.categories == copy).all()
