"""Who answers: reads what was looked up, decides whether it may be said, and says it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from foretell.app.instruments.asking import Asked, Request
from foretell.app.instruments.spoken_numbers import in_digits
from foretell.app.notes.passages import Passage
from foretell.app.talk.calibration import calibration_for
from foretell.app.talk.composing import (
    Quotation,
    found_answer,
    in_other_words,
    quoted_answer,
)
from foretell.app.talk.notebook import Notebook
from foretell.app.words import listing
from foretell.converse.answer import (
    Answer,
    Gate,
    Judge,
    Reader,
    Source,
    Statement,
    Verdict,
    Writer,
    given,
    language_name,
    language_of,
    writer,
)
from foretell.converse.instrument import Finding, Instrument
from foretell.converse.lookup import EveryChange, StreamingLookup, instrument_tool, text_query
from foretell.converse.lookup.tools import Tool
from foretell.converse.lookup.words import is_content
from foretell.core.errors import ParameterError
from foretell.trust.decision import Certificate

PASSAGES = 5
_READS = "en"  # the language that the reader was fitted to
_GREETINGS = frozenset(
    "hello hi hey hallo thanks thank you good morning evening day bye ok".split()
)
_HELP = ("what can you do", "what can i ask", "how does this work", "help")

Findings = Mapping[str, Finding | Mapping[str, Any]]


class Assistant:
    """Answers questions from notes and instruments.

    Parameters
    ----------
    notebook : Notebook
    reader, judge : Reader, Judge
        Choose what would be quoted, and estimate how likely it is no answer.
    gate : Gate
        Decides whether it may be said.
    instruments : sequence of Asked
        In the order in which they are tried.
    words : Writer, optional
        A language model that may word answers.
    remarks : sequence of str
        What should be known about every answer.

    Examples
    --------
    >>> from foretell.app.talk.calibration import example_folder
    >>> notes = example_folder() / "notes"
    >>> assistant = build_assistant(model=None, notes=notes, vectors=False)
    >>> answer = assistant.ask("When does the inlet valve shut?")
    >>> answer.decision.action, answer.statements[0].sources[0].file
    ('accept', 'tank_farm.md')
    """

    def __init__(
        self,
        notebook: Notebook,
        reader: Reader,
        judge: Judge,
        gate: Gate,
        *,
        instruments: Sequence[Asked] = (),
        words: Writer | None = None,
        remarks: Sequence[str] = (),
    ) -> None:
        self.notebook, self.reader, self.judge, self.gate = notebook, reader, judge, gate
        self.instruments, self.words = tuple(instruments), words
        self.remarks = tuple(remarks)
        self._concerned = lru_cache(maxsize=256)(self._first_concerned)
        # A search takes a millisecond and reading a passage a hundred, so that every new passage is
        # read at once; with few calls the short pauses between typed words use them up.
        self.lookup = StreamingLookup(
            notebook,
            k=min(PASSAGES, len(notebook)),
            trigger=EveryChange(),
            max_calls=16,
            min_interval_s=0.2,
            tools=map(self._tool, self.instruments),
        )

    @property
    def certificate(self) -> Certificate | None:
        """The promise about answers from the notes."""
        return self.gate.certificate

    def answer(
        self,
        question: str,
        passages: Sequence[Source],
        findings: Findings | None = None,
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
            What the instruments found; they are asked where it is missing.
        language : str, optional
            Of the question, where it was detected.
        cancelled : callable
            Turns true when the answer is no longer wanted.
        """
        began = time.perf_counter()
        spoken = language or language_of(question)
        found = self._small_talk(question, spoken) or self._answer(
            question, passages, findings or {}, spoken, cancelled
        )
        if self.words is not None and found.statements and not self._by_instrument(found):
            found = in_other_words(found, question, self.words, passages, cancelled)
        elif self.words is not None and found.decision.action == "pass_on":
            found = in_other_words(found, question, self.words, passages, cancelled)
        return replace(
            found.remark(*self.remarks),
            seconds=time.perf_counter() - began,
        )

    def ask(self, question: str) -> Answer:
        """Look up and answer at once, for programs."""
        return self.answer(question, self.look_up(question))

    def look_up(self, question: str) -> list[Source]:
        """The passages for a complete question, best first."""
        query = text_query(question)
        hits = self.notebook.search(query, min(PASSAGES, len(self.notebook))) if query else []
        return [self.notebook.source(id, score) for id, score in hits]

    def quotation(self, question: str, passages: Sequence[Source] | None = None) -> Quotation:
        """What would be quoted for a question, however doubtful."""
        found = self.look_up(question) if passages is None else list(passages)
        scores = self.notebook.scores(text_query(question))
        found = [replace(source, score=scores.get(source.id, 0.0)) for source in found]
        vectors = self.notebook.vectors(found) if self.reader.meaning else None
        reading = self.reader.read(
            question,
            found,
            idf=self.notebook.idf,
            question_vector=self.notebook.question_vector(question),
            vectors=vectors,
        )
        quotes = tuple(
            Statement(
                " ".join(part.text for part in parts),
                (replace(source, first_line=parts[0].first_line, last_line=parts[-1].last_line),),
            )
            for source, parts in given(reading)
        )
        return Quotation(quotes, self.judge.doubt(reading))

    def source(self, id: str) -> Source:
        """A passage, to be opened where it stands."""
        return self.notebook.source(id)

    def close(self) -> None:
        """Let go of files."""
        self.notebook.close()

    # How an answer comes about -------------------------------------------------------------------

    def _answer(
        self,
        question: str,
        passages: Sequence[Source],
        findings: Findings,
        language: str,
        cancelled: Callable[[], bool],
    ) -> Answer:
        concerned = self._concerned(question)
        if concerned is not None and not concerned[1].asks:
            return found_answer(*concerned, findings, cancelled, language)
        from_notes = self._from_notes(question, passages, language)
        if concerned is None or from_notes.decision.action == "accept":
            return from_notes
        asks = concerned[1].asks
        decision = Verdict("pass_on", "the question leaves something open")
        return Answer(asks, (), decision, asks_back=asks, language=language,
                      nearest=tuple(passages))  # fmt: skip

    def _from_notes(self, question: str, passages: Sequence[Source], language: str) -> Answer:
        quotation = self.quotation(question, passages)
        verdict = self.gate.decide(quotation.doubt)
        if language.split("-")[0] != _READS:
            return self._unread(passages, language, verdict)
        answer = quoted_answer(quotation, verdict, passages, language)
        return replace(answer, certificate=self.certificate)

    def _unread(self, passages: Sequence[Source], language: str, verdict: Verdict) -> Answer:
        name = language_name(language)
        text = (
            f"This seems to be {name}. I can judge answers in {language_name(_READS)} only, so "
            "that I cannot vouch for one."
        )
        if passages:
            text += f" The nearest place is {passages[0].place}."
        decision = Verdict("withhold", f"there is no reading model for {name}", verdict.score)
        return Answer(text, (), decision, language=language, nearest=tuple(passages))

    def _small_talk(self, question: str, language: str) -> Answer | None:
        words = "".join(c if c.isalnum() else " " for c in question.casefold()).split()
        if not words:
            text = "There is no question in this. Ask in words."
        elif " ".join(words).startswith(_HELP) and len(words) < 8:
            text = self.abilities()
        elif all(word in _GREETINGS for word in words):
            text = f"Hello. {self.abilities()}"
        elif len(content := [word for word in words if is_content(word)]) == len(words) == 1:
            text = f"What about {content[0]!r}? Ask in a few words."
            return Answer(text, (), Verdict("pass_on", "one word is no question"),
                          asks_back=text, language=language)  # fmt: skip
        else:
            return None
        return Answer(text, (), Verdict("accept", "nothing is claimed"), language=language)

    def abilities(self) -> str:
        """What can be asked, in a sentence or two."""
        said = f"Ask me about the {len(self.notebook)} passages of {self.notebook.files} files"
        names = [tool.name.replace("_", " ") for tool in self.instruments]
        names = [name for name in names if not name.startswith("no ")]
        return f"{said}, or use: {listing(names)}." if names else f"{said}."

    # Instruments ---------------------------------------------------------------------------------

    def _first_concerned(self, text: str) -> tuple[Asked, Request] | None:
        said = in_digits(text)
        for tool in self.instruments:
            request = tool.read(said)
            if request is not None:
                return tool, request
        return None

    def _tool(self, instrument: Asked) -> Tool:
        def read(text: str) -> Mapping[str, Any] | None:
            found = self._concerned(text)
            if found is None or found[0] is not instrument or found[1].asks:
                return None
            return found[1].arguments

        return instrument_tool(cast(Instrument, instrument), read)

    def _by_instrument(self, answer: Answer) -> bool:
        return any(source.kind != "notes" for source in answer.sources)


