"""Calibrate what may be answered: on the user's questions, else on those that come with foretell.

    questions.jsonl   one question a line: {"question": ..., "answer": ... or "answers": [...],
                      "file": ...}; without an answer it is one that the notes do not answer

The result is a small file beside the notes that `foretell talk` finds again. It keeps the doubt and
the outcome of every question, so that any level can be asked of it later.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretell.app.talk.matching import gives
from foretell.converse.answer import Gate
from foretell.converse.answer.reading import shipped_models
from foretell.core.errors import ArtifactError, DataError
from foretell.core.files import write_text_atomic

if TYPE_CHECKING:
    from foretell.app.talk.assistant import Assistant

FORMAT, SCHEMA = "foretell-answers", 1
BESIDE_NOTES = ".foretell-answers.json"
EXAMPLE = "example"
MOST = 100_000  # questions


@dataclass(frozen=True)
class Asked:
    """A question whose answer is known.

    Parameters
    ----------
    question : str
    answers : tuple of str
        Any of them is right; none: the notes do not answer it.
    file : str
        Where the answer stands; empty where that does not matter.
    """

    question: str
    answers: tuple[str, ...] = ()
    file: str = ""


@dataclass(frozen=True)
class Calibration:
    """Doubts and outcomes of questions.

    Parameters
    ----------
    doubts : tuple of float
    wrong : tuple of bool
        Whether the answer that would have been given was wrong.
    answerable : tuple of bool
        Whether there is an answer.
    population : str
        Which questions these are, as a clause.
    vectors : bool
        Whether sentence vectors were used.
    models : str
        Fingerprint of the models that made the doubts.
    notes : str
        Version of the notes that were asked.
    example : bool
        Whether these are the questions that come with foretell, not the user's.
    """

    doubts: tuple[float, ...]
    wrong: tuple[bool, ...]
    answerable: tuple[bool, ...]
    population: str
    vectors: bool
    models: str
    notes: str
    example: bool = False

    def gate(self, level: float, *, notes: str = "") -> Gate:
        """Decides on answers with this share of wrong ones at most.

        Parameters
        ----------
        level : float
        notes : str
            Version of the notes that will be asked. Of others than its own the example that comes
            with foretell promises nothing, and on all it accepts no doubt above twice the level.
        """
        return Gate.calibrated(
            self.doubts,
            self.wrong,
            level=level,
            population=self.population,
            thresholds=[min(2 * level, 0.95)] if self.example else None,
            elsewhere=self.example and notes != self.notes,
        )

    def save(self, path: Path) -> None:
        """Write the file."""
        content = {"format": FORMAT, "schema": SCHEMA, **self.__dict__}
        try:
            write_text_atomic(path, json.dumps(content, ensure_ascii=False) + "\n")
        except OSError as error:
            raise ArtifactError(
                f"{path} cannot be written: {error.strerror}. Give another place with --out FILE."
            ) from error

    @classmethod
    def load(cls, path: Path) -> Calibration:
        """Read a file back; an ArtifactError where it is none."""
        try:
            return cls.from_dict(json.loads(path.read_text(encoding="utf-8")), str(path))
        except (OSError, ValueError) as error:
            if isinstance(error, ArtifactError):
                raise
            raise ArtifactError(f"{path} cannot be read ({error}). Calibrate again.") from error

    @classmethod
    def from_dict(cls, content: Any, name: str) -> Calibration:
        """The calibration that was written."""
        try:
            if content["format"] != FORMAT or content["schema"] != SCHEMA:
                raise ValueError(f"it is of schema {content['schema']}, known here is {SCHEMA}")
            made = cls(
                doubts=tuple(map(float, content["doubts"])),
                wrong=tuple(map(bool, content["wrong"])),
                answerable=tuple(map(bool, content["answerable"])),
                population=str(content["population"]),
                vectors=bool(content["vectors"]),
                models=str(content["models"]),
                notes=str(content["notes"]),
                example=bool(content["example"]),
            )
            if not len(made.doubts) == len(made.wrong) == len(made.answerable) > 0:
                raise ValueError("its lists are not of one length")
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(
                f"{name} is no calibration of answers ({error}). Calibrate again with: foretell "
                "talk calibrate QUESTIONS.jsonl --notes FOLDER"
            ) from error
        return made


def read_questions(path: Path) -> list[Asked]:
    """The questions of a file with one JSON object a line.

    Raises
    ------
    DataError
        Naming the line, and what it should be.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}. Give a file of JSON lines.") from error
    found = [
        _question(line, f"{path}, line {n}") for n, line in enumerate(lines, 1) if line.strip()
    ]
    if not found:
        raise DataError(f"{path} holds no questions. Write one a line: {_EXAMPLE_LINE}")
    if len(found) > MOST:
        raise DataError(f"{path} holds {len(found):,} questions; the most is {MOST:,}.")
    twice = len(found) - len({asked.question.casefold() for asked in found})
    if twice:
        raise DataError(
            f"{path} has {twice} questions that stand twice: each must count once. Leave them out."
        )
    return found


