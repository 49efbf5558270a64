"""BM25 over passages in memory, in the form that a growing query needs: fast, and ties in order.

Every posting carries its finished contribution (Robertson and Zaragoza's formula, with the inverse
document frequency that never gets negative), so that a search adds up a few short arrays.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from foretell.converse.lookup.query import Query
from foretell.converse.lookup.retriever import Hits
from foretell.converse.lookup.words import terms
from foretell.core.errors import DataError, ParameterError


class BM25:
    """Passages, found by the words that they share with a query.

    Parameters
    ----------
    passages : sequence of str, or mapping of str to str
        Texts; a mapping gives their ids, else they are named "0", "1", ...
    k1 : float
        How soon repeating a word stops to count, at least 0.
    b : float
        How far long passages are held back, from 0 to 1.

    Raises
    ------
    DataError
        When there are no passages, or none has a word.
    ParameterError
        When k1 or b is out of range.

    Notes
    -----
    Building takes O(words); a search O(postings of the query's terms + k log k).

    Examples
    --------
    >>> from foretell.converse.lookup import text_query
    >>> index = BM25({"a": "Radium was discovered by the Curies.", "b": "Radon is a gas."})
    >>> index
    BM25(2 passages, 10 terms)
    >>> [id for id, _ in index.search(text_query("Who discovered radium?"), k=2)]
    ['a']
    >>> index.fetch("b")
    'Radon is a gas.'
    """

    speculative = True

    def __init__(
        self, passages: Sequence[str] | Mapping[str, str], *, k1: float = 1.2, b: float = 0.75
    ) -> None:
        if not (k1 >= 0 and 0 <= b <= 1):
            raise ParameterError(f"k1={k1!r}, b={b!r}; needed are k1 >= 0 and 0 <= b <= 1.")
        if isinstance(passages, str):
            raise DataError("passages is one text; needed are several. Write [text].")
        named = isinstance(passages, Mapping)
        self._ids = [str(id) for id in passages] if named else list(map(str, range(len(passages))))
        self._texts = list(passages.values() if isinstance(passages, Mapping) else passages)
        if not self._texts:
            raise DataError("There are no passages to search. Give at least one text.")
        self._row = {id: row for row, id in enumerate(self._ids)}
        self.k1, self.b = k1, b
        self._build()

    def _build(self) -> None:
        postings: dict[str, list[tuple[int, int]]] = {}
        lengths = np.zeros(len(self._texts))
        for row, text in enumerate(self._texts):
            if not isinstance(text, str):
                raise DataError(f"passage {self._ids[row]!r} is a {type(text).__name__}, no text.")
            counts = Counter(terms(text))
            lengths[row] = counts.total()
            for name, count in counts.items():
                postings.setdefault(name, []).append((row, count))
        if not postings:
            raise DataError(f"None of the {len(self._texts)} passages has a word.")
        n = len(self._texts)
        slow = self.k1 * (1 - self.b + self.b * lengths / lengths.mean())
        self._idf: dict[str, float] = {}
        self._rows: dict[str, NDArray[np.int64]] = {}
        self._parts: dict[str, NDArray[np.float64]] = {}
        for name, entries in postings.items():
            rows, counts_ = np.array(entries, dtype=np.int64).T
            idf = float(np.log(1 + (n - rows.size + 0.5) / (rows.size + 0.5)))
            self._idf[name], self._rows[name] = idf, rows
            self._parts[name] = idf * counts_ * (self.k1 + 1) / (counts_ + slow[rows])

    def search(self, query: Query, k: int) -> Hits:
        """At most k passages with a word of the query, best first, equal ones in their order.

        Raises
        ------
        ParameterError
            When k is larger than the number of passages, or below 1.
        """
        if not 1 <= k <= len(self):
            raise ParameterError(
                f"k={k} passages are asked for and there are {len(self)}. Give k from 1 to "
                f"{len(self)}."
            )
        known = [(name, weight) for name, weight in query.weights if name in self._rows]
        if not known:
            return []
        scores = np.zeros(len(self))
        for name, weight in known:
            scores[self._rows[name]] += weight * self._parts[name]
        found = np.flatnonzero(scores)
        if found.size > k:
            least = np.partition(scores[found], found.size - k)[found.size - k]
            found = found[scores[found] >= least]
        best = found[np.argsort(-scores[found], kind="stable")][:k]
        return [(self._ids[row], float(scores[row])) for row in best]

    def fetch(self, id: str) -> str:
        """The text of a passage."""
        if id not in self._row:
            raise DataError(f"There is no passage {id!r} among the {len(self)}.")
        return self._texts[self._row[id]]

    def idf(self, term: str) -> float:
        """Inverse document frequency of a term; 0 for one that no passage has."""
        return self._idf.get(term, 0.0)

    @cached_property
    def version(self) -> str:
        """Names the content: equal for the same passages and settings."""
        digest = hashlib.sha256(f"{self.k1} {self.b}".encode())
        for id, text in zip(self._ids, self._texts, strict=True):
            digest.update(f"{len(id)} {len(text)} {id}{text}".encode("utf-8", "replace"))
        return digest.hexdigest()[:16]

    def __len__(self) -> int:
        return len(self._ids)

    def __repr__(self) -> str:
        return f"BM25({len(self)} passages, {len(self._rows)} terms)"
