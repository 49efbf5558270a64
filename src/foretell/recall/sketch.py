"""SignSketch: one bit for each random direction, packed into bytes.

A document x leaves the signs b_j = sign(<g_j, x>) and nothing else. A query keeps its real
projections t_j = <g_j, q>; `CosineDecoder` turns both into an estimate of the cosine. With
orthogonal directions the estimate has less than half of the error that independent ones give.

    n   vectors    d   their dimension    m   bits (``n_bits``)    g_j   rows of ``matrix_`` (m, d)

Sources: Charikar, STOC 2002 (signs of Gaussian projections); Ji et al., NIPS 2012 (orthogonal
groups); Gao and Long, SIGMOD 2024 (rotation and signs, with a stored factor, which is not needed
here).
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from foretell.core import DataError, ForetellWarning, ParameterError, as_generator
from foretell.recall import projections
from foretell.recall.linear_rows import LinearDecoding

Array = NDArray[np.float64]
Codes = NDArray[np.uint8]

BIT_ORDERS = ("little", "big")
_ROWS = 4096  # vectors encoded at a time
_UNIT = 1e-3  # a query whose norm is this close to one passes as normalised


class SignSketch(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Sign bits of random projections, packed eight to a byte.

    Parameters
    ----------
    n_bits : int
        Bits of a code, a multiple of 8. With as many bits as dimensions, orthogonal directions
        have a standard error of 0.76 / sqrt(n_bits) near a cosine of zero.
    projection : {"orthogonal", "gaussian", "hadamard"} or array (n_bits, d)
        The directions. Orthogonal ones are best; Hadamard ones encode faster from about a
        thousand dimensions on; Gaussian ones are SimHash. An array is used as it is:
        `from_matrix` is the shorter way to write that.
    center : None, "mean" or array (d,)
        What to subtract from the normalised vectors before taking signs. A centred sketch needs
        `residual_norms` beside the codes.
    bit_order : {"little", "big"}
        Which bit of a byte comes first: the least significant one, as faiss does, or the most
        significant one, as `numpy.packbits` does by default.
    zero_rows : {"error", "keep"}
        A vector of norm zero has no cosine with anything. "keep" encodes it as all ones, so that
        row numbers stay those of your list; its estimated cosines are noise around zero.
    random_state : int, numpy Generator or None
        Where the directions come from.

    Attributes
    ----------
    matrix_ : array (n_bits, d)
        The directions.
    mean_ : array (d,) or None
        What is subtracted.
    n_features_in_ : int
        d.

    Examples
    --------
    >>> import numpy as np
    >>> from foretell.recall import CosineDecoder, SignSketch
    >>> X = np.random.default_rng(0).normal(size=(1000, 64))
    >>> sketch = SignSketch(n_bits=64, random_state=0).fit(X)
    >>> codes = sketch.transform(X)
    >>> codes.shape, codes.dtype
    ((1000, 8), dtype('uint8'))
    >>> decoder = CosineDecoder()
    >>> plan = decoder.prepare(sketch, X[3] / np.linalg.norm(X[3]))
    >>> int(decoder.score(plan, codes).argmax())
    3
    """

    def __init__(
        self,
        *,
        n_bits: int = 256,
        projection: str | ArrayLike = "orthogonal",
        center: str | ArrayLike | None = None,
        bit_order: str = "little",
        zero_rows: str = "error",
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.projection = projection
        self.center = center
        self.bit_order = bit_order
        self.zero_rows = zero_rows
        self.random_state = random_state

    @classmethod
    def from_matrix(
        cls, G: ArrayLike, *, center: ArrayLike | None = None, bit_order: str = "little"
    ) -> Self:
        """A fitted sketch for codes that you already have.

        Parameters
        ----------
        G : array (n_bits, d)
            The directions that made the codes. When the number of bits is no multiple of 8, the
            bits that fill the last byte are ignored.
        center : array (d,), optional
            What was subtracted from the normalised vectors.
        bit_order : {"little", "big"}
            "big" for codes of `numpy.packbits` without arguments.

        Raises
        ------
        DataError
            When G is no finite matrix or has a row of zeros; names the row.

        Examples
        --------
        >>> import numpy as np
        >>> G = np.random.default_rng(0).normal(size=(16, 8))
        >>> x = np.arange(1.0, 9.0)[None]
        >>> old = np.packbits(x @ G.T >= 0, axis=1)
        >>> sketch = SignSketch.from_matrix(G, bit_order="big")
        >>> bool((sketch.transform(x) == old).all())
        True
        """
        matrix = _directions(G)
        sketch = cls(n_bits=matrix.shape[0], projection=matrix, center=center, bit_order=bit_order)
        sketch.n_features_in_ = matrix.shape[1]
        sketch._complete(None)
        return sketch

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Draw the directions, and measure the mean where it is asked for.

        Parameters
        ----------
        X : array (n, d)
            Vectors; only their directions count.
        y : ignored

        Raises
        ------
        DataError
            For rows that are not finite or have norm zero; names them.
        ParameterError
            For impossible parameters.
        """
        del y
        rows = self._validated(X, reset=True)
        self._complete(rows)
        return self

    def transform(self, X: ArrayLike) -> Codes:
        """Codes (n, n_bytes) of vectors (n, d); sign(0) counts as +1."""
        check_is_fitted(self)
        rows = self._validated(X, reset=False)
        codes = np.empty((rows.shape[0], self.n_bytes_), np.uint8)
        for begin in range(0, rows.shape[0], _ROWS):
            part = rows[begin : begin + _ROWS]
            signs = self._project(self._centred(part)) >= 0
            codes[begin : begin + _ROWS] = np.packbits(signs, axis=1, bitorder=self._order)
        return codes

    def residual_norms(self, X: ArrayLike) -> NDArray[np.float32]:
        """Lengths (n,) of normalised vectors after centring, to be kept beside centred codes."""
        check_is_fitted(self)
        rows = self._validated(X, reset=False)
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
        check_is_fitted(self)
        queries = np.asarray(Q)
        queries = queries[None] if queries.ndim == 1 else queries
        rows = _finite_rows(queries, "queries")
        if rows.shape[1] != self.n_features_in_:
            raise DataError(
                f"The queries have {rows.shape[1]} dimensions, and the sketch was fitted with "
                f"{self.n_features_in_}. Embed both with the same model."
            )
        norms = _norms(rows, "queries")
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
        if not hasattr(self, "_orthogonal"):
            self._orthogonal = (
                self.projection == "orthogonal"
                if isinstance(self.projection, str)
                else _are_orthogonal(self.unit_rows_)
            )
        return self._orthogonal

    @property
    def unit_rows_(self) -> Array:
        """The directions (n_bits, d) scaled to unit length; signs do not depend on the length."""
        return np.asarray(self.matrix_ / np.linalg.norm(self.matrix_, axis=1, keepdims=True))

    def to_arrays(self) -> dict[str, Array]:
        """The fitted state as arrays, for saving: ``matrix`` and, where centred, ``mean``."""
        check_is_fitted(self)
        arrays = {"matrix": self.matrix_}
        return arrays if self.mean_ is None else {**arrays, "mean": self.mean_}

    def to_dict(self) -> dict[str, Any]:
        """The settings in plain types, for a header beside the arrays."""
        check_is_fitted(self)
        return {
            "n_bits": int(self.matrix_.shape[0]),
            "dimension": int(self.matrix_.shape[1]),
            "projection": self.projection if isinstance(self.projection, str) else "given",
            "bit_order": self.bit_order,
            "centred": self.mean_ is not None,
        }

    @classmethod
    def from_arrays(cls, settings: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """The sketch that `to_dict` and `to_arrays` describe.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.eye(8)
        >>> sketch = SignSketch(n_bits=8, random_state=0).fit(X)
        >>> again = SignSketch.from_arrays(sketch.to_dict(), sketch.to_arrays())
        >>> bool((again.transform(X) == sketch.transform(X)).all())
        True
        """
        sketch = cls.from_matrix(
            arrays["matrix"], center=arrays.get("mean"), bit_order=settings["bit_order"]
        )
        if sketch.to_dict() | {"projection": ""} != settings | {"projection": ""}:
            raise DataError(
                f"The header says {settings}, and the arrays say {sketch.to_dict()}. They do not "
                "belong together; encode the vectors anew."
            )
        return sketch

    def _validated(self, X: ArrayLike, *, reset: bool) -> Array:
        rows = validate_data(
            self, X, reset=reset, dtype=np.float64, ensure_all_finite=False, ensure_min_features=1
        )
        return _finite_rows(rows, "rows")

    def _complete(self, rows: Array | None) -> None:
        d = self.n_features_in_
        if self.bit_order not in BIT_ORDERS:
            raise ParameterError(
                f"bit_order={self.bit_order!r} is unknown. Write bit_order='little' (faiss) or "
                "bit_order='big' (numpy.packbits)."
            )
        if self.zero_rows not in ("error", "keep"):
            raise ParameterError(
                f"zero_rows={self.zero_rows!r} is unknown. Write zero_rows='error' or 'keep'."
            )
        generator = as_generator(self.random_state)
        self._signs = None
        if isinstance(self.projection, str):
            n_bits = _checked_bits(self.n_bits)
            if self.projection == "orthogonal":
                self.matrix_ = projections.orthogonal(n_bits, d, generator)
            elif self.projection == "gaussian":
                self.matrix_ = projections.gaussian(n_bits, d, generator)
            elif self.projection == "hadamard":
                self._signs = projections.hadamard_signs(n_bits, d, generator)
                self.matrix_ = projections.hadamard_project(np.eye(d), self._signs, n_bits).T.copy()
            else:
                raise ParameterError(
                    f"projection={self.projection!r} is unknown. Use one of "
                    f"{', '.join(map(repr, projections.KINDS))} or an array (n_bits, d)."
                )
        else:
            self.matrix_ = _directions(self.projection)
            if self.matrix_.shape != (self.n_bits, d):
                raise ParameterError(
                    f"projection has shape {self.matrix_.shape}; with n_bits={self.n_bits} and "
                    f"vectors of {d} dimensions it must be ({self.n_bits}, {d}). "
                    "Write SignSketch.from_matrix(G)."
                )
        self._decodings: dict[str, LinearDecoding] = {}
        self.mean_ = self._center(rows)
        self._n_features_out = self.n_bytes_

    def _center(self, rows: Array | None) -> Array | None:
        if self.center is None:
            if rows is not None:
                self._row_norms(rows)
            return None
        if isinstance(self.center, str):
            if self.center != "mean" or rows is None:
                raise ParameterError(
                    f"center={self.center!r} is unknown here. Use None, 'mean' (with fit) or an "
                    "array (d,)."
                )
            mean: Array = (rows / self._row_norms(rows)[:, None]).mean(axis=0)
            return mean
        given = np.array(self.center, dtype=np.float64)
        if given.shape != (self.n_features_in_,) or not np.isfinite(given).all():
            raise DataError(
                f"center has shape {given.shape}; it must be {self.n_features_in_} finite numbers, "
                "one for each dimension."
            )
        return given

    def _centred(self, rows: Array) -> Array:
        norms = self._row_norms(rows)
        return rows if self.mean_ is None else rows / norms[:, None] - self.mean_

    def _row_norms(self, rows: Array) -> Array:
        if self.zero_rows == "error":
            return _norms(rows, "rows")
        norms = np.linalg.norm(rows, axis=1)
        return np.where(norms == 0, 1.0, norms)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # codes are bytes, whatever comes in
        return tags

    def _project(self, rows: Array) -> Array:
        if self._signs is not None:
            return projections.hadamard_project(rows, self._signs, self.n_bits)
        product: Array = rows @ self.matrix_.T
        return product


def _checked_bits(n_bits: int) -> int:
    whole = isinstance(n_bits, (int, np.integer)) and not isinstance(n_bits, bool)
    if not whole or n_bits < 8:
        raise ParameterError(f"n_bits={n_bits!r} is not a multiple of 8. Write n_bits=256.")
    if n_bits % 8:
        raise ParameterError(
            f"n_bits={n_bits} is not a multiple of 8. Write n_bits={-(-n_bits // 8) * 8}."
        )
    return int(n_bits)


def _are_orthogonal(unit: Array) -> bool:
    """Orthonormal rows, or above d of them a tight frame far better than independent rows."""
    m, d = unit.shape
    if m <= d:
        return bool(np.abs(unit @ unit.T - np.eye(m)).max() < _UNIT)
    excess = ((unit.T @ unit * (d / m) - np.eye(d)) ** 2).sum() / d
    return bool(excess <= 0.25 * (d - 1) / m)


def _directions(G: ArrayLike) -> Array:
    matrix = np.array(G, dtype=np.float64)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise DataError(
            f"The directions have shape {matrix.shape}; they must be a matrix (n_bits, d)."
        )
    bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1) | (matrix == 0).all(axis=1))
    if bad.size:
        raise DataError(f"Directions {_some(bad)} are zero or not finite. Give those of the codes.")
    return matrix


def _finite_rows(rows: NDArray[Any], what: str) -> Array:
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


def _norms(rows: Array, what: str) -> Array:
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
