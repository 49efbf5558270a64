"""Freezing evidence early loses it on at most a share alpha of questions, over calibration draws.

Every question has a path of scores and of errors, dependent within the question and not monotone:
freezing later may go wrong where freezing earlier did not. The true loss of a threshold is computed
on 20,000 fresh questions. A cell compares the mean over 300 calibrations ("marginal") with alpha
plus 5 standard errors, or the number of calibrations whose risk among the frozen exceeds alpha
("pac") with a binomial quantile at 3e-7. With 12 cells at equality a run fails by chance with
probability below 1e-5. The Monte Carlo error of the true loss, 0.002, is added to the bounds.
"""

import numpy as np
import pytest
from scipy.stats import binom

from foretell.converse.lookup import RiskControlled

BLOCKS, RUNS, TRUTH = 6, 300, 20_000


def draw(rng: np.random.Generator, n: int, law: str) -> tuple[np.ndarray, np.ndarray]:
    """Scores and errors, shape (n, BLOCKS)."""
    hard = rng.uniform(size=(n, 1))
    growth = np.linspace(0.1, 1.0, BLOCKS)
    noise = 0.25 * rng.normal(size=(n, BLOCKS))
    scores = growth * (1 - 0.6 * hard) + noise
    if law == "informative":
        chance = np.clip(1.2 * hard - 0.8 * growth, 0, 1)
    elif law == "useless":
        chance = np.full((n, BLOCKS), 0.15)
    else:  # freezing later goes wrong more often
        chance = np.clip(0.4 * hard * growth**2, 0, 1)
    if law == "useless":
        scores = rng.uniform(size=(n, BLOCKS))
    return scores, (rng.uniform(size=(n, BLOCKS)) < chance).astype(float)


def frozen(scores: np.ndarray, limit: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Whether each question freezes, and at which block."""
    if limit is None:
        return np.zeros(len(scores), bool), np.zeros(len(scores), int)
    reached = scores >= limit
    return reached.any(axis=1), reached.argmax(axis=1)


class Truth:
    """How many questions freeze at a limit, and on how many that goes wrong.

    A question freezes at the block whose score is the first to reach the limit: the limit lies
    above the best score before, and not above this one.
    """

    def __init__(self, scores: np.ndarray, wrong: np.ndarray) -> None:
        best = np.maximum.accumulate(scores, axis=1)
        before = np.column_stack([np.full(len(scores), -np.inf), best[:, :-1]])
        bad = (scores > before) & (wrong > 0)
        self.best = np.sort(best[:, -1])
        self.reached, self.passed = np.sort(scores[bad]), np.sort(before[bad])

    def __call__(self, limit: float | None) -> tuple[int, int]:
        if limit is None:
            return 0, 0

        def at_least(values: np.ndarray) -> int:
            return values.size - int(np.searchsorted(values, limit))

        return at_least(self.best), at_least(self.reached) - at_least(self.passed)


@pytest.fixture(scope="module", params=["informative", "useless", "worse later"])
def truth(request: pytest.FixtureRequest) -> tuple[str, Truth]:
    scores, wrong = draw(np.random.default_rng(1), TRUTH, request.param)
    found = Truth(scores, wrong)
    for limit in (None, -1.0, 0.2, 0.7, 2.0):
        early, block = frozen(scores, limit)
        lost = early & (wrong[np.arange(TRUTH), block] > 0)
        assert found(limit) == (early.sum(), lost.sum())
    return request.param, found


@pytest.mark.theory
@pytest.mark.parametrize("guarantee", ["marginal", "pac"])
@pytest.mark.parametrize(("n", "alpha"), [(60, 0.1), (150, 0.2)])
def test_the_loss_of_evidence_is_controlled(truth, guarantee, n, alpha):
    law, outcome = truth
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(n), BLOCKS)
    losses, risks = [], []
    for _ in range(RUNS):
        scores, errors = draw(rng, n, law)
        rule = RiskControlled(alpha, guarantee=guarantee)
        limit = rule.fit(scores.ravel(), errors.ravel(), groups).threshold_
        early, lost = outcome(limit)
        losses.append(lost / TRUTH)
        risks.append(lost / max(early, 1))
    if guarantee == "marginal":
        error = np.std(losses) / np.sqrt(RUNS)
        assert np.mean(losses) <= alpha + 5 * error + 0.002
    else:
        failed = np.count_nonzero(np.array(risks) > alpha + 0.002)
        assert failed <= binom.ppf(1 - 3e-7, RUNS, 0.1)


@pytest.mark.theory
def test_the_counted_loss_covers_the_true_one_and_grows():
    """On any path, freezing at lam goes wrong only if the question's case says so."""
    from foretell.converse.lookup import question_cases

    rng = np.random.default_rng(2)
    scores, errors = draw(rng, 400, "worse later")
    cases, lost = question_cases(scores.ravel(), errors.ravel(), np.repeat(np.arange(400), BLOCKS))
    for limit in np.quantile(scores, np.linspace(0, 1, 60)):
        early, block = frozen(scores, float(limit))
        true = early & (errors[np.arange(400), block] > 0)
        counted = (lost > 0) & (cases >= limit)
        assert not (true & ~counted).any()
