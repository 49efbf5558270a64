"""Fixed directions, and the bits that vectors leave on them.

All that codes, queries and decoders need of a sketch once its directions are known. `SignSketch`
adds how they are drawn, and the manners of scikit-learn, whose import costs more than a question.

    n   vectors    d   their dimension    m   bits    g_j   rows of ``matrix_`` (m, d)
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import DataError, ForetellWarning
from foretell.recall.linear_rows import LinearDecoding

Array = NDArray[np.float64]
Codes = NDArray[np.uint8]

_ROWS = 4096  # vectors encoded at a time
_UNIT = 1e-3  # a query whose norm is this close to one passes as normalised


class SignCoding:
    """Directions (m, d), perhaps a mean, and the order of bits in a byte.

    Attributes
    ----------
    matrix_ : array (m, d)
        The directions.
    mean_ : array (d,) or None
        What is subtracted from normalised vectors.
    n_features_in_ : int
        d.
    n_bits : int
        m.
    bit_order : {"little", "big"}
        Which bit of a byte comes first.

    Examples
    --------
    >>> coding = SignCoding.from_arrays(
    ...     {"n_bits": 2, "dimension": 2, "bit_order": "little", "centred": False},
    ...     {"matrix": np.eye(2)},
    ... )
    >>> coding.transform([[1.0, -1.0], [1.0, 1.0]]).tolist()
    [[1], [3]]
    """

    matrix_: Array
    mean_: Array | None
    n_features_in_: int
    n_bits: int
    bit_order: str
    zero_rows: str = "error"
    _decodings: dict[str, LinearDecoding]
    _orthogonal: bool | None = None  # not looked at yet

    @classmethod
    def _given(cls, matrix: Array, mean: Array | None, bit_order: str) -> Self:
        """With directions that are known."""
        made = cls()
        made.n_bits, made.n_features_in_ = matrix.shape
        made.matrix_, made.mean_, made.bit_order = matrix, mean, bit_order
        made._decodings = {}
        return made

    def transform(self, X: ArrayLike) -> Codes:
        """Codes (n, n_bytes) of vectors (n, d); sign(0) counts as +1."""
        rows = self._validated(X)
        codes = np.empty((rows.shape[0], self.n_bytes_), np.uint8)
        for begin in range(0, rows.shape[0], _ROWS):
            part = rows[begin : begin + _ROWS]
            signs = self._project(self._centred(part)) >= 0
            codes[begin : begin + _ROWS] = np.packbits(signs, axis=1, bitorder=self._order)
        return codes

    def residual_norms(self, X: ArrayLike) -> NDArray[np.float32]:
        """Lengths (n,) of normalised vectors after centring, to be kept beside centred codes."""
        rows = self._validated(X)
        norms: NDArray[np.float32] = np.linalg.norm(self._centred(rows), axis=1).astype(np.float32)
        return norms

    def project(self, Q: ArrayLike) -> Array:
        """Real projections (nq, n_bits) of normalised queries (nq, d).

        Those of the queries as they are; `CosineDecoder` centres them where the sketch is centred.

        Warns
        -----
        ForetellWarning
            When queries do not have norm one; they are normalised.
        """
        return self._project(self.normalised_queries(Q))

    def project_unit(self, queries: Array) -> Array:
        """Projections (nq, n_bits) on the directions scaled to unit length, nothing checked."""
        return np.asarray(self._project(queries) / np.linalg.norm(self.matrix_, axis=1))

    def decoding(self, kind: str) -> LinearDecoding:
        """The weights and errors of the "linear" or "decorrelated" decoder, made once."""
        if kind not in self._decodings:
            self._decodings[kind] = LinearDecoding(self.unit_rows_, kind)
        return self._decodings[kind]

    @property
    def constraint_(self) -> float:
        """How far the directions are jointly fixed: 0 for independent ones, 1 for a whole rotation.

        min(n_bits / d, 1) for orthogonal directions; for others the number with which the closed
        form of the linear decoder's variance at a cosine of zero is met.
        """
        at_zero = float(self.decoding("linear").variance(np.zeros(1))[0])
        return float(np.clip(np.pi / 2 - at_zero * self.matrix_.shape[0], 0.0, 1.0))

    def normalised_queries(self, Q: ArrayLike) -> Array:
        """The queries as unit rows (nq, d), checked; a single query may be a vector."""
        self._need_directions()
        queries = np.asarray(Q)
        queries = queries[None] if queries.ndim == 1 else queries
        rows = finite_rows(queries, "queries")
        if rows.shape[1] != self.n_features_in_:
            raise DataError(
                f"The queries have {rows.shape[1]} dimensions, and the sketch was fitted with "
                f"{self.n_features_in_}. Embed both with the same model."
            )
        norms = row_norms(rows, "queries")
        if (abs(norms - 1) > _UNIT).any():
            warnings.warn(
                "Queries do not have norm one and were normalised. To silence this: "
                "Q / numpy.linalg.norm(Q, axis=1, keepdims=True)",
                ForetellWarning,
                stacklevel=3,
            )
        return rows / norms[:, None]

    @property
    def _order(self) -> Literal["little", "big"]:
        return "big" if self.bit_order == "big" else "little"

    @property
    def n_bytes_(self) -> int:
        """Bytes of a code."""
        return -(-int(self.matrix_.shape[0]) // 8)

    @property
    def orthogonal_(self) -> bool:
        """Whether the directions are orthonormal up to scale, found by looking at them."""
        if self._orthogonal is None:
            self._orthogonal = _are_orthogonal(self.unit_rows_)
        return self._orthogonal

    @property
    def unit_rows_(self) -> Array:
        """The directions (n_bits, d) scaled to unit length; signs do not depend on the length."""
        return np.asarray(self.matrix_ / np.linalg.norm(self.matrix_, axis=1, keepdims=True))

    def to_arrays(self) -> dict[str, Array]:
        """The fitted state as arrays, for saving: ``matrix`` and, where centred, ``mean``."""
        self._need_directions()
        arrays = {"matrix": self.matrix_}
        return arrays if self.mean_ is None else {**arrays, "mean": self.mean_}

    def to_dict(self) -> dict[str, Any]:
        """The settings in plain types, for a header beside the arrays."""
        self._need_directions()
        return {
            "n_bits": int(self.matrix_.shape[0]),
            "dimension": int(self.matrix_.shape[1]),
            "projection": self._projection_name(),
            "bit_order": self.bit_order,
            "centred": self.mean_ is not None,
        }

    @classmethod
    def from_arrays(cls, settings: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """What `to_dict` and `to_arrays` describe.

        Examples
        --------
        >>> import numpy as np
        >>> from foretell.recall import SignSketch
        >>> X = np.eye(8)
        >>> sketch = SignSketch(n_bits=8, random_state=0).fit(X)
        >>> again = SignSketch.from_arrays(sketch.to_dict(), sketch.to_arrays())
        >>> bool((again.transform(X) == sketch.transform(X)).all())
        True
        """
        made = cls._given(
            checked_directions(arrays["matrix"]), arrays.get("mean"), settings["bit_order"]
        )
        if made.to_dict() | {"projection": ""} != settings | {"projection": ""}:
            raise DataError(
                f"The header says {settings}, and the arrays say {made.to_dict()}. They do not "
                "belong together; encode the vectors anew."
            )
        return made

    def _need_directions(self) -> None:
        """Raise where there are none yet."""

    def _projection_name(self) -> str:
        return "given"

    def _validated(self, X: ArrayLike) -> Array:
        rows = finite_rows(np.asarray(X), "rows")
        if rows.shape[1] != self.n_features_in_:
            raise DataError(
                f"The rows have {rows.shape[1]} dimensions; codes are of {self.n_features_in_}."
            )
        return rows

    def _centred(self, rows: Array) -> Array:
        norms = self._row_norms(rows)
        return rows if self.mean_ is None else rows / norms[:, None] - self.mean_

    def _row_norms(self, rows: Array) -> Array:
        if self.zero_rows == "error":
            return row_norms(rows, "rows")
        norms = np.linalg.norm(rows, axis=1)
        return np.where(norms == 0, 1.0, norms)

    def _project(self, rows: Array) -> Array:
        product: Array = rows @ self.matrix_.T
        return product


def _are_orthogonal(unit: Array) -> bool:
    """Orthonormal rows, or above d of them a tight frame far better than independent rows."""
    m, d = unit.shape
    if m <= d:
        return bool(np.abs(unit @ unit.T - np.eye(m)).max() < _UNIT)
    excess = ((unit.T @ unit * (d / m) - np.eye(d)) ** 2).sum() / d
    return bool(excess <= 0.25 * (d - 1) / m)


def checked_directions(G: ArrayLike) -> Array:
    """Directions (m, d) as a copy, each finite and not zero."""
    matrix = np.array(G, dtype=np.float64)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise DataError(
            f"The directions have shape {matrix.shape}; they must be a matrix (n_bits, d)."
        )
    bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1) | (matrix == 0).all(axis=1))
    if bad.size:
        raise DataError(f"Directions {_some(bad)} are zero or not finite. Give those of the codes.")
    return matrix


def finite_rows(rows: NDArray[Any], what: str) -> Array:
    """Rows (n, d) as float64; raises DataError where they are not finite."""
    if rows.ndim != 2 or rows.dtype.kind not in "fiub":
        raise DataError(
            f"The {what} have shape {rows.shape} and type {rows.dtype}; "
            "they must be numbers (n, d)."
        )
    rows = rows.astype(np.float64, copy=False)
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size:
        raise DataError(
            f"{what.capitalize()} {_some(bad)} contain NaN or inf. Leave them out: "
            "X[numpy.isfinite(X).all(axis=1)]"
        )
    return rows


def row_norms(rows: Array, what: str) -> Array:
    """Lengths (n,) of rows; raises DataError where one is zero."""
    norms: Array = np.linalg.norm(rows, axis=1)
    bad = np.flatnonzero(norms == 0)
    if bad.size:
        raise DataError(
            f"{what.capitalize()} {_some(bad)} have norm zero, and a cosine with them does not "
            "exist. Leave them out: X[numpy.linalg.norm(X, axis=1) > 0]"
        )
    return norms


def _some(indices: NDArray[np.intp]) -> str:
    shown = ", ".join(map(str, indices[:5]))
    return shown if indices.size <= 5 else f"{shown} and {indices.size - 5} more"
