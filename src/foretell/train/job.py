"""A job file: what to train, by how many workers, and how many of them may fail.

    kind = "module"                  # a program of yours; or "learner", or "rl"
    target = "my_training:main"      # package.module:function
    steps = 300
    workers = 4
    survive = 1                      # any so many may fail at once
    micro = 2                        # units of a worker: the batch of a step is workers x micro
    backend = "gloo"                 # or "sockets", which needs no torch; or "torchft", for NCCL

    [arguments]                      # of the function
    width = 128

A learner of foretell needs a recording in place of a function:

    kind = "learner"
    file = "pump.csv"
    time = "t"
    learner = "cplrnn"               # cplrnn, alrnn or neural-ode
    steps = 2000
    shards = 8                       # units of a step

    [settings]                       # of the learner
    latent_dim = 20
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from foretell.core.errors import DataError, ParameterError
from foretell.train.stacked.spec import BACKENDS, WorkerSpec, placement_for

KINDS = ("learner", "module", "rl")
_OF_LEARNER = ("file", "learner", "shards", "time", "group", "controls", "columns", "settings")
_OF_MODULE = ("target", "arguments", "units")


@dataclass(frozen=True, kw_only=True)
class Job:
    """The content of a job file.

    Parameters
    ----------
    kind : {"learner", "module", "rl"}
    steps : int
    workers, survive : int
        Processes, and how many of them may fail at once. 2 of 4 and more need their parent, the
        command, to tell death from a cut cable; a majority does without.
    micro : int
        Units of a worker, for ``kind = "module"``.
    units : int, optional
        Units of a step, in place of ``workers * micro``. The result depends on it alone.
    seed : int
    exact : bool
        Integer sums: the same bits whoever fails. Without it float32, half the traffic.
    scale_bits : int
        Gradients are rounded to 2^-scale_bits.
    backend : {"sockets", "gloo", "torchft"}
        Who adds up: plain TCP, torch.distributed's gloo, or the process groups of torchft, which
        are NCCL where the module is on a GPU.
    threads : int
        Of a worker.
    timeout_s : float
        After how long a silent worker counts as lost.
    stuck_s : float
        After how long one that answers, but does not get on.
    start_s : float
        How long to wait for all workers at the beginning.
    patience_s : float
        How long to look for a majority.
    checkpoint_s : float
        Seconds between checkpoints.
    port : int
        Of worker 0; the others follow. 0 takes free ones.
    replace : bool
        Whether to start a new worker for a dead one.
    """

    kind: str
    steps: int = 0
    workers: int = 4
    survive: int = 1
    micro: int = 2
    units: int | None = None
    seed: int = 0
    exact: bool = True
    scale_bits: int = 40
    backend: str = "sockets"
    threads: int = 1
    timeout_s: float = 4.0
    stuck_s: float = 300.0
    start_s: float = 60.0
    patience_s: float = 60.0
    checkpoint_s: float = 60.0
    port: int = 0
    replace: bool = True
    target: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    file: str = ""
    learner: str = "cplrnn"
    shards: int = 8
    time: str | None = None
    group: str | None = None
    controls: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    folder: str = "."

    def learner_arguments(self) -> dict[str, Any]:
        """What the task of a learner is made from; the recording by its whole path."""
        file = Path(self.file)
        whole = file if file.is_absolute() else Path(self.folder) / file
        return {
            "file": str(whole.resolve()), "learner": self.learner, "shards": self.shards,
            "steps": self.steps, "seed": self.seed, "time": self.time, "group": self.group,
            "controls": list(self.controls),
            "columns": None if self.columns is None else list(self.columns),
            "settings": dict(self.settings),
        }  # fmt: skip

    def spec(self, target: str, arguments: Mapping[str, Any]) -> WorkerSpec:
        """What the workers are told."""
        return WorkerSpec(
            target=target, arguments=dict(arguments), path=[str(Path(self.folder).resolve())],
            steps=self.steps, survive=self.survive, micro=self.micro,
            units=self.units or self.workers * self.micro, backend=self.backend, exact=self.exact,
            scale_bits=self.scale_bits, seed=self.seed, threads=self.threads,
            timeout_s=self.timeout_s, stuck_s=self.stuck_s, start_s=self.start_s,
            patience_s=self.patience_s, checkpoint_s=self.checkpoint_s,
        )  # fmt: skip


def read_table(path: Path) -> dict[str, Any]:
    """The content of a job file, which has a ``kind``.

    Raises
    ------
    DataError
        There is no such file, or it is not TOML.
    ParameterError
        Its kind is not known.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError(f"There is no job file {path} (looked in {Path.cwd()}).") from error
    except IsADirectoryError as error:
        raise DataError(f"{path} is a folder; needed is a job file, such as job.toml.") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{path} is not TOML: {error}.") from error
    if table.get("kind") not in KINDS:
        given = f"kind = {table['kind']!r}" if "kind" in table else "no kind"
        raise ParameterError(
            f'{path} has {given}; write kind = "module" for a program of yours, kind = "learner" '
            'for a learner of foretell, or kind = "rl".'
        )
    return table