_EXAMPLE_LINE = (
    '{"question": "What pressure opens the valve?", "answer": "8 bar", "file": "pump.md"}'
)


def _question(line: str, place: str) -> Asked:
    try:
        content = json.loads(line)
    except ValueError as error:
        raise DataError(f"{place} is no JSON ({error}). Write: {_EXAMPLE_LINE}") from error
    question = content.get("question") if isinstance(content, dict) else None
    if not isinstance(question, str) or not question.strip():
        raise DataError(f'{place} has no "question". Write: {_EXAMPLE_LINE}')
    answers = content.get("answers", content.get("answer"))
    answers = [] if answers is None else [answers] if isinstance(answers, str) else answers
    file = content.get("file") or ""
    if not isinstance(answers, list) or not all(isinstance(a, str) for a in answers):
        raise DataError(f'{place}: "answers" is {answers!r:.60}; needed are texts.')
    if not isinstance(file, str):
        raise DataError(f'{place}: "file" is {file!r:.60}; needed is a path within the notes.')
    return Asked(question.strip(), tuple(a for a in answers if a.strip()), file)


def judged(
    assistant: Assistant,
    questions: Sequence[Asked],
    *,
    population: str,
    progress: Callable[[str], None] | None = None,
) -> Calibration:
    """Answer every question as it would be answered, and keep doubt and outcome."""
    doubts, wrong = [], []
    for n, asked in enumerate(questions, 1):
        quotation = assistant.quotation(asked.question)
        doubts.append(round(quotation.doubt, 6))
        right = any(
            gives(statement.text, asked.answers)
            for statement in quotation.statements
            if not asked.file or statement.sources[0].file == asked.file
        )
        wrong.append(not right)
        if progress is not None and n % 50 == 0:
            progress(f"{n} of {len(questions)} questions asked")
    return Calibration(
        tuple(doubts),
        tuple(wrong),
        tuple(bool(asked.answers) for asked in questions),
        population,
        assistant.notebook.model is not None,
        fingerprint(),
        assistant.notebook.version,
    )


def fingerprint() -> str:
    """Of the models that estimate doubts."""
    text = json.dumps(shipped_models(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def population_of(questions: Path, notes: Path, n: int) -> str:
    """The clause that names the population of the user's own questions."""
    day = datetime.date.today().isoformat()
    return (
        f"the questions come from where the {n} of {questions.name} come from, asked of the notes "
        f"in {notes.name or notes} as they were on {day}"
    )


def example_folder() -> Path:
    """The documents and questions that come with foretell."""
    return Path(str(files("foretell.app.talk").joinpath(EXAMPLE)))


def example_population(n: int) -> str:
    """The clause that names the population of the questions that come with foretell."""
    return (
        f"the questions are like the {n} that come with foretell, about its own example documents"
    )


def shipped_calibration(*, vectors: bool) -> Calibration:
    """The calibration on the example that comes with foretell."""
    path = example_folder() / f"calibration-{'full' if vectors else 'lexical'}.json"
    made = Calibration.load(path)
    return replace(made, population=example_population(len(made.doubts)))


def calibration_for(
    notes: Path | None, *, vectors: bool, version: str
) -> tuple[Calibration, tuple[str, ...]]:
    """The calibration beside the notes, else the shipped one; with remarks about it."""
    if notes is not None and (notes / BESIDE_NOTES).is_file():
        own = Calibration.load(notes / BESIDE_NOTES)
        if own.vectors == vectors and own.models == fingerprint():
            changed = "" if own.notes == version else (
                "The notes have changed since the calibration; the certificate speaks of them as "
                "they were."
            )  # fmt: skip
            return own, (changed,) if changed else ()
        how = "of other models" if own.models != fingerprint() else "with and without word vectors"
        return shipped_calibration(vectors=vectors), (
            f"The calibration beside the notes is {how} and was not used. Calibrate again.",
        )
    return shipped_calibration(vectors=vectors), ()
