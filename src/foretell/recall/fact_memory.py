"""Facts (path -> filler) in one array of fixed size: what all memories of this kind share.

Storing adds an array, forgetting subtracts it, merging adds two memories, ageing multiplies. A
question is answered by scoring every possible filler. A kind of memory says how a fact becomes an
array and how fillers are scored; counting, refusing, p-values, trees and files are here.

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
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr

from foretell.core.errors import CapacityError, DataError, ForetellWarning, ParameterError
from foretell.recall import memory_files, memory_trees
from foretell.recall.binding_statistics import capacity, expected_accuracy
from foretell.recall.memory_checks import Beyond, as_vocabulary, check_common, checked_weights
from foretell.recall.recollection import Candidate, Recollection
from foretell.recall.role_paths import Path, Role, parse_path, path_key, path_text
from foretell.recall.tree_codec import LENGTH, DecodedTree, decode_tree
from foretell.recall.vocabulary import Symbol, Vocabulary

Array = NDArray[np.float64]
Rows = NDArray[np.float32]


class _Missing:
    def __repr__(self) -> str:
        return "(no filler given)"


_MISSING = _Missing()
_MOST_FACTS = 2**40
_ROUNDING = 1e-5  # scores below this part of the largest weight are rounding, not evidence


class FactMemory:
    """What `OSCMemory` and the memories it is compared with have in common.

    Do not make one directly; `OSCMemory` documents the arguments.
    """

    citations: ClassVar[tuple[str, ...]] = ()
    _arguments: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        *,
        vocabulary: Vocabulary | Iterable[Symbol] | None,
        symbol_order: int,
        symbol_dim: int,
        shape: tuple[int, ...],
        tied: bool = False,
        accuracy: float = 0.99,
        capacity: int | None = None,
        beyond: Beyond = "refuse",
        dtype: Any = np.float32,
        seed: int = 0,
    ) -> None:
        check_common(accuracy, capacity, beyond, dtype, seed)
        self.seed, self.accuracy, self.beyond, self.tied = int(seed), accuracy, beyond, tied
        self.dtype = np.dtype(dtype)
        self._stated_capacity = capacity
        self.vocabulary = as_vocabulary(vocabulary, symbol_order, symbol_dim, self.seed, tied)
        self._sizes = Vocabulary(
            order=symbol_order, dim=symbol_dim, seed=self.seed, tied=tied, growing=True
        )
        self._known_keys: dict[Role, None] = {}
        self._cells = np.zeros(shape, dtype=self.dtype)
        self._count, self._power, self._peak = 0, 0.0, 0.0

    # How a fact becomes an array: what a kind of memory has to say ------------------------------

    def _add(self, cells: NDArray[Any], keys: Sequence[int], fillers: Rows, weights: Array) -> None:
        """Add facts to the cells in place; fillers have the shape (order, n_facts, dim)."""
        raise NotImplementedError

    def _score(self, cells: NDArray[Any], keys: Sequence[int], fillers: Rows) -> Array:
        """Scores of shape (n_paths, n_fillers); fillers have the shape (order, n_fillers, dim)."""
        raise NotImplementedError

    def _residual(self, cells: NDArray[Any], key: int, filler: Rows) -> tuple[float, Array, int]:
        """Score, all |v_j|^2 and m of the test above, for one path and one filler (order, dim)."""
        raise NotImplementedError

    def _variances(self, n_facts: float, repeats: float) -> tuple[float, float]:
        """Variance of a query's noise, and of a rival's overlap."""
        raise NotImplementedError

    def _admit(self, keys: Sequence[int]) -> None:
        """Make places for new paths; only memories with places need it."""

    def _saved_places(self) -> Any:
        """Which path has which place, as a JSON value."""
        return None

    def _load_places(self, saved: Any) -> None:
        """Take over what `_saved_places` gave."""

    def _places(self) -> int:
        """How many numbers the noise is spread over."""
        return self._cells.size

    # Storing --------------------------------------------------------------------------------------

    def store(self, path: Any, filler: Any = _MISSING, weight: float = 1.0) -> int:
        """Add a fact, or all facts of a nested object.

        A second filler at the same path is kept beside the first; `replace` overwrites.

        Parameters
        ----------
        path : path, or dict or list
            Where; or, without a filler, a nested object that is stored at the root.
        filler : symbol, or dict or list
            What; a dictionary or list is stored as a tree below the path.
        weight : float
            Count or confidence of the fact.

        Returns
        -------
        int
            Facts added. A dictionary or list adds one fact for its length.

        Raises
        ------
        CapacityError
            When the memory would be fuller than its stated capacity and ``beyond="refuse"``.
        DataError
            For a filler outside a closed vocabulary.
        ParameterError
            For a path or weight that cannot be used. In every case nothing is stored.
        """
        if isinstance(filler, _Missing):
            if not isinstance(path, (dict, list)):
                raise ParameterError(
                    f"store({path!r}) has no filler. Write store({path!r}, filler), or give a "
                    "dictionary or list."
                )
            path, filler = (), path
        if isinstance(filler, (dict, list)):
            return memory_trees.store_tree(self, parse_path(path), filler, weight)
        return self.store_many([path], [filler], [weight])

    def store_many(
        self,
        paths: Sequence[Path],
        fillers: Sequence[Symbol],
        weights: Sequence[float] | None = None,
    ) -> int:
        """Add several facts at once, all of them or none.

        Parameters
        ----------
        paths, fillers : sequences of equal length
            The facts.
        weights : sequence of float, optional
            1 each by default.

        Returns
        -------
        int
            Facts added.
        """
        return self._store(paths, fillers, weights, self.vocabulary)

    def replace(self, path: Path, filler: Any, weight: float = 1.0) -> int:
        """Forget everything at and below a path, then store there.

        Returns
        -------
        int
            Facts added, less facts forgotten.
        """
        roles = parse_path(path)
        forgotten = memory_trees.forget_tree(self, roles, shrink=False) if len(self) else 0
        return self.store(roles, filler, weight) - forgotten

    def forget(self, path: Path, filler: Any = _MISSING, weight: float | None = None) -> int:
        """Take facts out again.

        Parameters
        ----------
        path : path
            Where.
        filler : symbol, optional
            What; without it, everything that is found at and below the path.
        weight : float, optional
            By default the weight that the memory shows, or exactly that of the heaviest fact where
            the difference is within the noise.

        Returns
        -------
        int
            Facts taken out.

        Raises
        ------
        DataError
            When that filler is not stored there: subtracting it would only add noise.
        """
        roles = parse_path(path)
        if isinstance(filler, _Missing):
            return memory_trees.forget_tree(self, roles) if len(self) else 0
        if not self.contains(roles, filler):
            raise DataError(
                f"{filler!r} is not stored at {path_text(roles)}, so it cannot be forgotten: "
                f"{self.recall(roles)!r}."
            )
        self._take(roles, filler, weight, self.vocabulary)
        memory_trees.shrink_parent(self, roles)
        return 1

    def merge(self, other: FactMemory) -> Self:
        """Add another memory to this one, in place.

        Raises
        ------
        ParameterError
            When the two differ in kind, seed or shape.
        CapacityError
            When both together are more than the stated capacity.
        """
        mine = self._identity()
        theirs = other._identity() if isinstance(other, FactMemory) else {}
        if mine != theirs:
            differing = [k for k in mine if mine[k] != theirs.get(k)] or ["class"]
            raise ParameterError(
                "Only memories of the same make can be merged; these differ in "
                + ", ".join(f"{k} ({mine.get(k)!r} and {theirs.get(k)!r})" for k in differing)
                + ". Make both with the same arguments."
            )
        new = self.vocabulary.unknown(other.vocabulary)
        if new and not self.vocabulary.growing:
            self.vocabulary.index(new[0])
        power, peak = self._power + other._power, max(self._peak, other._peak)
        self._check_room(power, peak, f"merging {len(other)} facts")
        self._absorb(other)
        self.vocabulary.add(new)
        self._sizes.add(list(other._sizes))
        self._known_keys |= other._known_keys
        self._count, self._power, self._peak = self._count + other._count, power, peak
        return self

    def decay(self, factor: float) -> Self:
        """Multiply every weight, so that older facts fade behind newer ones.

        Parameters
        ----------
        factor : float
            Above 0, at most 1.
        """
        if not (isinstance(factor, (int, float)) and 0 < factor <= 1):
            raise ParameterError(
                f"factor={factor!r} is not above 0 and at most 1. Write decay(0.99)."
            )
        self._cells *= self.dtype.type(factor)
        self._power *= factor**2
        self._peak *= factor
        # New facts have weight 1: measured by them, what has faded is noise of their size.
        self._peak = max(self._peak, 1.0 if self._count else 0.0)
        return self

    # Asking ---------------------------------------------------------------------------------------

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

    # How full it is -------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._count

    @property
    def known_keys(self) -> tuple[Role, ...]:
        """The dictionary keys that this memory has met."""
        return tuple(self._known_keys)

    @property
    def nbytes(self) -> int:
        """Bytes of the memory itself; the vocabulary's are in ``vocabulary.nbytes``."""
        return self._cells.nbytes

    @property
    def capacity(self) -> int:
        """Facts of equal weight that are recalled with the stated accuracy."""
        if self._stated_capacity is not None:
            return self._stated_capacity
        bits = max(4, (max(len(self.vocabulary), len(self._sizes), 2) - 1).bit_length())
        if bits not in self._capacities:
            self._capacities[bits] = capacity(
                lambda n: self._variances(n, 1), 2**bits, self.accuracy, _MOST_FACTS
            )
        return self._capacities[bits]

    def load_factor(self) -> float:
        """Facts over capacity, where lighter facts count less; above 1 recall is not reliable."""
        return self._load(self._power, self._peak)

    def predicted_accuracy(
        self, n: int | None = None, *, repeats: int = 1, weight: float = 1.0
    ) -> float:
        """Probability that a recalled filler is right.

        Parameters
        ----------
        n : int, optional
            Facts of equal weight; by default as many as the memory holds now.
        repeats : int
            How often the wanted filler is stored, at any path.
        weight : float
            Weight of the wanted fact relative to the heaviest.
        """
        facts = self._power / self._peak**2 if n is None and self._peak else n or 0
        if facts < 0 or not weight > 0:
            raise ParameterError(f"n={n!r} and weight={weight!r} must be >= 0 and > 0.")
        noise, rival = self._variances(max(facts, 1.0), repeats)
        return expected_accuracy(noise / weight**2, rival, len(self.vocabulary))

    def predicted_found(self, n: int | None = None, *, alpha: float = 1e-3) -> float:
        """Probability that a stored fact is significant, and not only the best guess.

        Near the capacity this is lower than `predicted_accuracy`: the right filler may score
        highest without being far enough above what an empty path could show.

        Parameters
        ----------
        n : int, optional
            Facts of equal weight; by default as many as the memory holds now.
        alpha : float
            Level of the test.
        """
        facts = self._power / self._peak**2 if n is None and self._peak else n or 0
        sigma = math.sqrt(max(self._variances(max(facts, 1.0), 1)[0], 1e-30))
        least = -float(ndtri(min(alpha / max(len(self.vocabulary), 1), 0.5)))
        return float(ndtr(1 / sigma - least))

    # Files ----------------------------------------------------------------------------------------

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        precision: Literal["full", "float16", "int8"] = "full",
    ) -> FilePath:
        """Write a folder with ``model.json`` and ``weights.safetensors``.

        Parameters
        ----------
        path : path
            The folder.
        precision : {"full", "float16", "int8"}
            Smaller copies for shipping; their rounding is far below the noise of a memory in use.
        """
        return memory_files.save(self, path, precision)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a folder back that `save` wrote."""
        return memory_files.load(cls, path)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self)} facts, {100 * self.load_factor():.0f} % of "
            f"{self.capacity}, {self.nbytes} bytes, {len(self.vocabulary)} symbols)"
        )

    # Private --------------------------------------------------------------------------------------

    @cached_property
    def _capacities(self) -> dict[int, int]:
        return {}

    def _keys(self, paths: Sequence[Path]) -> list[int]:
        return [path_key(parse_path(path), self.seed) for path in paths]

    def _identity(self) -> dict[str, Any]:
        return {
            "class": type(self).__name__,
            **{name: getattr(self, name) for name in self._arguments},
            "seed": self.seed,
            "tied": self.tied,
        }

    def _absorb(self, other: FactMemory) -> None:
        self._cells += other._cells.astype(self.dtype, copy=False)

    def _load(self, power: float, peak: float) -> float:
        return power / (peak**2 * self.capacity) if peak else 0.0

    def _check_room(self, power: float, peak: float, what: str) -> None:
        if self._load(power, peak) <= 1 + 1e-9:
            return
        facts = power / peak**2
        accuracy = self.predicted_accuracy(math.ceil(facts))
        message = (
            f"{what} would make {facts:.4g} facts where {self.capacity} are stated; the "
            f"predicted accuracy of a recall falls to {accuracy:.3g}. "
        )
        if self.beyond == "refuse":
            raise CapacityError(
                f"{message}Nothing was stored. Forget or decay facts, make a larger memory "
                f"(plan({math.ceil(facts)}, {len(self.vocabulary)}) says how large), or pass "
                'beyond="warn".'
            )
        warnings.warn(message, ForetellWarning, stacklevel=4)

    def _store(
        self,
        paths: Sequence[Path],
        fillers: Sequence[Symbol],
        weights: Sequence[float] | None,
        table: Vocabulary,
    ) -> int:
        if len(paths) != len(fillers) or (weights is not None and len(weights) != len(paths)):
            raise ParameterError(
                f"{len(paths)} paths, {len(fillers)} fillers and "
                f"{len(paths) if weights is None else len(weights)} weights do not belong together."
            )
        if not len(paths):
            return 0
        given = np.ones(len(paths)) if weights is None else checked_weights(weights)
        keys = self._keys(paths)
        if table.unknown(fillers) and not table.growing:
            table.index(table.unknown(fillers)[0])
        power = self._power + float(np.sum(given**2))
        peak = max(self._peak, float(np.max(np.abs(given))))
        self._check_room(power, peak, f"storing {len(paths)} more")
        self._admit(keys)
        table.add(fillers)
        self._add(self._cells, keys, table.components[:, table.indices(fillers)], given)
        self._count, self._power, self._peak = self._count + len(paths), power, peak
        return len(paths)

    def _take(
        self, roles: tuple[Role, ...], filler: Symbol, weight: float | None, table: Vocabulary
    ) -> None:
        (key,) = self._keys([roles])
        rows = table.components[:, [table.index(filler)]]
        if weight is None:
            weight = self._likely_weight(roles, filler, table)
        checked_weights([weight])
        self._add(self._cells, [key], rows, np.array([-weight]))
        self._count -= 1
        self._power = max(0.0, self._power - weight**2)
        if self._count <= 0:
            self._count, self._power = 0, 0.0

    def _likely_weight(self, roles: tuple[Role, ...], filler: Symbol, table: Vocabulary) -> float:
        """The weight that a filler seems to have; that of the heaviest fact if it may be it."""
        found, rest = self._peel(roles, 1e-3, 100, table)
        index = table.index(filler)
        seen = [candidate.score for candidate in found if table.index(candidate.filler) == index]
        keys = self._keys([roles])
        if not seen:
            seen = [float(self._score(self._cells, keys, table.components[:, [index]])[0, 0])]
        noise = 4 * float(self._sigma(rest, keys, np.zeros(1))[0]) + 1e-3 * self._peak
        return self._peak if abs(seen[0] - self._peak) < noise else seen[0]

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
