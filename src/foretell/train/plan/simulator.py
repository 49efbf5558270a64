"""Time to train under failures, simulated: masking, patches, checkpoints, restarts.

Everything that comes from here is simulated. What the model contains: failures of groups, the
exact matching behind every load and patch, jitter of steps, detection, saves, lost work, restarts.
What it leaves out: contention on the network, the loading of redundant data, groups that come back
before a restart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import ParameterError
from foretell.train.plan import _epoch_kernel as kernel
from foretell.train.plan._matching import first_owner, positions
from foretell.train.plan.checkpoint import CheckpointPolicy, checked_interval
from foretell.train.plan.checks import not_negative, positive, whole
from foretell.train.plan.endurance import EnduranceModel
from foretell.train.plan.failures import FailureModel
from foretell.train.plan.placement import StackPlacement

Array = NDArray[np.float64]
Mode = Literal["reorder", "replicate", "drop"]
_MODES = {"reorder": kernel.REORDER, "replicate": kernel.REPLICATE, "drop": kernel.DROP}
_NEVER = 1 << 60


@dataclass(frozen=True)
class TrainingCosts:
    """What takes how long, in seconds.

    Parameters
    ----------
    compute_s : float
        One shard on one group.
    reduce_s : float
        The all-reduce of a step.
    save_s, restart_s : float
        A checkpoint, and from a wipe-out to the next step.
    stall_s : float
        To notice a failure, shrink the communicator and plan.
    jitter : float
        Standard deviation of the time of a step, as a share.

    Examples
    --------
    >>> TrainingCosts(compute_s=64.0, reduce_s=6.0, save_s=60.0, restart_s=3600.0).step_s
    70.0
    """

    compute_s: float
    reduce_s: float
    save_s: float
    restart_s: float
    stall_s: float = 0.4
    jitter: float = 0.05

    def __post_init__(self) -> None:
        for name in ("compute_s", "save_s", "restart_s"):
            positive(name, getattr(self, name), "seconds")
        for name in ("reduce_s", "stall_s", "jitter"):
            not_negative(name, getattr(self, name))

    @property
    def step_s(self) -> float:
        """A step without failures or redundancy."""
        return self.compute_s + self.reduce_s


@dataclass(frozen=True)
class MaskingPolicy:
    """What a training does about failures.

    Parameters
    ----------
    placement : StackPlacement
    micro : int
        Units of a shard; 1 for whole stacks.
    mode : {"reorder", "replicate", "drop"}
        Compute each unit once and reorder after failures; or compute every copy always; or go on
        without the shards of the dead (the update then is another one).
    interval_s : float, optional
        Period of checkpoints; default: the best for the expected time to a wipe-out.
    restart_at : float, optional
        Save and restart when this share of the groups has failed.

    Examples
    --------
    >>> MaskingPolicy(StackPlacement(600, 6), micro=8)
    MaskingPolicy(reorder, StackPlacement(600 groups, 6 hosts a shard, golomb 0 16 ...), ...)
    """

    placement: StackPlacement
    micro: int = 8
    mode: Mode = "reorder"
    interval_s: float | None = None
    restart_at: float | None = None

    def __post_init__(self) -> None:
        whole("micro", self.micro)
        if self.mode not in _MODES:
            raise ParameterError(
                f"mode={self.mode!r} is not one of {', '.join(map(repr, _MODES))}."
            )
        if self.restart_at is not None and not 0 < self.restart_at <= 1:
            raise ParameterError(
                f"restart_at={self.restart_at!r}; needed is a share of the groups above 0, at most "
                "1, for instance restart_at=0.35."
            )
        if self.mode != "reorder" and self.micro != 1:
            raise ParameterError(f"mode={self.mode!r} has no micro-stacks; write micro=1.")

    def __repr__(self) -> str:
        return f"MaskingPolicy({self.mode}, {self.placement}, {self.micro} units a shard)"

    def mean_failures(self) -> float:
        """Expected failures until a restart."""
        n = self.placement.n_groups
        most = n if self.restart_at is None else max(1.0, math.ceil(self.restart_at * n))
        if self.mode == "drop":
            return float(most)
        return min(EnduranceModel(self.placement).mean(), most)


@dataclass(frozen=True, eq=False)
class SimulatedTraining:
    """Simulated runs, one entry for each seed.

    Parameters
    ----------
    time_ratio : array (S,)
        J, time to train over that of a machine that never fails and never saves.
    availability : array (S,)
        Share of the time spent in steps that were kept.
    restarts, failures : array (S,)
        How many.
    load : array (S,)
        Mean stacks of a step.
    rework : array (S,)
        Steps that were lost and done again, over the steps of the job.
    patch_s : array (S,)
        Mean seconds that a masked failure added to its step.
    finished : bool array (S,)
        False where a run was given up; its ``time_ratio`` is a lower bound.
    interval_s : float
        Period of checkpoints.
    """

    time_ratio: Array
    availability: Array = field(repr=False)
    restarts: Array = field(repr=False)
    failures: Array = field(repr=False)
    load: Array = field(repr=False)
    rework: Array = field(repr=False)
    patch_s: Array = field(repr=False)
    finished: NDArray[np.bool_] = field(repr=False)
    interval_s: float

    def __repr__(self) -> str:
        J = self.time_ratio
        bound = "" if self.finished.all() else "at least "
        return (
            f"SimulatedTraining(J {bound}{J.mean():.3g} over {J.size} seeds, "
            f"{100 * self.availability.mean():.1f} % available, "
            f"{self.restarts.mean():.1f} restarts, load {self.load.mean():.2f})"
        )


class TimeToTrainSimulator:
    """Simulates trainings with failures.

    Two policies that are run with the same seeds meet the same draws in every epoch, so their ratio
    can be taken seed by seed.

    Parameters
    ----------
    policy : MaskingPolicy
    failures : FailureModel
    costs : TrainingCosts

    Examples
    --------
    >>> costs = TrainingCosts(compute_s=64.0, reduce_s=6.0, save_s=60.0, restart_s=3600.0)
    >>> policy = MaskingPolicy(StackPlacement(200, 6), micro=8)
    >>> run = TimeToTrainSimulator(policy, FailureModel.weibull(0.78, 300.0), costs).run(1000, 2)
    >>> bool(1.3 < run.time_ratio.mean() < 2.5)
    True
    """

    def __init__(self, policy: MaskingPolicy, failures: FailureModel, costs: TrainingCosts) -> None:
        self.policy, self.failures, self.costs = policy, failures, costs
        placement = policy.placement
        if policy.interval_s is None:
            n = placement.n_groups
            uptime = failures.time_to(min(policy.mean_failures(), n - 0.5), n)
            best = CheckpointPolicy(costs.save_s, costs.restart_s, failures.mtbf_s)
            self.interval_s = best.interval(uptime_s=uptime)
        else:
            self.interval_s = checked_interval(policy.interval_s, costs.save_s)
        self._where = positions(placement.stacks, placement.hosts_of)
        self._first = first_owner(placement.hosts_of, policy.micro)

    def run(
        self,
        n_steps: int = 10_000,
        n_seeds: int = 10,
        *,
        first_seed: int = 0,
        give_up: float = 50.0,
    ) -> SimulatedTraining:
        """Simulate whole trainings.

        Parameters
        ----------
        n_steps : int
            Steps of a training.
        n_seeds : int
            Trainings, with the seeds from ``first_seed`` on.
        first_seed : int
        give_up : float
            A run is ended when it takes that many times the failure-free time.

        Returns
        -------
        SimulatedTraining
        """
        steps, seeds = whole("n_steps", n_steps), whole("n_seeds", n_seeds)
        positive("give_up", give_up)
        rows = [self._one(steps, first_seed + s, give_up) for s in range(seeds)]
        table = np.array(rows)
        return SimulatedTraining(
            time_ratio=table[:, 0],
            availability=table[:, 1],
            restarts=table[:, 2],
            failures=table[:, 3],
            load=table[:, 4],
            rework=table[:, 5],
            patch_s=table[:, 6],
            finished=table[:, 7] > 0,
            interval_s=self.interval_s,
        )

    def _one(self, steps: int, seed: int, give_up: float) -> tuple[float, ...]:
        policy, costs = self.policy, self.costs
        placement, n = policy.placement, policy.placement.n_groups
        restart_at = _NEVER
        if policy.restart_at is not None:
            restart_at = max(1, math.ceil(policy.restart_at * n))
        ideal = steps * costs.step_s
        limit = give_up * ideal
        now, done, useful, rework, restarts, epoch = 0.0, 0.0, 0.0, 0.0, 0, 0
        tally, end = np.zeros(kernel.N_TALLIES), kernel.WIPED
        first_s = self.failures.first_s(np.random.default_rng([seed, 0, 2]))
        while True:
            failures_rng = np.random.default_rng([seed, epoch, 0])
            times, groups = self.failures.epoch(n, first_s + now, failures_rng)
            end, spent, kept, useful, reached = kernel.run_epoch(
                placement.hosts_of,
                placement.stacks,
                self._where,
                times,
                groups,
                np.random.default_rng([seed, epoch, 1]),
                _MODES[policy.mode],
                self._first,
                restart_at,
                float(steps),
                done,
                useful,
                costs.compute_s,
                costs.reduce_s,
                costs.save_s,
                self.interval_s,
                costs.stall_s,
                costs.jitter,
                limit - now,
                tally,
            )
            now += spent
            rework += reached - kept
            done = kept
            if end in (kernel.FINISHED, kernel.LATE):
                break
            now += costs.restart_s
            restarts += 1
            epoch += 1
            if now > limit:
                break
        failures = tally[kernel.FAILURES]
        return (
            now / ideal,
            useful / now,
            float(restarts),
            failures,
            tally[kernel.LOAD_STEPS] / max(tally[kernel.STEPS], 1.0),
            rework / steps,
            tally[kernel.PATCH_S] / max(failures, 1.0),
            float(end == kernel.FINISHED),
        )
