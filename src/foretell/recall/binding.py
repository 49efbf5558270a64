"""OSCMemory: nested facts in one small tensor, by orthogonal subspace carving.

Paper: Pence, Yamada, Singh, "Recursive Binding on a Budget: Subspace Carving in Order-p Tensor
Memories", ICML 2026.

The idea in five lines. A path of roles is hashed to p subspaces of R^d, of s dimensions each; what
is orthogonal to them is carved away. A filler is p short vectors. Each is placed in its subspace,
and the tensor product of the p results, of unit norm, is added to the memory, a tensor of D = d^p
cells. A question adds up, for every possible filler, its overlap with the memory; the stored one
has its weight, the others about 0. Paths of any depth cost the same.

Legend: p order, d dim, s kept, D = d^p, V symbols; K_{c,j} (d x s) orthonormal basis of what path c
keeps in mode j; a_{f,j} coordinates of filler f there; z_j = K_{c,j} a_{f,j}; C_c core (s^p) of the
memory in c.

Differs from the paper in
(1) ``binding="embed"``, the default: a_f is drawn in R^s and does not depend on the path, where the
    paper's ``"carve"`` projects a vector x_f of R^d, a_{c,f} = K^T x / |K^T x|. Items of one filler
    at two paths then overlap by (s/d)^p, which costs accuracy when words repeat; embedded ones do
    not, the p-values become exact, and scoring needs no V x d x s product for every path;
(2) a random sign for every path; (3) the exact regime with allocated blocks; (4) p-values.
Projecting out single role vectors, as the abstract may be read, does not bind: see the docs page.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import CapacityError, DataError, ParameterError
from foretell.recall.binding_statistics import (
    MOST_CELLS,
    Binding,
    MemoryPlan,
    default_kept,
    osc_variances,
)
from foretell.recall.fact_cells import Array, Rows
from foretell.recall.fact_memory import FactMemory
from foretell.recall.hashed_normals import hash_key, hashed_normals
from foretell.recall.memory_checks import Beyond
from foretell.recall.role_paths import key_sign
from foretell.recall.tensor_products import (
    add_products,
    leave_one_out,
    orthonormal_frames,
    score_core,
    score_shared,
)
from foretell.recall.vocabulary import Symbol, Vocabulary

_CACHED_BYTES = 16 * 2**20
_SHORTEST = 1e-6


class OSCMemory(FactMemory):
    """Role-filler facts in an order-p tensor of fixed size.

    Parameters
    ----------
    order : int
        Order p of the tensor, at least 2. 2 answers fastest, 3 has the smallest symbols.
    dim : int
        Size d of each mode; the memory has d^p cells.
    kept : int, optional
        Dimensions s that a path keeps in each mode; by default what `plan` would take.
    vocabulary : Vocabulary or iterable of symbols, optional
        The possible fillers. Without it the memory learns symbols as it meets them.
    tied : bool
        One component for all modes of a filler: smaller symbols, three times the noise between
        fillers at order 2.
    signs : bool
        A random sign for every path, which turns the bias between items of one filler into noise.
    regime : {"hashed", "blocks"}
        "hashed": any number of paths, recall with noise. "blocks": (d // s)^p paths get places of
        their own, and recall is exact; the memory then keeps a table of 8 bytes a path.
    binding : {"embed", "carve"}
        "embed": fillers are vectors of R^s, placed in the kept subspace; repeated fillers cost
        nothing. "carve": the paper's projection of vectors of R^d.
    accuracy : float
        Defines the capacity: so many facts that a recalled filler is right with this probability.
    capacity : int, optional
        States the capacity in facts instead.
    beyond : {"refuse", "warn"}
        What happens to a fact beyond the capacity.
    dtype : float32 or float64
        Type of the cells.
    seed : int
        Memories with equal arguments and seeds can be merged.

    Examples
    --------
    >>> memory = OSCMemory(dim=64)
    >>> memory.store({"user": {"name": "Ada", "likes": ["tea", "chess"]}})
    6
    >>> memory.store("user.city", "London")
    1
    >>> answer = memory.recall("user.name")
    >>> answer.filler, answer.p_value < 1e-9
    ('Ada', True)
    >>> memory.recall("user.age").found
    False
    >>> memory
    OSCMemory(7 facts, 3 % of 205, 16384 bytes, 4 symbols)
    """

    citations: ClassVar[tuple[str, ...]] = ("osc",)
    _arguments: ClassVar[tuple[str, ...]] = ("order", "dim", "kept", "signs", "regime", "binding")

    def __init__(
        self,
        *,
        order: int = 2,
        dim: int = 64,
        kept: int | None = None,
        vocabulary: Vocabulary | Iterable[Symbol] | None = None,
        tied: bool = False,
        signs: bool = True,
        regime: Literal["hashed", "blocks"] = "hashed",
        binding: Binding = "embed",
        accuracy: float = 0.99,
        capacity: int | None = None,
        beyond: Beyond = "refuse",
        dtype: Any = np.float32,
        seed: int = 0,
    ) -> None:
        _check_shape(order, dim, kept, regime, binding)
        self.order, self.dim, self.signs = int(order), int(dim), bool(signs)
        self.regime, self.binding = regime, binding
        self.kept = int(kept or _kept(self.order, self.dim, regime, binding))
        self._places_of: dict[int, int] = {}
        self._cache: OrderedDict[int, Rows] = OrderedDict()
        super().__init__(
            vocabulary=vocabulary,
            symbol_order=self.order,
            symbol_dim=self.kept if binding == "embed" else self.dim,
            shape=(self.dim,) * self.order,
            tied=tied,
            accuracy=accuracy,
            capacity=capacity,
            beyond=beyond,
            dtype=dtype,
            seed=seed,
        )

    @classmethod
    def from_plan(cls, plan: MemoryPlan, **others: Any) -> Self:
        """The memory of a plan, with its number of facts as the stated capacity.

        Parameters
        ----------
        plan : MemoryPlan
            From `plan`.
        **others
            Further arguments of the class.

        Examples
        --------
        >>> from foretell.recall import plan
        >>> OSCMemory.from_plan(plan(50, 1000)).capacity
        50
        """
        given = {"order": plan.order, "dim": plan.dim, "kept": plan.kept, "binding": plan.binding}
        return cls(**{**given, "capacity": plan.n_facts, "accuracy": plan.accuracy, **others})

    @property
    def capacity(self) -> int:
        """Facts that are recalled with the stated accuracy; paths with a place, for blocks."""
        if self.regime == "blocks" and self._stated_capacity is None:
            return int((self.dim // self.kept) ** self.order)
        return super().capacity

    def _load(self, power: float, peak: float) -> float:
        if self.regime == "blocks" and self._stated_capacity is None:
            return len(self._places_of) / self.capacity
        return super()._load(power, peak)

    @property
    def nbytes(self) -> int:
        """Bytes of the memory, with the table of places where there is one."""
        return super().nbytes + 8 * len(self._places_of)

    def rank_one_guess(self, path: Any) -> tuple[Symbol, float]:
        """The filler nearest to the best rank-one approximation of what is at a path.

        A read-out that looks at one mode only, for order 2: useful when one fact dominates.

        Returns
        -------
        tuple of symbol and float
            The filler, and the cosine of its first component with the leading singular vector.
        """
        if self.order != 2 or self.binding != "embed":
            raise ParameterError(
                f"The rank-one guess needs order 2 and embedded fillers; this memory has order "
                f'{self.order} and binding="{self.binding}". Use recall(path).'
            )
        (key,) = self._keys([path])
        left, _, right = np.linalg.svd(self._core(self._cells, key))
        self._rows(None, self.vocabulary)
        first, second = self.vocabulary.components
        cosines = np.abs(first @ left[:, 0]) + np.abs(second @ right[0])
        row = int(np.argmax(cosines))
        return self.vocabulary[row], float(cosines[row] / 2)

    # How a fact becomes an array ------------------------------------------------------------------

    def _add(self, cells: NDArray[Any], keys: Sequence[int], fillers: Rows, weights: Array) -> None:
        signed = weights * self._signs(keys)
        step = max(1, _CACHED_BYTES // (8 * self.dim ** (self.order - 1)))
        for start in range(0, len(keys), step):
            part = slice(start, start + step)
            add_products(cells, self._bound(keys[part], fillers[:, part]), signed[part])

    def _score(self, cells: NDArray[Any], keys: Sequence[int], fillers: Rows) -> Array:
        scores = np.zeros((len(keys), fillers.shape[1]))
        known = [n for n, key in enumerate(keys) if self._has_place(key)]
        cores = [self._core(cells, keys[n]) for n in known]
        if self.binding == "embed":
            scores[known] = score_shared(cores, fillers)
        else:
            for n, core in zip(known, cores, strict=True):
                frames = self._frames(keys[n])
                scores[n] = score_core(core, _coordinates(fillers, frames))
        return scores * self._signs(keys)[:, None]

    def _residual(self, cells: NDArray[Any], key: int, filler: Rows) -> tuple[float, Array, int]:
        if not self._has_place(key):
            return 0.0, np.ones(1), 0
        if self.regime == "blocks":
            frames = self._frames(key)
            factors = self._coordinates_at(key, filler[:, None], frames)[:, 0]
            tensor = self._core(cells, key)
        else:
            factors, tensor = self._bound([key], filler[:, None])[:, 0], cells
        score, squares = leave_one_out(tensor, factors)
        return score * float(self._signs([key])[0]), squares, factors.shape[1]

    def _variances(self, n_facts: float, repeats: float) -> tuple[float, float]:
        exact = self.regime == "blocks"
        return osc_variances(
            1 if exact else n_facts,
            order=self.order,
            dim=self.dim,
            kept=self.kept,
            binding="embed" if exact else self.binding,
            repeats=repeats,
            tied=self.tied,
            signs=self.signs,
        )

    def _sigma(self, cells: NDArray[Any], keys: Sequence[int], best: Array) -> Array:
        if self.regime == "hashed":
            return super()._sigma(cells, keys, best)
        known = [self._core(cells, key) if self._has_place(key) else np.zeros(1) for key in keys]
        square = np.array([float(np.vdot(core, core)) for core in known])
        noise = np.sqrt(np.maximum(square - best**2, 0.0) / self.kept**self.order)
        return np.asarray(np.maximum(noise, 1e-6 * max(self._peak, 1e-300)))

    # Contexts -------------------------------------------------------------------------------------

    def _signs(self, keys: Sequence[int]) -> Array:
        return np.array([key_sign(key) if self.signs else 1.0 for key in keys])

    def _frames(self, key: int) -> Rows:
        """K_{c,j} for all modes, shape (p, d, s)."""
        if self.regime == "blocks":
            return self._block(self._places_of[key])
        if key not in self._cache:
            self._make_frames([key])
        self._cache.move_to_end(key)
        return self._cache[key]

    def _make_frames(self, keys: Sequence[int]) -> None:
        p, d, s = self.order, self.dim, self.kept
        for j in range(p):
            normals = hashed_normals(keys, 1 + j, d * s).reshape(len(keys), d, s)
            for key, frame in zip(keys, orthonormal_frames(normals), strict=True):
                if j == 0:
                    self._cache[key] = np.empty((p, d, s), dtype=np.float32)
                self._cache[key][j] = frame
        while len(self._cache) > max(len(keys), _CACHED_BYTES // (4 * p * d * s)):
            self._cache.popitem(last=False)

    def _bound(self, keys: Sequence[int], fillers: Rows) -> Rows:
        """z_j = K_{c,j} a_{f,j} for pairs, shape (p, n, d)."""
        if self.regime == "hashed":
            missing = [key for key in dict.fromkeys(keys) if key not in self._cache]
            if len(missing) > 1:
                self._make_frames(missing)
        bound = np.empty((self.order, len(keys), self.dim), dtype=np.float32)
        for n, key in enumerate(keys):
            frames = self._frames(key)
            coordinates = self._coordinates_at(key, fillers[:, n : n + 1], frames)
            bound[:, n] = np.einsum("pds,pns->pnd", frames, coordinates)[:, 0]
        return bound

    def _coordinates_at(self, key: int, fillers: Rows, frames: Rows) -> Rows:
        return fillers if self.binding == "embed" else _coordinates(fillers, frames)

    def _core(self, cells: NDArray[Any], key: int) -> Rows:
        """C_c: the memory in the coordinates of one path, shape (s, ..., s)."""
        core = cells
        for frame in self._frames(key):
            rest = core.shape[1:]
            core = (core.reshape(self.dim, -1).T @ frame).reshape(*rest, self.kept)
        return core

    # The exact regime -----------------------------------------------------------------------------

    def _has_place(self, key: int) -> bool:
        return self.regime == "hashed" or key in self._places_of

    def _admit(self, keys: Sequence[int]) -> None:
        if self.regime == "hashed":
            return
        new = [key for key in dict.fromkeys(keys) if key not in self._places_of]
        most = (self.dim // self.kept) ** self.order
        if len(self._places_of) + len(new) > most:
            raise CapacityError(
                f"{len(new)} more paths do not fit: {len(self._places_of)} of the {most} places "
                f"(({self.dim} // {self.kept})^{self.order}) are taken. Nothing was stored. Make "
                f'dim larger, or kept smaller, or use regime="hashed".'
            )
        for key in new:
            self._places_of[key] = len(self._places_of)

    def _block(self, place: int) -> Rows:
        blocks = self.dim // self.kept
        columns = []
        for j in range(self.order):
            place, block = divmod(place, blocks)
            columns.append(self._rotations[j][:, block * self.kept : (block + 1) * self.kept])
        return np.stack(columns)

    @property
    def _rotations(self) -> Rows:
        """One random frame for each mode, shape (p, d, d)."""
        if 0 not in self._cache:
            key = hash_key(self.seed, b"blocks", b"")
            normals = [hashed_normals([key], j, self.dim**2) for j in range(self.order)]
            square = np.concatenate(normals).reshape(self.order, self.dim, self.dim)
            self._cache[0] = orthonormal_frames(square).astype(np.float32)
        return self._cache[0]

    def _absorb(self, other: FactMemory) -> None:
        if not isinstance(other, OSCMemory) or self.regime == "hashed":
            return super()._absorb(other)
        new = iter(range(len(self._places_of), 2**63))
        if self.binding == "carve" and any(
            place != (self._places_of[key] if key in self._places_of else next(new))
            for key, place in other._places_of.items()
        ):
            raise ParameterError(
                "The two memories gave the same path different blocks, and a carved filler depends "
                'on its block. Use binding="embed", whose blocks can be moved.'
            )
        self._admit(list(other._places_of))
        for key in other._places_of:
            moved = other._core(other._cells, key)
            for frame in self._frames(key):
                moved = np.tensordot(moved, frame, axes=([0], [1]))
            self._cells += moved.astype(self.dtype, copy=False)
        return None

    def _saved_places(self) -> Any:
        return list(self._places_of)

    def _load_places(self, saved: Any) -> None:
        self._places_of = {int(key): place for place, key in enumerate(saved)}


def _coordinates(fillers: Rows, frames: Rows) -> Rows:
    """a_{c,f,j} = K^T x / |K^T x| for all fillers, shape (p, V, s)."""
    coordinates = np.einsum("pvd,pds->pvs", fillers, frames, optimize=True)
    norms = np.linalg.norm(coordinates, axis=2, keepdims=True)
    least = _SHORTEST * (frames.shape[2] / frames.shape[1]) ** 0.5
    if norms.size and float(norms.min()) < least:
        mode, row, _ = np.unravel_index(int(np.argmin(norms)), norms.shape)
        raise DataError(
            f"Component {mode} of filler {row} has no part in the kept subspace (length "
            f'{float(norms.min()):.2g}). Train it again, or use binding="embed".'
        )
    return np.asarray(coordinates / norms)


def _kept(order: int, dim: int, regime: str, binding: Binding) -> int:
    if regime == "blocks":
        return max(1, dim // 8)
    return default_kept(order, dim, binding)


def _check_shape(order: int, dim: int, kept: int | None, regime: str, binding: str) -> None:
    for name, value, least in (("order", order, 2), ("dim", dim, 1)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise ParameterError(
                f"{name}={value!r} is not a whole number >= {least}. Write order=2, dim=64."
            )
    if int(dim) ** int(order) > MOST_CELLS:
        raise ParameterError(
            f"dim={dim} and order={order} make {int(dim) ** int(order)} cells, "
            f"{4 * int(dim) ** int(order)} bytes; the most is {MOST_CELLS} cells. Take a smaller "
            f"dim, at most {int(MOST_CELLS ** (1 / order) + 1e-9)} at this order."
        )
    whole = isinstance(kept, (int, np.integer)) and not isinstance(kept, bool)
    if kept is not None and not (whole and 1 <= kept <= dim):
        raise ParameterError(
            f"kept={kept!r} is not a whole number from 1 to dim={dim}. Leave it out, or write "
            f"kept={max(1, dim // 4)}."
        )
    if regime not in ("hashed", "blocks"):
        raise ParameterError(f'regime={regime!r} is neither "hashed" nor "blocks".')
    if binding not in ("embed", "carve"):
        raise ParameterError(f'binding={binding!r} is neither "embed" nor "carve".')
