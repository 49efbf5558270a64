"""The possible answers of a memory, each with the few numbers that stand for it.

A symbol's components are random unit vectors computed from a hash of the symbol: the same symbol
has the same components in every vocabulary with the same seed, so that memories filled at
different places can be added up. Trained components may be given instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import DataError, ParameterError
from foretell.recall.hashed_normals import hash_key, hashed_normals

Symbol = str | int | float | bool | bytes | None | tuple["Symbol", ...]
Components = NDArray[np.float32]

_SHORTEST = 1e-6  # a component shorter than this, relative to the others, is refused


class Vocabulary:
    """Symbols in a fixed order, and their unit components.

    Parameters
    ----------
    symbols : iterable of symbols
        Text, numbers, booleans, None, bytes, or tuples of these; 1, 1.0 and True are different.
    order : int
        Components of a symbol: the order of the tensor.
    dim : int
        Numbers in a component.
    seed : int
        Seed of the components.
    tied : bool
        One component for all modes, instead of one for each.
    growing : bool
        Whether a memory may add symbols that it has not seen.
    components : array of shape (order, n_symbols, dim), optional
        Trained components; they are scaled to unit length. Such a vocabulary cannot grow.

    Examples
    --------
    >>> words = Vocabulary(["tea", "coffee", 7], order=2, dim=16)
    >>> words.components.shape, words.index(7)
    ((2, 3, 16), 2)
    >>> "water" in words
    False
    """

    def __init__(
        self,
        symbols: Iterable[Symbol] = (),
        *,
        order: int = 2,
        dim: int = 16,
        seed: int = 0,
        tied: bool = False,
        growing: bool = False,
        components: NDArray[Any] | None = None,
    ) -> None:
        self.order, self.dim, self.seed, self.tied = order, dim, seed, tied
        self.growing = growing and components is None
        self.trained = components is not None
        self._symbols: list[Symbol] = []
        self._index: dict[bytes, int] = {}
        self._rows = np.empty((order, 0, dim), dtype=np.float32)
        listed = list(symbols)
        if components is not None:
            self._rows = _checked(components, (order, len(listed), dim))
        self._enter(listed)

    def __len__(self) -> int:
        return len(self._symbols)

    def __iter__(self) -> Iterator[Symbol]:
        return iter(self._symbols)

    def __contains__(self, symbol: Symbol) -> bool:
        return encode_symbol(symbol) in self._index

    def __getitem__(self, index: int) -> Symbol:
        return self._symbols[index]

    def __repr__(self) -> str:
        kind = "trained" if self.trained else "growing" if self.growing else "closed"
        return f"Vocabulary({len(self)} symbols, {kind}, {self.order} x {self.dim} numbers each)"

    @property
    def components(self) -> Components:
        """Unit components, shape (order, n_symbols, dim)."""
        return self._rows[:, : len(self)]

    @property
    def nbytes(self) -> int:
        """Bytes of the components."""
        return self.components.nbytes

    def index(self, symbol: Symbol) -> int:
        """Row of a symbol.

        Raises
        ------
        DataError
            When the symbol is not here; the message says what is.
        """
        found = self._index.get(encode_symbol(symbol))
        if found is None:
            some = ", ".join(repr(known) for known in self._symbols[:5])
            more = ", ..." if len(self) > 5 else ""
            raise DataError(
                f"The filler {symbol!r} is not in the vocabulary of {len(self)} symbols "
                f"({some}{more}). Add it when the memory is made, or leave `vocabulary` out, and "
                "the memory learns symbols as it meets them."
            )
        return found

    def indices(self, symbols: Iterable[Symbol]) -> list[int]:
        """Rows of several symbols."""
        return [self.index(symbol) for symbol in symbols]

    def unknown(self, symbols: Iterable[Symbol]) -> list[Symbol]:
        """Those that are not here, each once."""
        missing = {}
        for symbol in symbols:
            code = encode_symbol(symbol)
            if code not in self._index:
                missing[code] = symbol
        return list(missing.values())

    def add(self, symbols: Sequence[Symbol]) -> None:
        """Add symbols that are not here yet.

        Raises
        ------
        DataError
            When there are new symbols and the vocabulary is closed.
        """
        missing = self.unknown(symbols)
        if missing and not self.growing:
            self.index(missing[0])
        self._enter(missing)

    def _enter(self, symbols: Sequence[Symbol]) -> None:
        codes = [encode_symbol(symbol) for symbol in symbols]
        start, end = len(self), len(self) + len(symbols)
        if len(set(codes)) < len(codes):
            twice = next(s for n, s in enumerate(symbols) if codes[n] in codes[:n])
            raise ParameterError(f"The symbol {twice!r} is given twice. Give each symbol once.")
        if not self.trained and symbols:
            if end > self._rows.shape[1]:
                room = np.empty((self.order, max(2 * start, end), self.dim), dtype=np.float32)
                room[:, :start] = self.components
                self._rows = room
            self._rows[:, start:end] = self._generate(codes)
        self._symbols += symbols
        self._index |= {code: start + n for n, code in enumerate(codes)}

    def _generate(self, codes: Sequence[bytes]) -> Components:
        keys = [hash_key(self.seed, b"symbol", code) for code in codes]
        count = 1 if self.tied else self.order
        rows = hashed_normals(keys, 0, count * self.dim).reshape(len(keys), count, self.dim)
        rows /= np.linalg.norm(rows, axis=2, keepdims=True)
        spread = np.broadcast_to(rows, (len(keys), self.order, self.dim))
        return spread.transpose(1, 0, 2).astype(np.float32)


def encode_symbol(symbol: Symbol) -> bytes:
    """The bytes of a symbol: type, length and content, so that no two symbols share them."""
    if symbol is None:
        return b"n"
    if isinstance(symbol, (bool, np.bool_)):
        return b"o1" if symbol else b"o0"
    if isinstance(symbol, (int, np.integer)):
        return b"i" + str(int(symbol)).encode("ascii")
    if isinstance(symbol, (float, np.floating)):
        if math.isnan(symbol):
            raise DataError("NaN is not a symbol: it does not equal itself. Store None instead.")
        return b"f" + float(symbol).hex().encode("ascii")
    if isinstance(symbol, str):
        return b"s" + symbol.encode("utf-8", "surrogatepass")
    if isinstance(symbol, bytes):
        return b"b" + symbol
    if isinstance(symbol, tuple):
        parts = [encode_symbol(part) for part in symbol]
        return b"t" + b"".join(len(part).to_bytes(4, "little") + part for part in parts)
    raise DataError(
        f"The filler {symbol!r} is a {type(symbol).__name__}; a symbol is text, a number, a "
        "boolean, None, bytes or a tuple of these. Dictionaries and lists are stored as trees."
    )


def symbol_to_json(symbol: Symbol) -> Any:
    """A symbol as a JSON value from which `symbol_from_json` makes the same symbol."""
    if isinstance(symbol, tuple):
        return {"tuple": [symbol_to_json(part) for part in symbol]}
    if isinstance(symbol, bytes):
        return {"bytes": symbol.hex()}
    if isinstance(symbol, (float, np.floating)) and not isinstance(symbol, bool):
        return {"float": float(symbol).hex()}
    return symbol.item() if isinstance(symbol, np.generic) else symbol


def symbol_from_json(value: Any) -> Symbol:
    """The symbol that `symbol_to_json` wrote."""
    if not isinstance(value, dict):
        return value  # type: ignore[no-any-return]
    ((kind, content),) = value.items()
    if kind == "tuple":
        return tuple(symbol_from_json(part) for part in content)
    return bytes.fromhex(content) if kind == "bytes" else float.fromhex(content)


def _checked(components: NDArray[Any], shape: tuple[int, int, int]) -> Components:
    rows = np.asarray(components, dtype=np.float64)
    if rows.shape != shape:
        raise ParameterError(
            f"components has the shape {rows.shape}; needed is (order, symbols, dim) = {shape}."
        )
    norms = np.linalg.norm(rows, axis=2)
    bad = np.argwhere(~(np.isfinite(norms) & (norms > _SHORTEST * max(1e-300, np.max(norms)))))
    if bad.size:
        mode, row = bad[0]
        raise DataError(
            f"Component {mode} of symbol {row} has the length {norms[mode, row]:.3g}; a component "
            "must have a direction. Train it again, or leave that symbol out."
        )
    unit: Components = (rows / norms[:, :, None]).astype(np.float32)
    return unit
