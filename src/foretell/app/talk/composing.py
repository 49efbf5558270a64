"""Answers as they are said: a quotation, a finding, a question back, or that there is none."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from foretell.app.instruments.asking import Asked, Request
from foretell.app.instruments.bounded import GaveUpError, bounded
from foretell.converse.answer import (
    Answer,
    Source,
    Statement,
    Verdict,
    WordingError,
    Writer,
    grounded,
)
from foretell.converse.instrument import Finding, Instrument, missing_arguments
from foretell.core.errors import ForetellError

Cancelled = Callable[[], bool]
_WRITING_S = 10.0
_SURE = 0.8  # share of the runs that keep a plan, from which it is said without a person


@dataclass(frozen=True)
class Quotation:
    """What would be quoted for a question.

    Parameters
    ----------
    statements : tuple of Statement
        The sentences as written, with their passage and lines; none where nothing was found.
    doubt : float
        Estimated probability that they are no answer.
    """

    statements: tuple[Statement, ...]
    doubt: float

    @property
    def text(self) -> str:
        """All of them."""
        return " ".join(statement.text for statement in self.statements)


def plain(text: str) -> str:
    """A quotation without the marks of Markdown and reStructuredText, as it can be spoken.

    Examples
    --------
    >>> plain("Run `fit` **twice**, see [the page](a.md).")
    'Run fit twice, see the page.'
    """
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r":[a-z:]+:`~?([^`<]+?)(?:\s*<[^>]*>)?`", r"\1", text)
    text = re.sub(r"`+([^`]*)`+_{0,2}", r"\1", text)
    text = re.sub(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1", r"\2", text)
    cells = [cell.strip() for cell in text.strip().strip("|").split("|")]
    return "; ".join(cell for cell in cells if cell) if text.strip().startswith("|") else text


def _ended(text: str) -> str:
    """A sentence that a passage cuts off, with that shown."""
    return f"{text} …" if text[-1:].isalnum() else text


def quoted_answer(
    quotation: Quotation, verdict: Verdict, passages: Sequence[Source], language: str
) -> Answer:
    """What is said for a quotation, by what was decided about it."""
    nearest = tuple(passages)
    if not quotation.statements:
        nothing = Verdict("withhold", "nothing in the notes shares a word with the question", 1.0)
        return Answer(
            "I find nothing about this in the notes.", (), nothing, language=language,
            nearest=nearest,
        )  # fmt: skip
    if verdict.action == "accept":
        text = " ".join(_ended(plain(statement.text)) for statement in quotation.statements)
        return Answer(text, quotation.statements, verdict, language=language, nearest=nearest)
    if verdict.action == "pass_on":
        first = quotation.statements[0]
        text = (
            f"I am not sure that this answers it, please judge for yourself: "
            f"{first.sources[0].place} says “{_ended(plain(first.text))}”"
        )
    else:
        text = "I find no answer to this in the notes that I could vouch for."
    return Answer(text, (), verdict, language=language, nearest=nearest)


def found_answer(
    tool: Asked,
    request: Request,
    findings: Mapping[str, Finding | Mapping[str, Any]],
    cancelled: Cancelled,
    language: str,
) -> Answer:
    """What is said for a finding of an instrument; asks for it where it is not there yet."""
    given = findings.get(tool.name)
    try:
        if given is None:
            missing_arguments(cast(Instrument, tool), request.arguments)
            finding = bounded(
                lambda: tool(request.arguments, cancelled=cancelled),
                tool.timeout_s,
                cancelled,
                what=f"The instrument {tool.name!r}",
            )
        else:
            finding = given if isinstance(given, Finding) else as_finding(given)
        text = tool.say(request.arguments, finding)
    except GaveUpError as error:
        return Answer(str(error), (), Verdict("withhold", str(error)), language=language)
    except ForetellError as error:
        reason = f"the instrument {tool.name!r} could not do it"
        return Answer(str(error), (), Verdict("withhold", reason), language=language)
    source = Source(
        tool.name,
        text,
        kind="calculation" if tool.name == "calculator" else "model",
        file=finding.source,
        interval=finding.interval,
        unit=finding.unit,
    )
    return Answer(
        text, (Statement(text, (source,)),), _of_finding(tool, finding), language=language
    )


def as_finding(content: Mapping[str, Any]) -> Finding:
    """A finding from its JSON values."""
    interval = content.get("interval")
    return Finding(
        content.get("value"),
        unit=str(content.get("unit", "")),
        interval=None if interval is None else (float(interval[0]), float(interval[1])),
        source=str(content.get("source", "")),
        seconds=float(content.get("seconds", 0.0)),
    )


def _of_finding(tool: Asked, finding: Finding) -> Verdict:
    value = finding.value
    if tool.name == "plan" and (value["breach"] > 0 or (value["kept"] or 0.0) < _SURE):
        return Verdict("pass_on", "the plan does not keep it often enough; a person has to decide")
    backed = (
        "what backs it is its interval"
        if finding.interval is not None
        else "it is computed, and nothing is known about its error"
    )
    return Verdict("accept", f"found by the instrument {tool.name!r}; {backed}")


def in_other_words(
    answer: Answer, question: str, writer: Writer, passages: Sequence[Source], cancelled: Cancelled
) -> Answer:
    """The answer worded by a language model, as far as the evidence bears it out."""
    vouched = answer.decision.action == "accept"
    if not vouched and answer.decision.action != "pass_on":
        return answer
    evidence = list(passages)
    if vouched:
        evidence = [replace(s.sources[0], text=s.text) for s in answer.statements if s.sources]
    try:
        text = bounded(
            lambda: writer.write(question, evidence), _WRITING_S, cancelled, what=writer.name
        )
    except (WordingError, GaveUpError) as error:
        kept = "this is from the notes alone" if vouched else "it was not asked with success"
        return answer.remark(f"{writer.name[0].upper()}{writer.name[1:]}: {error}; {kept}.")
    found = grounded(text, evidence, question)
    dropped = (
        "Left out of the wording, because the notes do not say it: " + " ".join(found.dropped)
        if found.dropped
        else ""
    )
    if not found.statements:
        return answer.remark(dropped)
    words = " ".join(statement.text for statement in found.statements)
    marked = [word for statement in found.statements for word in statement.unsupported]
    remarks = [
        dropped,
        f"Words that the notes do not have: {', '.join(marked)}." if marked else "",
        "The certificate speaks of the quotation, not of this wording."
        if vouched
        else f"This was passed on to {writer.name}; no certificate speaks of its answer.",
    ]
    answer = replace(answer, text=words, statements=(*found.statements, *answer.statements))
    return answer.remark(*remarks)
