"""Trainers learn, end with the same bits on any number of ranks, and refuse what cannot work."""

import re
from itertools import chain

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'learn' (torch)")

from foretell.core import ArtifactError, DataError, ForetellError, ParameterError  # noqa: E402
from foretell.train.graph import ParallelLayout  # noqa: E402
from foretell.train.rl import (  # noqa: E402
    CharTokenizer,
    GRPOTrainer,
    LanguagePolicy,
    PPOTrainer,
    Task,
    TinyCausalLM,
    add_lora,
    in_threads,
)

DIGITS = CharTokenizer("0123456789+=")
SIZE = {"width": 16, "n_layers": 1, "n_heads": 2, "longest": 16}
SUMS = [Task(f"{a}+{b}=", str(a + b)) for a in range(0, 20, 3) for b in range(0, 10, 2)]


def closeness(task: Task, text: str) -> float:
    same = sum(x == y for x, y in zip(text, task.answer, strict=False))
    return same / 2 - 0.1 * abs(len(text) - len(task.answer))


def policy(*, lora: bool = False, **size) -> LanguagePolicy:
    model = TinyCausalLM(len(DIGITS), **{**SIZE, "seed": 3, **size})
    if lora:
        add_lora(model, rank=2, names=["qkv", "head"])
    return LanguagePolicy(model, DIGITS, max_new_tokens=4)


def settings(**more):
    usual = {"group_size": 4, "prompts_per_step": 4, "lr": 1e-2, "kl_coef": 0.01, "random_state": 1}
    return {**usual, **more}


def grpo(group=None, **more) -> GRPOTrainer:
    return GRPOTrainer(policy(), closeness, group=group, **settings(**more))


def ppo(group=None, **more) -> PPOTrainer:
    critic = TinyCausalLM(len(DIGITS), outputs=1, **SIZE)
    return PPOTrainer(policy(), closeness, critic, group=group, **settings(**more))


def hash_of(make, size: int, steps: int = 2, **more) -> str:
    hashes = in_threads(
        size, lambda group: make(group, **more).fit(SUMS, steps).params_hash(), timeout_s=30
    )
    assert len(set(hashes)) == 1
    return hashes[0]


def test_the_same_bits_on_any_number_of_ranks() -> None:
    alone = hash_of(grpo, 1, exactness="bitwise")
    for size, more in [
        (2, {"balance": "lpt_equal", "layout": {"rollout": ParallelLayout(tp=2)}}),
        (3, {"balance": "min_move", "chunks": 2, "double_buffer": False}),
        (4, {"layout": {"train": ParallelLayout(tp=2)}, "balance": "kk"}),
    ]:
        assert hash_of(grpo, size, exactness="bitwise", **more) == alone, (size, more)
    assert hash_of(grpo, 1, exactness="bitwise", random_state=2) != alone


def test_the_same_bits_with_a_critic_and_with_dynamic_sampling() -> None:
    for make, more in [
        (ppo, {"group_size": 1}),
        (grpo, {"dynamic_sampling": True}),
        (grpo, {"dynamic_sampling": True, "chunks": 2, "loss_norm": "constant"}),
    ]:
        alone = hash_of(make, 1, exactness="bitwise", **more)
        assert hash_of(make, 2, exactness="bitwise", **more) == alone, more


def test_fast_is_within_a_hundred_thousandth_after_a_step() -> None:
    weights = [
        in_threads(size, lambda g, e=e: grpo(g, exactness=e, lr=2e-4).fit(SUMS, 1).get_params())[0]
        for size, e in [(1, "bitwise"), (3, "fast")]
    ]
    assert float((weights[0] - weights[1]).norm() / weights[0].norm()) <= 1e-5


class RankKeyed(GRPOTrainer):
    """Draws that depend on the rank: must be caught by the comparison of hashes."""

    def _draws(self, seed: int, uid: int):
        rank = self.group.rank if self.group is not None else 0
        return super()._draws(seed + 1000 * rank, uid)


class LocalMean(GRPOTrainer):
    """Each rank divides by its own tokens: another objective for each placement."""

    def _totals(self, rows):
        return max(int(rows.tokens["mask"].sum()), 1), len(rows)


@pytest.mark.parametrize("wrong", [RankKeyed, LocalMean])
def test_negative_controls_fail(wrong) -> None:
    def run(group):
        made = wrong(policy(), closeness, group=group, **settings(exactness="bitwise"))
        return made.fit(SUMS, 1).params_hash()

    assert in_threads(1, run)[0] != in_threads(3, run)[0]


def test_advantages_of_split_groups_are_refused() -> None:
    rows = grpo()
    rows.fit(SUMS, 1)
    batch = rows._node_rollout([])  # nothing drawn, nothing to judge
    assert len(rows._node_advantage(batch)) == 0
    rows._tasks[7] = SUMS[0]
    whole = rows._node_reward(rows._node_rollout([7]))
    with pytest.raises(DataError, match="Prompt 7 has 3 of 4 samples on this rank"):
        rows._node_advantage(whole.select([0, 1, 2]))


def test_they_learn() -> None:
    def likes_a(task, text):
        return text.count("1") / 4

    for make in (
        GRPOTrainer(policy(), likes_a, **settings(exactness="fast", chunks=2)),
        GRPOTrainer(policy(lora=True), likes_a, **settings(lr=3e-2, updates_per_step=2)),
        GRPOTrainer.dapo(policy(), likes_a, group_size=4, prompts_per_step=4, lr=1e-2),
        PPOTrainer(
            policy(),
            likes_a,
            TinyCausalLM(len(DIGITS), outputs=1, **SIZE),
            **settings(group_size=2, mismatch_cap=2.0),
        ),
    ):
        history = make.fit(SUMS, 20).history_
        assert np.mean([s.reward for s in history[-5:]]) > history[0].reward + 0.15, make
        assert all(np.isfinite([s.loss, s.kl, s.gradient, s.clipped]).all() for s in history)
        assert max(s.mismatch for s in history) < 1e-3
    assert len(make.generate(["1+2="])) == 1


