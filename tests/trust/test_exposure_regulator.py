"""Re-ranking: against a slow reference, in every mode, with reasons, memberships and files."""

import time

import numpy as np
import pytest
from numpy.testing import assert_allclose

from foretell.trust import (
    DPP,
    MMR,
    CategoryCap,
    ExposureRegulator,
    SteckCalibration,
)
from tests.trust.exposure_worlds import known_model, random_model, runs_log

USERS, ITEMS, KINDS = np.arange(20), np.arange(40) + 1000, np.arange(40) % 5


@pytest.fixture(scope="module")
def log():
    return runs_log(n_users=20, n_categories=5)


def regulator(log, seed=0, **settings):
    settings = {"limit": 0.5, "rho": 1.0, "allow_infeasible": True, **settings}
    made = ExposureRegulator(random_model(seed), **settings).fit(log, warm=False)
    made.state_.S_ = np.random.default_rng(seed).exponential(1.0, made.state_.S_.shape)
    return made


def slow_slate(reg, user, scores, k):
    """One user, one candidate after the other, by the formulas."""
    z = (scores - scores.mean()) / scores.std()
    state, L = reg.state_, reg.limit_[user]
    alpha, fade = state.model.excitation_, np.exp(-state.model.decay_)
    slack = (state.rho - 1) * state.mu_[user]

    def saturation(S):
        return np.maximum(alpha @ S - slack, 0).sum()

    idle = saturation(fade * state.S_[user])
    ahead = [saturation(fade * state.S_[user] + np.eye(5)[c]) for c in range(5)]
    chosen = []
    for _ in range(k):
        safe_left = any(ahead[KINDS[i]] <= L for i in range(40) if i not in chosen)
        best, best_value = None, -np.inf
        for i in set(range(40)) - set(chosen):
            c = KINDS[i]
            if reg.mode == "barrier" and safe_left and ahead[c] > L:
                continue
            price = 0.0
            if reg.mode == "dual":
                q = reg.engagement_bound_[c]
                risk = q * (ahead[c] > L) + (1 - q) * (idle > L)
                price = reg.weight_[user] * risk * (1 + max(0, ahead[c] - L) / L)
            value = (1 - 0.7) * (z[i] - price)
            value -= 0.7 * 4 * sum(KINDS[j] == c for j in chosen) / max(1, len(chosen))
            if reg.mode == "barrier" and not safe_left:
                value = value * 1e-9 - ahead[c]
            if value > best_value:
                best, best_value = i, value
        chosen.append(best)
    return ITEMS[chosen]


@pytest.mark.parametrize("mode", ["dual", "barrier"])
@pytest.mark.parametrize("limit", [0.3, 0.7, 1.5])
def test_the_batch_is_the_slow_reference(log, mode, limit):
    reg = regulator(log, mode=mode, limit=limit)
    scores = np.random.default_rng(1).normal(size=(20, 40))
    slates = reg.rerank(USERS, ITEMS, scores, KINDS, k=6)
    for u in USERS:
        assert slates[u].tolist() == slow_slate(reg, u, scores[u], 6).tolist()


def slow_dpp(z, kinds, rule, k):
    """Greedy by determinants."""
    same = kinds[:, None] == kinds[None, :]
    alike = (1 - rule.distinct) * np.exp(-(1.0 - same) / rule.width)
    np.fill_diagonal(alike, 1.0)
    q = np.exp(rule.quality * z)
    kernel = q[:, None] * q[None, :] * alike
    chosen = []
    for _ in range(k):
        rest = [i for i in range(z.size) if i not in chosen]
        value = [np.linalg.slogdet(kernel[np.ix_([*chosen, i], [*chosen, i])])[1] for i in rest]
        chosen.append(rest[int(np.argmax(value))])
    return chosen


