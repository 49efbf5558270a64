"""``foretell find ask``: the passages of an index of notes that are nearest to a question."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer

from foretell.app.command_find import many, refuse_other_model
from foretell.app.notes.library import Found, Library
from foretell.app.notes.sentence_vectors import SentenceVectors, fingerprint
from foretell.app.words import harmless, number
from foretell.core.errors import DataError, ParameterError

DOUBTFUL = 2.0  # standard errors


@dataclass(frozen=True)
class Answer:
    """A passage that answers.

    Parameters
    ----------
    found : Found
        The passage and its place.
    cosine : float
        With the question: exact after a re-rank, else NaN.
    estimate, standard_error : float
        What the bits alone say.
    """

    found: Found
    cosine: float
    estimate: float
    standard_error: float


@dataclass(frozen=True)
class Answers:
    """All answers to one question, best first.

    Parameters
    ----------
    question : str
        As asked.
    answers : tuple of Answer
        At most k.
    reads : int
        Vectors that were compared exactly.
    total : int
        Passages in the index.
    margin : float
        By how many standard errors the bits of the best passage that was not read would have to
        be wrong for it to belong among the answers; infinite if all were read.
    """

    question: str
    answers: tuple[Answer, ...]
    reads: int
    total: int
    margin: float


def ask(
    folder: Path,
    question: str,
    *,
    k: int = 5,
    budget: int = 100,
    rerank: bool = True,
    as_json: bool = False,
) -> Answers:
    """Find the passages that are nearest to a question, and print them."""
    if not question.strip():
        raise ParameterError("The question is empty. Write it in quotes after the folder.")
    with Library.open(folder) as library:
        refuse_other_model(library, fingerprint())
        found = answers(library, SentenceVectors(), question, k=k, budget=budget, rerank=rerank)
    if as_json:
        typer.echo(json.dumps(_answers_json(found), indent=2, ensure_ascii=False))
    else:
        typer.echo("\n".join(_answer_lines(found)))
    return found


def answers(
    library: Library,
    model: SentenceVectors,
    question: str,
    *,
    k: int = 5,
    budget: int = 100,
    rerank: bool = True,
) -> Answers:
    """The passages nearest to a question.

    Parameters
    ----------
    library : Library
        With passages.
    model : SentenceVectors
        That of the library.
    question : str
        Any text.
    k : int
        Answers wanted.
    budget : int
        Passages whose vectors are read, at least k.
    rerank : bool
        Whether to read vectors at all; without, cosines are what the bits say.
    """
    index = library.index
    if not len(library):
        raise DataError(
            f"{library.folder} holds no passages. Fill it with: foretell find build "
            f"{library.folder}"
        )
    for name, value in (("k", k), ("budget", budget)):
        if value < 1:
            raise ParameterError(f"--{name} {value} is below 1. Write --{name} 10.")
    if budget < k:
        raise ParameterError(
            f"--budget {budget} is below --k {k}, and answers come from the candidates. Write "
            f"--budget {10 * k}."
        )
    q = model.encode([question])
    total, budget = len(index), min(budget, len(index))
    if not rerank:
        result = index.search(q, k=min(k, total), budget=budget, rerank=False)
        texts = library.get(result.ids[0])
        rows = zip(result.ids[0], result.cosines[0], result.standard_errors[0], strict=True)
        some = [
            Answer(texts[i], float("nan"), float(c), float(e)) for i, c, e in rows if i in texts
        ]
        return Answers(question, tuple(some), 0, len(library), float("nan"))
    exact, estimate, error, ids = (part[0] for part in index.second_stage(q, budget))
    order = np.argsort(-exact, kind="stable")
    texts = library.get(ids[order])  # what a build that was stopped left is not in it
    best = [n for n in order if int(ids[n]) in texts][:k]
    some = [
        Answer(texts[int(ids[n])], float(exact[n]), float(estimate[n]), float(error[n]))
        for n in best
    ]
    margin = float("inf")
    if budget < total and best:
        margin = float((exact[best[-1]] - estimate[-1]) / error[-1])
    return Answers(question, tuple(some), len(exact), len(library), margin)


def _answer_lines(found: Answers) -> list[str]:
    lines = []
    for place, answer in enumerate(found.answers, 1):
        bits = f"{answer.estimate:.2f} ± {answer.standard_error:.2f}"
        cosine = f"bits {bits}" if np.isnan(answer.cosine) else f"{answer.cosine:.3f}  bits {bits}"
        lines.append(f"{place}  {cosine}  {answer.found.source}")
        passage = answer.found.passage
        if passage.title:
            lines.append(f"   {harmless(passage.title)}")
        lines += [f"   | {line}" for line in harmless(passage.text).split("\n")]
        lines.append("")
    return [*lines, _read_words(found)]


def _read_words(found: Answers) -> str:
    total = many(found.total, "passage")
    if not found.reads:
        return f"By the bits of {total} alone; no vector was read."
    if np.isinf(found.margin):
        return f"All {total} were compared exactly."
    said = (
        f"{number(float(found.reads), 9)} of {total} were compared exactly. The next one by its "
        f"bits would have to be {max(found.margin, 0.0):.1f} standard errors better than they say "
        "to be among these."
    )
    if found.margin < DOUBTFUL:
        said += f" That is little: ask again with --budget {4 * found.reads}."
    return said


def _answers_json(found: Answers) -> dict[str, Any]:
    def plain(value: float) -> float | None:
        return round(value, 6) if np.isfinite(value) else None

    return {
        "question": found.question,
        "answers": [
            {
                "source": answer.found.source,
                "file": answer.found.file,
                "line": answer.found.passage.first_line,
                "last_line": answer.found.passage.last_line,
                "page": answer.found.passage.page,
                "title": answer.found.passage.title,
                "text": answer.found.passage.text,
                "cosine": plain(answer.cosine),
                "estimate": plain(answer.estimate),
                "standard_error": plain(answer.standard_error),
            }
            for answer in found.answers
        ],
        "reads": found.reads,
        "passages": found.total,
        "margin": plain(found.margin),
    }