def make_job(table: Mapping[str, Any], folder: Path, **given: Any) -> Job:
    """A job from the table of its file, with flags of the command line in place of its values.

    Parameters
    ----------
    table : mapping
        From ``read_table``.
    folder : Path
        Of the file; a module and a recording are looked for there.
    **given
        Values that replace those of the table, unless None.

    Raises
    ------
    ParameterError
        Names an unknown key, with the nearest one, a value of another type, or what is missing.

    Examples
    --------
    >>> table = {"kind": "module", "target": "my_training:main", "steps": 300}
    >>> job = make_job(table, Path("."), workers=7, survive=2)
    >>> job.workers, job.survive, job.backend
    (7, 2, 'sockets')
    """
    kind = str(table["kind"])
    foreign = _OF_MODULE if kind == "learner" else _OF_LEARNER
    known = [f.name for f in fields(Job) if f.name not in (*foreign, "folder")]
    values = {**table, **{k: v for k, v in given.items() if v is not None}}
    for name in values:
        if name not in known:
            _refuse_key(name, kind, known, foreign)
    job = Job(
        **{k: _checked(k, v) for k, v in values.items()}, folder=str(folder)
    )  # mypy: values are checked one by one
    _check_whole(job)
    return job


def _refuse_key(name: str, kind: str, known: list[str], foreign: tuple[str, ...]) -> None:
    if name in foreign:
        other = "learner" if kind == "module" else "module"
        raise ParameterError(
            f'the job has the key {name!r}, which belongs to kind = "{other}"; this one is '
            f'"{kind}".'
        )
    near = get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(sorted(known))}."
    raise ParameterError(f"the job has an unknown key {name!r}. {hint}")


def _checked(name: str, value: Any) -> Any:
    kinds: dict[str, Any] = {f.name: f.type for f in fields(Job)}
    wanted = str(kinds[name])
    text = isinstance(value, str)
    whole = isinstance(value, int) and not isinstance(value, bool)
    fits = {
        "str": text,
        "str | None": text,
        "int": whole,
        "int | None": whole,
        "float": whole or isinstance(value, float),
        "bool": isinstance(value, bool),
        "Mapping[str, Any]": isinstance(value, Mapping),
    }
    if wanted.startswith("tuple"):
        if not isinstance(value, (list, tuple)) or not all(isinstance(v, str) for v in value):
            raise ParameterError(f'{name} = {value!r} must be a list of names, such as ["a", "b"].')
        return tuple(value)
    if not fits[wanted]:
        words = {
            "str": "text",
            "int": "a whole number",
            "float": "a number",
            "bool": "true or false",
        }
        need = words.get(wanted.split(" |")[0], f"a table [{name}]")
        raise ParameterError(f"{name} = {value!r} in the job; needed is {need}.")
    return value


def _check_whole(job: Job) -> None:
    least = {
        "steps": 1,
        "workers": 1,
        "survive": 0,
        "micro": 1,
        "shards": 1,
        "threads": 1,
        "port": 0,
    }
    for name, smallest in least.items():
        if getattr(job, name) < smallest:
            raise ParameterError(
                f"{name} = {getattr(job, name)}; needed is a whole number of at least {smallest}."
            )
    for name in ("timeout_s", "stuck_s", "start_s", "patience_s", "checkpoint_s"):
        if not 0 < getattr(job, name) < float("inf"):
            raise ParameterError(f"{name} = {getattr(job, name)}; needed are seconds above 0.")
    if job.units is not None and job.units < 1:
        raise ParameterError(f"units = {job.units}; needed is a whole number of at least 1.")
    if job.port + job.workers > 65536:
        raise ParameterError(f"port = {job.port}; needed is one below {65536 - job.workers}.")
    if job.backend not in BACKENDS:
        raise ParameterError(f'backend = "{job.backend}"; needed is one of {", ".join(BACKENDS)}.')
    needed = {"module": ("target",), "learner": ("file",)}.get(job.kind, ())
    for name in needed:
        if not getattr(job, name):
            example = {"target": "my_training:main", "file": "pump.csv"}[name]
            raise ParameterError(
                f'a job of kind = "{job.kind}" needs {name}, for instance {name} = "{example}".'
            )
    placement_for(job.workers, job.survive)
