"""Keep your index: order its candidates anew by what the query knows about their bits.

Each function takes the candidates that another index found by Hamming distance (or in any other
way) and returns them in the order of estimated cosines, with error bars. Only the codes of the
candidates are needed, and the matrix that made them.

    from_faiss_binary(index)      the packed codes of a faiss ``IndexBinaryFlat``
    from_hnswlib(index, sketch)   codes of the vectors that an hnswlib index holds
    rerank_codes(...)             candidates and their codes from anywhere: a Qdrant payload, a
                                  pgvector ``bit`` column
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import DataError, MissingExtraError, ParameterError
from foretell.recall.decoders import CosineDecoder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretell.recall.sketch import SignSketch

Codes = NDArray[np.uint8]


@dataclass(frozen=True, repr=False)
class Reranked:
    """Candidates in the order of estimated cosines.

    Parameters
    ----------
    ids : array (nq, k)
        Best first; -1 where there were fewer candidates.
    cosines, standard_errors : array (nq, k)
        Estimates and their errors; NaN beside -1.
    """

    ids: NDArray[np.int64]
    cosines: NDArray[np.float64]
    standard_errors: NDArray[np.float64]

    def __repr__(self) -> str:
        nq, k = self.ids.shape
        return f"Reranked({nq} queries, {k} each)"


def rerank_codes(
    sketch: SignSketch,
    Q: ArrayLike,
    candidates: ArrayLike,
    codes: Codes | Sequence[Codes],
    *,
    k: int = 10,
    decoder: CosineDecoder | None = None,
) -> Reranked:
    """Order candidates by estimated cosine.

    Parameters
    ----------
    sketch : SignSketch
        That made the codes: ``SignSketch.from_matrix(G, bit_order=...)``. For codes that are the
        signs of the vectors themselves ("binary quantisation"), G is the identity.
    Q : array (nq, d)
        Queries.
    candidates : array (nq, C)
        Ids that the other index returned; -1 for none.
    codes : array (n, B), or nq arrays (C, B)
        One table of codes, in which ids are row numbers; or the codes of the candidates of each
        query, for instance from the payload of the answer.
    k : int
        Results a query, at most C.
    decoder : CosineDecoder, optional
        "mle" is the most exact one for a few hundred candidates; the default is fast.

    Raises
    ------
    DataError
        When candidates and codes do not fit together.
    ParameterError
        For k above the number of candidates.

    Examples
    --------
    >>> from foretell.recall import SignSketch
    >>> rng = np.random.default_rng(0)
    >>> X, q = rng.normal(size=(100, 64)), rng.normal(size=64)
    >>> sketch = SignSketch.from_matrix(np.eye(64))
    >>> found = rerank_codes(
    ...     sketch, q / np.linalg.norm(q), [np.arange(100)], sketch.transform(X), k=3
    ... )
    >>> found
    Reranked(1 queries, 3 each)
    """
    decoder = decoder or CosineDecoder()
    plans = decoder.prepare_many(sketch, Q)
    given = np.atleast_2d(np.asarray(candidates))
    if given.ndim != 2 or len(given) != len(plans) or given.dtype.kind not in "iu":
        raise DataError(
            f"The candidates have shape {given.shape} and type {given.dtype}; {len(plans)} queries "
            "need ids (nq, C)."
        )
    ids = given.astype(np.int64)
    if not 1 <= k <= ids.shape[1]:
        raise ParameterError(
            f"k={k}, and each query has {ids.shape[1]} candidates. Write k={ids.shape[1]}, or ask "
            "the other index for more."
        )
    table = codes if isinstance(codes, np.ndarray) and codes.ndim == 2 else None
    if table is None and len(codes) != len(ids):
        raise DataError(f"There are {len(ids)} queries and {len(codes)} lists of codes.")
    if table is not None and ids.max(initial=-1) >= len(table):
        raise DataError(
            f"The candidate {ids.max()} is not among the {len(table)} codes. Give the whole table, "
            "or one array of codes for each query."
        )
    shape = (len(ids), k)
    out = Reranked(np.full(shape, -1, np.int64), np.full(shape, np.nan), np.full(shape, np.nan))
    for q, plan in enumerate(plans):
        here = ids[q] >= 0
        some = ids[q][here]
        theirs = table[some] if table is not None else np.asarray(codes[q])
        if table is None and len(theirs) == len(ids[q]):
            theirs = theirs[here]
        if len(theirs) != len(some):
            raise DataError(f"Query {q} has {len(some)} candidates and {len(theirs)} codes.")
        rho = decoder.score(plan, theirs)
        best = np.argsort(-rho, kind="stable")[:k]
        out.ids[q, : len(best)], out.cosines[q, : len(best)] = some[best], rho[best]
        out.standard_errors[q, : len(best)] = decoder.standard_error(plan, rho[best])
    return out


def from_faiss_binary(index: Any) -> Codes:
    """The packed codes (n, B) of a faiss ``IndexBinaryFlat``, a copy.

    Raises
    ------
    DataError
        For another kind of index.
    MissingExtraError
        When faiss is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("faiss", "find", "read a faiss index") from error
    vectors = getattr(index, "xb", None)
    if vectors is None or not hasattr(index, "code_size"):
        raise DataError(
            f"A {type(index).__name__} does not show its codes. Give a faiss.IndexBinaryFlat, or "
            "keep the codes that were added and call rerank_codes."
        )
    flat = np.array(faiss.vector_to_array(vectors), np.uint8)
    return flat.reshape(index.ntotal, index.code_size)


def from_hnswlib(index: Any, sketch: SignSketch) -> tuple[NDArray[np.int64], Codes]:
    """Labels (n,) and codes (n, B) of the vectors that an hnswlib index holds.

    With them the graph can be walked by the codes, and the vectors need not stay in memory: see
    ``Graph.from_hnswlib``.
    """
    labels = np.asarray(index.get_ids_list(), np.int64)
    parts = [
        sketch.transform(np.asarray(index.get_items(labels[start : start + 8192])))
        for start in range(0, len(labels), 8192)
    ]
    if not parts:
        raise DataError("The hnswlib index is empty.")
    return labels, np.concatenate(parts)