def test_the_determinantal_process_is_the_greedy_determinant(log):
    rule = DPP(quality=0.4, width=0.7)
    reg = regulator(log, limit=1e9, diversifier=rule)
    scores = np.random.default_rng(2).normal(size=(20, 40))
    slates = reg.rerank(USERS, ITEMS, scores, KINDS, k=7)
    for u in USERS:
        z = (scores[u] - scores[u].mean()) / scores[u].std()
        assert slates[u].tolist() == ITEMS[slow_dpp(z, KINDS, rule, 7)].tolist()


def test_calibration_is_the_divergence_itself(log):
    rule = SteckCalibration(0.6)
    reg = regulator(log, limit=1e9, diversifier=rule)
    scores = np.random.default_rng(3).normal(size=(20, 40))
    slates = reg.rerank(USERS, ITEMS, scores, KINDS, k=5)
    for u in USERS[:5]:
        z, p, chosen = (scores[u] - scores[u].mean()) / scores[u].std(), reg.state_.mu_[u], []
        for _ in range(5):
            value = np.full(40, -np.inf)
            for i in set(range(40)) - set(chosen):
                q = np.bincount(KINDS[[*chosen, i]], minlength=5) / (len(chosen) + 1)
                value[i] = 0.4 * z[i] - 0.6 * (p * np.log(p / (0.99 * q + 0.01 * p))).sum()
            chosen.append(int(value.argmax()))
        assert slates[u].tolist() == ITEMS[chosen].tolist()


def test_memberships_that_are_categories_change_nothing(log):
    scores = np.random.default_rng(4).normal(size=(20, 40))
    for rule in (MMR(0.7), MMR(0.5, over="max"), SteckCalibration(), DPP(), CategoryCap(1), None):
        reg = regulator(log, diversifier=rule)
        by_index = reg.rerank(USERS, ITEMS, scores, KINDS, k=5)
        by_share = reg.rerank(USERS, ITEMS, scores, np.eye(5)[KINDS], k=5)
        assert (by_index == by_share).all(), rule


def test_shared_and_own_candidates_agree_and_the_pool_keeps_the_best(log):
    scores = np.random.default_rng(5).normal(size=(20, 40))
    reg = regulator(log)
    shared = reg.rerank(USERS, ITEMS, scores, KINDS, k=5)
    own = reg.rerank(USERS, np.tile(ITEMS, (20, 1)), scores, np.tile(KINDS, (20, 1)), k=5)
    assert (shared == own).all()
    narrow = regulator(log, pool=5, diversifier=None, limit=1e9).rerank(
        USERS, ITEMS, scores, KINDS, k=5
    )
    assert (np.sort(narrow) == np.sort(ITEMS[np.argsort(-scores)[:, :5]])).all()


def test_without_a_price_and_variety_the_ranker_is_kept(log):
    scores = np.random.default_rng(6).normal(size=(20, 40))
    reg = regulator(log, limit=1e9, diversifier=None)
    slate = reg.rerank(USERS, ITEMS, scores, KINDS, k=5, return_reasons=True)
    assert (slate.items == slate.plain).all()
    assert slate.moves(0) == []
    assert "0% of the slots changed" in repr(slate)


def test_reasons_name_the_item_the_displaced_and_the_saturation(log):
    model = known_model(np.full((20, 5), 0.2), np.diag([0.5, 0.3, 0.3, 0.3, 0.3]), np.log(2))
    reg = ExposureRegulator(model, limit=0.85, rho=1.0, mode="barrier", diversifier=None)
    reg.fit(log, warm=False)
    reg.update(3, 0)
    reg.update(3, 0)
    # D = 0.75, fading to 0.375: one more of category 0 leads to 0.875, of another one to 0.675.
    slate = reg.rerank(3, ITEMS, -np.arange(40.0), KINDS, k=2, return_reasons=True)
    assert_allclose(slate.relative, 0.375 / 0.85)
    assert_allclose([slate.ahead_plain[0, 0], slate.ahead[0, 0]], [0.875 / 0.85, 0.675 / 0.85])
    assert not slate.forced.any()
    move = slate.moves()[0]
    assert (move.item, move.displaced, move.slot) == (1001, 1000, 0)
    assert move.with_displaced > 1 >= move.with_item
    assert "1001 for 1000, which could raise saturation" in repr(move)


