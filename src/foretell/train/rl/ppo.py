"""PPO with a critic: advantages by generalised estimation, whitened over all ranks.

Source: Schulman et al. 2017 (arXiv 1707.06347) and 2015 (arXiv 1506.02438).
"""

from __future__ import annotations

from typing import Unpack

from foretell.core.errors import MissingExtraError, ParameterError
from foretell.train.graph import Workflow
from foretell.train.rl.fixed_point import from_fixed, to_fixed
from foretell.train.rl.flat import FlatAdamW
from foretell.train.rl.objectives import gae, token_weights
from foretell.train.rl.policy import Policy
from foretell.train.rl.rows import RowBatch
from foretell.train.rl.settings import Reward, SharedSettings
from foretell.train.rl.trainer import PolicyTrainer

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtraError("torch", "learn", "train by reinforcement learning") from error


class PPOTrainer(PolicyTrainer):
    """Proximal policy optimisation with a learned value of each token.

    Parameters
    ----------
    policy, reward_fn
        See `GRPOTrainer`.
    critic : torch.nn.Module
        Called like the policy's module; its ``logits`` have one number for each token, for
        instance ``TinyCausalLM(..., outputs=1)``.
    discount, trace : float
        Of the generalised advantages.
    critic_lr : float
    value_clip : float
        How far a value may move from the old one without being penalised twice.
    group_size : int
        Samples of each prompt; 1 is enough here.
    **settings
        `foretell.train.rl.settings.SharedSettings`, as for `GRPOTrainer`.

    Examples
    --------
    >>> from foretell.train.rl import CharTokenizer, LanguagePolicy, TinyCausalLM
    >>> letters = CharTokenizer("ab?")
    >>> size = {"width": 16, "n_layers": 1, "n_heads": 1, "longest": 8}
    >>> policy = LanguagePolicy(TinyCausalLM(len(letters), **size), letters, max_new_tokens=4)
    >>> critic = TinyCausalLM(len(letters), outputs=1, **size)
    >>> def likes_a(task, completion): return completion.count("a") / 4
    >>> trainer = PPOTrainer(policy, likes_a, critic, prompts_per_step=16, lr=1e-2)
    >>> trainer = trainer.fit(["?"], n_steps=30)
    >>> trainer.history_[0].reward < 0.5 < trainer.history_[-1].reward
    True
    """

    def __init__(
        self,
        policy: Policy,
        reward_fn: Reward,
        critic: nn.Module,
        *,
        discount: float = 1.0,
        trace: float = 0.95,
        critic_lr: float = 1e-3,
        value_clip: float = 0.2,
        group_size: int = 1,
        **settings: Unpack[SharedSettings],
    ) -> None:
        self.critic, self.critic_lr, self.value_clip = critic, critic_lr, value_clip
        self.discount, self.trace = discount, trace
        super().__init__(policy, reward_fn, settings, group_size=group_size)
        self.workflow = Workflow.ppo()
        self._critic_optimizer: FlatAdamW | None = None

    def _check(self) -> None:
        super()._check()
        for name in ("discount", "trace"):
            if not 0 <= getattr(self, name) <= 1:
                raise ParameterError(f"{name}={getattr(self, name)!r}; needed is from 0 to 1.")
        if not (self.critic_lr > 0 and self.value_clip > 0):
            raise ParameterError(
                f"critic_lr={self.critic_lr!r}, value_clip={self.value_clip!r}; both must "
                "be above 0."
            )

    def _optimizers(self) -> list[tuple[str, FlatAdamW]]:
        if self._critic_optimizer is None:
            self._critic_optimizer = FlatAdamW(
                self.critic, lr=self.critic_lr, clip=self.max_grad_norm
            )
        return [*super()._optimizers(), ("critic", self._critic_optimizer)]

    def _values(self, rows: RowBatch) -> Tensor:
        """Value of the state in which each token was drawn, packed (N,); 0 on the prompt."""
        rows.need("ids", "mask")
        device = next(self.critic.parameters()).device
        ids = rows.to_padded("ids").to(device)
        out = self.critic(input_ids=ids[:, :-1]).logits[..., 0].float()
        padded = nn.functional.pad(out, (1, 0)).cpu()
        return rows.pack(padded) * rows.tokens["mask"]

    @torch.no_grad()
    def _node_value(self, rows: RowBatch) -> RowBatch:
        parts = [unit.with_tokens(value=self._values(unit)) for unit in self._units(rows)]
        return RowBatch.concat(parts) if parts else rows

    def _node_advantage(self, rows: RowBatch) -> RowBatch:
        if not len(rows):
            return rows
        advantage, returns = gae(rows, discount=self.discount, trace=self.trace)
        return rows.with_tokens(advantage=advantage, returns=returns)

    def _node_actor_train(self, rows: RowBatch) -> RowBatch:
        return super()._node_actor_train(self._whitened(rows))

    def _whitened(self, rows: RowBatch) -> RowBatch:
        """Advantages with mean 0 and variance 1 over the drawn tokens of all ranks."""
        sums = torch.zeros(2, dtype=torch.int64)
        error: Exception | None = None
        layout, rank = self._main.layout("train"), self._main.group.rank
        try:
            if len(rows) and layout.owner(layout.copy_of(rank)) == rank:
                values = rows.tokens["advantage"][rows.tokens["mask"]].double()
                pair = torch.stack([values, values**2], dim=1)
                sums = to_fixed(pair, bits=30).sum(0)
        except Exception as raised:
            error = raised
        self._main.agree(f"step {self.step_}, whitening", error=error)
        self._main.group.all_sum(sums)
        mean, square = (from_fixed(sums, bits=30) / max(self._tokens, 1)).tolist()
        if not len(rows):
            return rows
        scale = max(square - mean**2, 0.0) ** 0.5 + 1e-8
        white = (rows.tokens["advantage"].double() - mean) / scale * rows.tokens["mask"]
        return rows.with_tokens(advantage=white.float())

    def _node_critic_train(self, rows: RowBatch) -> RowBatch:
        for update in range(self.updates_per_step):
            _, sums = self._descend(
                rows, self._optimizers()[1][1], self._critic_loss,
                f"step {self.step_}, critic update {update}",
            )  # fmt: skip
            self._trained["value_loss"] = float(sums[0])
        return rows

    def _critic_loss(self, unit: RowBatch) -> tuple[Tensor, Tensor]:
        tokens, value = unit.tokens, self._values(unit)
        weights = token_weights(
            unit, "token", n_tokens=self._tokens, n_rows=self._rows, longest=self.policy.n_draws
        )
        near = tokens["value"] + (value - tokens["value"]).clamp(-self.value_clip, self.value_clip)
        worse = torch.maximum((value - tokens["returns"]) ** 2, (near - tokens["returns"]) ** 2)
        return (0.5 * worse * weights).sum(), torch.zeros(2)

    def _token_advantage(self, unit: RowBatch) -> Tensor:
        return unit.tokens["advantage"]
