"""Which sentence of the passages answers a question: a logistic model of a dozen features.

Lexical ones weigh words by how rare they are; the nearness of meaning is the cosine of sentence
vectors where there is a model for them; the kind of answer is read from the question.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from foretell.converse.answer.cues import content_stems, offers, stem, wanted
from foretell.converse.answer.sentences import Sentence, sentences
from foretell.converse.answer.statements import Source
from foretell.converse.lookup.logistic import LogisticModel
from foretell.converse.lookup.words import is_content, split_words, term
from foretell.core.errors import ArtifactError

Array = NDArray[np.float64]
Idf = Callable[[str], float]

LEXICAL = (
    "cover", "cover_rel", "context", "rare", "pairs", "passage", "rank", "offers", "novel",
    "length", "code", "asks", "subject", "names", "numbers",
)  # fmt: skip
MEANING = ("cosine", "cosine_rel", "cosine_passage")
FEATURES = LEXICAL + MEANING
_COSINE = len(LEXICAL)
_MOST = 200  # sentences that are weighed


class SentenceModel(Protocol):
    """What makes unit vectors of sentences."""

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        """Unit vectors (n, d)."""
        ...


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sentence that may be the answer.

    Parameters
    ----------
    sentence : Sentence
    source : Source
    probability : float
        That it holds the answer, by the model, when asked about alone.
    features : tuple of float
        In the order of the model's names.
    """

    sentence: Sentence
    source: Source
    probability: float
    features: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """All sentences, best first, and what the question wants.

    Parameters
    ----------
    question : str
    kind : str
        Of the answer that is wanted.
    candidates : tuple of Candidate
    known, unknown : int
        Content words of the question that the notes have, and have not.
    scores : tuple of float
        Of the passages, as searched, best first.
    weight : float
        Of all content words of the question together: how much it says.
    """

    question: str
    kind: str
    candidates: tuple[Candidate, ...]
    known: int
    unknown: int
    scores: tuple[float, ...]
    weight: float = 0.0


class Reader:
    """Weighs sentences.

    Parameters
    ----------
    model : LogisticModel
        With the features `FEATURES`, or `LEXICAL` where there are no vectors.

    Examples
    --------
    >>> reader = Reader.shipped(vectors=False)
    >>> text = "Radium was discovered by the Curies in 1898. It glows in the dark."
    >>> found = reader.read("When was radium discovered?", [Source("1", text)])
    >>> found.candidates[0].sentence.text
    'Radium was discovered by the Curies in 1898.'
    """

    def __init__(self, model: LogisticModel) -> None:
        self.model = model
        self.meaning = set(MEANING) <= set(model.names)

    @classmethod
    def shipped(cls, *, vectors: bool = True) -> Reader:
        """The reader that comes with the package."""
        return cls(LogisticModel.from_dict(shipped_models()["full" if vectors else "lexical"]))

    def read(
        self,
        question: str,
        sources: Sequence[Source],
        *,
        idf: Idf | None = None,
        question_vector: NDArray[np.float32] | None = None,
        vectors: Sequence[NDArray[np.float32]] | None = None,
    ) -> Reading:
        """Weigh the sentences of passages.

        Parameters
        ----------
        question : str
        sources : sequence of Source
            Best first, with the scores of the search.
        idf : callable, optional
            Weight of a term; without it all weigh the same.
        question_vector : array (d,), optional
        vectors : sequence of arrays (sentences, d), optional
            Of the sentences of each passage, in their order.
        """
        view = _QuestionView(question, idf)
        rows, found = view.features(sources, question_vector, vectors if self.meaning else None)
        names = [FEATURES.index(name) for name in self.model.names]
        sources_ = tuple(source.score for source in sources)
        if not found:
            return Reading(question, view.kind, (), view.known, view.unknown, sources_, view.total)
        X = rows[:, names]
        chances = self.model.probability(X)
        order = np.argsort(-chances, kind="stable")
        candidates = tuple(
            Candidate(found[i][0], found[i][1], float(chances[i]), tuple(X[i].tolist()))
            for i in order
        )
        return Reading(
            question, view.kind, candidates, view.known, view.unknown, sources_, view.total
        )


def rows(
    question: str,
    sources: Sequence[Source],
    idf: Idf | None,
    question_vector: NDArray[np.float32] | None,
    vectors: Sequence[NDArray[np.float32]] | None,
) -> Array:
    """The `FEATURES` of all sentences of all passages, in their order."""
    return _QuestionView(question, idf).features(sources, question_vector, vectors)[0]


