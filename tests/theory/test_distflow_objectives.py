"""Sums that do not depend on the placement, advantages, the divergence, and the policy gradient.

Everything is exact or enumerated but the law of the draws, which is tested by a chi-square at 1e-5.
"""

import itertools

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch", reason="needs the extra 'learn' (torch)")

from foretell.core import NumericalError  # noqa: E402
from foretell.train.rl import RowBatch  # noqa: E402
from foretell.train.rl.balancing import POLICIES, balance, lower_bound  # noqa: E402
from foretell.train.rl.fixed_point import from_fixed, to_fixed  # noqa: E402
from foretell.train.rl.objectives import (  # noqa: E402
    clipped_objective,
    gae,
    group_advantages,
    token_weights,
)
from foretell.train.rl.policy import _inverse_cdf  # noqa: E402

pytestmark = pytest.mark.theory


def responses(n_rows: int, seed: int) -> RowBatch:
    """Rows that are all response, lognormal lengths."""
    rng = np.random.default_rng(seed)
    n = torch.from_numpy(np.clip(rng.lognormal(3.0, 1.0, n_rows), 1, 400).astype(np.int64))
    total = int(n.sum())
    x = torch.from_numpy(rng.normal(size=(total, 5)))
    return RowBatch(n, torch.arange(n_rows), {"mask": torch.ones(total, dtype=torch.bool), "x": x})


def gradient(parts: list[RowBatch], loss_norm: str, *, local: bool) -> np.ndarray:
    """Of a loss whose terms depend on one weight vector, summed over parts."""
    w = torch.linspace(-1, 1, 5, dtype=torch.float64, requires_grad=True)
    n_tokens, n_rows = sum(int(p.lengths.sum()) for p in parts), sum(map(len, parts))
    total = torch.zeros(5, dtype=torch.float64)
    for part in parts:
        own = (int(part.lengths.sum()), len(part)) if local else (n_tokens, n_rows)
        weights = token_weights(part, loss_norm, n_tokens=own[0], n_rows=own[1], longest=400)
        loss = (torch.tanh(part.tokens["x"] @ w) ** 2 * weights.double()).sum()
        total += torch.autograd.grad(loss, w)[0] / (len(parts) if local else 1)
    return total.numpy()


@pytest.mark.parametrize("loss_norm", ["token", "sequence", "constant"])
def test_one_normaliser_makes_the_gradient_independent_of_the_partition(loss_norm) -> None:
    rows = responses(64, 0)
    whole = gradient([rows], loss_norm, local=False)
    off = []
    for k in (2, 4, 8, 16):
        parts = [rows.select(range(j, 64, k)) for j in range(k)]
        assert np.allclose(gradient(parts, loss_norm, local=False), whole, rtol=1e-6, atol=1e-9)
        mine = gradient(parts, loss_norm, local=True)
        off.append(np.linalg.norm(mine - whole) / np.linalg.norm(whole))
    if loss_norm == "token":  # with means on each rank it is another objective
        assert min(off) > 1e-3


def test_fixed_point_sums_have_the_same_bits_in_any_order_and_a_known_error() -> None:
    rng = np.random.default_rng(1)
    parts = torch.from_numpy(rng.normal(size=(500, 20)) * 10.0 ** rng.integers(-8, 1, (500, 1)))
    exact = from_fixed(to_fixed(parts).sum(0))
    for _ in range(20):
        order = torch.from_numpy(rng.permutation(500))
        cuts = np.sort(rng.integers(0, 500, 3))
        sums = [to_fixed(p).sum(0) for p in torch.tensor_split(parts[order], cuts.tolist())]
        assert torch.equal(from_fixed(sum(sums)), exact)
    assert float((exact - parts.sum(0)).abs().max()) <= 500 * 2.0**-41 + 1e-12
    floats = parts.float()
    assert any(
        not torch.equal(floats.sum(0), floats[torch.from_numpy(rng.permutation(500))].sum(0))
        for _ in range(20)
    )
    for bad in (float("nan"), float("inf"), 1e9):
        with pytest.raises(NumericalError, match="not finite or too large"):
            to_fixed(torch.tensor([1.0, bad]))


def test_no_plan_is_below_the_bound() -> None:
    rng = np.random.default_rng(2)
    for _ in range(15):
        n = rng.integers(1, 40, 6)
        loads = [
            np.bincount(part, weights=n, minlength=3).max()
            for part in itertools.product(range(3), repeat=6)
        ]
        best = min(loads) * 3 / n.sum()
        assert best >= lower_bound(n, 3) - 1e-9
        for policy in POLICIES:
            assert balance(policy, n, np.arange(6) % 3, np.arange(6), 3).largest >= best - 1e-9


