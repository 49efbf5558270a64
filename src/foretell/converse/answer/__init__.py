"""Answers with a source for every statement, and the decision whether they may be given."""

from foretell.converse.answer.deciding import Gate
from foretell.converse.answer.grounding import Grounded, grounded
from foretell.converse.answer.judging import Judge
from foretell.converse.answer.quoting import given, quoted
from foretell.converse.answer.reading import Candidate, Reader, Reading, SentenceModel
from foretell.converse.answer.sentences import Sentence, sentences
from foretell.converse.answer.statements import Answer, Source, Statement, Verdict
from foretell.converse.answer.tongue import language_name, language_of
from foretell.converse.answer.wording import Endpoint, SmolLM, WordingError, Writer, writer

__all__ = [
    "Answer",
    "Candidate",
    "Endpoint",
    "Gate",
    "Grounded",
    "Judge",
    "Reader",
    "Reading",
    "Sentence",
    "SentenceModel",
    "SmolLM",
    "Source",
    "Statement",
    "Verdict",
    "WordingError",
    "Writer",
    "given",
    "grounded",
    "language_name",
    "language_of",
    "quoted",
    "sentences",
    "writer",
]
