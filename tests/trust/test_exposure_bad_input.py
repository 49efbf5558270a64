"""What cannot work is refused: what was given, what is needed, and the line that helps."""

import numpy as np
import pytest

from foretell.core import DataError, NotFittedError, ParameterError
from foretell.trust import (
    DPP,
    MMR,
    CategoryCap,
    EchoRanker,
    EventLog,
    ExcitationModel,
    ExposureRegulator,
    RiskBound,
    SaturationState,
    SimulatedUsers,
    SteckCalibration,
)
from tests.trust.exposure_worlds import known_model, random_model, runs_log

LOG = [0, 0, 1], [0, 1, 1]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"categories": [0, 5, 1], "n_categories": 3},
            r"categories\[1\]=5 is out of range.*0 to 2",
        ),
        ({"categories": [0, -1, 1]}, r"categories\[1\]=-1 is no category.*index of its own"),
        ({"categories": [0, np.nan, 1]}, r"categories\[1\]=nan is no category"),
        ({"categories": [0, 1.5, 1]}, r"categories\[1\]=1.5 is out of range"),
        ({"categories": ["a", "b", "a"]}, r"np.unique\(categories, return_inverse=True\)"),
        ({"categories": [0, 0, 0]}, r"has 1 category; concentration needs at least 2"),
        ({"categories": [0, 1]}, r"categories have the shape \(2,\); needed are 3"),
        ({"engaged": [1, 2, 0]}, r"engaged\[1\]=2; feedback is 0 or 1.*from_ratings"),
        ({"engaged": [1, np.nan, 0]}, r"engaged\[1\]=nan"),
        ({"times": [5, 4, 1]}, r"times\[1\]=4 lies before the previous event of user .*sort=True"),
        ({"times": [5, np.nan, 1]}, r"times\[1\]=nan is no time"),
        ({"groups": ["a", "b", "a"]}, r"groups\[0\]='a', but the same user is in another group"),
    ],
)
def test_logs(columns, message):
    given = {"categories": LOG[1], **columns}
    with pytest.raises(DataError, match=f"(?s){message}"):
        EventLog.from_columns(LOG[0], given.pop("categories"), **given)


def test_more_logs():
    with pytest.raises(DataError, match="the log is empty"):
        EventLog.from_columns([], [])
    with pytest.raises(DataError, match=r"ratings\[2\]=9 lies outside the scale 1 to 5"):
        EventLog.from_ratings(*LOG, [1, 5, 9], scale=(1, 5))
    with pytest.raises(DataError, match=r"ratings\[0\]=nan lies outside"):
        EventLog.from_ratings(*LOG, [np.nan, 5, 2], scale=(1, 5))
    with pytest.raises(ParameterError, match="time_unit needs times"):
        EventLog.from_columns(*LOG, time_unit=1.0)
    with pytest.raises(ParameterError, match="user 9 has no event"):
        EventLog.from_columns(*LOG).rows_of(9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"decay": 0.0}, "decay=0.0; needed is a positive number"),
        ({"decay": "fast"}, "decay='fast'"),
        ({"prior_strength": -1}, "prior_strength=-1"),
        ({"kind": "dense"}, "kind='dense' is not known"),
        ({"rank": 0}, "rank=0"),
        ({"n_iterations": 0}, "n_iterations=0"),
        ({"validation": 1.0}, "validation=1.0"),
    ],
)
def test_model_settings(settings, message):
    with pytest.raises(ParameterError, match=message):
        ExcitationModel(**settings).fit(runs_log(n_users=4))


def test_models():
    with pytest.raises(NotFittedError, match=r"Call fit\(log\) first"):
        ExcitationModel().mark_nll(runs_log(n_users=2))
    with pytest.raises(DataError, match="given list; needed is an EventLog"):
        ExcitationModel().fit([1, 2])
    with pytest.raises(DataError, match="no user has an event in the last 20%"):
        ExcitationModel().fit(EventLog.from_columns([0, 1], [0, 1]))
    model = ExcitationModel().fit(runs_log())
    with pytest.raises(ParameterError, match="the log has 5 categories, the model 4"):
        model.score(runs_log(n_categories=5))
    with pytest.raises(ParameterError, match=r"forgetting=0"):
        model.update(runs_log(), forgetting=0)


