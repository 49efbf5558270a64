"""Answers with a source for every statement, and the decision whether they may be given."""

from foretell.converse.answer.reading import Candidate, Reader, Reading, SentenceModel
from foretell.converse.answer.sentences import Sentence, sentences
from foretell.converse.answer.statements import Answer, Source, Statement, Verdict

__all__ = [
    "Answer",
    "Candidate",
    "Reader",
    "Reading",
    "Sentence",
    "SentenceModel",
    "Source",
    "Statement",
    "Verdict",
    "sentences",
]