def test_updates_book_state_weight_and_cells(log):
    reg = regulator(log, limit=0.05, target_violation=0.1, step=0.5)
    before = reg.weight_.copy()
    feedback = reg.update(USERS[:4], [0, 1, -1, 2], [1, 0, 0, 1])
    assert_allclose(feedback.weight, before[:4] + 0.5 * (feedback.violated - 0.1))
    assert_allclose(reg.cells_.counts.sum(1), [1, 1, 1, 0, 0])
    assert (reg.weight_[4:] == before[4:]).all()


def test_penalty_mode_prefers_what_was_seldom_broken(log):
    reg = regulator(log, mode="penalty", diversifier=None, exploration=0.0, limit=5.0)
    reg.cells_.update([0] * 4000, [0.6] * 4000, [1] * 4000)
    for c in range(1, 5):
        reg.cells_.update([c] * 4000, [0.6] * 4000, [0] * 4000)
    reg.state_.S_[:] = 1.0
    shown = (reg.rerank(USERS, ITEMS, np.tile(-0.01 * KINDS, (20, 1)), KINDS, k=3) - 1000) % 5
    assert (shown != 0).all()


def test_cells_price_without_trusting_the_model(log):
    reg = regulator(log, risk="cells", diversifier=None, limit=5.0, start_weight=5.0)
    now = reg.state_.saturation() / reg.limit_
    for c in range(5):
        reg.cells_.update([c] * 9000, np.repeat(now, 450), [c == 0] * 9000)
    slates = reg.rerank(USERS, ITEMS, np.tile(-0.01 * KINDS, (20, 1)), KINDS, k=3)
    assert ((slates - 1000) % 5 != 0).all()


def test_caution_bars_no_less(log):
    scores = np.random.default_rng(8).normal(size=(20, 40))
    barred = []
    for caution in (0.0, 1.28, 5.0):
        reg = regulator(log, caution=caution, limit=0.8)
        slate = reg.rerank(USERS, ITEMS, scores, KINDS, k=5, return_reasons=True)
        barred.append(slate.ahead_plain.mean())
    assert barred[0] < barred[1] < barred[2]


def test_cold_users_start_with_everyones_shares(log):
    reg = regulator(log, cold_start="prior")
    slate = reg.rerank(777, ITEMS, -np.arange(40.0), KINDS, k=3)
    assert slate.shape == (3,)
    assert 777 in reg.state_.labels_
    assert_allclose(reg.state_.saturation([777]), 0.0)
    assert reg.limit_.size == reg.weight_.size == 21
    reg.update([777], [2])
    assert reg.state_.saturation([777])[0] > 0


def test_groups_have_limits_of_their_own():
    users = np.repeat(np.arange(40), 100)
    group = np.where(users < 20, "calm", "eager")
    categories = runs_log(n_users=40).categories.copy()
    rng = np.random.default_rng(0)
    categories[users < 20] = rng.integers(4, size=2000)
    from foretell.trust import EventLog

    both = EventLog.from_columns(users, categories, groups=group, n_categories=4)
    reg = ExposureRegulator(rho=1.2).fit(both)
    calm, eager = reg.limit_[0], reg.limit_[-1]
    assert calm < eager
    D = reg.state_.replay(both)
    assert np.mean(D[2000:] > eager) == pytest.approx(0.1, abs=0.005)


