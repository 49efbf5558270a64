"""T2: saturation recovers in finitely many steps, and the number is known beforehand.

Without engagement D_{t+j} <= e^{-beta j} D_t (rho >= 1), so D <= L after ceil(ln(D/L) / beta).
With engagements of total jump at most J: D_{t+1} <= e^{-beta} D_t + J, so for
D* = J / (1 - e^{-beta}) < L at most ceil(ln((D - D*) / (L - D*)) / beta) steps. Both are certain:
the false-alarm rate is 0.
"""

import numpy as np
import pytest

from foretell.trust import SaturationState
from tests.trust.exposure_worlds import random_model

pytestmark = pytest.mark.theory


def saturated(seed, rho):
    state = SaturationState(random_model(seed, strength=0.4), rho=rho)
    rng = np.random.default_rng(seed)
    state.S_ = rng.exponential(3.0, state.S_.shape)
    return state, rng


@pytest.mark.parametrize("rho", [1.0, 1.5, 2.0])
def test_rest_recovers_in_the_stated_number_of_steps(rho):
    tightest = 0.0
    for seed in range(60):
        state, _ = saturated(seed, rho)
        beta, D = state.model.decay_, state.saturation()
        limit = 0.2 * D.max()
        above = limit < D
        promised = np.ceil(np.log(D[above] / limit) / beta)
        needed = np.zeros(D.size)
        for j in range(1, int(promised.max()) + 1):
            state.update(state.labels_, None)
            now = state.saturation()
            assert (now <= np.exp(-beta * j) * D + 1e-12).all()
            needed[(now > limit * (1 + 1e-12))] = j
        assert (needed[above] + 1 <= promised).all()
        tightest = max(tightest, ((needed[above] + 1) / promised).max())
    assert tightest > 0.5 if rho > 1 else tightest == 1.0  # with rho = 1 the bound is reached


def test_recovery_under_engagement_with_small_jumps():
    for seed in range(60):
        state, rng = saturated(seed, 1.0)
        beta, D = state.model.decay_, state.saturation()
        jumps = state.model.excitation_.sum(0)
        small = np.flatnonzero(jumps <= np.sort(jumps)[1])
        J = jumps[small].max()
        rest = J / (1 - np.exp(-beta))
        limit = 1.3 * rest
        above = limit < D
        promised = np.ceil(np.log((D[above] - rest) / (limit - rest)) / beta)
        needed = np.zeros(D.size)
        for j in range(1, int(max(promised, default=0)) + 1):
            before = state.saturation()
            shown = rng.choice(small, D.size)
            state.update(state.labels_, shown, rng.integers(2, size=D.size))
            now = state.saturation()
            assert (now <= np.exp(-beta) * before + J + 1e-12).all()
            needed[now > limit * (1 + 1e-12)] = j
        assert (needed[above] + 1 <= promised).all()
