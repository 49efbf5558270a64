"""Reference memories with the interface of `OSCMemory`, for honest comparisons.

    MAPMemory            multiply-add-permute: signs, bound element by element
    HRRMemory            holographic reduced representations: circular convolution, unitary roles
    FHRRMemory           phases, bound by addition; a phase cell counts two real numbers
    KroneckerMAPMemory   sign flips in each mode of a tensor: the small symbols of OSC, no subspaces
    TPRMemory            tensor products of roles and filler: exact, and d_r^depth d_f cells

A path is hashed to one role everywhere, as in `OSCMemory`, so depth costs nothing; only `TPRMemory`
with ``depth`` above 1 gives every level a mode of its own. All items have unit norm.

Sources: Gayler 1998 (MAP); Plate 1995, 2003 (HRR, FHRR); Smolensky 1990 (TPR).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import ParameterError
from foretell.recall.binding_statistics import MOST_CELLS
from foretell.recall.fact_cells import Array, Rows
from foretell.recall.fact_memory import FactMemory
from foretell.recall.hashed_normals import hashed_normals
from foretell.recall.role_paths import Path, parse_path, path_key, path_text
from foretell.recall.tensor_products import add_products, contract, leave_one_out, score_core
from foretell.recall.vocabulary import Symbol, Vocabulary

_BLOCK = 2_000_000  # numbers of a temporary table


class _FlatMemory(FactMemory):
    """A memory of D numbers whose symbols have D numbers too."""

    _arguments: ClassVar[tuple[str, ...]] = ("cells",)

    def __init__(
        self,
        *,
        cells: int = 4096,
        vocabulary: Vocabulary | Iterable[Symbol] | None = None,
        **others: Any,
    ) -> None:
        _check_size("cells", cells)
        self.cells = int(cells)
        super().__init__(
            vocabulary=vocabulary,
            symbol_order=1,
            symbol_dim=self.cells,
            shape=(self.cells,),
            **others,
        )

    def _symbols(self, fillers: Rows) -> NDArray[Any]:
        """Unit symbols (n, D) from unit Gaussian rows (1, n, D)."""
        raise NotImplementedError

    def _bind(self, roles: Array, symbols: NDArray[Any]) -> NDArray[Any]:
        """Unit items from one role, given as D normal numbers, and symbols (n, D)."""
        raise NotImplementedError

    def _unbind(self, roles: Array, cells: NDArray[Any]) -> NDArray[Any]:
        """The query vector: its product with a symbol is the score."""
        raise NotImplementedError

    def _add(self, cells: NDArray[Any], keys: Sequence[int], fillers: Rows, weights: Array) -> None:
        symbols = self._symbols(fillers)
        for n, key in enumerate(keys):
            item = self._bind(self._role(key), symbols[n : n + 1])[0]
            cells += (weights[n] * item).astype(cells.dtype)

    def _score(self, cells: NDArray[Any], keys: Sequence[int], fillers: Rows) -> Array:
        queries = np.array([self._unbind(self._role(key), cells) for key in keys])
        scores = np.empty((len(keys), fillers.shape[1]))
        step = max(1, _BLOCK // self.cells)
        for start in range(0, fillers.shape[1], step):
            part = slice(start, start + step)
            scores[:, part] = queries @ self._symbols(fillers[:, part]).T
        return scores

    def _residual(self, cells: NDArray[Any], key: int, filler: Rows) -> tuple[float, Array, int]:
        score = float(self._score(cells, [key], filler[:, None])[0, 0])
        return score, np.array([np.vdot(cells, cells)], dtype=np.float64), self.cells

    def _variances(self, n_facts: float, repeats: float) -> tuple[float, float]:
        return (n_facts - 1) / self.cells, 1 / self.cells

    def _role(self, key: int) -> Array:
        return hashed_normals([key], 1, self.cells).reshape(-1)


class MAPMemory(_FlatMemory):
    """Multiply-add-permute: symbols and roles of random signs, bound element by element.

    Parameters
    ----------
    cells : int
        Size of the memory and of every symbol.
    **others
        ``vocabulary``, ``accuracy``, ``capacity``, ``beyond``, ``dtype`` and ``seed`` as for
        `OSCMemory`.

    Examples
    --------
    >>> memory = MAPMemory(cells=1024)
    >>> memory.store("user.name", "Ada")
    1
    >>> memory.recall("user.name").filler
    'Ada'
    """

    def _symbols(self, fillers: Rows) -> NDArray[Any]:
        return np.asarray(np.copysign(np.float32(self.cells**-0.5), fillers[0]))

    def _bind(self, roles: Array, symbols: NDArray[Any]) -> NDArray[Any]:
        return symbols * np.sign(roles)

    def _unbind(self, roles: Array, cells: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(cells * np.sign(roles), dtype=np.float32)


class HRRMemory(_FlatMemory):
    """Holographic reduced representations: circular convolution of roles and symbols.

    Parameters
    ----------
    unitary : bool
        Roles whose Fourier coefficients all have modulus 1, so that unbinding is exact; without
        it binding is lossy.
    cells, **others
        As for `MAPMemory`.

    Examples
    --------
    >>> memory = HRRMemory(cells=1024)
    >>> memory.store("user.name", "Ada")
    1
    >>> memory.recall("user.name").filler
    'Ada'
    """

    _arguments: ClassVar[tuple[str, ...]] = ("cells", "unitary")

    def __init__(self, *, unitary: bool = True, **others: Any) -> None:
        self.unitary = bool(unitary)
        super().__init__(**others)

    def _symbols(self, fillers: Rows) -> NDArray[Any]:
        return np.asarray(fillers[0])

    def _bind(self, roles: Array, symbols: NDArray[Any]) -> NDArray[Any]:
        return np.fft.irfft(np.fft.rfft(symbols) * self._spectrum(roles), n=self.cells)

    def _unbind(self, roles: Array, cells: NDArray[Any]) -> NDArray[Any]:
        spectrum = np.fft.rfft(cells) * np.conj(self._spectrum(roles))
        return np.asarray(np.fft.irfft(spectrum, n=self.cells), dtype=np.float32)

    def _spectrum(self, roles: Array) -> NDArray[Any]:
        if not self.unitary:
            return np.fft.rfft(roles / np.linalg.norm(roles))
        spectrum = np.fft.rfft(roles)
        return np.asarray(spectrum / np.abs(spectrum))


class FHRRMemory(_FlatMemory):
    """Phases: a symbol is D/2 points on the unit circle, binding adds the angles.

    Parameters
    ----------
    cells, **others
        As for `MAPMemory`; ``cells`` counts real numbers, two for each phase, and is even.

    Examples
    --------
    >>> memory = FHRRMemory(cells=1024)
    >>> memory.store("user.name", "Ada")
    1
    >>> memory.recall("user.name").filler
    'Ada'
    """

    def __init__(self, *, cells: int = 4096, **others: Any) -> None:
        _check_size("cells", cells)
        if cells % 2:
            raise ParameterError(
                f"cells={cells} is odd; a phase takes two. Write cells={cells + 1}."
            )
        super().__init__(cells=cells, **others)

    def _symbols(self, fillers: Rows) -> NDArray[Any]:
        return _on_circles(fillers[0])

    def _bind(self, roles: Array, symbols: NDArray[Any]) -> NDArray[Any]:
        turned = _as_complex(symbols) * np.exp(1j * self._angles(roles))
        return np.hstack([turned.real, turned.imag])

    def _unbind(self, roles: Array, cells: NDArray[Any]) -> NDArray[Any]:
        turned = _as_complex(cells) * np.exp(-1j * self._angles(roles))
        return np.concatenate([turned.real, turned.imag]).astype(np.float32)

    def _angles(self, roles: Array) -> Array:
        half = self.cells // 2
        return np.asarray(np.arctan2(roles[half:], roles[:half]))


class KroneckerMAPMemory(FactMemory):
    """Sign flips in every mode of a tensor: a fact is the product of p flipped vectors.

    It has the small symbols of `OSCMemory` without any subspace, and scores a candidate with d^p
    instead of s^p products.

    Parameters
    ----------
    order, dim : int
        Shape of the tensor.
    **others
        As for `MAPMemory`.

    Examples
    --------
    >>> memory = KroneckerMAPMemory(order=2, dim=32)
    >>> memory.store("user.name", "Ada")
    1
    >>> memory.recall("user.name").filler
    'Ada'
    """

    _arguments: ClassVar[tuple[str, ...]] = ("order", "dim")

    def __init__(
        self,
        *,
        order: int = 2,
        dim: int = 64,
        vocabulary: Vocabulary | Iterable[Symbol] | None = None,
        **others: Any,
    ) -> None:
        _check_size("order", order)
        _check_size("dim", dim, order)
        self.order, self.dim = int(order), int(dim)
        super().__init__(
            vocabulary=vocabulary,
            symbol_order=self.order,
            symbol_dim=self.dim,
            shape=(self.dim,) * self.order,
            **others,
        )

    def _flips(self, keys: Sequence[int]) -> Rows:
        """Signs for every mode and path, shape (p, n, d)."""
        normals = hashed_normals(keys, 1, self.order * self.dim)
        rows = normals.reshape(len(keys), self.order, self.dim)
        return np.sign(rows).transpose(1, 0, 2).astype(np.float32)

    def _add(self, cells: NDArray[Any], keys: Sequence[int], fillers: Rows, weights: Array) -> None:
        step = max(1, _BLOCK // self.dim ** (self.order - 1))
        for start in range(0, len(keys), step):
            part = slice(start, start + step)
            add_products(cells, self._flips(keys[part]) * fillers[:, part], weights[part])

    def _score(self, cells: NDArray[Any], keys: Sequence[int], fillers: Rows) -> Array:
        scores = np.empty((len(keys), fillers.shape[1]))
        for n, flips in enumerate(self._flips(keys).transpose(1, 0, 2)):
            turned = cells
            for j, flip in enumerate(flips):
                turned = turned * flip.reshape(-1, *[1] * (self.order - 1 - j))
            scores[n] = score_core(turned, fillers)
        return scores

    def _residual(self, cells: NDArray[Any], key: int, filler: Rows) -> tuple[float, Array, int]:
        factors = self._flips([key])[:, 0] * filler
        score, squares = leave_one_out(cells, factors)
        return score, squares, self.dim

    def _variances(self, n_facts: float, repeats: float) -> tuple[float, float]:
        places = float(self.dim) ** self.order
        return (n_facts - 1) / places, 1 / places


class TPRMemory(FactMemory):
    """Tensor product representation: outer products of role vectors with the filler.

    Parameters
    ----------
    role_dim, filler_dim : int
        Sizes of role and filler vectors.
    depth : int
        Levels that have a mode of their own: the memory has role_dim^depth filler_dim cells. With 1
        a whole path is one role.
    **others
        As for `MAPMemory`.

    Raises
    ------
    ParameterError
        When the depth needs more than 2^28 cells; the message says which depth fits.

    Examples
    --------
    >>> memory = TPRMemory(role_dim=8, filler_dim=64, depth=2)
    >>> memory.store("user.name", "Ada")
    1
    >>> memory.recall("user.name").filler
    'Ada'
    """

    _arguments: ClassVar[tuple[str, ...]] = ("role_dim", "filler_dim", "depth")

    def __init__(
        self,
        *,
        role_dim: int = 64,
        filler_dim: int = 64,
        depth: int = 1,
        vocabulary: Vocabulary | Iterable[Symbol] | None = None,
        **others: Any,
    ) -> None:
        for name, value in (("role_dim", role_dim), ("filler_dim", filler_dim), ("depth", depth)):
            _check_size(name, value)
        if role_dim**depth * filler_dim > MOST_CELLS:
            fits = int(np.log(MOST_CELLS / filler_dim) / np.log(max(role_dim, 2)) + 1e-9)
            raise ParameterError(
                f"depth={depth} needs {role_dim}^{depth} * {filler_dim} = "
                f"{float(role_dim) ** depth * filler_dim:.3g} cells of 4 bytes; the most is "
                f"{MOST_CELLS} cells, which is depth {fits}. OSCMemory needs none more for depth."
            )
        self.role_dim, self.filler_dim, self.depth = int(role_dim), int(filler_dim), int(depth)
        self._roles_of: dict[int, tuple[int, ...]] = {}
        super().__init__(
            vocabulary=vocabulary,
            symbol_order=1,
            symbol_dim=self.filler_dim,
            shape=(self.role_dim,) * self.depth + (self.filler_dim,),
            **others,
        )

    def _keys(self, paths: Sequence[Path]) -> list[int]:
        keys = super()._keys(paths)
        for key, path in zip(keys, paths, strict=True):
            roles = parse_path(path)
            if self.depth == 1:
                self._roles_of[key] = (key,)
                continue
            if len(roles) > self.depth:
                raise ParameterError(
                    f"The path {path_text(roles)} has {len(roles)} roles; this memory has depth "
                    f"{self.depth}. Make it with depth={len(roles)}."
                )
            padded = [*((role,) for role in roles), *[()] * (self.depth - len(roles))]
            self._roles_of[key] = tuple(path_key(role, self.seed) for role in padded)
        return keys

    def _modes(self, keys: Sequence[int]) -> Rows:
        """Unit role vectors, shape (depth, n, role_dim)."""
        flat = [role for key in keys for role in self._roles_of[key]]
        rows = hashed_normals(flat, 1, self.role_dim)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        shape = (len(keys), self.depth, self.role_dim)
        return rows.reshape(shape).transpose(1, 0, 2).astype(np.float32)

    def _add(self, cells: NDArray[Any], keys: Sequence[int], fillers: Rows, weights: Array) -> None:
        modes = self._modes(keys)
        for n, weight in enumerate(weights):
            item = (weight * fillers[0, n]).astype(cells.dtype)
            for mode in modes[::-1, n]:
                item = np.multiply.outer(mode, item)
            cells += item.astype(cells.dtype, copy=False)

    def _score(self, cells: NDArray[Any], keys: Sequence[int], fillers: Rows) -> Array:
        modes = self._modes(keys)
        queries = np.array([contract(cells, modes[:, n]) for n in range(len(keys))])
        return np.asarray(queries @ fillers[0].T.astype(np.float64))

    def _residual(self, cells: NDArray[Any], key: int, filler: Rows) -> tuple[float, Array, int]:
        # Roles are new at an empty path, fillers are not: the test leaves out role modes only.
        tensor = np.tensordot(cells, filler[0], axes=([self.depth], [0]))
        score, squares = leave_one_out(tensor, self._modes([key])[:, 0])
        return score, squares, self.role_dim

    def _variances(self, n_facts: float, repeats: float) -> tuple[float, float]:
        roles = 1 / float(self.role_dim) ** (1 if self.depth == 1 else self.depth)
        noise = (n_facts - repeats) * roles / self.filler_dim + (repeats - 1) * roles
        return max(noise, 0.0), 1 / self.filler_dim


def _on_circles(rows: Rows) -> NDArray[Any]:
    half = rows.shape[1] // 2
    real, imaginary = rows[:, :half], rows[:, half:]
    radius = np.sqrt(half * (real**2 + imaginary**2))
    return np.hstack([real / radius, imaginary / radius])


def _as_complex(rows: NDArray[Any]) -> NDArray[Any]:
    half = rows.shape[-1] // 2
    return np.asarray(rows[..., :half] + 1j * rows[..., half:])


def _check_size(name: str, value: int, order: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ParameterError(f"{name}={value!r} is not a whole number >= 1. Write {name}=64.")
    if int(value) ** int(order) > MOST_CELLS:
        raise ParameterError(
            f"{name}={value} makes {int(value) ** int(order)} cells of 4 bytes; the most is "
            f"{MOST_CELLS} cells. Take a smaller {name}."
        )