def state():
    return SaturationState(random_model(0))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: state().update([0], [1], dt=-1.0), ParameterError, r"dt=-1; .*in order of time"),
        (lambda: state().update([0], [1], dt=np.nan), ParameterError, "dt=nan"),
        (lambda: state().update([0, 1], [1, 1], dt=[1, -2]), ParameterError, "dt=-2"),
        (lambda: state().update([0], [1], dt=np.inf), ParameterError, "dt=inf"),
        (lambda: state().update([0], [5]), DataError, r"categories\[0\]=5 is out of range"),
        (lambda: state().update([0], [-2]), DataError, "is no category"),
        (lambda: state().update([0], [1], [0.5]), DataError, "engaged holds .*0.5"),
        (lambda: state().update([0, 0], [1, 1]), ParameterError, "a user stands twice"),
        (lambda: state().update([99], [1]), ParameterError, r"user .*99.* is not held here.*add"),
        (lambda: SaturationState(random_model(0), rho=0.5), ParameterError, "rho=0.5"),
        (
            lambda: state().update([0], np.full((1, 5), 0.3)),
            DataError,
            r"memberships\[0\] sums to 1.5.*memberships / memberships.sum",
        ),
    ],
)
def test_states(call, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        call()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"limit": 0}, "limit=0; needed is a positive number"),
        ({"limit": -1.0}, "limit=-1.0"),
        ({"limit": np.nan}, "limit=nan"),
        ({"limit": {"quantile": 1.0}}, 'write limit={"quantile": 0.9}'),
        ({"limit": {"share": 0.9}}, 'write limit={"quantile": 0.9}'),
        ({"mode": "soft"}, "mode='soft' is not known; use dual, barrier, penalty"),
        ({"target_violation": 1.0}, r"target_violation=1.0; needed is a share in \[0, 1\)"),
        ({"target_violation": -0.1}, "target_violation=-0.1"),
        ({"delta": 0.0}, "delta"),
        ({"diversifier": "mmr"}, "diversifier='mmr'; use MMR"),
        ({"risk": "guess"}, "risk='guess'"),
        ({"cold_start": "guess"}, "cold_start='guess'"),
        ({"step": 0.0}, "step=0.0"),
        ({"caution": -1.0}, "caution=-1.0"),
        ({"start_weight": -1.0}, "start_weight=-1.0"),
        ({"pool": 0}, "pool=0"),
        ({"mode": "barrier", "also_decays": (0.5, -1)}, "also_decays=.*positive factors"),
        ({"mode": "dual", "also_decays": (0.5,)}, 'also_decays needs mode="barrier"'),
        ({"mode": "barrier", "limit": 1.0, "also_decays": (2,)}, "a quantile as the limit"),
        ({"rho": 0.0}, "rho=0.0"),
    ],
)
def test_regulator_settings(settings, message):
    with pytest.raises(ParameterError, match=message):
        ExposureRegulator(random_model(0), **settings).fit(runs_log(n_users=20, n_categories=5))


def test_a_barrier_that_cannot_be_kept_names_the_smallest_that_can():
    model = known_model(np.full((20, 5), 0.2), 0.3 * np.eye(5), np.log(2))
    log = runs_log(n_users=20, n_categories=5)
    settings = {"rho": 1.0, "mode": "barrier"}
    with pytest.raises(
        ParameterError, match=r"20 of 20 users.*smallest feasible limit is 0\.6"
    ) as e:
        ExposureRegulator(model, limit=0.59, **settings).fit(log)
    assert "write limit=0.6" in str(e.value)
    assert "allow_infeasible=True" in str(e.value)
    ExposureRegulator(model, limit=0.6001, **settings).fit(log)
    ExposureRegulator(model, limit=0.3, allow_infeasible=True, **settings).fit(log)


def test_a_quantile_at_zero_is_refused():
    model = known_model(np.full((20, 5), 0.2), 0.01 * np.eye(5), 0.5)
    with pytest.raises(
        ParameterError, match=r"quantile of saturation over the log is 0.*lower rho"
    ):
        ExposureRegulator(model, rho=5.0).fit(runs_log(n_users=20, n_categories=5))


ITEMS, SCORES, KINDS = np.arange(6), np.arange(6.0), np.arange(6) % 5


