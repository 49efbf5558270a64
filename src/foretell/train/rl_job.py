"""Reinforcement learning from a job file: the table of ``foretell train job.toml``.

    kind = "rl"
    algorithm = "grpo"                 # grpo, dapo or ppo
    steps = 200
    prompts = "train.jsonl"            # a line each: {"prompt": "...", "answer": "..."}
    held_out = "test.jsonl"            # optional: scored before and after
    reward = "numeric_match"           # exact_match, first_number_match, or "module:function"

    [model]
    folder = "smollm2"                 # a checkpoint of transformers; gguf_file = "..." inside it
    lora_rank = 8
    max_new_tokens = 64
    # or a small transformer from scratch: alphabet = "0123456789+=", width = 128, n_layers = 2

    [trainer]                          # any argument of GRPOTrainer or PPOTrainer
    group_size = 8

With several workers, processes of this machine meet through gloo; under torchrun each process that
it started calls `run` and is one rank.
"""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretell.core.artifact import Artifact
from foretell.core.errors import DataError, ParameterError
from foretell.core.files import write_text_atomic
from foretell.core.progress import Progress

if TYPE_CHECKING:
    from foretell.train.rl import Group, LanguagePolicy, RLStep
    from foretell.train.rl.trainer import PolicyTrainer

ALGORITHMS = ("grpo", "dapo", "ppo")
_KEYS = {
    "kind", "algorithm", "steps", "prompts", "held_out", "reward", "model", "trainer", "resume",
    "critic_lr", "timeout_s",
}  # fmt: skip
_TINY = ("width", "n_layers", "n_heads", "longest", "seed")
_POLICY = "rl-policy"

OnStep = Callable[[Progress], None]


@dataclass(frozen=True)
class RLJobResult:
    """How a job went.

    Parameters
    ----------
    steps : int
        Steps done, those of resumed parts included.
    first_reward, last_reward : float
        Mean reward of the samples of the first and the last tenth of the steps.
    held_out_before, held_out_after : float or None
        Mean reward of greedy completions of the held-out prompts.
    seconds : float
    workers : int
    out : str
        Folder with ``policy``, ``state`` and ``history.jsonl``.
    """

    steps: int
    first_reward: float
    last_reward: float
    held_out_before: float | None
    held_out_after: float | None
    seconds: float
    workers: int
    out: str

    def __repr__(self) -> str:
        held = ""
        if self.held_out_after is not None and self.held_out_before is not None:
            held = f", held out {self.held_out_before:.3f} -> {self.held_out_after:.3f}"
        return (
            f"RLJobResult({self.steps} steps on {self.workers} workers, reward "
            f"{self.first_reward:.3f} -> {self.last_reward:.3f}{held}, {self.seconds:.1f} s)"
        )


def run(
    table: Mapping[str, Any], *, workers: int = 1, out: str | Path, on_step: OnStep | None = None
) -> RLJobResult:
    """Run a job, by processes of this machine or as a rank of torchrun.

    Parameters
    ----------
    table : mapping
        The content of the job file.
    workers : int
        Processes, where torchrun has not started them already.
    out : path
        Folder for the result.
    on_step : callable, optional
        Receives a ``Progress`` after each step; ``score`` is the mean reward.

    Raises
    ------
    ParameterError, DataError
        The table, a file that it names, or a reward is not usable.
    ControllerError
        A worker failed or is missing.
    """
    checked(table)
    if workers < 1:
        raise ParameterError(f"workers={workers!r}; needed is at least 1.")
    if workers > 1 and "WORLD_SIZE" not in os.environ:
        from foretell.train.rl.workers import run_workers

        return RLJobResult(**run_workers(table, workers, Path(out), on_step))
    from foretell.train.rl.launch import join, leave

    group = join(timeout_s=float(table.get("timeout_s", 120.0)))
    try:
        return run_rank(table, group, Path(out), on_step)
    finally:
        leave()


def checked(table: Mapping[str, Any]) -> None:
    """Refuse keys that do not exist and values that cannot be.

    Raises
    ------
    ParameterError
    """
    unknown = sorted(set(table) - _KEYS)
    if unknown:
        raise ParameterError(
            f"The job has a key {unknown[0]!r}; known are {', '.join(sorted(_KEYS))}."
        )
    for name in ("prompts", "reward", "model"):
        if name not in table:
            raise ParameterError(
                f'The job has no {name!r}. Needed are prompts = "train.jsonl", reward = '
                '"numeric_match" and a table [model].'
            )
    if table.get("algorithm", "grpo") not in ALGORITHMS:
        raise ParameterError(
            f"algorithm = {table['algorithm']!r}; needed is one of {', '.join(ALGORITHMS)}."
        )
    steps = table.get("steps", 100)
    if not isinstance(steps, int) or steps < 1:
        raise ParameterError(f"steps = {steps!r}; needed is a whole number of at least 1.")
    model = table["model"]
    if not isinstance(model, Mapping) or ("folder" in model) == ("alphabet" in model):
        raise ParameterError(
            'The table [model] needs either folder = "..." (a checkpoint of transformers) or '
            'alphabet = "..." (a small transformer from scratch).'
        )


