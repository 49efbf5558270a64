"""Facts (path -> filler) in one array of fixed size: what all memories of this kind share.

Storing adds an array, forgetting subtracts it, merging adds two memories, ageing multiplies. The
state is in `fact_cells`, questions are answered in `fact_recall`, nested objects become facts in
`memory_trees`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Any, Literal, Self

import numpy as np

from foretell.core.errors import DataError, ParameterError
from foretell.recall import memory_files, memory_trees
from foretell.recall.fact_recall import FactRecall
from foretell.recall.memory_checks import checked_weights
from foretell.recall.role_paths import Path, Role, parse_path, path_text
from foretell.recall.vocabulary import Symbol, Vocabulary


class _Missing:
    def __repr__(self) -> str:
        return "(no filler given)"


_MISSING = _Missing()


class FactMemory(FactRecall):
    """What `OSCMemory` and the memories it is compared with have in common.

    Do not make one directly; `OSCMemory` documents the arguments.
    """

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

    def _absorb(self, other: FactMemory) -> None:
        self._cells += other._cells.astype(self.dtype, copy=False)

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
