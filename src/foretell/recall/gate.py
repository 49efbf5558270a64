"""Read vectors until the next candidate cannot matter any more.

Candidates come in the order of their estimates. Reading stops once the k-th best exact cosine is
at least the next estimate plus z standard errors: with floats on a disk, easy queries cost few
reads, and hard ones get more. It looks after k vectors, and then again after each sixteenth more,
so that it reads at most that much too many.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foretell.recall.rows import Rows


def next_look(read: int, k: int) -> int:
    """Vectors read when the gate looks next."""
    return read + max(1, read // 16) if read else k


def gated(
    vectors: Rows,
    query: NDArray[np.float32],
    candidates: NDArray[np.int64],
    upper: NDArray[np.float64],
    k: int,
) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
    """Best k candidates by exact cosine, their cosines, and how many vectors were read.

    Parameters
    ----------
    vectors : Rows (n, d)
        Of length one.
    query : array (d,)
        Of length one.
    candidates : array (C,)
        Rows in the order of their estimates, highest first.
    upper : array (C,)
        Estimate plus z standard errors of each.
    k : int
        Results wanted.
    """
    exact = np.empty(len(candidates))
    read = 0
    while read < len(candidates):
        if read >= k and np.partition(exact[:read], read - k)[read - k] >= upper[read]:
            break
        part = slice(read, min(next_look(read, k), len(candidates)))
        exact[part] = vectors.take(candidates[part]).astype(np.float32) @ query
        read = part.stop
    best = np.argsort(-exact[:read], kind="stable")[:k]
    return candidates[best], exact[best], read


def running_kth(
    exact: NDArray[np.float64], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Numbers of vectors read at which the gate looks, and the k-th best exact cosine there."""
    places = [k]
    while places[-1] < len(exact):
        places.append(next_look(places[-1], k))
    looks = np.array(places[:-1], np.int64)
    kth = np.empty(len(looks))
    best = np.full(k, -np.inf)
    done = 0
    for i, read in enumerate(looks):
        best = np.partition(np.concatenate([best, exact[done:read]]), -k)[-k:]
        done, kth[i] = read, best[0]
    return looks, kth


def reads(looks: NDArray[np.int64], kth: NDArray[np.float64], upper: NDArray[np.float64]) -> int:
    """How many vectors the gate would read, from `running_kth` and the upper ends of estimates."""
    enough = np.flatnonzero(kth >= upper[looks])
    return int(looks[enough[0]]) if enough.size else len(upper)
