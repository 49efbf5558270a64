"""GRPO, Dr. GRPO and DAPO: samples of one prompt are judged against each other.

    A_i = (r_i - mean r) / (sd r + 1e-6)                       over the G samples of the prompt
    L = - sum_it w_it min(rho_it A_i, clip(rho_it) A_i) + kl_coef sum_it w_it (e^d - d - 1)
    rho = p / p_old, d = log p_ref - log p, w holds one normaliser for all ranks

Sources: Shao et al. 2024 (GRPO, arXiv 2402.03300); Liu et al. 2025 (Dr. GRPO, arXiv 2503.20783);
Yu et al. 2025 (DAPO, arXiv 2503.14476); Wang et al. 2026 (DistFlow, arXiv 2507.13833).
"""

from __future__ import annotations

from typing import Any, Unpack

from foretell.core.errors import MissingExtraError, ParameterError
from foretell.train.graph import Workflow
from foretell.train.rl.objectives import group_advantages, varied_groups
from foretell.train.rl.policy import Policy
from foretell.train.rl.rows import RowBatch
from foretell.train.rl.settings import Reward, SharedSettings
from foretell.train.rl.trainer import PolicyTrainer

try:
    from torch import Tensor
except ImportError as error:
    raise MissingExtraError("torch", "learn", "train by reinforcement learning") from error


class GRPOTrainer(PolicyTrainer):
    """Group-relative policy optimisation, by any number of ranks.

    Parameters
    ----------
    policy : Policy
        For instance a `LanguagePolicy`.
    reward_fn : callable
        From (task, completion) to a number; a plain function.
    group_size : int
        Samples of each prompt.
    scale_std : bool
        Divide advantages by the standard deviation of the group; False is Dr. GRPO.
    ddof : int
        Of that standard deviation.
    dynamic_sampling : bool
        Replace prompts whose samples all have one reward by others, ten rounds at most.
    **settings
        `foretell.train.rl.settings.SharedSettings`: ref, group, layout, prompts_per_step, kl_coef,
        clip_range, loss_norm, balance, exactness, updates_per_step, lr, max_grad_norm, chunks,
        double_buffer, mismatch_cap, token_budget, random_state.

    Attributes
    ----------
    history_ : list of RLStep
    step_, cursor_ : int
        Steps done, and the place in the stream of prompts.

    Examples
    --------
    >>> from foretell.train.rl import CharTokenizer, LanguagePolicy, TinyCausalLM
    >>> letters = CharTokenizer("ab?")
    >>> model = TinyCausalLM(len(letters), width=16, n_layers=1, n_heads=1, longest=8)
    >>> policy = LanguagePolicy(model, letters, max_new_tokens=4)
    >>> def likes_a(task, completion): return completion.count("a") / 4
    >>> trainer = GRPOTrainer(policy, likes_a, group_size=8, prompts_per_step=2, lr=1e-2)
    >>> trainer = trainer.fit(["?"], n_steps=30)
    >>> trainer.history_[0].reward < 0.5 < trainer.history_[-1].reward
    True
    """

    def __init__(
        self,
        policy: Policy,
        reward_fn: Reward,
        *,
        group_size: int = 8,
        scale_std: bool = True,
        ddof: int = 1,
        dynamic_sampling: bool = False,
        **settings: Unpack[SharedSettings],
    ) -> None:
        self.scale_std, self.ddof = scale_std, ddof
        super().__init__(
            policy, reward_fn, settings, group_size=group_size, dynamic_sampling=dynamic_sampling
        )
        self.workflow = Workflow.dapo() if dynamic_sampling else Workflow.grpo()

    @classmethod
    def dapo(cls, policy: Policy, reward_fn: Reward, **settings: Any) -> GRPOTrainer:
        """The settings of DAPO: dynamic sampling, 0.2 below and 0.28 above, no reference."""
        usual = {"dynamic_sampling": True, "clip_range": (0.2, 0.28), "kl_coef": 0.0}
        return cls(policy, reward_fn, **{**usual, **settings})

    def _check(self) -> None:
        super()._check()
        if self.group_size < 2:
            raise ParameterError(
                f"group_size={self.group_size}: samples of a prompt are judged against each other, "
                "so at least 2 are needed."
            )
        if self.ddof not in (0, 1):
            raise ParameterError(f"ddof={self.ddof!r}; needed is 0 or 1.")

    def _node_dynamic_sampling(self, rows: RowBatch) -> RowBatch:
        """Keep the prompts whose samples differ in reward."""
        if not len(rows):
            return rows
        return rows.select(varied_groups(rows, self.group_size).nonzero()[:, 0])

    def _node_advantage(self, rows: RowBatch) -> RowBatch:
        if not len(rows):
            return rows
        values = group_advantages(rows, self.group_size, ddof=self.ddof, std=self.scale_std)
        return rows.with_rows(advantage=values)

    def _token_advantage(self, unit: RowBatch) -> Tensor:
        return unit.rows["advantage"].repeat_interleave(unit.lengths)
