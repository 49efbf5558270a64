"""``foretell show``: a fit's summary in the terminal, its report in the browser, its papers."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from foretell.app.console import results
from foretell.app.folder import FitFolder
from foretell.app.methods import METHODS
from foretell.app.words import GRADE_WORDS
from foretell.core.artifact import Artifact
from foretell.core.citations import citation
from foretell.core.errors import ArtifactError


def run(path: Path, *, browser: bool = False, cite: bool = False, as_json: bool = False) -> None:
    """Show one fit."""
    folder = FitFolder(path)
    if not path.exists():
        raise ArtifactError(f"There is no folder {path}.")
    record = folder.read()
    if record["state"] != "done" or not folder.summary.exists():
        raise ArtifactError(
            f"The fit in {path} is not finished. Continue it with: "
            f"{record['request'].get('command', 'foretell fit ...')} --resume"
        )
    summary = _summary(folder)
    if as_json:
        typer.echo(json.dumps(summary, indent=2, ensure_ascii=False))
    elif cite:
        typer.echo(citation(*summary["citations"]) if summary["citations"] else "Nothing to cite.")
    else:
        grade = GRADE_WORDS.get(summary["verdict"]["grade"], "")
        results(
            Console(highlight=False),
            f"{summary['title']}: {grade}. {summary['verdict']['sentence']}",
            tuple(summary["findings"]),
            len(summary["warnings"]),
            [f"Report  {folder.report}", f"Model   {folder.model}"],
        )
    if not cite:
        _check_model(folder)
    if browser and not webbrowser.open(folder.report.resolve().as_uri()):
        typer.echo(f"No browser was found. Open this file: {folder.report.resolve()}", err=True)


def _check_model(folder: FitFolder) -> None:
    """Say so when the report can be read but the model can no longer be loaded."""
    known = {method.public.removeprefix("foretell.") for method in METHODS}
    try:
        Artifact.open(folder.model, classes=known)
    except ArtifactError as error:
        raise ArtifactError(f"The findings can be read, the model cannot: {error}") from error


def _summary(folder: FitFolder) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(folder.summary.read_text(encoding="utf-8"))
        content["verdict"], content["findings"], content["warnings"], content["citations"]
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise ArtifactError(
            f"{folder.summary} is damaged ({error}). Fit again into a new folder."
        ) from error
    return content
