"""GRPO, Dr. GRPO and DAPO: samples of one prompt are judged against each other.

    A_i = (r_i - mean r) / (sd r + 1e-6)                       over the G samples of the prompt
    L = - sum_it w_it min(rho_it A_i, clip(rho_it) A_i) + kl_coef sum_it w_it (e^d - d - 1)
    rho = p / p_old, d = log p_ref - log p, w holds one normaliser for all ranks

Sources: Shao et al. 2024 (GRPO, arXiv 2402.03300); Liu et al. 2025 (Dr. GRPO, arXiv 2503.20783);
Yu et al. 2025 (DAPO, arXiv 2503.14476); Wang et al. 2026 (DistFlow, arXiv 2507.13833).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foretell.core.errors import MissingExtraError, ParameterError
from foretell.train.graph import ParallelLayout, Workflow
from foretell.train.rl.group import Group
from foretell.train.rl.objectives import group_advantages, varied_groups
from foretell.train.rl.policy import Policy
from foretell.train.rl.rows import RowBatch
from foretell.train.rl.trainer import PolicyTrainer, Reward

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
    ref : Policy, optional
        What the divergence is measured from; by default the policy as it is when ``fit`` begins,
        which costs no memory where it has adapters.
    group : Group, optional
        The ranks; by default this one alone. `foretell.train.rl.join` gives those of torchrun.
    layout : mapping, optional
        `ParallelLayout` for "rollout" and "train". Layouts say which ranks hold the same rows; the
        model is cut by the policy itself, if it can.
    group_size : int
        Samples of each prompt.
    prompts_per_step : int
        On all ranks together.
    kl_coef : float
        Weight of the divergence; 0 drops the reference and its node.
    clip_range : float or (float, float)
        How far the probability ratio may go; two numbers for below and above.
    loss_norm : {"token", "sequence", "constant"}
        See `foretell.train.rl.objectives.token_weights`.
    scale_std : bool
        Divide advantages by the standard deviation of the group; False is Dr. GRPO.
    ddof : int
        Of that standard deviation.
    balance : str
        How rows are shared out for training: "min_move", "keep", "lpt_equal", "lpt_relabel", "kk".
    exactness : {"fast", "bitwise"}
        "bitwise": the same weights, bit for bit, whatever the ranks, layout and balance.
    updates_per_step : int
        Updates on the rows of a step.
    lr, max_grad_norm : float
    chunks : int
        Parts of a step; the next one is drawn while the last one is scored and moved.
    double_buffer : bool
        Two slots for each edge of the graph rather than one.
    dynamic_sampling : bool
        Replace prompts whose samples all have one reward by others, ten rounds at most.
    mismatch_cap : float, optional
        Weigh tokens by min(p_trainer / p_sampler, cap).
    token_budget : int
        Padded tokens in a micro-batch, for "fast".
    random_state : int

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
        ref: Policy | None = None,
        group: Group | None = None,
        layout: Mapping[str, ParallelLayout] | None = None,
        group_size: int = 8,
        prompts_per_step: int = 32,
        kl_coef: float = 0.001,
        clip_range: float | tuple[float, float] = 0.2,
        loss_norm: str = "token",
        scale_std: bool = True,
        ddof: int = 1,
        balance: str = "min_move",
        exactness: str = "fast",
        updates_per_step: int = 1,
        lr: float = 2e-4,
        max_grad_norm: float = 1.0,
        chunks: int = 1,
        double_buffer: bool = True,
        dynamic_sampling: bool = False,
        mismatch_cap: float | None = None,
        token_budget: int = 16384,
        random_state: int = 0,
    ) -> None:
        self.scale_std, self.ddof = scale_std, ddof
        super().__init__(
            policy, reward_fn, ref=ref, group=group, layout=layout, group_size=group_size,
            prompts_per_step=prompts_per_step, kl_coef=kl_coef, clip_range=clip_range,
            loss_norm=loss_norm, balance=balance, exactness=exactness,
            updates_per_step=updates_per_step, lr=lr, max_grad_norm=max_grad_norm, chunks=chunks,
            double_buffer=double_buffer, dynamic_sampling=dynamic_sampling,
            mismatch_cap=mismatch_cap, token_budget=token_budget, random_state=random_state,
        )  # fmt: skip
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
