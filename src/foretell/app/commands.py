"""The commands of ``foretell`` and their flags; heavy parts are imported inside them.

Exit codes: 0 done, 1 foretell could not do it (the message says why and what to do),
2 the command line is wrong, 130 interrupted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foretell.app.command_talk import replay, talk_app
from foretell.app.command_train import train_app
from foretell.app.guard import guarded

app = typer.Typer(
    help="Learn your system from recordings: a checked, generative, analysable model and a report.",
    epilog="Exit codes: 0 done, 1 could not be done, 2 wrong command line, 130 interrupted. "
    "FORETELL_DEBUG=1 shows tracebacks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


trust_app = typer.Typer(
    help="Accept, or withhold, answers by a score, with a guarantee that is named exactly.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(trust_app, name="trust")

find_app = typer.Typer(
    help="Find passages in a folder of notes by what they mean; compare decoders of sign codes.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(find_app, name="find")

app.add_typer(train_app, name="train")
app.add_typer(talk_app, name="talk")
app.command()(replay)


def _version(wanted: bool) -> None:
    if wanted:
        from foretell import __version__

        typer.echo(f"foretell {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
@guarded
def fit(
    file: Annotated[
        Path,
        typer.Argument(help="A .csv, .tsv, .txt, .parquet or .npz table, or a folder of such."),
    ],
    out: Annotated[Path, typer.Option("--out", help="New folder for model and report.")],
    time: Annotated[
        str | None,
        typer.Option("--time", help="Column of time stamps; default time, t, date."),
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", help="Column that tells recordings apart.")
    ] = None,
    controls: Annotated[
        str | None, typer.Option("--controls", help="Input columns, with commas between.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", help="Variables to model, with commas between; default all."),
    ] = None,
    effort: Annotated[
        int,
        typer.Option(
            "--effort",
            min=1,
            max=5,
            help="1 about 10 s, 2 a minute; by estimate, 3 3 min, 4 10 min, 5 30 min.",
        ),
    ] = 3,
    learner: Annotated[
        str, typer.Option("--learner", help="auto, or a name from foretell methods.")
    ] = "auto",
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted fit in --out.")
    ] = False,
    merge_duplicates: Annotated[
        bool, typer.Option("--merge-duplicates", help="Average rows that share a time stamp.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Fit a model to a recording and write a report about it."""
    from foretell.app.command_fit import FitRequest, run

    run(
        FitRequest(
            file=file,
            out=out,
            time=time,
            group=group,
            controls=controls,
            columns=columns,
            effort=effort,
            learner=learner,
            merge_duplicates=merge_duplicates,
        ),
        resume=resume,
        as_json=json,
    )


