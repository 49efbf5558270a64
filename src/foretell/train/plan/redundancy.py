"""How much redundancy: time to train in closed form, and the cheapest plan.

One cycle runs from a start of all groups to the start after a wipe-out. With P(K > k) from
``EnduranceModel``, D_k the mean time between failures k and k + 1, c_k the load after k failures
and s_k = c_k T_comp + T_a the time of a step:

    time of a cycle    sum_k P(K > k) D_k  + stall + T_r
    steps it keeps     (1 - T_s / T_c) sum_k P(K > k) (D_k - patch_k) / s_k  -  lost steps

lost: half a period at the pace just before the wipe-out. J is the first over the second, in units
of a failure-free step. The paper's form is mean load over availability, which takes the mean of c_k
where that of 1 / s_k is meant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import ParameterError
from foretell.train.plan.checkpoint import CheckpointPolicy, checked_interval
from foretell.train.plan.checks import whole
from foretell.train.plan.endurance import EnduranceModel
from foretell.train.plan.failures import FailureModel
from foretell.train.plan.overhead import OverheadModel
from foretell.train.plan.placement import StackPlacement
from foretell.train.plan.rulers import golomb_offsets, largest_redundancy
from foretell.train.plan.simulator import MaskingPolicy, TrainingCosts

Array = NDArray[np.float64]
Index = NDArray[np.int64]
_MOST = 16


@dataclass(frozen=True)
class Prediction:
    """What a policy is expected to do, by formula.

    Parameters
    ----------
    policy : MaskingPolicy
    time_ratio : float
        J, time to train over that without failures and saves.
    interval_s : float
        Best period of checkpoints, in seconds.
    uptime_s : float
        Mean seconds between restarts.
    mean_failures : float
        Mean failures between restarts.
    mean_load : float
        Mean stacks of a step, over steps.

    Examples
    --------
    >>> costs = TrainingCosts(compute_s=64.0, reduce_s=6.0, save_s=60.0, restart_s=3600.0)
    >>> predict(MaskingPolicy(StackPlacement(600, 6)), FailureModel.exponential(300.0), costs)
    Prediction(J 1.41, 6 hosts a shard, 8 units, a checkpoint in 3047 s)
    """

    policy: MaskingPolicy = field(repr=False)
    time_ratio: float
    interval_s: float
    uptime_s: float
    mean_failures: float
    mean_load: float

    @property
    def redundancy(self) -> int:
        """Hosts of a shard."""
        return self.policy.placement.redundancy

    @property
    def micro(self) -> int:
        """Units of a shard."""
        return self.policy.micro

    def __repr__(self) -> str:
        return (
            f"Prediction(J {self.time_ratio:.3g}, {self.redundancy} hosts a shard, {self.micro} "
            f"units, a checkpoint in {self.interval_s:.0f} s)"
        )


@dataclass(frozen=True)
class RedundancyPlan:
    """The cheapest plan, and what else there was.

    Parameters
    ----------
    best : Prediction
    alternatives : tuple of Prediction
        Everything that was compared, in the order in which it was.
    """

    best: Prediction
    alternatives: tuple[Prediction, ...] = field(repr=False)


def predict(policy: MaskingPolicy, failures: FailureModel, costs: TrainingCosts) -> Prediction:
    """Time to train by formula.

    Loads are taken at their bound, which rulers reach; failures are single ones (for whole domains,
    simulate). A policy without an interval gets the best one.
    """
    placement, n = policy.placement, policy.placement.n_groups
    last = n if policy.restart_at is None else max(1, math.ceil(policy.restart_at * n))
    planned = last < n
    k = np.arange(min(last, n - 1))
    survival = EnduranceModel(placement).survival(k)
    if policy.mode == "drop":
        survival = np.ones(k.size)
    gaps = np.diff(failures.mean_times(n))[: k.size]
    load, patches, gain = _work(policy, k)
    step_s = load * costs.compute_s + costs.reduce_s
    lost_s = np.minimum(patches * costs.compute_s + costs.stall_s, 0.9 * gaps)
    uptime = float((survival * gaps).sum())
    raw = float((survival * (gaps - lost_s) * gain / step_s).sum())
    if policy.interval_s is None:
        best = CheckpointPolicy(costs.save_s, costs.restart_s, failures.mtbf_s)
        interval = best.interval(uptime_s=uptime)
    else:
        interval = checked_interval(policy.interval_s, costs.save_s)
    fatal = survival - np.r_[survival[1:], 0.0]
    pace = float((fatal / step_s).sum() / max(fatal.sum(), 1e-300))
    trained = 1 - costs.save_s / interval
    kept = trained * raw
    if planned:  # the groups that come so far save first
        kept -= 0.5 * interval * trained * pace * float(1 - survival[-1])
        uptime += costs.save_s * float(survival[-1])
    else:
        kept -= 0.5 * min(interval, uptime) * trained * pace
    ratio = math.inf
    if kept > 0:
        ratio = (uptime + costs.stall_s + costs.restart_s) / (kept * costs.step_s)
    steps = survival * gaps / step_s
    mean_load = float((steps * load).sum() / steps.sum())
    return Prediction(policy, ratio, interval, uptime, float(survival.sum()), mean_load)


def optimize_redundancy(
    n_groups: int,
    mtbf_s: float,
    *,
    save_s: float,
    restart_s: float,
    compute_s: float = 64.0,
    reduce_s: float = 6.0,
    micro: int | Sequence[int] = (1, 8),
    shape: float = 1.0,
    redundancies: Sequence[int] | None = None,
) -> RedundancyPlan:
    """Redundancy, micro-stacks and checkpoint period with the shortest predicted time to train.

    Parameters
    ----------
    n_groups : int
        N.
    mtbf_s, save_s, restart_s : float
        Mean time between failures of the system, save and restart, in seconds.
    compute_s, reduce_s : float
        One shard on one group, and the all-reduce, in seconds.
    micro : int or list of int
        Numbers of units of a shard to compare. More is never worse here; what limits it is the
        number of micro-batches that a shard has.
    shape : float
        Weibull shape of the clocks, which start anew at a restart.
    redundancies : list of int, optional
        To compare; default every one that a ruler allows, up to 16.

    Returns
    -------
    RedundancyPlan

    Examples
    --------
    >>> plan = optimize_redundancy(600, 300.0, save_s=60.0, restart_s=3600.0)
    >>> plan.best
    Prediction(J 1.39, 5 hosts a shard, 8 units, a checkpoint in 2695 s)
    >>> whole = optimize_redundancy(600, 300.0, save_s=60.0, restart_s=3600.0, micro=1).best
    >>> whole.redundancy
    8
    """
    n = whole("n_groups", n_groups)
    units = [micro] if isinstance(micro, int) else list(micro)
    if not units:
        raise ParameterError("micro=[] compares nothing; write for instance micro=8.")
    costs = TrainingCosts(compute_s, reduce_s, save_s, restart_s)
    failures = FailureModel.weibull(shape, mtbf_s)
    most = min(_MOST, largest_redundancy(n))
    tried = range(1, most + 1) if redundancies is None else redundancies
    units = [whole("micro", u) for u in units]
    placements = [StackPlacement(n, r) for r in tried if golomb_offsets(n, r) is not None]
    found = [predict(MaskingPolicy(p, q), failures, costs) for p in placements for q in units]
    if not found:
        raise ParameterError(f"redundancies={list(tried)!r}: none has a ruler for {n} groups.")
    best = min(found, key=lambda p: (p.time_ratio, p.redundancy, p.micro))
    if not math.isfinite(best.time_ratio):
        raise ParameterError(
            f"With one failure in {mtbf_s:g} s, saves of {save_s:g} s and restarts of "
            f"{restart_s:g} s no redundancy of {n} groups gets anywhere. Use more groups or a "
            "faster restart."
        )
    return RedundancyPlan(best, tuple(found))


def _work(policy: MaskingPolicy, k: Index) -> tuple[Array, Array, Array]:
    """Load of a step, patch of the next failure, and progress of a step, after k failures."""
    one = np.ones(k.size)
    if policy.mode == "replicate":
        return policy.placement.redundancy * one, 0 * one, one
    if policy.mode == "drop":
        return one, 0 * one, 1 - k / policy.placement.n_groups
    model = OverheadModel(policy.placement, policy.micro)
    return model.load(k), model.patch(k), one
