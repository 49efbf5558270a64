"""How a memory of facts is asked: every possible filler is scored, and the best ones are tested.

The p-value. Let T be the memory, z_1 x ... x z_p the unit array of the fact asked about, and v_j
what T leaves when contracted with all factors but z_j: score = <v_j, z_j> for each j. At a path
where nothing is stored, z_j is uniform on the sphere of R^m whatever T and the other factors are:

    t_j = score sqrt(m - 1) / sqrt(|v_j|^2 - score^2)

has Student's t-distribution with m - 1 degrees of freedom, exactly, however few facts there are. We
put the mean of the p squares |v_j|^2 into one t with p (m - 1) degrees of freedom: where many facts
are stored, the v_j are independent estimates of the same noise; where few are, t is bounded by the
least t_j, so that the tail probability is too large, never too small (checked by simulation in
tests/theory). The best of V fillers gets V times its tail probability. A normal law for
score / sigma, with sigma^2 = |T|^2 / D, is 40 times too optimistic at p = 1e-4 when one fact is
stored: an overlap is then a product of p normal numbers, with heavier tails.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from foretell.core.errors import DataError, ParameterError
from foretell.recall.fact_cells import Array, FactCells, Rows
from foretell.recall.recollection import Candidate, Recollection
from foretell.recall.role_paths import Path, Role, parse_path
from foretell.recall.tree_codec import LENGTH, DecodedTree, decode_tree
from foretell.recall.vocabulary import Symbol, Vocabulary

_ROUNDING = 1e-5  # scores below this part of the largest weight are rounding, not evidence


class FactRecall(FactCells):
    """The reading side of a memory of facts."""

    def recall(
        self,
        path: Path,
        k: int = 1,
        candidates: Sequence[Symbol] | None = None,
        *,
        alpha: float = 1e-3,
    ) -> Recollection:
        """The fillers that fit a path best.

        Parameters
        ----------
        path : path
            Where.
        k : int
            How many candidates to return.
        candidates : sequence of symbols, optional
            The possible answers; by default the vocabulary.
        alpha : float
            Level at which `Recollection.found` says that something is there.

        Raises
        ------
        DataError
            When there is no possible answer yet.
        """
        return self.recall_many([path], k, candidates, alpha=alpha)[0]

    def recall_many(
        self,
        paths: Sequence[Path],
        k: int = 1,
        candidates: Sequence[Symbol] | None = None,
        *,
        alpha: float = 1e-3,
    ) -> tuple[Recollection, ...]:
        """`recall` for several paths at once, which is faster."""
        return tuple(self._recollections(paths, k, candidates, alpha, self.vocabulary))

    def recall_all(
        self, path: Path, *, alpha: float = 1e-3, at_most: int = 100
    ) -> tuple[Candidate, ...]:
        """Every filler at a path, strongest first: each is taken out before the next is sought.

        Parameters
        ----------
        path : path
            Where.
        alpha : float
            The search ends at the first filler with a larger p-value.
        at_most : int
            Where to stop at the latest.
        """
        found, _ = self._peel(parse_path(path), alpha, at_most, self.vocabulary)
        return found

    def contains(self, path: Path, filler: Symbol, *, alpha: float = 1e-3) -> bool:
        """Whether a filler is stored at a path, perhaps beside others."""
        row = self.vocabulary.index(filler)
        roles = parse_path(path)
        found, rest = self._peel(roles, alpha, 100, self.vocabulary)
        if any(self.vocabulary.index(candidate.filler) == row for candidate in found):
            return True
        (key,) = self._keys([roles])
        return self._p_value(rest, key, self.vocabulary.components[:, row], 1) <= alpha

    def scores(self, paths: Sequence[Path], candidates: Sequence[Symbol] | None = None) -> Array:
        """Raw scores, shape (n_paths, n_candidates)."""
        keys = self._keys(paths)
        rows = self._rows(candidates, self.vocabulary)
        return self._score(self._cells, keys, self.vocabulary.components[:, rows])

    def evidence(self, paths: Sequence[Path]) -> Array:
        """For each path, a bound on the chance of what is seen there if nothing is stored.

        Both leaves and the lengths of dictionaries and lists count.
        """
        least = np.ones(len(paths))
        roles = [parse_path(path) for path in paths]
        for table, end in ((self.vocabulary, ()), (self._sizes, (LENGTH,))):
            if len(table) and roles:
                asked = [(*path, *end) for path in roles]
                answers = self._recollections(asked, 1, None, 1e-3, table)
                least = np.minimum(least, [answer.p_value for answer in answers])
        return np.minimum(1.0, 2 * least)

    def tree(self, path: Path = (), schema: Iterable[Role] | None = None) -> DecodedTree:
        """The nested object at a path, as `decode_tree` reads it."""
        return decode_tree(self, schema, path)

    def container_at(self, path: Path, *, alpha: float = 1e-3) -> tuple[str, int, float] | None:
        """Kind, length and p-value of the dictionary or list at a path; None where none is."""
        if not len(self._sizes):
            return None
        asked = (*parse_path(path), LENGTH)
        (answer,) = self._recollections([asked], 1, None, alpha, self._sizes)
        if not answer.found:
            return None
        kind, size = cast(tuple[str, int], answer.filler)
        return kind, size, answer.p_value

    # Private --------------------------------------------------------------------------------------

    def _rows(self, candidates: Sequence[Symbol] | None, table: Vocabulary) -> Any:
        rows = slice(None) if candidates is None else table.indices(candidates)
        if not (len(table) if candidates is None else rows):
            raise DataError(
                "There is no possible answer: the vocabulary is empty. Store a fact first, or give "
                "the symbols as vocabulary=[...]."
            )
        return rows

    def _recollections(
        self,
        paths: Sequence[Path],
        k: int,
        candidates: Sequence[Symbol] | None,
        alpha: float,
        table: Vocabulary,
    ) -> Iterator[Recollection]:
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
            raise ParameterError(f"k={k!r} is not a whole number >= 1. Write k=5.")
        rows = self._rows(candidates, table)
        components = table.components[:, rows]
        names = list(table) if candidates is None else list(candidates)
        roles = [parse_path(path) for path in paths]
        keys = self._keys(roles)
        scores = self._score(self._cells, keys, components)
        sigma = self._sigma(self._cells, keys, scores.max(axis=1)) if len(keys) else np.empty(0)
        for n, path in enumerate(roles):
            best = np.argsort(-scores[n], kind="stable")[:k]
            yield Recollection(
                path,
                tuple(
                    Candidate(
                        names[row],
                        float(scores[n, row]),
                        float(scores[n, row] / sigma[n]),
                        self._p_value(self._cells, keys[n], components[:, row], len(names)),
                    )
                    for row in best
                ),
                alpha,
            )

    def _sigma(self, cells: NDArray[Any], keys: Sequence[int], best: Array) -> Array:
        """Standard deviation of the noise of each path, from the memory without its best fact."""
        left = np.maximum(float(np.vdot(cells, cells).real) - best**2, 0.0)
        return np.maximum(np.sqrt(left / self._places()), 1e-9 * max(self._peak, 1e-300))

    def _p_value(self, cells: NDArray[Any], key: int, filler: Rows, asked: int) -> float:
        score, squares, m = self._residual(cells, key, filler)
        if score <= _ROUNDING * self._peak or m < 2:
            return 1.0
        square = float(squares.sum()) / len(squares)
        left = max(square - score**2, 1e-14 * square)
        t = score * math.sqrt((m - 1) / left)
        return float(min(1.0, asked * stdtr(len(squares) * (m - 1), -t)))

    def _peel(
        self, roles: tuple[Role, ...], alpha: float, at_most: int, table: Vocabulary
    ) -> tuple[tuple[Candidate, ...], NDArray[Any]]:
        """Fillers at a path, found one by one with their weights fitted together, and the rest.

        The rest is the memory without them, in which the next one is sought.
        """
        self._rows(None, table)
        keys, components = self._keys([roles]), table.components
        rest, rows, p_values = self._cells.copy(), list[int](), list[float]()
        weights = np.empty(0)
        while len(rows) < at_most:
            scores = self._score(rest, keys, components)[0]
            scores[rows] = -np.inf
            row = int(np.argmax(scores))
            p_value = 1.0
            if np.isfinite(scores[row]):
                p_value = self._p_value(rest, keys[0], components[:, row], len(table))
            if p_value > alpha:
                break
            rows.append(row)
            p_values.append(p_value)
            rest, weights = self._without(keys[0], components[:, rows])
        sigma = float(self._sigma(rest, keys, np.zeros(1))[0])
        found = (
            Candidate(table[row], float(weight), float(weight) / sigma, p_value)
            for row, weight, p_value in zip(rows, weights, p_values, strict=True)
        )
        return tuple(sorted(found, key=lambda candidate: -candidate.score)), rest

    def _without(self, key: int, fillers: Rows) -> tuple[NDArray[Any], Array]:
        """The memory without some fillers of one path, and their weights by least squares."""
        count = fillers.shape[1]
        gram = np.empty((count, count))
        for n in range(count):
            alone = np.zeros_like(self._cells)
            self._add(alone, [key], fillers[:, [n]], np.ones(1))
            gram[n] = self._score(alone, [key], fillers)[0]
        scores = self._score(self._cells, [key], fillers)[0]
        weights = np.linalg.lstsq(gram, scores, rcond=1e-6)[0]
        rest = self._cells.copy()
        self._add(rest, [key] * count, fillers, -weights)
        return rest, np.asarray(weights)
