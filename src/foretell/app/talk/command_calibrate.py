"""``foretell talk calibrate``: from questions with answers to what may be said."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from foretell.app.talk.assistant import Assistant, build_assistant
from foretell.app.talk.calibration import (
    BESIDE_NOTES,
    Asked,
    Calibration,
    judged,
    population_of,
    read_questions,
)
from foretell.core.errors import ParameterError

_SHOWN = 5


@dataclass(frozen=True)
class CalibrateRequest:
    """The flags of the command."""

    questions: Path
    notes: Path
    out: Path | None = None
    level: float = 0.1


@dataclass(frozen=True)
class Calibrated:
    """What came out.

    Parameters
    ----------
    calibration : Calibration
    questions : tuple of Asked
    path : Path
        Where it was written.
    answered, withheld : float or None
        Share of the questions with an answer that is given; of those without, that is not.
    wrong : float or None
        Share of the given answers that is wrong.
    """

    calibration: Calibration
    questions: tuple[Asked, ...]
    path: Path
    answered: float | None
    withheld: float | None
    wrong: float | None


def run(request: CalibrateRequest, *, as_json: bool = False) -> Calibrated:
    """Ask all questions, write the calibration, and say what it promises."""
    console = Console(stderr=True, highlight=False)
    questions = read_questions(request.questions)
    assistant = build_assistant(
        model=None, notes=request.notes, level=request.level, progress=console.print
    )
    try:
        _refuse_other_files(questions, assistant, request.questions)
        calibration = judged(
            assistant,
            questions,
            population=population_of(request.questions, request.notes, len(questions)),
            progress=console.print,
        )
    finally:
        assistant.close()
    path = request.out or request.notes / BESIDE_NOTES
    calibration.save(path)
    done = _counted(calibration, questions, path, request.level)
    if as_json:
        typer.echo(json.dumps(_as_json(done, request.level), ensure_ascii=False))
    else:
        typer.echo("\n".join(_lines(done, request.level)))
    return done


def _refuse_other_files(questions: list[Asked], assistant: Assistant, path: Path) -> None:
    known = assistant.notebook.names
    missing = sorted({asked.file for asked in questions if asked.file} - known)
    if missing:
        raise ParameterError(
            f"{path} names {missing[0]!r}, and there is no such file among the {len(known)} notes. "
            'Write "file" as the path within the folder of notes, or leave it out.'
        )


def _counted(
    calibration: Calibration, questions: list[Asked], path: Path, level: float
) -> Calibrated:
    limit = calibration.gate(level).threshold
    given = [limit is not None and doubt <= limit for doubt in calibration.doubts]
    has = calibration.answerable
    answered = [g for g, there in zip(given, has, strict=True) if there]
    others = [not g for g, there in zip(given, has, strict=True) if not there]
    wrong = [w for g, w in zip(given, calibration.wrong, strict=True) if g]
    return Calibrated(
        calibration,
        tuple(questions),
        path,
        sum(answered) / len(answered) if answered else None,
        sum(others) / len(others) if others else None,
        sum(wrong) / len(wrong) if wrong else None,
    )


def _lines(done: Calibrated, level: float) -> list[str]:
    calibration = done.calibration
    certificate = calibration.gate(level).certificate
    n, without = len(calibration.doubts), calibration.answerable.count(False)
    lines = [f"Asked      {n} questions, {without} of them without an answer in the notes"]
    if done.wrong is None:
        lines.append(f"Answered   none: no threshold keeps the level {level:g} on these questions")
    else:
        answered = "" if done.answered is None else f"{100 * done.answered:.0f} % of the others, "
        lines.append(
            f"Answered   {answered}{100 * done.wrong:.1f} % of the answers given are wrong"
        )
        if done.withheld is not None:
            lines.append(f"Withheld   {100 * done.withheld:.0f} % of those without an answer")
    if not without:
        lines.append(
            "Note       No question is without an answer. Add some that the notes do not answer, "
            "or nothing is promised about them."
        )
    lines += ["", str(certificate), ""]
    surest = sorted(
        (doubt, asked.question)
        for doubt, wrong, asked in zip(
            calibration.doubts, calibration.wrong, done.questions, strict=True
        )
        if wrong
    )[:_SHOWN]
    if surest:
        lines.append("Surest of the wrong answers; is something wrong with the notes, or with the ")
        lines[-1] += "answers in the file?"
        lines += [f"  {doubt:.3f}  {question}" for doubt, question in surest]
        lines.append("")
    return [*lines, f"Kept in    {done.path}"]


def _as_json(done: Calibrated, level: float) -> dict[str, Any]:
    certificate = done.calibration.gate(level).certificate
    return {
        "questions": len(done.calibration.doubts),
        "without_answer": done.calibration.answerable.count(False),
        "level": level,
        "answered": done.answered,
        "withheld": done.withheld,
        "wrong": done.wrong,
        "threshold": done.calibration.gate(level).threshold,
        "certificate": None if certificate is None else certificate.to_dict(),
        "path": str(done.path),
    }
