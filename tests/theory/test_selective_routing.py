"""A route fixed on tuning cases keeps the level of the whole system; models one by one do not.

300 calibration samples behind one fixed route; the true risk of each calibrated system is measured
on 200,000 further cases. "pac" may fail in a share delta of the calibrations: binomial quantile
at 1 - 1e-5. The average of `plugin_corrected` is compared with alpha plus 5 standard errors. The
naive way must be above alpha by 5 standard errors, or the test could not fail.
"""

import warnings

import numpy as np
import pytest
from scipy.stats import binom

from foretell.core import ForetellWarning
from foretell.trust import CascadeRouter, SelectiveThreshold

ALPHA, DELTA, RUNS, N = 0.15, 0.1, 300, 150


def draw(rng, n):
    """Two models of one difficulty with errors of their own."""
    difficulty = rng.uniform(size=(n, 1))
    wrong = (rng.uniform(size=(n, 2)) < difficulty * [0.6, 0.45]).astype(int)
    return difficulty + rng.normal(0, 0.15, size=(n, 2)), wrong


@pytest.mark.theory
@pytest.mark.filterwarnings("ignore::foretell.core.ForetellWarning")
def test_the_path_keeps_the_level_of_the_system():
    rng = np.random.default_rng(0)
    far, wrong = draw(rng, 200_000)
    router = CascadeRouter(alpha=ALPHA, stop_at=[0.1]).fit_path(*draw(rng, 1000))
    model, risk = router._follow(far)
    order = np.argsort(risk)
    error = wrong[np.arange(model.size), model][order]
    share = np.cumsum(error) / np.arange(1, error.size + 1)
    found = {"pac": [], "plugin_corrected": []}
    for _ in range(RUNS):
        u, e = draw(rng, N)
        for guarantee, risks in found.items():
            router.set_params(guarantee=guarantee).fit(u, e)
            limit = router.rule_.threshold_
            k = 0 if limit is None else np.searchsorted(risk[order], limit, side="right")
            risks.append(share[k - 1] if k else 0.0)
    failures = np.count_nonzero(np.array(found["pac"]) > ALPHA)
    assert failures <= binom.ppf(1 - 1e-5, RUNS, DELTA)
    mean = np.array(found["plugin_corrected"])
    assert mean.mean() <= ALPHA + 5 * mean.std() / np.sqrt(RUNS)
    assert mean.mean() > 0.3 * ALPHA  # it does accept


@pytest.mark.theory
def test_each_model_for_itself_breaks_the_level():
    rng = np.random.default_rng(1)
    far, wrong = draw(rng, 100_000)
    risks = []
    for _ in range(RUNS):
        u, e = draw(rng, N)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ForetellWarning)
            rules = [
                SelectiveThreshold(alpha=ALPHA, guarantee="plugin").fit(u[:, k], e[:, k])
                for k in (0, 1)
            ]
        cuts = [-np.inf if r.threshold_ is None else r.threshold_ for r in rules]
        below = far <= cuts
        model = np.where(below[:, 0], 0, 1)
        kept = below.any(axis=1)
        risks.append(wrong[np.arange(model.size), model][kept].mean() if kept.any() else 0.0)
    x = np.array(risks)
    assert x.mean() > ALPHA + 5 * x.std() / np.sqrt(RUNS)