@app.command()
@guarded
def show(
    folder: Annotated[Path, typer.Argument(help="The folder of a fit.")],
    browser: Annotated[
        bool, typer.Option("--browser", help="Open the report in the web browser.")
    ] = False,
    cite: Annotated[
        bool, typer.Option("--cite", help="Print BibTeX for what the fit used.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Print what a fit found, open its report, or cite it."""
    from foretell.app.command_show import run

    run(folder, browser=browser, cite=cite, as_json=json)


@app.command("plan")
@guarded
def plan_inputs(
    folder: Annotated[Path, typer.Argument(help="The folder of a fit, or of a saved model.")],
    keep: Annotated[
        list[str],
        typer.Option(
            "--keep", help='What to keep: "level < 8", "level between 2 and 8"; several are fine.'
        ),
    ],
    steer: Annotated[
        str | None,
        typer.Option("--steer", help="Inputs to change, with commas between; default all."),
    ] = None,
    horizon: Annotated[int, typer.Option("--horizon", min=2, help="Steps to plan.")] = 40,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Table of what was recorded until now, one sample apart; default: the recording.",
        ),
    ] = None,
    limits: Annotated[
        list[str] | None,
        typer.Option("--limits", help='Range of an input: "pump 0 to 5"; default as recorded.'),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="New HTML file with the picture; default FOLDER/plan.html."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Choose inputs that keep a condition, and check them on simulated runs."""
    from foretell.app.command_plan import PlanRequest, run

    run(
        PlanRequest(
            folder=folder,
            keep=tuple(keep),
            steer=steer,
            horizon=horizon,
            start=start,
            limits=tuple(limits or ()),
            out=out,
        ),
        as_json=json,
    )


@app.command()
@guarded
def methods() -> None:
    """List the methods, their classes and their pages."""
    from foretell.app.methods import show_methods

    show_methods()


@app.command()
@guarded
def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check the installation and what it can do."""
    from foretell.app.doctor import run

    if not run(as_json=json):
        raise typer.Exit(1)


@app.command()
@guarded
def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for model and report.")] = Path(
        "foretell-demo"
    ),
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Model a real heart pulse, in about a minute and without a network."""
    from foretell.app.demo import run

    run(out, as_json=json)


@trust_app.command()
@guarded
def calibrate(
    scores: Annotated[Path, typer.Argument(help="Labelled cases: a table with a header.")],
    alpha: Annotated[float, typer.Option("--alpha", help="Share of wrong ones to stay below.")],
    out: Annotated[Path, typer.Option("--out", help="New JSON file for the rule.")],
    unlabeled_scores: Annotated[
        Path | None,
        typer.Argument(help="For fdr: unlabelled cases, a table with the same score."),
    ] = None,
    guarantee: Annotated[
        str | None,
        typer.Option(
            "--guarantee",
            help="pac, fdr, marginal, plugin_corrected or plugin; default pac, "
            "or fdr with unlabelled cases.",
        ),
    ] = None,
    delta: Annotated[
        float, typer.Option("--delta", help="For pac: probability that the promise fails.")
    ] = 0.1,
    score: Annotated[
        str | None,
        typer.Option("--score", help="Column of the score, as name or name@version#hash."),
    ] = None,
    errors: Annotated[
        str | None,
        typer.Option("--errors", help="Column that is 1 where the answer is wrong, else 0."),
    ] = None,
    direction: Annotated[
        str, typer.Option("--direction", help="lower_is_surer or higher_is_surer.")
    ] = "lower_is_surer",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Find the threshold of a score that keeps a share of wrong answers, and certify it."""
    from foretell.app.command_trust import CalibrationRequest, parts_of_score, run

    score, fingerprint = parts_of_score(score)
    run(
        CalibrationRequest(
            scores=scores,
            out=out,
            alpha=alpha,
            unlabeled_scores=unlabeled_scores,
            guarantee=guarantee,
            delta=delta,
            score=score,
            errors=errors,
            direction=direction,
            fingerprint=fingerprint,
        ),
        as_json=json,
    )


@trust_app.command()
@guarded
def apply(
    rule: Annotated[Path, typer.Argument(help="The JSON file of a rule.")],
    new: Annotated[Path, typer.Argument(help="New cases: a table with the score of the rule.")],
    out: Annotated[Path, typer.Option("--out", help="New table: the same, with decisions.")],
    score: Annotated[
        str | None,
        typer.Option("--score", help="Which score the table holds, as name@version#hash."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Accept or withhold every case of a table, and say whether the rule covers such cases."""
    from foretell.app.command_trust import parts_of_score
    from foretell.app.command_trust_apply import run

    score, fingerprint = parts_of_score(score)
    run(rule, new, out, score=score, fingerprint=fingerprint, as_json=json)


@trust_app.command()
@guarded
def report(
    rule: Annotated[Path, typer.Argument(help="The JSON file of a rule.")],
    scores: Annotated[Path, typer.Argument(help="The labelled cases that it was made from.")],
    out: Annotated[Path, typer.Option("--out", help="New HTML file.")],
    new: Annotated[
        Path | None, typer.Argument(help="New cases to compare with, labelled or not.")
    ] = None,
    errors: Annotated[
        str | None,
        typer.Option("--errors", help="Column that is 1 where the answer is wrong, else 0."),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option("--score", help="What the column of the score holds, as name@version#hash."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Write a page about a rule: risk against coverage, every guarantee, the certificate."""
    from foretell.app.command_trust import parts_of_score
    from foretell.app.command_trust_report import run

    score, fingerprint = parts_of_score(score)
    run(
        rule,
        scores,
        out,
        new=new,
        errors=errors,
        score=score,
        fingerprint=fingerprint,
        as_json=json,
    )


@find_app.command()
@guarded
def build(
    folder: Annotated[Path, typer.Argument(help="Folder of the index, new or begun.")],
    notes: Annotated[
        Path | None,
        typer.Option("--notes", help="Folder of text, Markdown and PDF files; once is enough."),
    ] = None,
    bits: Annotated[
        int | None, typer.Option("--bits", help="Bits of a passage, a multiple of 8; default 384.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Index a folder of notes, go on after an interruption, or take up what has changed."""
    from foretell.app.command_find import build as run

    run(folder, notes, bits=bits, as_json=json)


@find_app.command()
@guarded
def ask(
    folder: Annotated[Path, typer.Argument(help="Folder of the index.")],
    question: Annotated[str, typer.Argument(help="In quotes.")],
    k: Annotated[int, typer.Option("--k", help="Passages to print.")] = 5,
    budget: Annotated[
        int, typer.Option("--budget", help="Candidates by their bits that are compared exactly.")
    ] = 100,
    rerank: Annotated[
        bool, typer.Option("--rerank/--no-rerank", help="Compare exactly, or believe the bits.")
    ] = True,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Print the passages nearest to a question: source, cosine, and what the bits said."""
    from foretell.app.command_find_ask import ask as run

    run(folder, question, k=k, budget=budget, rerank=rerank, as_json=json)


@find_app.command()
@guarded
def compare(
    codes: Annotated[Path, typer.Argument(help="Your vectors (float), or packed codes (uint8).")],
    queries: Annotated[Path, typer.Argument(help="Query vectors, one a row.")],
    vectors: Annotated[
        Path | None, typer.Option("--vectors", help="For codes: what they were made of.")
    ] = None,
    matrix: Annotated[
        Path | None,
        typer.Option("--matrix", help="Directions (n_bits, d); default for codes: plain signs."),
    ] = None,
    bits: Annotated[
        int | None, typer.Option("--bits", help="For vectors: bits of a code; default d.")
    ] = None,
    bit_order: Annotated[
        str | None, typer.Option("--bit-order", help="little or big; default: what fits.")
    ] = None,
    k: Annotated[int, typer.Option("--k", help="Neighbours that should be found.")] = 10,
    out: Annotated[Path, typer.Option("--out", help="New HTML file with the picture.")] = Path(
        "compare.html"
    ),
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Try every decoder on vectors or codes of your own: one table, one picture."""
    from foretell.app.command_find_compare import CompareRequest, run

    run(
        CompareRequest(
            codes=codes,
            queries=queries,
            vectors=vectors,
            matrix=matrix,
            bits=bits,
            bit_order=bit_order,
            k=k,
            out=out,
        ),
        as_json=json,
    )