def shipped_reading(*, vectors: bool) -> tuple[Reader, Judge]:
    """Reader and judge that come with the package."""
    reader = Reader.shipped(vectors=vectors)
    return reader, Judge.shipped(vectors=vectors)


def build_assistant(
    *,
    model: Path | None,
    notes: Path | None,
    llm: str | None = None,
    level: float = 0.1,
    progress: Callable[[str], None] | None = None,
    vectors: bool = True,
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
    vectors : bool
        Whether to use sentence vectors where their package is installed.

    Raises
    ------
    ParameterError
        When there is nothing to ask, or the level is no share.
    DataError, ArtifactError, MissingExtraError
        When something that was named cannot be used.
    """
    from foretell.app.instruments.calculator import Calculator

    if notes is None and model is None:
        raise ParameterError(
            "There is nothing to ask. Give --notes FOLDER, or the folder of a fit, or both."
        )
    if not 0 < level < 1:
        raise ParameterError(f"--level {level:g} is no share between 0 and 1. Write --level 0.1.")
    words = writer(llm) if llm else None
    tools: list[Asked] = []
    extra: list[tuple[str, Passage]] = []
    if model is not None:
        from foretell.app.instruments.model_notes import notes_of
        from foretell.app.instruments.model_view import ModelView
        from foretell.app.instruments.offered import offered

        view = ModelView.open(model)
        tools, extra = offered(view), notes_of(view)
    tools.append(Calculator())
    notebook = Notebook.open(notes, progress=progress, vectors=vectors, extra=extra)
    reads = notebook.model is not None
    calibration, remarks = calibration_for(notes, vectors=reads, version=notebook.version)
    reader, judge = shipped_reading(vectors=reads)
    return Assistant(
        notebook, reader, judge, calibration.gate(level, notes=notebook.version),
        instruments=tools, words=words,
        remarks=remarks,
    )  # fmt: skip
