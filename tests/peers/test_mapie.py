"""Where definitions coincide, MAPIE's controller and ours find the same threshold.

Bonferroni over a grid of thresholds is the union bound over exact binomial tests; a fixed
sequence is `test_at`.
"""

import warnings

import numpy as np
import pytest

from foretell.trust import SelectiveThreshold

risk_control = pytest.importorskip("mapie.risk_control")
GRID = np.linspace(0.9, 0.3, 13)  # confidences, surest first


def controlled(u, e, alpha, method):
    def proba(X):
        x = np.asarray(X, dtype=float).ravel()
        return np.column_stack([1 - x, x])

    controller = risk_control.BinaryClassificationController(
        proba, "precision", 1 - alpha, confidence_level=0.9,
        list_predict_params=GRID, fwer_method=method,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        controller.calibrate(1 - u[:, None], 1 - e)
    return controller


@pytest.mark.peer
@pytest.mark.parametrize("seed", range(6))
def test_a_fixed_sequence_is_test_at(seed):
    rng = np.random.default_rng(seed)
    u = rng.uniform(size=500)
    e = (rng.uniform(size=500) < 0.4 * u).astype(int)
    rule = SelectiveThreshold(alpha=0.12, test_at=1 - GRID).fit(u, e)
    best = controlled(u, e, 0.12, "fixed_sequence").best_predict_param
    theirs = -np.inf if best is None else 1 - best
    ours = -np.inf if rule.threshold_ is None else rule.threshold_
    assert ours == pytest.approx(theirs, abs=1e-12)


@pytest.mark.peer
def test_the_p_values_are_ours():
    from foretell.trust.selective.feasible import _pvalue

    rng = np.random.default_rng(0)
    u = rng.uniform(size=400)
    e = (rng.uniform(size=400) < 0.3 * u).astype(int)
    theirs = np.ravel(controlled(u, e, 0.1, "bonferroni").p_values)
    for confidence, p in zip(GRID, theirs, strict=True):
        kept = 1 - u >= confidence
        exact = _pvalue(float(e[kept].sum()), int(kept.sum()), 0.1, True)
        # Theirs is Hoeffding-Bentkus or exact binomial; never below the exact tail.
        assert p >= exact - 1e-9