def test_dynamic_sampling_stops_where_there_is_no_signal() -> None:
    trainer = GRPOTrainer.dapo(policy(), lambda task, text: 1.0, group_size=2, prompts_per_step=2)
    before = trainer.get_params()
    (step,) = trainer.fit(SUMS, 1).history_
    assert (step.rounds, step.tokens, step.flat_groups) == (10, 0, 1.0)
    assert torch.equal(before, trainer.get_params())


def test_a_saved_training_goes_on_with_another_number_of_ranks(tmp_path) -> None:
    whole = grpo(exactness="bitwise").fit(SUMS, 3).params_hash()

    def first(group):
        grpo(group, exactness="bitwise").fit(SUMS, 1).save(tmp_path / "state")

    def second(group):
        return grpo(group, exactness="bitwise").load(tmp_path / "state").fit(SUMS, 2).params_hash()

    in_threads(3, first)
    assert in_threads(2, second) == [whole, whole]
    other = CharTokenizer("0123456789+=x")
    bigger = LanguagePolicy(TinyCausalLM(len(other), **SIZE), other)
    with pytest.raises(ArtifactError, match="saved with vocabulary 14, and this training has 15"):
        GRPOTrainer(bigger, closeness).load(tmp_path / "state")


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        (lambda t, c: float("nan"), r"reward of the row with uid \d+ is nan"),
        (lambda t, c: float("inf"), r"reward of the row with uid \d+ is inf"),
        (lambda t, c: [1.0], r"reward of the row with uid \d+ is \[1.0\] \(list\)"),
        (lambda t, c: np.ones(2), r"reward of the row with uid \d+ is array"),
        (lambda t, c: None, r"reward of the row with uid \d+ is None"),
    ],
)
def test_bad_rewards_name_the_row_on_all_ranks(reward, message) -> None:
    def run(group):
        bad = reward if group.rank == 1 or group.size == 1 else closeness
        with pytest.raises(ForetellError) as raised:
            GRPOTrainer(policy(), bad, group=group, **settings()).fit(SUMS, 1)
        return str(raised.value)

    for size in (1, 2):
        for text in in_threads(size, run):
            assert re.search(message, text), text


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"group_size": 1}, "group_size=1: samples of a prompt"),
        ({"exactness": "perfect"}, "exactness='perfect'"),
        ({"balance": "fair"}, "balance='fair'"),
        ({"loss_norm": "row"}, "loss_norm='row'"),
        ({"clip_range": 1.5}, "clip_range=1.5"),
        ({"prompts_per_step": 0}, "prompts_per_step=0"),
        ({"kl_coef": -1.0}, "kl_coef=-1.0"),
        ({"lr": 0.0}, "lr=0.0"),
        ({"ddof": 2}, "ddof=2"),
        ({"layout": {"rollout": ParallelLayout(tp=2)}}, "1 ranks cannot be cut"),
    ],
)
def test_bad_settings(more, message) -> None:
    with pytest.raises(ParameterError, match=message):
        grpo(**more).fit(SUMS, 1)


def test_bad_prompts() -> None:
    with pytest.raises(DataError, match="There are no prompts"):
        grpo().fit([], 1)
    with pytest.raises(DataError, match="'x' in 'x' is not in the alphabet"):
        grpo().fit(["x"], 1)
    with pytest.raises(DataError, match="Prompt 0 has no key 'prompt'"):
        grpo().fit([{"text": "1"}], 1)
    with pytest.raises(DataError, match="has no tokens"):
        grpo().fit([""], 1)
    with pytest.raises(DataError, match="17 tokens for a model of 16 positions"):
        grpo().fit(["1" * 16], 1)


def test_ranks_with_other_settings_are_told() -> None:
    def run(group):
        grpo(group, lr=1e-2 * (1 + group.rank)).fit(SUMS, 1)

    with pytest.raises(ForetellError, match="not at the same place"):
        in_threads(2, run)


def test_left_padding_changes_nothing() -> None:
    mixed = ["1+2=", "13+8=", "1="]
    draws = torch.rand(3, 4, generator=torch.Generator().manual_seed(0))
    uid = torch.arange(3)
    together = policy().rollout(mixed, uid, draws)
    alone = [policy().rollout(mixed[k : k + 1], uid[k : k + 1], draws[k : k + 1]) for k in range(3)]
    assert together.tokens["ids"].tolist() == list(
        chain(*(a.tokens["ids"].tolist() for a in alone))
    )
    found = policy().log_probs(together).detach()
    assert torch.allclose(found, together.tokens["sampler_logp"], atol=1e-5)
    assert not found[~together.tokens["mask"]].any()


def test_an_adapter_moves_a_wide_layer_no_further_than_a_narrow_one() -> None:
    """After one step of the same length for each weight, whatever the width of the layer."""
    moved = []
    for width in (16, 1024):
        layer = torch.nn.Linear(width, 8, bias=False)
        with_adapter = add_lora(torch.nn.Sequential(layer), rank=8)[0]
        torch.manual_seed(1)
        x = torch.randn(256, width)
        with torch.no_grad():
            before = with_adapter(x)
            with_adapter.up += 1e-3 * torch.sign(torch.randn_like(with_adapter.up))
            moved.append(float((with_adapter(x) - before).square().mean().sqrt()))
    assert moved[1] == pytest.approx(moved[0], rel=0.3)
    assert moved[0] == pytest.approx(2.0 * 1e-3 * 8**0.5, rel=0.3)