def test_advantages_do_not_see_shifts_and_scales_of_the_reward() -> None:
    n, uid = torch.ones(8, dtype=torch.int64), torch.tensor([5, 1, 0, 7, 2, 4, 6, 3])
    reward = torch.tensor([0.3, 1.0, 0.0, 2.0, 0.5, 0.1, -1.0, 0.7], dtype=torch.float64)
    a = group_advantages(RowBatch(n, uid, rows={"reward": reward}), 4)
    b = group_advantages(RowBatch(n, uid, rows={"reward": 1000 * reward + 3}), 4)
    assert torch.allclose(a, b, atol=1e-5)
    for prompt in (0, 1):
        own = a[uid // 4 == prompt]
        assert abs(float(own.mean())) < 1e-6
        assert abs(float(own.std()) - 1) < 1e-5
    flat = group_advantages(RowBatch(n, uid, rows={"reward": torch.ones(8).double()}), 4)
    assert not flat.any()


def test_gae_is_the_weighted_sum_of_its_definition() -> None:
    rng = np.random.default_rng(3)
    n = torch.tensor([3, 6])
    mask = torch.tensor([0, 1, 1, 0, 0, 1, 1, 1, 1]).bool()
    value = torch.from_numpy(rng.normal(size=9)).float()
    reward = torch.tensor([1.0, -2.0]).double()
    rows = RowBatch(n, torch.arange(2), {"mask": mask, "value": value}, {"reward": reward})
    advantage, returns = gae(rows, discount=0.9, trace=0.8)
    for start, stop, r in ((1, 3, 1.0), (5, 9, -2.0)):
        v = [*value[start:stop].tolist(), 0.0]
        steps = stop - start
        delta = [(r if t == steps - 1 else 0.0) + 0.9 * v[t + 1] - v[t] for t in range(steps)]
        for t in range(steps):
            wanted = sum((0.9 * 0.8) ** (k - t) * delta[k] for k in range(t, steps))
            assert abs(float(advantage[start + t]) - wanted) < 1e-5
            assert abs(float(returns[start + t]) - wanted - v[t]) < 1e-5
    assert not advantage[~mask].any()


def test_the_divergence_term_has_the_divergence_as_its_mean_and_is_never_negative() -> None:
    rng = np.random.default_rng(4)
    p, q = (torch.from_numpy(rng.dirichlet(np.ones(7))) for _ in range(2))
    zero = torch.zeros(7, dtype=torch.float64)
    terms = clipped_objective(p.log(), p.log(), q.log(), zero, (0.2, 0.2)).kl
    assert float(terms.min()) >= 0
    assert abs(float((p * terms).sum() - (p * (p / q).log()).sum())) < 1e-12


def test_the_expected_update_is_the_policy_gradient() -> None:
    """Without division by the standard deviation: (1 - 1/G) of the true gradient, enumerated."""
    theta = torch.tensor([0.3, -0.5, 0.1], dtype=torch.float64, requires_grad=True)
    reward = torch.tensor([1.0, 0.0, 0.4], dtype=torch.float64)
    truth = torch.autograd.grad((theta.softmax(0) * reward).sum(), theta)[0]
    for size in (2, 3):
        expected = torch.zeros(3, dtype=torch.float64)
        for drawn in itertools.product(range(3), repeat=size):
            logp = theta.log_softmax(0)[list(drawn)]
            rows = RowBatch(
                torch.ones(size, dtype=torch.int64), torch.arange(size),
                rows={"reward": reward[list(drawn)]},
            )  # fmt: skip
            advantage = group_advantages(rows, size, std=False).double()
            terms = clipped_objective(logp, logp.detach(), None, advantage, (0.2, 0.2)).policy
            chance = float(logp.detach().sum().exp())
            expected -= chance * torch.autograd.grad(terms.mean(), theta)[0]
        assert torch.allclose(expected, (1 - 1 / size) * truth, atol=1e-7)


def test_clipping_stops_the_gradient_only_where_it_would_go_further() -> None:
    logp = torch.log(torch.tensor([1.5, 1.5, 0.5, 0.5, 1.0])).requires_grad_()
    advantage = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0])
    terms = clipped_objective(logp, torch.zeros(5), None, advantage, (0.2, 0.28))
    slopes = torch.autograd.grad(terms.policy.sum(), logp)[0]
    assert [bool(s) for s in slopes] == [False, True, True, False, True]
    assert terms.clipped.tolist() == [True, False, False, True, False]


def test_tokens_are_drawn_with_their_probabilities() -> None:
    """Chi-square over seven tokens, 20,000 draws; fails by chance with 1e-5."""
    logits = torch.tensor([[0.5, -1.0, 2.0, 0.0, -3.0, 1.0, 0.3]]).expand(20_000, -1)
    draws = torch.rand(20_000, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    counts = torch.bincount(_inverse_cdf(logits, draws), minlength=7).numpy()
    assert stats.chisquare(counts, 20_000 * logits[0].double().softmax(0).numpy()).pvalue > 1e-5
    edge = _inverse_cdf(logits[:2], torch.tensor([0.0, 1.0 - 2**-53], dtype=torch.float64))
    assert edge.tolist() == [0, 6]