@lru_cache(maxsize=1)
def shipped_models() -> dict[str, Any]:
    """The fitted models that come with the package, by name."""
    try:
        text = files("foretell.converse.answer").joinpath("models.json").read_text("utf-8")
        content: dict[str, Any] = json.loads(text)
        return content
    except (OSError, ValueError) as error:
        raise ArtifactError(
            f"The models of the answers cannot be read ({error}). Install foretell again: pip "
            "install --force-reinstall --no-deps foretell"
        ) from error


class _QuestionView:
    """A question, ready to be compared with sentences."""

    def __init__(self, question: str, idf: Idf | None) -> None:
        self.wanted = wanted(question)
        self.kind = self.wanted.kind
        words = [word for word in split_words(question) if is_content(word)]
        weigh = idf or (lambda name: 1.0)
        weights = {stem(word): weigh(term(word)) for word in words}
        self.known = sum(weight > 0 for weight in weights.values())
        self.unknown = len(weights) - self.known
        highest = max(weights.values(), default=1.0) or 1.0
        self.weights = {name: weight or highest for name, weight in weights.items()}
        self.total = sum(self.weights.values()) or 1.0
        self.order = [stem(word) for word in words]
        first, *later = split_words(question) or [""]
        named = {stem(word) for word in later if word[:1].isupper()} & self.weights.keys()
        self.names = named or {stem(first)} & self.weights.keys()
        self.numbers = {name for name in self.weights if name[:1].isdigit()}
        self.rarest = max(self.weights, key=lambda n: self.weights[n], default="")

    def features(
        self,
        sources: Sequence[Source],
        question_vector: NDArray[np.float32] | None,
        vectors: Sequence[NDArray[np.float32]] | None,
    ) -> tuple[Array, list[tuple[Sentence, Source]]]:
        rows: list[list[float]] = []
        found: list[tuple[Sentence, Source]] = []
        best = max((source.score for source in sources), default=0.0) or 1.0
        for rank, source in enumerate(sources):
            parts = sentences(source)
            near = np.zeros(len(parts))
            if vectors is not None and question_vector is not None and len(parts):
                near = np.asarray(vectors[rank] @ question_vector, dtype=np.float64)
            title = set(content_stems(source.title))
            before: set[str] = set()
            top = float(near.max(initial=0.0))
            for sentence, cosine in zip(parts, near, strict=True):
                stems = content_stems(sentence.text)
                row = self._row(sentence, stems, title | before)
                row[5:7] = [source.score / best, 1 / (1 + rank)]
                rows.append([*row, float(cosine), 0.0, top])
                found.append((sentence, source))
                before = set(stems)
        X = np.array(rows[:_MOST], dtype=np.float64).reshape(-1, len(FEATURES))
        if len(X):
            X[:, 1] = X[:, 0] - X[:, 0].max()
            X[:, _COSINE + 1] = X[:, _COSINE] - X[:, _COSINE].max()
        return X, found[:_MOST]

    def _row(self, sentence: Sentence, stems: Sequence[str], around: set[str]) -> list[float]:
        there = set(stems)
        cover = self._covered(there)
        context = self._covered(there | around)
        places = {name: i for i, name in enumerate(stems)}
        pairs = list(zip(self.order, self.order[1:], strict=False))
        near = sum(a in places and b in places and abs(places[a] - places[b]) <= 2
                   for a, b in pairs)  # fmt: skip
        novel = len(there - self.weights.keys())
        subject = bool(stems) and any(name in self.weights for name in stems[:3])
        return [
            cover,
            0.0,
            context,
            float(self.rarest in there),
            near / max(len(pairs), 1),
            0.0,
            0.0,
            offers(self.wanted, sentence.text),
            float(np.log1p(novel)),
            float(np.log1p(len(stems))),
            float(sentence.code),
            float(sentence.text.endswith("?")),
            float(subject),
            _share(self.names, there | around),
            _share(self.numbers, there | around),
        ]

    def _covered(self, there: set[str]) -> float:
        return sum(w for name, w in self.weights.items() if name in there) / self.total


def _share(wanted: set[str], there: set[str]) -> float:
    return len(wanted & there) / len(wanted) if wanted else 1.0
