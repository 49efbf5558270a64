"""T4: dual mode holds the violation rate by arithmetic, as long as the weight stays bounded.

(1/T) sum v <= eps + (w_T - w_0) / (eta T) for any users. The weight: let R be the range of the
standardised scores, q the smallest engagement bound, and let every state under the limit leave a
safe category. Then w <= max(w_0, R / q) + eta m, where m is the longest stretch of violations:
above R / q no unsafe item outbids a safe one, so it only rises in a stretch that began below.
(Without the last term the claim is wrong: a stretch can last.) Certain: false-alarm rate 0.
"""

import numpy as np
import pytest

from foretell.trust import ExposureRegulator, SaturationState
from tests.theory.test_exposure_barrier import worst_click
from tests.trust.exposure_worlds import random_model, runs_log

pytestmark = pytest.mark.theory


@pytest.mark.parametrize(("eps", "eta"), [(0.05, 1.0), (0.02, 0.3), (0.0, 1.0), (0.5, 2.0)])
def test_rate_and_weight(eps, eta):
    log = runs_log(n_users=20, n_categories=5)
    kinds, T = np.arange(25) % 5, 150
    violations, stretches = 0, 0
    for seed in range(6):
        model = random_model(seed)
        limit = float(SaturationState(model, rho=1.5).smallest_limit().max()) * 1.05
        regulator = ExposureRegulator(
            model, limit=limit, mode="dual", target_violation=eps, diversifier=None, step=eta,
            rho=1.5, pool=25,
        ).fit(log, warm=False)  # fmt: skip
        rng = np.random.default_rng(seed)
        start = regulator.weight_.copy()
        favourite = kinds == rng.integers(5, size=20)[:, None]
        reach, longest, running = 0.0, np.zeros(20), np.zeros(20)
        total, top = np.zeros(20), start.copy()
        for t in range(1, T + 1):
            scores = rng.normal(size=(20, 25)) + 4.0 * favourite
            z = (scores - scores.mean(1, keepdims=True)) / scores.std(1, keepdims=True)
            reach = max(reach, float(np.ptp(z, axis=1).max()))
            slate = regulator.rerank(np.arange(20), np.arange(25), scores, kinds, 1)
            shown = worst_click(regulator.state_, kinds[slate])
            feedback = regulator.update(np.arange(20), shown)
            total += feedback.violated
            running = np.where(feedback.violated, running + 1, 0)
            longest = np.maximum(longest, running)
            top = np.maximum(top, feedback.weight)
            assert (total / t <= eps + (feedback.weight - start) / (eta * t) + 1e-12).all()
        q = regulator.engagement_bound_.min()
        assert (top <= np.maximum(start, reach / q) + eta * longest + 1e-9).all()
        violations += total.sum()
        stretches = max(stretches, longest.max())
    assert violations > 0
    assert stretches > 1
