"""Learn to read and to doubt from questions whose answers are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretell.converse.answer.judging import MEANING_SIGNS, SIGNS, Judge, signs
from foretell.converse.answer.quoting import given
from foretell.converse.answer.reading import FEATURES, LEXICAL, Idf, Reader, Reading, rows
from foretell.converse.answer.sentences import sentences
from foretell.converse.answer.statements import Source
from foretell.converse.lookup.logistic import LogisticModel

_STIFF = 10.0  # penalty of the judge: its scores matter more at their ends than in the middle


@dataclass(frozen=True, eq=False)
class Example:
    """A question, what was looked up, and which sentences hold its answer.

    Parameters
    ----------
    question : str
    sources : sequence of Source
        Best first.
    holds : sequence of sequences of bool
        For each sentence of each source.
    group : int
        Questions about the same thing share one, and are learned from together.
    question_vector, vectors
        As `Reader.read` takes them.
    """

    question: str
    sources: Sequence[Source]
    holds: Sequence[Sequence[bool]]
    group: int = 0
    question_vector: NDArray[np.float32] | None = None
    vectors: Sequence[NDArray[np.float32]] | None = None

    @property
    def answerable(self) -> bool:
        """Whether any of the sentences holds the answer."""
        return any(map(any, self.holds))

    def read(self, reader: Reader, idf: Idf) -> Reading:
        """Its sentences as a reader weighs them."""
        return reader.read(
            self.question,
            self.sources,
            idf=idf,
            question_vector=self.question_vector,
            vectors=self.vectors,
        )

    def right(self, reading: Reading) -> bool:
        """Whether what would be quoted holds the answer."""
        home = {source.id: n for n, source in enumerate(self.sources)}
        for source, said in given(reading):
            pairs = zip(sentences(source), self.holds[home[source.id]], strict=True)
            if any(holds for sentence, holds in pairs if sentence in said):
                return True
        return False


def fit_reader(
    examples: Sequence[Example],
    idf: Idf,
    *,
    vectors: bool = True,
    features: Sequence[NDArray[np.float64]] | None = None,
) -> Reader:
    """A reader from the examples that have an answer; their features, where known already."""
    names = FEATURES if vectors else LEXICAL
    columns = [FEATURES.index(name) for name in names]
    known = [_features(e, idf) for e in examples] if features is None else features
    X, y = [], []
    for example, found in zip(examples, known, strict=True):
        if example.answerable:
            X.append(found[:, columns])
            y.append(np.concatenate([np.asarray(h, bool) for h in example.holds])[: len(found)])
    return Reader(LogisticModel(names).fit(np.concatenate(X), np.concatenate(y)))


def _features(example: Example, idf: Idf) -> NDArray[np.float64]:
    return rows(example.question, example.sources, idf, example.question_vector, example.vectors)


def fit_judge(
    examples: Sequence[Example], idf: Idf, *, vectors: bool = True, folds: int = 3
) -> tuple[Reader, Judge]:
    """A reader, and a judge that has seen it only on groups that it was not fitted to."""
    order = np.unique([example.group for example in examples])
    fold = {int(group): i % folds for i, group in enumerate(order)}
    features = [_features(example, idf) for example in examples]
    X: list[list[float]] = []
    y: list[bool] = []
    for k in range(folds):
        kept = [i for i, example in enumerate(examples) if fold[example.group] != k]
        reader = fit_reader(
            [examples[i] for i in kept], idf, vectors=vectors, features=[features[i] for i in kept]
        )
        for example in examples:
            reading = example.read(reader, idf) if fold[example.group] == k else None
            if reading is not None and reading.candidates:
                X.append(signs(reading, reader.model.names))
                y.append(example.right(reading))
    names = SIGNS + MEANING_SIGNS if vectors else SIGNS
    reader = fit_reader(examples, idf, vectors=vectors, features=features)
    model = LogisticModel(names).fit(X, y, penalty=_STIFF)
    return reader, Judge(model, reader.model.names)
