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

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from foretell.core import DataError, ParameterError, as_generator
from foretell.recall import projections
from foretell.recall.sign_coding import SignCoding, checked_directions, finite_rows

Array = NDArray[np.float64]
Codes = NDArray[np.uint8]

BIT_ORDERS = ("little", "big")


class SignSketch(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, SignCoding):
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
        matrix = checked_directions(G)
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
        return super().transform(X)

    @classmethod
    def _given(cls, matrix: Array, mean: Array | None, bit_order: str) -> Self:
        return cls.from_matrix(matrix, center=mean, bit_order=bit_order)

    def _need_directions(self) -> None:
        check_is_fitted(self)

    def _projection_name(self) -> str:
        return self.projection if isinstance(self.projection, str) else "given"

    def _validated(self, X: ArrayLike, *, reset: bool = False) -> Array:
        if not reset:
            check_is_fitted(self)
        rows = validate_data(
            self, X, reset=reset, dtype=np.float64, ensure_all_finite=False, ensure_min_features=1
        )
        return finite_rows(rows, "rows")

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
            self.matrix_ = checked_directions(self.projection)
            if self.matrix_.shape != (self.n_bits, d):
                raise ParameterError(
                    f"projection has shape {self.matrix_.shape}; with n_bits={self.n_bits} and "
                    f"vectors of {d} dimensions it must be ({self.n_bits}, {d}). "
                    "Write SignSketch.from_matrix(G)."
                )
        self._decodings = {}
        self._orthogonal = True if self._projection_name() == "orthogonal" else None
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # codes are bytes, whatever comes in
        return tags

    def _project(self, rows: Array) -> Array:
        if self._signs is not None:
            return projections.hadamard_project(rows, self._signs, self.n_bits)
        return super()._project(rows)


def _checked_bits(n_bits: int) -> int:
    whole = isinstance(n_bits, (int, np.integer)) and not isinstance(n_bits, bool)
    if not whole or n_bits < 8:
        raise ParameterError(f"n_bits={n_bits!r} is not a multiple of 8. Write n_bits=256.")
    if n_bits % 8:
        raise ParameterError(
            f"n_bits={n_bits} is not a multiple of 8. Write n_bits={-(-n_bits // 8) * 8}."
        )
    return int(n_bits)
