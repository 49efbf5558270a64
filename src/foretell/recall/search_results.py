"""What a search returns, and what it cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class SearchInfo:
    """What a search cost.

    Parameters
    ----------
    reads : array (nq,)
        Vectors of stage 2 that were read for each query.
    stage1_ms, stage2_ms : float
        Wall-clock milliseconds for all queries together.
    """

    reads: NDArray[np.int64]
    stage1_ms: float
    stage2_ms: float

    def __repr__(self) -> str:
        return (
            f"SearchInfo({self.reads.mean():.1f} reads a query, {self.stage1_ms:.1f} ms scan, "
            f"{self.stage2_ms:.1f} ms re-rank)"
        )


@dataclass(frozen=True, repr=False)
class SearchResult:
    """The nearest vectors of each query; unpacks into ids, cosines and info.

    Parameters
    ----------
    ids : array (nq, k)
        Best first; -1 where a graph found fewer than k.
    cosines : array (nq, k)
        Exact after a re-rank, else estimated; NaN beside -1.
    standard_errors : array (nq, k)
        Of the cosines; 0 after a re-rank.
    info : SearchInfo
        Reads and times.
    """

    ids: Ids
    cosines: NDArray[np.float64]
    standard_errors: NDArray[np.float64]
    info: SearchInfo

    def __iter__(self) -> Iterator[Any]:
        return iter((self.ids, self.cosines, self.info))

    def __repr__(self) -> str:
        nq, k = self.ids.shape
        return f"SearchResult({nq} queries, {k} each, {self.info})"
