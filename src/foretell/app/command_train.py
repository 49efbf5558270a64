"""``foretell train``: its commands and their flags; heavy parts are imported inside them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foretell.app.guard import guarded

train_app = typer.Typer(
    help="Train so that failures are survived: plan the redundancy of a data-parallel run.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@train_app.callback()
def _train() -> None:
    pass


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
