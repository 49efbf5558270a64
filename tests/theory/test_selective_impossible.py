"""No rule can keep P(wrong | accepted) <= alpha in finite samples, and the published one does not.

If the score says nothing (u independent of the error, P(wrong) = p > alpha), then so does being
accepted: P(wrong | accepted) = p for every rule that ever accepts. The chance of accepting is
computed exactly. The second test shows the violation by simulation; it demands an excess of
more than 8 standard errors above alpha where the true one is above 20 (false-alarm rate < 1e-9).
"""

from pathlib import Path

import numpy as np
import pytest

from foretell.trust import binomial_boundary, crossing_probability
from tests.theory.selective_laws import Law, flat, thresholds

PAGE = Path(__file__).parents[2] / "docs" / "trust" / "impossible.md"


@pytest.mark.theory
@pytest.mark.parametrize(
    ("n", "alpha", "p", "chance"),
    [(20, 0.1, 0.2, 0.136), (100, 0.1, 0.15, 0.360), (1000, 0.05, 0.06, 0.663)],
)
def test_the_published_rule_accepts_where_nothing_may_be_accepted(n, alpha, p, chance):
    line = binomial_boundary(n, alpha, kind="linear").most_errors
    assert crossing_probability(line, p) == pytest.approx(chance, abs=1e-3)


@pytest.mark.theory
@pytest.mark.parametrize(
    ("law", "n", "alpha"),
    [
        (Law("says nothing", flat(0.15)), 100, 0.1),
        (Law("says nothing", flat(0.2)), 20, 0.1),
        (Law("bad start", lambda u: np.select([u < 0.1, u < 0.35], [0.3, 0.02], 0.5)), 20, 0.1),
    ],
    ids=["flat-.15", "flat-.2", "bad-start"],
)
def test_plugin_violates_the_published_claim(law, n, alpha):
    rng = np.random.default_rng(0)
    u, e = law.draw(rng, (20_000, n))
    lam = thresholds("plugin", u, e, alpha)
    fresh, wrong = law.draw(rng, (20_000,))
    accepted = fresh <= lam
    rate = wrong[accepted].mean()
    error = np.sqrt(rate * (1 - rate) / accepted.sum())
    assert rate > alpha + 8 * error
    # What does hold for it here: the average with abstention counted as 0.
    assert law.risk(lam).mean() <= alpha


@pytest.mark.theory
def test_the_pages_say_so():
    if not PAGE.exists():
        pytest.skip("the documentation is not beside the tests")
    assert "cannot be kept by any rule" in PAGE.read_text(encoding="utf-8")
    for name in ("which_guarantee.md", "../methods/lec.md"):
        text = (PAGE.parent / name).read_text(encoding="utf-8")
        assert "impossible" in text
        assert "`plugin`" in text
