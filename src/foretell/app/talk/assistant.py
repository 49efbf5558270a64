"""Who answers: reads what was looked up, decides whether it may be said, and says it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from foretell.app.talk.notebook import Notebook
from foretell.converse.answer import Answer, Reader, Source, Statement, Verdict
from foretell.converse.instrument import Finding
from foretell.converse.lookup import StreamingLookup
from foretell.core.errors import ParameterError

PASSAGES = 5


class Assistant:
    """Answers questions from notes and instruments.

    Parameters
    ----------
    notebook : Notebook
    lookup : StreamingLookup
        Over the notebook, with the instruments as tools.
    reader : Reader
    """

    def __init__(self, notebook: Notebook, lookup: StreamingLookup, reader: Reader) -> None:
        self.notebook, self.lookup, self.reader = notebook, lookup, reader

    def answer(
        self,
        question: str,
        passages: Sequence[Source],
        findings: Mapping[str, Finding | Mapping[str, Any]] | None = None,
        *,
        language: str | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Answer:
        """What is said to a question; blocks, so call it in a thread.

        Parameters
        ----------
        question : str
        passages : sequence of Source
            What was looked up, best first.
        findings : mapping of str to Finding, optional
            What the instruments found.
        language : str, optional
            Of the question, where it was detected.
        cancelled : callable
            Turns true when the answer is no longer wanted.
        """
        began = time.perf_counter()
        vectors = [self.notebook.vectors(source) for source in passages]
        reading = self.reader.read(
            question,
            passages,
            idf=self.notebook.idf,
            question_vector=self.notebook.question_vector(question),
            vectors=None if any(v is None for v in vectors) else vectors,  # type: ignore[arg-type]
        )
        if not reading.candidates:
            return Answer("I find nothing about this in the notes.", nearest=tuple(passages))
        best = reading.candidates[0]
        statement = Statement(best.sentence.text, (best.source,))
        return Answer(
            best.sentence.text,
            (statement,),
            Verdict("accept", "not yet judged", 1 - best.probability),
            nearest=tuple(passages),
            seconds=time.perf_counter() - began,
        )

    def source(self, id: str) -> Source:
        """A passage, to be opened where it stands."""
        return self.notebook.source(id)

    def ask(self, question: str) -> Answer:
        """Look up and answer at once, for a program or the calibration."""
        return self.answer(question, self.look_up(question))

    def look_up(self, question: str) -> list[Source]:
        """The passages for a complete question, best first."""
        from foretell.converse.lookup import text_query

        query = text_query(question)
        hits = self.notebook.search(query, min(PASSAGES, len(self.notebook))) if query else []
        return [self.notebook.source(id, score) for id, score in hits]

    def close(self) -> None:
        """Let go of files."""
        self.notebook.close()


def build_assistant(
    *,
    model: Path | None,
    notes: Path | None,
    llm: str | None = None,
    level: float = 0.1,
    progress: Callable[[str], None] | None = None,
) -> Assistant:
    """Everything that answers, from the arguments of ``foretell talk``.

    Parameters
    ----------
    model : Path, optional
        Folder of a fit, or of a model.
    notes : Path, optional
        Folder of notes, or of an index of notes.
    llm : str, optional
        "smollm2", or the address of an OpenAI-compatible service, that may word answers.
    level : float
        Share of wrong answers among those that are given.
    progress : callable, optional
        Gets a line of text now and then.
    """
    if notes is None:
        raise ParameterError("There is nothing to ask. Give --notes FOLDER.")
    notebook = Notebook.open(notes, progress=progress)
    lookup = StreamingLookup(notebook, k=min(PASSAGES, len(notebook)))
    return Assistant(notebook, lookup, Reader.shipped(vectors=notebook.model is not None))
