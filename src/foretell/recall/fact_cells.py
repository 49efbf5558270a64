"""The array that facts are added to, how full it is, and what that means for a recall.

A kind of memory says how a fact becomes an array and how fillers are scored; counting and the
prediction of accuracy are here.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from foretell.core.errors import CapacityError, ForetellWarning, ParameterError
from foretell.recall.binding_statistics import capacity, expected_accuracy
from foretell.recall.memory_checks import Beyond, as_vocabulary, check_common
from foretell.recall.role_paths import Path, Role, parse_path, path_key
from foretell.recall.vocabulary import Symbol, Vocabulary

Array = NDArray[np.float64]
Rows = NDArray[np.float32]

_MOST_FACTS = 2**40


class FactCells:
    """The state of a memory of facts.

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