def run_rank(
    table: Mapping[str, Any], group: Group, out: Path, on_step: OnStep | None = None
) -> RLJobResult:
    """The job as one rank of a group that has met."""
    trainer = make_trainer(table, group)
    state = out / "state"
    if table.get("resume", False) and state.exists():
        trainer.load(state)
    prompts = read_prompts(table["prompts"])
    held = read_prompts(table["held_out"]) if "held_out" in table else None
    before = trainer.score(held) if held else None
    began, total = time.monotonic(), int(table.get("steps", 100))
    first = trainer.step_

    def report(done: RLStep) -> None:
        seconds = time.monotonic() - began
        pace = seconds / (done.step - first)
        if on_step is not None and group.rank == 0:
            on_step(
                Progress(
                    step=done.step, total=total, loss=done.loss, score=done.reward,
                    seconds=seconds, eta=pace * (total - done.step),
                )
            )  # fmt: skip

    trainer.fit(prompts, max(total - first, 0), on_step=report)
    trainer.save(state)
    rewards = [step.reward for step in trainer.history_] or [float("nan")]
    tenth = max(len(rewards) // 10, 1)
    result = RLJobResult(
        steps=trainer.step_,
        first_reward=sum(rewards[:tenth]) / tenth,
        last_reward=sum(rewards[-tenth:]) / tenth,
        held_out_before=before,
        held_out_after=trainer.score(held) if held else None,
        seconds=time.monotonic() - began,
        workers=group.size,
        out=str(out),
    )
    if group.rank == 0:
        save_policy(trainer.policy, dict(table["model"]), out / "policy")  # type: ignore[arg-type]
        lines = [json.dumps(asdict(step)) for step in trainer.history_]
        write_text_atomic(out / "history.jsonl", "\n".join(lines) + "\n")
    return result


def make_trainer(table: Mapping[str, Any], group: Group) -> PolicyTrainer:
    """The trainer that a table describes.

    Raises
    ------
    ParameterError
        A setting that the trainer does not have.
    """
    from foretell.train.rl import GRPOTrainer, PPOTrainer, TinyCausalLM

    policy = make_policy(table["model"])
    reward, settings = find_reward(table["reward"]), dict(table.get("trainer", {}))
    if isinstance(settings.get("clip_range"), list):
        settings["clip_range"] = tuple(settings["clip_range"])
    settings["group"] = group
    try:
        match table.get("algorithm", "grpo"):
            case "dapo":
                return GRPOTrainer.dapo(policy, reward, **settings)
            case "ppo":
                model = table["model"]
                if "alphabet" not in model:
                    raise ParameterError(
                        'algorithm = "ppo" in a job needs a model from scratch (alphabet = "..."). '
                        "For a checkpoint give PPOTrainer a critic in Python."
                    )
                size = {k: model[k] for k in _TINY if k in model}
                critic = TinyCausalLM(len(policy.tokenizer), outputs=1, **size)
                return PPOTrainer(policy, reward, critic, **settings)
        return GRPOTrainer(policy, reward, **settings)
    except TypeError as error:
        raise ParameterError(
            f"The table [trainer] has a setting that is not known: {error}."
        ) from error


def make_policy(model: Mapping[str, Any]) -> LanguagePolicy:
    """The policy of a table [model]."""
    from foretell.train.rl import CharTokenizer, LanguagePolicy, TinyCausalLM

    settings = dict(model)
    if "folder" in settings:
        folder = settings.pop("folder")
        if not Path(folder).is_dir():
            raise DataError(f"There is no folder {folder}. Download the checkpoint first.")
        try:
            return LanguagePolicy.from_pretrained(folder, **settings)
        except TypeError as error:
            raise ParameterError(f"The table [model] has an unknown setting: {error}.") from error
    tokenizer = CharTokenizer(settings.pop("alphabet"))
    size = {name: settings.pop(name) for name in _TINY if name in settings}
    options = {k: settings.pop(k) for k in ("max_new_tokens", "temperature") if k in settings}
    if settings:
        raise ParameterError(f"The table [model] has an unknown setting {next(iter(settings))!r}.")
    return LanguagePolicy(TinyCausalLM(len(tokenizer), **size), tokenizer, **options)


def find_reward(name: str) -> Callable[..., float]:
    """A reward by its name, or a function of a module that can be imported.

    Raises
    ------
    ParameterError
    """
    from foretell.train.rl.rewards import REWARDS

    if name in REWARDS:
        return REWARDS[name]
    module, _, function = name.partition(":")
    if not function:
        raise ParameterError(
            f'reward = {name!r}; needed is one of {", ".join(REWARDS)}, or "module:function".'
        )
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ParameterError(
            f"reward = {name!r} cannot be imported: {error}. Put the module where Python finds it."
        ) from error
    if not callable(found):
        raise ParameterError(f"reward = {name!r} is not a function of (task, completion).")
    return found  # type: ignore[no-any-return]


def read_prompts(path: str | Path) -> list[dict[str, Any]]:
    """Prompts of a JSONL file.

    Raises
    ------
    DataError
        The file is missing, or a line is not an object with "prompt"; names the line.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}.") from error
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            one = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{path}, line {number} is not JSON: {error}.") from error
        if not isinstance(one, dict) or "prompt" not in one:
            raise DataError(
                f'{path}, line {number} has no "prompt". Needed is a line like '
                '{"prompt": "1+1=", "answer": "2"}.'
            )
        found.append(one)
    if not found:
        raise DataError(f"{path} has no prompts.")
    return found


def save_policy(policy: LanguagePolicy, model: dict[str, Any], path: Path) -> Path:
    """Write the trained weights by their names, with the table that made the policy."""
    weights = {
        name: p.detach().cpu().numpy()
        for name, p in policy.module.named_parameters()
        if p.requires_grad
    }
    return Artifact(model_class=_POLICY, arrays=weights, parameters=model).save(path)


def load_policy(path: str | Path) -> LanguagePolicy:
    """The policy that a job left in ``OUT/policy``."""
    import torch

    artifact = Artifact.open(Path(path), classes=[_POLICY])
    policy = make_policy(artifact.parameters)
    weights = {name: torch.from_numpy(array.copy()) for name, array in artifact.arrays.items()}
    policy.module.load_state_dict(weights, strict=False)
    return policy
