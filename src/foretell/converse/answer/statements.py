"""What an answer is made of: sources, statements that rest on them, and what was decided."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from foretell.trust.decision import Action, Certificate

Kind = Literal["notes", "model", "calculation"]


@dataclass(frozen=True, slots=True)
class Source:
    """What a statement rests on: lines of a file, or a model with an interval.

    Parameters
    ----------
    id : str
        Of the passage in its index, or the name of the instrument.
    text : str
        The passage as written; for a finding, what it says.
    kind : {"notes", "model", "calculation"}
    file : str
        Within the folder of notes, or the model.
    first_line, last_line : int
        Counted from 1; 0 where there are none.
    page : int or None
        Where there are pages; lines then count within it.
    title : str
        The headings above.
    interval : pair of float or None
        Of a finding.
    unit : str
        Of a finding.
    score : float
        Of the search; larger is nearer.

    Examples
    --------
    >>> Source("7", "Pull the cord.", file="pump.md", first_line=4, last_line=5).place
    'pump.md:4-5'
    """

    id: str
    text: str
    kind: Kind = "notes"
    file: str = ""
    first_line: int = 0
    last_line: int = 0
    page: int | None = None
    title: str = ""
    interval: tuple[float, float] | None = None
    unit: str = ""
    score: float = 0.0

    @property
    def place(self) -> str:
        """Where it stands, in one word for people and editors."""
        if self.page is not None:
            return f"{self.file}, page {self.page}"
        if not self.first_line:
            return self.file or self.id
        last = "" if self.last_line <= self.first_line else f"-{self.last_line}"
        return f"{self.file}:{self.first_line}{last}"

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values, with the place."""
        return {
            "id": self.id,
            "kind": self.kind,
            "place": self.place,
            "file": self.file,
            "first_line": self.first_line,
            "last_line": self.last_line,
            "page": self.page,
            "title": self.title,
            "text": self.text,
            "interval": None if self.interval is None else list(self.interval),
            "unit": self.unit,
        }

    def __repr__(self) -> str:
        return f"Source({self.place}: {self.text!r:.60})"


@dataclass(frozen=True, slots=True)
class Statement:
    """One thing that an answer says, and what it rests on.

    Parameters
    ----------
    text : str
    sources : tuple of Source
        Empty only where `unsupported`.
    worded : bool
        Whether a language model chose the words.
    unsupported : tuple of str
        What in it no source says; empty for everything that is quoted.

    Examples
    --------
    >>> Statement("The Curies discovered radium.", (Source("p7", "...", file="a.md"),))
    Statement('The Curies discovered radium.', from a.md)
    """

    text: str
    sources: tuple[Source, ...]
    worded: bool = False
    unsupported: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "text": self.text,
            "sources": [source.to_dict() for source in self.sources],
            "worded": self.worded,
            "unsupported": list(self.unsupported),
        }

    def __repr__(self) -> str:
        places = ", ".join(source.place for source in self.sources) or "no source"
        worded = ", worded by a language model" if self.worded else ""
        return f"Statement({self.text!r}, from {places}{worded})"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an answer may be given, and why.

    Parameters
    ----------
    action : {"accept", "pass_on", "withhold"}
        Say it; leave it to somebody who can judge; or say that there is no answer.
    reason : str
        In words.
    score : float or None
        Estimated probability that the answer is wrong; None where nothing was judged.
    threshold : float or None
        The largest score that is accepted; None where there is none.
    """

    action: Action
    reason: str
    score: float | None = None
    threshold: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "action": self.action,
            "reason": self.reason,
            "score": self.score,
            "threshold": self.threshold,
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said to a question.

    Parameters
    ----------
    text : str
        To be shown or spoken as it is.
    statements : tuple of Statement
        What it says, each with its sources.
    decision : Verdict
    certificate : Certificate or None
        What backs the decision; None where nothing does, and `decision.reason` says so.
    asks_back : str
        A question to the user where something is missing or ambiguous, else empty.
    language : str
        Of the question.
    remarks : tuple of str
        What else should be known, for instance that a language model did not answer.
    nearest : tuple of Source
        What was looked at, best first, also where the answer was withheld.
    seconds : float
        How long the composing took.

    Examples
    --------
    >>> answer = Answer("No answer in the notes.", decision=Verdict("withhold", "nothing near"))
    >>> answer.to_dict()["decision"]["action"]
    'withhold'
    """

    text: str
    statements: tuple[Statement, ...] = ()
    decision: Verdict = field(default_factory=lambda: Verdict("withhold", "nothing was found"))
    certificate: Certificate | None = None
    asks_back: str = ""
    language: str = "en"
    remarks: tuple[str, ...] = ()
    nearest: tuple[Source, ...] = ()
    seconds: float = 0.0

    @property
    def sources(self) -> tuple[Source, ...]:
        """Those of all statements, each once, in their order."""
        found = {source.id: source for each in self.statements for source in each.sources}
        return tuple(found.values())

    def remark(self, *remarks: str) -> Answer:
        """The same answer with further remarks."""
        return replace(self, remarks=self.remarks + tuple(r for r in remarks if r))

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "text": self.text,
            "statements": [each.to_dict() for each in self.statements],
            "decision": self.decision.to_dict(),
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
            "asks_back": self.asks_back,
            "language": self.language,
            "remarks": list(self.remarks),
            "nearest": [source.to_dict() for source in self.nearest],
            "seconds": self.seconds,
        }

    def __repr__(self) -> str:
        return f"Answer({self.decision.action}: {self.text!r:.70})"
