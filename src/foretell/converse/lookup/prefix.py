"""What is known about a question while it is still being said: words, hits, and how they moved.

Everything here can be computed when the words are heard: no later word, no length of the question,
no right answer enters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from foretell.converse.lookup.query import Query
from foretell.converse.lookup.retriever import Hits
from foretell.converse.lookup.words import is_content, term

FEATURES = (
    "words", "content words", "top score", "log top score", "score per idf", "gap 1-2", "gap k",
    "ratio 1/k", "top 1 kept for", "top k kept for", "kept share", "idf of last", "log idf sum",
    "idf of best", "last is stop", "last is name", "names", "settled",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Near:
    """A document that was found, whether it counts as evidence now or not."""

    id: str
    share: float  # of the best score
    margin: float  # score above the last one that counts, relative to the best
    streak: int  # looks in a row in which it was found


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the index: the words then, the query, the hits, and the features."""

    time: float
    words: tuple[str, ...]
    stable: int
    query: Query
    ids: tuple[str, ...]
    scores: tuple[float, ...]
    idf: tuple[float, ...] = ()  # of the terms of the query
    features: tuple[float, ...] = ()
    near: tuple[Near, ...] = ()  # the hits and the next ones: what may end up as evidence


@dataclass(slots=True)
class Prefix:
    """Follows one question as it grows.

    Parameters
    ----------
    k : int
        How many hits count as evidence.
    idf : callable
        Weight of a term, 0 for unknown ones.
    """

    k: int
    idf: Callable[[str], float]
    last: Look | None = None
    before: Look | None = None  # the one before the last
    _since_top: int = 0
    _since_set: int = 0
    _streaks: dict[str, int] = field(default_factory=dict)

    def see(self, time: float, words: Sequence[str], stable: int, query: Query, hits: Hits) -> Look:
        """Take in what was found for the words so far; hits may hold more than k.

        Examples
        --------
        >>> from foretell.converse.lookup.query import content_query
        >>> prefix = Prefix(2, idf=lambda term: 1.0)
        >>> words = ["who", "found", "radium"]
        >>> look = prefix.see(0.5, words, 3, content_query(words), [("a", 3.0), ("b", 1.0)])
        >>> dict(zip(FEATURES, look.features, strict=True))["gap 1-2"]
        0.6666666666666666
        """
        ids = tuple(id for id, _ in hits[: self.k])
        before = self.last.ids if self.last else ()
        self._since_top = self._since_top + 1 if ids and ids[:1] == before[:1] else 0
        self._since_set = self._since_set + 1 if ids and set(ids) == set(before) else 0
        scores = tuple(score for _, score in hits)
        idf = tuple(self.idf(name) for name, _ in query.weights)
        known = dict(zip((name for name, _ in query.weights), idf, strict=True))
        newest = known.get(term(words[-1]), 0.0) if words else 0.0
        features = self._features(words, stable, idf, newest, ids, before, scores)
        near = self._near(hits)
        sure = scores[: self.k]
        look = Look(time, tuple(words), stable, query, ids, sure, idf, features, near)
        self.before, self.last = self.last, look
        return look

    def _near(self, hits: Hits) -> tuple[Near, ...]:
        self._streaks = {id: self._streaks.get(id, 0) + 1 for id, _ in hits}
        if not hits:
            return ()
        top = hits[0][1] or 1.0
        edge = hits[self.k - 1][1] if len(hits) >= self.k else 0.0
        return tuple(Near(i, s / top, (s - edge) / top, self._streaks[i]) for i, s in hits)

    def _features(
        self,
        words: Sequence[str],
        stable: int,
        idf: tuple[float, ...],
        newest: float,
        ids: tuple[str, ...],
        before: tuple[str, ...],
        scores: tuple[float, ...],
    ) -> tuple[float, ...]:
        top = scores[0] if scores else 0.0
        mass = sum(idf)
        last = words[-1] if words else ""
        names = sum(word[:1].isupper() for word in words[1:])
        return (
            float(len(words)),
            float(len(idf)),
            top,
            math.log1p(top),
            top / mass if mass else 0.0,
            _gap(scores, 0, 1),
            _gap(scores, self.k - 1, self.k),
            _part(scores, self.k - 1),
            float(min(self._since_top, 6)),
            float(min(self._since_set, 6)),
            len(set(ids) & set(before)) / self.k,
            newest,
            math.log1p(mass),
            max(idf, default=0.0),
            float(not is_content(last)) if last else 1.0,
            float(last[:1].isupper() and len(words) > 1),
            float(names),
            stable / len(words) if words else 0.0,
        )


def _gap(scores: tuple[float, ...], one: int, other: int) -> float:
    """Distance of two scores relative to the best; a missing score counts as 0."""
    if not scores or scores[0] <= 0:
        return 0.0
    at = [scores[i] if 0 <= i < len(scores) else 0.0 for i in (one, other)]
    return (at[0] - at[1]) / scores[0]


def _part(scores: tuple[float, ...], place: int) -> float:
    return scores[place] / scores[0] if place < len(scores) and scores[0] > 0 else 0.0
