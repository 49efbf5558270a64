"""``foretell train``: its commands and their flags; heavy parts are imported inside them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from foretell.app.guard import guarded


class _JobFirst(TyperGroup):
    """``foretell train job.toml`` stands for ``foretell train run job.toml``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``run`` before a word that is no command."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["run", *args]
        return list(super().parse_args(ctx, args))


train_app = typer.Typer(
    cls=_JobFirst,
    help="Train so that failures are survived, or plan the redundancy of a large run. "
    "`foretell train job.toml` is short for `foretell train run job.toml`.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@train_app.callback()
def _train() -> None:
    pass


@train_app.command()
@guarded
def run(
    job: Annotated[Path, typer.Argument(help="The job, a TOML file.")],
    workers: Annotated[
        int | None, typer.Option("--workers", help="Processes; default as the job says, or 4.")
    ] = None,
    survive: Annotated[
        int | None, typer.Option("--survive", help="How many may fail at once; default 1.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="New folder; default the job's name and -run.")
    ] = None,
    inject: Annotated[
        str, typer.Option("--inject", help='Faults, as "kill:2@8,stop:0@14": worker and step.')
    ] = "",
    verify: Annotated[
        bool, typer.Option("--verify", help="Train again without failures, and compare all bits.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint in --out.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Train with several workers; the result is the same if some of them are killed."""
    from foretell.app.command_train_run import TrainRequest, run as run_job

    run_job(
        TrainRequest(
            job=job,
            workers=workers,
            survive=survive,
            out=out,
            inject=inject,
            verify=verify,
            resume=resume,
        ),
        as_json=json,
    )


@train_app.command()
@guarded
def plan(
    groups: Annotated[int, typer.Option("--groups", min=2, help="Groups with a replica each.")],
    mtbf: Annotated[
        str, typer.Option("--mtbf", help="Mean time between failures of the system, as 5m.")
    ],
    save: Annotated[str, typer.Option("--save", help="How long a checkpoint stops the run.")],
    restart: Annotated[str, typer.Option("--restart", help="How long a restart takes.")],
    compute: Annotated[
        str, typer.Option("--compute", help="Compute time of a step without failures.")
    ] = "64s",
    reduce: Annotated[str, typer.Option("--reduce", help="Time of an all-reduce.")] = "6s",
    micro: Annotated[
        int, typer.Option("--micro", min=1, help="Units of a shard: its micro-batches.")
    ] = 8,
    shape: Annotated[
        float, typer.Option("--shape", help="Weibull shape of the clocks; 1 is a constant rate.")
    ] = 1.0,
    steps: Annotated[int, typer.Option("--steps", help="Steps of the training.")] = 10_000,
    rack: Annotated[
        int | None, typer.Option("--rack", help="Groups of a rack; hosts are kept apart.")
    ] = None,
    rack_share: Annotated[
        float, typer.Option("--rack-share", help="Share of the failures that take a whole rack.")
    ] = 0.0,
    seeds: Annotated[int, typer.Option("--seeds", help="Simulated trainings of each kind.")] = 3,
    out: Annotated[
        Path, typer.Option("--out", help="New picture: .html, .png, .svg or .pdf.")
    ] = Path("plan.html"),
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Plan redundancy, micro-stacks and checkpoints of a run with failures; draw alternatives."""
    from foretell.app.command_train_plan import PlanRequest, run

    run(
        PlanRequest(
            groups=groups,
            mtbf=mtbf,
            save=save,
            restart=restart,
            compute=compute,
            reduce=reduce,
            micro=micro,
            shape=shape,
            steps=steps,
            rack=rack,
            rack_share=rack_share,
            seeds=seeds,
            out=out,
        ),
        as_json=json,
    )
