"""What one rank does with rows at each stage of a step: draw, score, log-probabilities, update.

The stages that GRPO and PPO share; the trainers put them in order (`trainer`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

from foretell.core.errors import MissingExtraError, NumericalError
from foretell.train.rl.fixed_point import from_fixed, to_fixed
from foretell.train.rl.flat import FlatAdamW
from foretell.train.rl.lora import adapters_off
from foretell.train.rl.objectives import clipped_objective, token_weights, varied_groups
from foretell.train.rl.policy import Policy, Task
from foretell.train.rl.rewards import checked_reward
from foretell.train.rl.rows import RowBatch
from foretell.train.rl.settings import Configured
from foretell.train.task import shard_generator

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtraError("torch", "learn", "train by reinforcement learning") from error


class Stages(Configured):
    """The nodes of the workflow, as methods named after them."""

    step_: int
    _tasks: dict[int, Task]
    _sums: dict[str, float]  # of this rank and step
    _trained: dict[str, float]
    _tokens: int  # drawn tokens and rows of the step, on all ranks
    _rows: int
    _frozen_actor: torch.nn.Module | None

    def _adam(self) -> FlatAdamW:
        raise NotImplementedError

    def _node_rollout(self, places: list[int]) -> RowBatch:
        parts = []
        for chosen in self._prompt_units(places):
            uid = [p * self.group_size + g for p in chosen for g in range(self.group_size)]
            draws = torch.stack([self._draws(self.random_state, u) for u in uid])
            prompts = [self._tasks[u // self.group_size].prompt for u in uid]
            parts.append(self.policy.rollout(prompts, torch.tensor(uid), draws))
        return RowBatch.concat(parts) if parts else RowBatch.without_rows()

    def _prompt_units(self, places: list[int]) -> Iterator[list[int]]:
        size = 1 if self.exactness == "bitwise" else max(1, 256 // self.group_size)
        for start in range(0, len(places), size):
            yield places[start : start + size]

    def _draws(self, seed: int, uid: int) -> Tensor:
        """The numbers in [0, 1) from which a row is drawn: of (seed, uid), never of a rank.

        A uid occurs in one step only, so the step needs not enter.
        """
        return torch.from_numpy(shard_generator(seed, uid).random(self.policy.n_draws))

    def _node_reward(self, rows: RowBatch) -> RowBatch:
        if not len(rows):
            return rows
        rewards = []
        for uid, text in zip(rows.uid.tolist(), self.policy.completions(rows), strict=True):
            task = self._tasks[uid // self.group_size]
            rewards.append(checked_reward(self.reward_fn(task, text), uid))
        rows = rows.with_rows(reward=torch.tensor(rewards, dtype=torch.float64))
        if self._main.layout("rollout").owner(self._copy()) == self._main.group.rank:
            self._sums["reward"] += sum(rewards)
            self._sums["drawn"] += len(rows)
            self._sums["length"] += float(rows.tokens["mask"].sum())
            if self.group_size > 1:
                self._sums["flat"] += float((~varied_groups(rows, self.group_size)).sum())
        return rows

    def _copy(self) -> int:
        return self._main.layout("rollout").copy_of(self._main.group.rank)

    @torch.no_grad()
    def _node_old_logp(self, rows: RowBatch) -> RowBatch:
        return self._with_logp(rows, "old_logp", self.policy)

    @torch.no_grad()
    def _node_ref_logp(self, rows: RowBatch) -> RowBatch:
        if self.ref is not None:
            return self._with_logp(rows, "ref_logp", self.ref)
        if self._frozen_actor is None:
            with adapters_off():
                return self._with_logp(rows, "ref_logp", self.policy)
        reference = copy.copy(self.policy)
        reference.module = self._frozen_actor
        return self._with_logp(rows, "ref_logp", reference)

    def _with_logp(self, rows: RowBatch, name: str, policy: Policy) -> RowBatch:
        parts = [unit.with_tokens(**{name: policy.log_probs(unit)}) for unit in self._units(rows)]
        return RowBatch.concat(parts) if parts else rows

    def _units(self, rows: RowBatch) -> Iterator[RowBatch]:
        """Rows that are computed together: those of a prompt, or as many as the budget allows."""
        if not len(rows):
            return
        if self.exactness == "bitwise":
            yield from rows.groups(self.group_size)
            return
        order = sorted(range(len(rows)), key=lambda k: (int(rows.lengths[k]), int(rows.uid[k])))
        start = 0
        for stop in range(1, len(order) + 1):
            longest = int(rows.lengths[order[stop]]) if stop < len(order) else 0
            if stop == len(order) or longest * (stop + 1 - start) > self.token_budget:
                yield rows.select(order[start:stop])
                start = stop

    # ---- the update ----

    def _totals(self, rows: RowBatch) -> tuple[int, int]:
        """Drawn tokens and rows of the step on all ranks, each row counted once."""
        layout = self._main.layout("train")
        owns = layout.owner(layout.copy_of(self._main.group.rank)) == self._main.group.rank
        counts = [int(rows.tokens["mask"].sum()), len(rows)] if len(rows) and owns else [0, 0]
        total = torch.tensor(counts)
        self._main.group.all_sum(total)
        return int(total[0]), int(total[1])

    def _descend(
        self,
        rows: RowBatch,
        optimizer: FlatAdamW,
        loss: Callable[[RowBatch], tuple[Tensor, Tensor]],
        place: str,
    ) -> tuple[float, Tensor]:
        """Add up gradients of sums over units and ranks, and follow them.

        ``loss`` gives a unit's share of the loss and a vector of statistics that add up. Returns
        the length of the gradient and the sums of (loss, statistics).
        """
        exact = self.exactness == "bitwise"
        layout, rank = self._main.layout("train"), self._main.group.rank
        owns = layout.owner(layout.copy_of(rank)) == rank
        kind = torch.int64 if exact else torch.float32
        total = torch.zeros(optimizer.size, dtype=kind, device=optimizer.mean.device)
        stats = torch.zeros(3, dtype=torch.float64)
        error: Exception | None = None
        try:
            for unit in self._units(rows):
                value, more = loss(unit)
                gradient = optimizer.gradient(value)
                if not bool(torch.isfinite(gradient).all()):
                    raise NumericalError(
                        f"The gradient of the rows with uid {unit.uid[:3].tolist()}... is not "
                        "finite. Lower the learning rate."
                    )
                total += to_fixed(gradient) if exact else gradient
                stats += torch.cat([value.detach().double().cpu()[None], more.double().cpu()])
            fixed = to_fixed(stats, bits=24)
        except Exception as raised:
            error = raised
        self._main.agree(place, error=error)
        if not owns:  # copies of a model that share rows count once
            total.zero_()
            fixed.zero_()
        self._main.group.all_sum(total)
        self._main.group.all_sum(fixed)
        gradient = from_fixed(total).float() if exact else total
        return optimizer.step(gradient), from_fixed(fixed, bits=24)

    def _mismatch(self, rows: RowBatch) -> float:
        if not len(rows) or "sampler_logp" not in rows.tokens:
            return 0.0
        return float((rows.tokens["old_logp"] - rows.tokens["sampler_logp"]).abs().max())

    def _node_actor_train(self, rows: RowBatch) -> RowBatch:
        """Follow the clipped objective, `updates_per_step` times on the same rows."""
        for update in range(self.updates_per_step):
            length, sums = self._descend(
                rows, self._adam(), self._actor_loss, f"step {self.step_}, update {update}"
            )
            self._trained |= {
                "gradient": length,
                "loss": float(sums[0]),
                "kl": float(sums[1]) / max(self._tokens, 1),
                "clipped": float(sums[2]) / max(self._tokens, 1),
            }
        return rows

    def _actor_loss(self, unit: RowBatch) -> tuple[Tensor, Tensor]:
        tokens = unit.tokens
        weights = token_weights(
            unit, self.loss_norm, n_tokens=self._tokens, n_rows=self._rows,
            longest=self.policy.n_draws,
        )  # fmt: skip
        cap = None
        if self.mismatch_cap is not None:
            cap = (tokens["old_logp"] - tokens["sampler_logp"]).exp().clamp(max=self.mismatch_cap)
        losses = clipped_objective(
            self.policy.log_probs(unit), tokens["old_logp"], tokens.get("ref_logp"),
            self._token_advantage(unit), self._clip(), cap,
        )  # fmt: skip
        value = ((losses.policy + self.kl_coef * losses.kl) * weights).sum()
        mask = tokens["mask"]
        stats = torch.stack([(losses.kl.detach() * mask).sum(), (losses.clipped & mask).sum()])
        return value, stats

    def _token_advantage(self, unit: RowBatch) -> Tensor:
        """Advantage of each token, shape (N,)."""
        raise NotImplementedError
