"""What GRPO and PPO share: the steps of a training that every rank runs.

    stream of prompts -> [rollout -> ... -> what the update needs] in chunks -> update

The part in brackets is a chain of the workflow. With more than one chunk, the ranks draw the next
chunk while a second thread, with a group of its own, takes the last one through the rest of the
chain. The update waits for all chunks, so that every sample comes from the present weights.

Exactness: "bitwise": rollouts, log-probabilities and gradients are computed in units, the samples
of one prompt, whose shapes depend on nothing but the prompt and its samples, and gradients are
summed in integers. Then the weights have the same bits for every number of ranks, layout and
balance policy. "fast": rows are packed by a token budget and gradients summed in float32.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from foretell.core.artifact import Artifact
from foretell.core.errors import (
    ArtifactError,
    MissingExtraError,
)
from foretell.train.coordinator import Coordinator, ReshardStats
from foretell.train.graph import Node, Planner, Workflow
from foretell.train.rl.fixed_point import summed
from foretell.train.rl.flat import FlatAdamW, weights_hash
from foretell.train.rl.group import Alone
from foretell.train.rl.loader import PromptStream, as_tasks
from foretell.train.rl.lora import has_lora
from foretell.train.rl.policy import Policy, Task
from foretell.train.rl.rewards import checked_reward
from foretell.train.rl.rows import RowBatch
from foretell.train.rl.runner import Runner
from foretell.train.rl.settings import Reward, SharedSettings
from foretell.train.rl.stages import Stages

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtraError("torch", "learn", "train by reinforcement learning") from error

_MOST_ROUNDS = 10  # of dynamic sampling in one step
_CHECKED_STEPS = 3  # first steps in which the weights of the ranks are compared
_STATE = "rl-training"


@dataclass(frozen=True)
class RLStep:
    """One step of a training, over all ranks.

    Parameters
    ----------
    step : int
        Number of the step, from 1.
    reward : float
        Mean reward of all samples that were drawn.
    loss : float
        What was minimised, at the last update of the step.
    kl : float
        Mean divergence from the reference for each token, nats; 0 without a reference.
    clipped : float
        Share of the drawn tokens whose gradient was cut off.
    flat_groups : float
        Share of the prompts whose samples all had one reward.
    tokens : int
        Drawn tokens that were trained on.
    length : float
        Mean length of a response, tokens.
    gradient : float
        Length of the gradient before it was clipped.
    rounds : int
        Rounds of dynamic sampling.
    mismatch : float
        Largest difference between the log-probabilities of sampler and trainer, nats.
    value_loss : float
        Loss of the critic, for PPO.
    """

    step: int
    reward: float
    loss: float
    kl: float
    clipped: float
    flat_groups: float
    tokens: int
    length: float
    gradient: float
    rounds: int
    mismatch: float
    value_loss: float = 0.0

    def __repr__(self) -> str:
        return (
            f"RLStep({self.step}: reward {self.reward:.3f}, kl {self.kl:.2g}, "
            f"{100 * self.flat_groups:.0f} % flat groups, {self.tokens} tokens)"
        )


class PolicyTrainer(Stages):
    """Base of `GRPOTrainer` and `PPOTrainer`; see there for the parameters."""

    workflow: Workflow

    def __init__(
        self,
        policy: Policy,
        reward_fn: Reward,
        settings: SharedSettings,
        *,
        group_size: int,
        dynamic_sampling: bool = False,
    ) -> None:
        self.policy, self.reward_fn, self.group_size = policy, reward_fn, group_size
        self.dynamic_sampling = dynamic_sampling
        self._configure(settings)
        self.step_, self.cursor_, self.history_ = 0, 0, list[RLStep]()
        self._optimizer: FlatAdamW | None = None
        self._reference: Tensor | None = None  # weights before the first step
        self._frozen_actor = None
        self._tasks = {}

    def fit(
        self,
        prompts: Iterable[Any],
        n_steps: int = 100,
        *,
        on_step: Callable[[RLStep], None] | None = None,
    ) -> PolicyTrainer:
        """Train; every rank calls this with the same arguments.

        Parameters
        ----------
        prompts : iterable
            Tasks, texts, (prompt, answer) pairs, or mappings with "prompt" and "answer".
        n_steps : int
            Steps to do; more calls go on from where the last one ended.
        on_step : callable, optional
            Is given an `RLStep` after each step; must do the same on all ranks.

        Raises
        ------
        ParameterError, DataError
            A setting, a prompt, or a reward is not usable; raised on all ranks.
        ControllerError
            Another rank failed, is missing or disagrees.
        """
        tasks = as_tasks(prompts)
        self._start(tasks)
        for _ in range(n_steps):
            done = self._one_step(tasks)
            self.history_.append(done)
            if on_step is not None:
                on_step(done)
        return self

    def generate(self, prompts: Iterable[Any], *, greedy: bool = True, seed: int = 0) -> list[Any]:
        """One completion for each prompt; on this rank alone."""
        tasks = as_tasks(prompts)
        found = []
        for start in range(0, len(tasks), 64):
            part = tasks[start : start + 64]
            uid = torch.arange(start, start + len(part))
            draws = torch.stack([self._draws(seed, int(u)) for u in uid])
            options = {"greedy": True} if greedy else {}
            rows = self.policy.rollout([t.prompt for t in part], uid, draws, **options)
            found += self.policy.completions(rows)
        return found

    def score(self, prompts: Iterable[Any], answers: Sequence[Any] | None = None) -> float:
        """Mean reward of greedy completions; the ranks share the prompts."""
        tasks = as_tasks(prompts)
        if answers is not None:
            tasks = [replace(t, answer=a) for t, a in zip(tasks, answers, strict=True)]
        group = self.group or Alone()
        mine = tasks[group.rank :: group.size]
        texts = self.generate(mine) if mine else []
        rewards = [
            checked_reward(self.reward_fn(t, text), n)
            for n, (t, text) in enumerate(zip(mine, texts, strict=True))
        ]
        return float(summed(group, torch.tensor([sum(rewards)], dtype=torch.float64))) / len(tasks)

    def get_params(self) -> Tensor:
        """The trained weights as one float32 vector, a copy."""
        return self._adam().get()

    def set_params(self, values: Tensor) -> None:
        """Replace the trained weights."""
        self._adam().set(values)

    def params_hash(self) -> str:
        """SHA-256 of the trained weights."""
        return weights_hash([self.get_params()])

    def stats(self) -> ReshardStats:
        """What was moved between the stages, for the part of the chain before the update."""
        return self._side.stats()

    def save(self, path: str | Path) -> Path:
        """Write weights, moments and the place in the stream of prompts, on rank 0.

        A training goes on from it with any number of ranks.
        """
        group, place = self.group or Alone(), Path(path)
        if group.rank == 0:
            arrays = {k: v for name, o in self._optimizers() for k, v in o.state(name).items()}
            if self._reference is not None:
                arrays["reference"] = self._reference.cpu().numpy()
            fields = {"step": self.step_, "cursor": self.cursor_, "identity": self._identity()}
            Artifact(model_class=_STATE, arrays=arrays, fields=fields).save(place)
        Coordinator(group).agree(f"step {self.step_}, saved")
        return place

    def load(self, path: str | Path) -> PolicyTrainer:
        """Take over what ``save`` wrote; every rank calls this.

        Raises
        ------
        ArtifactError
            It is of another model or vocabulary.
        """
        artifact = Artifact.open(Path(path), classes=[_STATE])
        fields: dict[str, Any] = dict(artifact.fields)
        for name, value in self._identity().items():
            if fields["identity"].get(name) != value:
                raise ArtifactError(
                    f"{path} was saved with {name} {fields['identity'].get(name)}, and this "
                    f"training has {value}. Use the model and tokenizer that it was saved with."
                )
        for name, optimizer in self._optimizers():
            optimizer.restore(name, dict(artifact.arrays))
        if "reference" in artifact.arrays:
            self._reference = torch.from_numpy(artifact.arrays["reference"].copy())
            self._reference = self._reference.to(self._adam().mean.device)
            self._frozen_actor = None
        self.step_, self.cursor_ = int(fields["step"]), int(fields["cursor"])
        return self

    # ---- start ----

    def _identity(self) -> dict[str, Any]:
        tokenizer = getattr(self.policy, "tokenizer", None)
        size = len(tokenizer) if tokenizer is not None else 0
        return {"vocabulary": size, "weights": self._adam().size}

    def _adam(self) -> FlatAdamW:
        if self._optimizer is None:
            self._optimizer = FlatAdamW(self.policy.module, lr=self.lr, clip=self.max_grad_norm)
        return self._optimizer

    def _optimizers(self) -> list[tuple[str, FlatAdamW]]:
        return [("actor", self._adam())]

    def _start(self, tasks: list[Task]) -> None:
        """Plan, compare the plans and settings of all ranks, and give all the weights of rank 0."""
        self._check()
        group = self.group or Alone()
        unit = self.group_size if self.exactness == "bitwise" else 1
        flow = self.workflow if self._has_reference() else self.workflow.without("ref_logp")
        plan = Planner(
            flow.bind(**{node.name: getattr(self, f"_node_{node.name}") for node in flow.nodes}),
            self.layout, group.size, splits_groups=unit == 1,
        ).linearize()  # fmt: skip
        nodes, layouts = plan.chain(group.rank), plan.branch(group.rank).layouts
        self._main = Coordinator(
            group, layouts, balance=self.balance, unit=unit, double_buffer=self.double_buffer,
            may_be_empty=self.dynamic_sampling,
        )  # fmt: skip
        cut = next(k for k, node in enumerate(nodes) if node.kind == "train")
        self._before, self._updates = nodes[:cut], nodes[cut:]
        frozen = weights_hash(p for p in self.policy.module.parameters() if not p.requires_grad)
        told = f"{plan.text()} {self._settings()} {len(tasks)} prompts, frozen {frozen[:16]}"
        self._main.agree("start", detail=told)
        for _, optimizer in self._optimizers():
            weights = optimizer.get()
            group.broadcast(weights)
            optimizer.set(weights)
        self._side = self._main.twin() if self.chunks > 1 else self._main
        stages = {node.name: node.layout for node in nodes}
        self._runner, self._last = Runner(self._side, stages), Runner(self._main, stages)
        self._stream = PromptStream(len(tasks), self.random_state)
        if self._has_reference() and self.ref is None and not has_lora(self.policy.module):
            self._freeze_reference()

    def _freeze_reference(self) -> None:
        """Keep the policy as it was before the first step, also where a training goes on."""
        if self._reference is None:
            self._reference = self._adam().get()
        if self._frozen_actor is None:
            self._frozen_actor = copy.deepcopy(self.policy.module)
            FlatAdamW(self._frozen_actor, lr=self.lr).set(self._reference)
            self._frozen_actor.requires_grad_(False)

    # ---- one step ----

    def _one_step(self, tasks: list[Task]) -> RLStep:
        if self.step_ < _CHECKED_STEPS:
            mine = "".join(weights_hash([o.get()])[:16] for _, o in self._optimizers())
            self._main.agree(f"step {self.step_}, weights", detail=mine)
        self._sums = dict.fromkeys(("reward", "drawn", "flat", "length"), 0.0)
        batches: list[RowBatch] = []
        accepted: list[int] = []
        rounds = 0
        while True:
            places = range(self.cursor_, self.cursor_ + self.prompts_per_step)
            self.cursor_ = places.stop
            batches += self._collect(tasks, places, rounds)
            rounds += 1
            if not self.dynamic_sampling:
                break
            accepted = self._agreed_prompts(batches)
            if len(accepted) >= self.prompts_per_step or rounds == _MOST_ROUNDS:
                break
        rows = RowBatch.concat(batches)
        if self.dynamic_sampling:
            wanted = torch.tensor(sorted(accepted)[: self.prompts_per_step], dtype=torch.int64)
            rows = rows.select(torch.isin(rows.uid // self.group_size, wanted).nonzero()[:, 0])
        done = self._update(rows, rounds)
        self._main.swap((self.step_, "update"))
        self.step_ += 1
        self._tasks.clear()
        return done

    def _collect(self, tasks: list[Task], places: range, round_: int) -> list[RowBatch]:
        """The rows of one round, drawn and taken through the chain chunk by chunk."""
        group = self._main.group
        layout = self._main.layout("rollout")
        mine = self._stream.share(places, layout.copy_of(group.rank), layout.dp or 1)
        for place in mine:
            self._tasks[place] = tasks[self._stream.at(place)]
        slots = -(-len(places) // (layout.dp or 1))  # prompts of the copy that has most
        n_chunks = min(self.chunks, slots)
        cuts = [slots * k // n_chunks for k in range(n_chunks + 1)]
        parts = [mine[a:b] for a, b in pairwise(cuts)]
        rollout, rest = self._before[0], self._before[1:]
        if n_chunks == 1:
            return [self._chain(rest, *self._drawn(rollout, parts[0]), (self.step_, round_, 0))]
        waiting: list[Future[RowBatch]] = []

        def chain(k: int, drawn: RowBatch | None, error: BaseException | None) -> RowBatch:
            if k:
                waiting[k - 1].result()  # all ranks stop at the first chunk that failed
            return self._chain(rest, drawn, error, (self.step_, round_, k))

        with ThreadPoolExecutor(1, thread_name_prefix="chunks") as pool:
            for k, part in enumerate(parts):
                drawn = self._drawn(rollout, part)
                waiting.append(pool.submit(chain, k, *drawn))
                if drawn[1] is not None:
                    break
        return [future.result() for future in waiting]

    def _drawn(
        self, rollout: Node, places: list[int]
    ) -> tuple[RowBatch | None, BaseException | None]:
        assert rollout.run is not None
        try:
            return rollout.run(places), None
        except Exception as error:
            return None, error

    def _chain(
        self, nodes: Sequence[Node], drawn: RowBatch | None, error: BaseException | None,
        epoch: tuple[int, int, int],
    ) -> RowBatch:  # fmt: skip
        given = {} if drawn is None else {self._before[0].name: drawn}
        outputs, error = self._runner.run(nodes, given, epoch, error=error)
        self._side.agree(f"step {epoch}, chain", error=error)
        self._side.swap(epoch)
        rows: RowBatch = outputs[nodes[-1].name]
        return rows

    def _agreed_prompts(self, batches: list[RowBatch]) -> list[int]:
        """Prompts with signal on any rank, the same list everywhere."""
        here = {int(u) for b in batches if len(b) for u in (b.uid // self.group_size).tolist()}
        counts = self._main.group.all_gather(torch.tensor([len(here)]))
        most = int(counts.max())
        padded = torch.full((max(most, 1),), -1)
        padded[: len(here)] = torch.tensor(sorted(here), dtype=torch.int64)
        found = sorted(set(self._main.group.all_gather(padded).flatten().tolist()))
        return [u for u in found if u >= 0]

    # ---- the update ----

    def _update(self, rows: RowBatch, rounds: int) -> RLStep:
        """Run the nodes that train, and say how the step went."""
        self._tokens, self._rows = self._totals(rows)
        self._trained = {}
        if self._rows:
            given = {self._before[-1].name: rows}
            self._last.run(self._updates, given, (self.step_, "update"))
        own = torch.tensor([self._sums[k] for k in ("reward", "drawn", "flat", "length")])
        sums = summed(self._main.group, own.double())
        drawn = max(float(sums[1]), 1.0)
        apart = self._main.group.all_gather(torch.tensor([self._mismatch(rows)]))
        return RLStep(
            step=self.step_ + 1,
            reward=float(sums[0]) / drawn,
            flat_groups=float(sums[2]) / drawn,
            length=float(sums[3]) / drawn,
            tokens=self._tokens,
            rounds=rounds,
            mismatch=float(apart.max()),
            **{"loss": 0.0, "kl": 0.0, "clipped": 0.0, "gradient": 0.0, **self._trained},
        )
