"""What GRPO and PPO can be told alike, with its defaults, and what is refused."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from foretell.core.errors import ParameterError
from foretell.train.coordinator import Coordinator
from foretell.train.graph import ParallelLayout
from foretell.train.rl.balancing import POLICIES
from foretell.train.rl.group import Group
from foretell.train.rl.objectives import LOSS_NORMS
from foretell.train.rl.policy import Policy, Task

Reward = Callable[[Task, Any], float]
EXACTNESS = ("bitwise", "fast")
_COUNTS = ("group_size", "prompts_per_step", "updates_per_step", "chunks", "token_budget")
_TOLD = (
    "group_size", "prompts_per_step", "kl_coef", "clip_range", "loss_norm", "balance",
    "exactness", "updates_per_step", "lr", "chunks", "dynamic_sampling", "random_state",
)  # fmt: skip


class SharedSettings(TypedDict, total=False):
    """Keyword arguments that both trainers take.

    Parameters
    ----------
    ref : Policy, optional
        What the divergence is measured from; by default the policy as it is when ``fit`` begins,
        which costs no memory where it has adapters.
    group : Group, optional
        The ranks; by default this one alone. `foretell.train.rl.join` gives those of torchrun.
    layout : mapping, optional
        `ParallelLayout` for "rollout" and "train". Layouts say which ranks hold the same rows; the
        model is cut by the policy itself, if it can.
    prompts_per_step : int
        On all ranks together; 32.
    kl_coef : float
        Weight of the divergence; 0.001. With 0 the reference and its node are dropped.
    clip_range : float or (float, float)
        How far the probability ratio may go, 0.2; two numbers for below and above.
    loss_norm : {"token", "sequence", "constant"}
        See `foretell.train.rl.objectives.token_weights`.
    balance : str
        How rows are shared out for training: "min_move", "keep", "lpt_equal", "lpt_relabel", "kk".
    exactness : {"fast", "bitwise"}
        "bitwise": the same weights, bit for bit, whatever the ranks, layout and balance.
    updates_per_step : int
        Updates on the rows of a step; 1.
    lr, max_grad_norm : float
        2e-4 and 1.
    chunks : int
        Parts of a step, 1; the next one is drawn while the last one is scored and moved.
    double_buffer : bool
        Two slots for each edge of the graph rather than one.
    mismatch_cap : float, optional
        Weigh tokens by min(p_trainer / p_sampler, cap).
    token_budget : int
        Padded tokens in a micro-batch, 16,384, for "fast".
    random_state : int
        0.
    """

    ref: Policy | None
    group: Group | None
    layout: Mapping[str, ParallelLayout] | None
    prompts_per_step: int
    kl_coef: float
    clip_range: float | tuple[float, float]
    loss_norm: str
    balance: str
    exactness: str
    updates_per_step: int
    lr: float
    max_grad_norm: float
    chunks: int
    double_buffer: bool
    mismatch_cap: float | None
    token_budget: int
    random_state: int


class Configured:
    """The settings of a trainer as attributes, with their defaults; refuses impossible ones."""

    policy: Policy
    reward_fn: Reward
    group_size: int
    dynamic_sampling: bool
    ref: Policy | None = None
    group: Group | None = None
    layout: Mapping[str, ParallelLayout] | None = None
    prompts_per_step: int = 32
    kl_coef: float = 0.001
    clip_range: float | tuple[float, float] = 0.2
    loss_norm: str = "token"
    balance: str = "min_move"
    exactness: str = "fast"
    updates_per_step: int = 1
    lr: float = 2e-4
    max_grad_norm: float = 1.0
    chunks: int = 1
    double_buffer: bool = True
    mismatch_cap: float | None = None
    token_budget: int = 16384
    random_state: int = 0
    _main: Coordinator

    def _configure(self, given: SharedSettings) -> None:
        known = SharedSettings.__annotations__
        unknown = sorted(set(given) - set(known))
        if unknown:
            near = difflib.get_close_matches(unknown[0], known, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"{type(self).__name__} has no setting {unknown[0]!r}.{hint}")
        for name, value in given.items():
            setattr(self, name, value)

    def _check(self) -> None:
        choices = {"exactness": EXACTNESS, "balance": POLICIES, "loss_norm": LOSS_NORMS}
        for name, possible in choices.items():
            if getattr(self, name) not in possible:
                raise ParameterError(
                    f"{name}={getattr(self, name)!r}; needed is one of {', '.join(possible)}."
                )
        for name in _COUNTS:
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ParameterError(f"{name}={value!r}; needed is a whole number of at least 1.")
        if not 0 <= self.kl_coef or not self.lr > 0:
            raise ParameterError(
                f"kl_coef={self.kl_coef!r}, lr={self.lr!r}; needed are at least 0 and above 0."
            )
        low, high = self._clip()
        if not (0 < low < 1 and high > 0):
            raise ParameterError(
                f"clip_range={self.clip_range!r}; needed is a number in (0, 1), or two of them."
            )

    def _clip(self) -> tuple[float, float]:
        clip = self.clip_range
        return clip if isinstance(clip, tuple) else (float(clip), float(clip))

    def _settings(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in _TOLD)

    def _has_reference(self) -> bool:
        return self.kl_coef > 0
