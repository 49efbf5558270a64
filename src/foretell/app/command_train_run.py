"""``foretell train job.toml``: workers train, some may be killed, and the result is the same."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import typer

from foretell.app.train_view import TrainView
from foretell.app.words import count, seconds
from foretell.core.errors import ArtifactError, ForetellError, ParameterError
from foretell.core.files import write_text_atomic
from foretell.train.job import Job, make_job, read_table
from foretell.train.stacked.checkpoints import Checkpoints
from foretell.train.stacked.faults import parse_faults
from foretell.train.stacked.members import Outcome
from foretell.train.stacked.spec import WorkerSpec
from foretell.train.stacked.supervisor import Supervisor

_LEARNER_TASK = "foretell.dynamics.shared_task:learner_task"
_RECORD = "job.json"


@dataclass(frozen=True)
class TrainRequest:
    """The options of ``foretell train``."""

    job: Path
    workers: int | None = None
    survive: int | None = None
    out: Path | None = None
    inject: str = ""
    verify: bool = False
    resume: bool = False

    def folder(self) -> Path:
        """Where the training is kept."""
        return self.out if self.out is not None else Path(f"{self.job.stem}-run")

    def again(self) -> str:
        """The command line that goes on."""
        words = ["foretell", "train", self.job.as_posix(), "--out", self.folder().as_posix()]
        for name in ("workers", "survive"):
            if getattr(self, name) is not None:
                words += [f"--{name}", str(getattr(self, name))]
        return shlex.join([*words, "--resume"])


@dataclass(frozen=True)
class TrainReport:
    """What the command found."""

    outcome: Outcome
    identical: bool | None
    compared: int
    model: str


def run(request: TrainRequest, *, as_json: bool = False) -> TrainReport | Any:
    """Train, and say how it went."""
    table = read_table(request.job)
    if table["kind"] == "rl":
        return _run_rl(request, table, as_json)
    job = make_job(
        table, request.job.resolve().parent, workers=request.workers, survive=request.survive
    )
    parse_faults(request.inject, job.workers)
    spec, folder = worker_spec(job), request.folder()
    claim(folder, job, spec, resume=request.resume)
    spec = replace(spec, faults=request.inject, hashes=request.verify, resume=request.resume)
    with TrainView(job.workers, job.steps) as view:
        view.say(
            f"{count(job.workers, 'worker')}, any {job.survive} may fail at once; "
            f"{job.backend}, log in {folder.as_posix()}/events.jsonl"
        )
        supervisor = Supervisor(
            spec, job.workers, folder=folder, replace_dead=job.replace, port=job.port,
            on_event=view.event,
        )  # fmt: skip
        try:
            outcome = supervisor.run()
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt(f"\nStopped. Go on with: {request.again()}") from stop
    if outcome.status != "done":
        raise ForetellError(
            f"The training {outcome.status} at step {outcome.step}. {outcome.message} Checkpoints "
            f"are in {folder.as_posix()}/checkpoints; go on with: {request.again()}"
        )
    identical, compared = None, 0
    if request.verify:
        identical, compared = compare(spec, outcome)
    model = _keep(job, spec, folder)
    report = TrainReport(outcome, identical, compared, model)
    summary = _summary(report, job)
    write_text_atomic(folder / "summary.json", json.dumps(summary, indent=2) + "\n")
    typer.echo(json.dumps(summary, indent=2) if as_json else "\n".join(lines(report, job, folder)))
    if identical is False:
        raise typer.Exit(1)
    return report


def worker_spec(job: Job) -> WorkerSpec:
    """What the workers of a job are told."""
    if job.kind == "learner":
        arguments = job.learner_arguments()
        if not Path(arguments["file"]).is_file():
            raise ParameterError(f"there is no recording {arguments['file']}.")
        return job.spec(_LEARNER_TASK, arguments)
    return job.spec(job.target, job.arguments)


def claim(folder: Path, job: Job, spec: WorkerSpec, *, resume: bool) -> None:
    """Make the folder of a training, or check that it is the one to go on with."""
    record = folder / _RECORD
    if resume and not record.exists():
        raise ArtifactError(
            f"{folder} holds no training to go on with. Leave --resume out, or give its --out."
        )
    if not resume and folder.exists() and (folder.is_file() or any(folder.iterdir())):
        held = "a training" if record.exists() else "something else"
        raise ArtifactError(
            f"{folder} holds {held}, and nothing was touched. Go on with --resume, or give another "
            "folder with --out."
        )
    content = {"target": spec.target, "arguments": spec.arguments, "kind": job.kind}
    if not resume:
        write_text_atomic(record, json.dumps(content, indent=2) + "\n")


def compare(spec: WorkerSpec, outcome: Outcome) -> tuple[bool, int]:
    """Train once more, in one process and without failures; whether every state is the same."""
    alone = replace(spec, survive=0, faults="", resume=False, hashes=True, folder=None)
    with TrainView(1, spec.steps) as view:
        view.say("Once more in one process, without failures ...")
        reference = Supervisor(alone, 1, on_event=view.event).run()
    if reference.status != "done":
        raise ForetellError(f"The failure-free run failed: {reference.message}")
    same = outcome.sha256 == reference.sha256 and all(
        found == reference.hashes.get(step) for step, found in outcome.hashes.items()
    )
    return same, len(outcome.hashes)


def lines(report: TrainReport, job: Job, folder: Path) -> list[str]:
    """The result in words."""
    o = report.outcome
    said = [
        f"Done: {o.step} steps in {seconds(o.seconds)}, loss {o.loss:.4g}.",
        f"{count(o.failures, 'failure').capitalize()} masked; "
        f"{count(o.replaced, 'worker')} started anew.",
        f"State   sha256 {o.sha256}",
        f"Kept    {report.model or (folder / 'checkpoints').as_posix()}",
    ]
    if report.identical is not None:
        answer = "yes" if report.identical else "no"
        said.append(
            f"identical to the failure-free run: {answer} ({report.compared} committed states)"
        )
    return said


def _keep(job: Job, spec: WorkerSpec, folder: Path) -> str:
    """The model of a learner; the state of anything else is in its last checkpoint."""
    if job.kind != "learner":
        return ""
    from foretell.dynamics.shared_task import learned

    found = Checkpoints(folder / "checkpoints", {}).latest_of_any()
    if found is None:
        raise ArtifactError(f"{folder}/checkpoints holds no last state: look at events.jsonl.")
    return learned(found, **spec.arguments).save(folder / "model").as_posix()


def _summary(report: TrainReport, job: Job) -> dict[str, Any]:
    o = asdict(report.outcome)
    o.pop("hashes"), o.pop("message")
    return {
        "kind": job.kind, "workers": job.workers, "survive": job.survive, **o,
        "model": report.model, "identical_to_the_failure_free_run": report.identical,
        "states_compared": report.compared,
    }  # fmt: skip


def _run_rl(request: TrainRequest, table: dict[str, Any], as_json: bool) -> Any:
    """Reinforcement learning has ranks of its own."""
    if request.inject or request.verify or request.survive is not None:
        raise ParameterError(
            '--inject, --verify and --survive are for kind = "learner" and "module"; the ranks of '
            'kind = "rl" all have to live.'
        )
    try:
        from foretell.train.rl_job import run as run_rl
    except ImportError as error:
        raise ParameterError(
            f"this installation has no reinforcement learning: {error}."
        ) from error
    from foretell.app.console import ProgressView

    content = {k: v for k, v in table.items() if k != "workers"}
    if request.resume:
        content["resume"] = True
    workers = request.workers or int(table.get("workers", 1))
    with ProgressView() as view:
        view.stage(f"Reinforcement learning with {count(workers, 'worker')}")
        found = run_rl(content, workers=workers, out=request.folder(), on_step=view.step)
    typer.echo(json.dumps(asdict(found), indent=2) if as_json else repr(found))
    return found
