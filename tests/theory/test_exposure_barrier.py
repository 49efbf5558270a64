"""T3: in barrier mode a user under the limit stays under it, whatever the user does.

If D <= L and the slate holds only categories with D+ <= L, then D <= L after the step. From every
D <= L there is such a category when some category's jump, less what fades below rho times the usual
share, is at most (1 - e^{-beta}) L: ``smallest_limit``. That is a weaker need than the plain
min_c J_c <= (1 - e^{-beta}) L, which it equals at rho = 1. Both are certain: false-alarm rate 0.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from foretell.trust import MMR, ExposureRegulator, SaturationState
from tests.trust.exposure_worlds import known_model, random_model, runs_log

pytestmark = pytest.mark.theory


def worst_click(state, shown):
    """What raises D most: the adversary's choice within each slate."""
    return np.take_along_axis(
        shown, np.take_along_axis(state.lookahead(), shown, 1).argmax(1)[:, None], 1
    )[:, 0]


@pytest.mark.parametrize("diversifier", [None, MMR(0.7)])
@pytest.mark.parametrize("rho", [1.0, 2.0])
def test_an_adversarial_user_never_leaves(rho, diversifier):
    log = runs_log(n_users=20, n_categories=5)
    changed = 0
    for seed in range(6):
        model = random_model(seed)
        limit = float(SaturationState(model, rho=rho).smallest_limit().max()) * 1.0001
        regulator = ExposureRegulator(
            model, limit=limit, mode="barrier", diversifier=diversifier, rho=rho
        ).fit(log, warm=False)
        rng = np.random.default_rng(seed)
        kinds = np.arange(30) % 5
        favourite = rng.integers(5, size=20)
        for _ in range(60):
            scores = rng.normal(size=(20, 30)) + 3.0 * (kinds == favourite[:, None])
            slate = regulator.rerank(
                np.arange(20), np.arange(30), scores, kinds, 3, return_reasons=True
            )
            shown = kinds[slate.items]
            changed += (slate.items != slate.plain).sum()
            regulator.update(np.arange(20), worst_click(regulator.state_, shown))
            assert (regulator.state_.saturation() <= limit * (1 + 1e-12)).all()
            assert not slate.forced.any()
    assert changed > 0


@pytest.mark.parametrize("rho", [1.0, 1.5, 2.0])
def test_below_a_feasible_limit_some_category_is_always_safe(rho):
    for seed in range(15):
        state = SaturationState(random_model(seed), rho=rho)
        rng = np.random.default_rng(seed)
        least = state.smallest_limit()
        jumps = state.model.excitation_.sum(0).min()
        assert (least <= jumps / (1 - np.exp(-state.model.decay_)) + 1e-12).all()
        for _ in range(20):
            state.S_ = rng.exponential(1.0, state.S_.shape) * (rng.random(state.S_.shape) < 0.4)
            for _ in range(80):  # shrink until every user is at or below the limit
                over = state.saturation() > least
                state.S_[over] *= 0.9
            assert (state.lookahead().min(1) <= least * (1 + 1e-9)).all()


def test_at_rho_one_the_condition_cannot_be_weakened():
    # One category, all excitation on itself: D = L, one engagement leads to e^{-beta} L + J.
    model = known_model([[0.5, 0.5]], 0.3 * np.eye(2), np.log(2))
    state = SaturationState(model, rho=1.0)
    state.S_[:] = [2.0 * 0.599 / 0.6, 0.0]
    assert_allclose(state.saturation(), 0.599)
    assert state.lookahead().min() > 0.599  # below 0.6 no category is safe from here