def test_a_saved_regulator_goes_on_exactly(log, tmp_path):
    scores = np.random.default_rng(9).normal(size=(20, 40))
    reg = regulator(log, diversifier=DPP(0.3))
    reg.update(USERS, KINDS[:20])
    again = ExposureRegulator.load(reg.save(tmp_path / "feed"))
    assert again.get_params().keys() == reg.get_params().keys()
    for one in (reg, again):
        one.update(USERS, KINDS[5:25])
    assert (again.state_.S_ == reg.state_.S_).all()
    assert (again.weight_ == reg.weight_).all()
    slates = [one.rerank(USERS, ITEMS, scores, KINDS, k=5) for one in (reg, again)]
    assert (slates[0] == slates[1]).all()


def test_text_labels_of_users_and_items(tmp_path):
    log = runs_log(n_users=3)
    from foretell.trust import EventLog

    named = EventLog.from_columns(
        np.array(["ann", "bob", "cleo"])[log.user_of_row], log.categories, n_categories=4
    )
    reg = ExposureRegulator(rho=1.2).fit(named)
    reg = ExposureRegulator.load(reg.save(tmp_path / "feed"))
    titles = np.array(["a", "b", "c", "d"])
    assert set(reg.rerank("bob", titles, [4, 3, 2, 1], [0, 1, 2, 3], k=2)) <= set(titles)


def test_a_barrier_without_a_way_out_takes_the_least_bad_and_says_so(log):
    reg = regulator(log, mode="barrier", limit=0.01, diversifier=None)
    slate = reg.rerank(USERS, ITEMS, -np.arange(40.0) + np.zeros((20, 1)), KINDS, k=1,
                       return_reasons=True)  # fmt: skip
    assert slate.forced.all()
    assert_allclose(slate.ahead[:, 0] * 0.01, reg.state_.lookahead().min(1))


def test_a_barrier_for_several_decays_bars_what_any_of_them_bars(log, tmp_path):
    settings = {"mode": "barrier", "diversifier": None, "allow_infeasible": True, "rho": 1.2}
    wide = ExposureRegulator(also_decays=(0.5, 2.0), cold_start="prior", **settings).fit(log)
    again = ExposureRegulator.load(wide.save(tmp_path / "feed"))
    scores = np.random.default_rng(11).normal(size=(20, 40))
    for one in (wide, again):
        one.update(USERS, KINDS[:20])
        slate = one.rerank(USERS, ITEMS, scores, KINDS, k=2, return_reasons=True)
        kinds = KINDS[slate.columns]
        assert (~slate.forced).any()
        for guard in [*one.guards_]:
            ratio = np.take_along_axis(guard.relative(USERS, None), kinds, axis=1)
            assert (ratio[~slate.forced] <= 1).all()
    assert (again.guards_[1].state.S_ == wide.guards_[1].state.S_).all()
    decays = [guard.state.model.decay_ / wide.model_.decay_ for guard in wide.guards_]
    assert_allclose(decays, [0.5, 2.0])
    wide.rerank(555, ITEMS, scores[0], KINDS, k=2)
    assert wide.guards_[0].limit.size == 21


def test_equal_scores_keep_the_order_of_the_candidates(log):
    reg = regulator(log, limit=1e9, diversifier=None)
    assert reg.rerank(0, ITEMS, np.ones(40), KINDS, k=4).tolist() == ITEMS[:4].tolist()


@pytest.mark.slow
def test_ten_thousand_users_of_a_hundred_thousand_within_a_second():
    rng = np.random.default_rng(0)
    U, B, n, C = 100_000, 10_000, 200, 19
    log = runs_log(n_users=40, n_categories=C)
    model = known_model(rng.dirichlet(np.ones(C), size=U), 0.05 * np.eye(C) + 0.004, 0.1)
    reg = ExposureRegulator(model, limit=0.8, cold_start="prior", rho=1.5).fit(log)
    reg._rows(np.arange(U))
    scores, kinds = rng.normal(size=(B, n)), rng.integers(C, size=n)
    users = rng.choice(U, B, replace=False)
    seconds = []
    for _ in range(4):
        start = time.process_time()
        reg.rerank(users, np.arange(n), scores, kinds, k=10)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 1.0