@pytest.fixture(scope="module")
def regulator():
    log = runs_log(n_users=20, n_categories=5)
    return ExposureRegulator(random_model(0), limit=1.0).fit(log)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            (99, ITEMS, SCORES, KINDS),
            ParameterError,
            r"user .*99.* is unknown.*cold_start=\"prior\"",
        ),
        ((0, ITEMS, [0, 1, np.nan, 3, 4, 5], KINDS), DataError, r"scores\[0, 2\] is nan.*mask="),
        ((0, ITEMS, [0, 1, 2, np.inf, 4, 5], KINDS), DataError, r"scores\[0, 3\] is inf"),
        ((0, ITEMS, SCORES, KINDS, 7), ParameterError, r"k=7 slots, but .* 6 candidates.*k=6"),
        ((0, ITEMS, SCORES, KINDS, 0), ParameterError, "k=0"),
        ((0, ITEMS, SCORES, [0, 1, 2, 3, 4, 7]), DataError, r"categories\[5\]=7 is out of range"),
        ((0, ITEMS, SCORES, [0, 1, 2, 3, 4, -1]), DataError, r"categories\[5\]=-1 is no category"),
        ((0, ITEMS, SCORES, [0, 1]), DataError, r"categories have the shape \(2,\)"),
        ((0, ITEMS[:3], SCORES, KINDS), DataError, r"item_ids have the shape \(3,\)"),
        (([0, 1], ITEMS, np.zeros((3, 6)), KINDS), DataError, r"scores have the shape \(3, 6\)"),
        ((0, ITEMS, SCORES, np.full((6, 5), 0.3)), DataError, r"memberships\[0\] sums to 1.5"),
    ],
)
def test_rerank(regulator, arguments, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        regulator.rerank(*arguments)


def test_a_mask_lets_infinite_scores_stand_and_counts_the_rest(regulator):
    scores = np.array([0, 1, -np.inf, 3, np.nan, 5])
    shown = regulator.rerank(0, ITEMS, scores, KINDS, 4, mask=np.isfinite(scores))
    assert set(shown) == {0, 1, 3, 5}
    with pytest.raises(ParameterError, match="k=5 slots, but user number 0 has 4 candidates"):
        regulator.rerank(0, ITEMS, scores, KINDS, 5, mask=np.isfinite(scores))


def test_a_refused_update_changes_nothing(regulator):
    kept = regulator.state_.S_.copy()
    for bad in ({"categories": 9}, {"categories": 1, "engaged": [7]}, {"categories": 1, "dt": -1}):
        with pytest.raises((DataError, ParameterError)):
            regulator.update(0, **bad)
    assert (regulator.state_.S_ == kept).all()


def test_regulators_before_fit_and_feedback(regulator):
    with pytest.raises(NotFittedError, match=r"Call fit\(log\) first"):
        ExposureRegulator().rerank(0, ITEMS, SCORES, KINDS)
    with pytest.raises(ParameterError, match="dt=-1"):
        regulator.update(0, 1, dt=-1)
    with pytest.raises(DataError, match="out of range"):
        regulator.update(0, 7)
    with pytest.raises(DataError, match="each 0 or 1"):
        regulator.update([0], [1], [3])


@pytest.mark.parametrize(
    "make",
    [
        lambda: MMR(1.5), lambda: MMR(0.5, over="mean"), lambda: SteckCalibration(-0.1),
        lambda: DPP(quality=0), lambda: DPP(distinct=2), lambda: CategoryCap(0),
        lambda: RiskBound(0), lambda: RiskBound(3, delta=2.0),
    ],
)  # fmt: skip
def test_parts(make):
    with pytest.raises(ParameterError, match=r"needed is|is not known|delta"):
        make()


def test_cells_and_simulated_users():
    with pytest.raises(DataError, match=r"entry 1 books 2 in cell 0"):
        RiskBound(3).update([0, 0], [0, 2])
    with pytest.raises(DataError, match="in cell 3"):
        RiskBound(3).update([3], [0])
    with pytest.raises(DataError, match="needed are 2 rows of shares"):
        SimulatedUsers(np.zeros((2, 3)), [0, 1, 1], np.full((2, 2), 0.7))
    with pytest.raises(ParameterError, match="drift=2"):
        SimulatedUsers(np.zeros((2, 3)), [0, 1, 1], np.full((2, 2), 0.5), drift=2)
    users = SimulatedUsers(np.zeros((2, 3)), [0, 1, 1], np.full((2, 2), 0.5))
    with pytest.raises(ParameterError, match="n=3 users; the model has 2"):
        users.reset(3, np.random.default_rng(0))
    from foretell.trust import ClosedLoopSimulator

    ranker = EchoRanker(np.zeros((2, 3)), [0, 1, 1], np.full((2, 2), 0.5))
    with pytest.raises(ParameterError, match="without a regulator"):
        ClosedLoopSimulator(users, ranker, None)
