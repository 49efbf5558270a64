"""How often a limit was broken, by category and by how saturated the user was, with a bound.

Legend: C categories, J bins of D / L; a cell is a pair (category, bin).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import DataError, ParameterError
from foretell.trust.boundary import check_level
from foretell.trust.bounds import empirical_bernstein_upper

Array = NDArray[np.float64]
Index = NDArray[np.int64]

EDGES = (0.25, 0.5, 0.75, 0.9, 1.0, 1.25)  # of D / L; seven bins
_ENOUGH = 200  # values in a cell; smaller ones are merged with the more saturated


class RiskBound:
    """Upper bound of the average risk in each of many cells, valid at all times.

    With probability at least 1 - delta for each cell, at every moment: the mean of the chances
    that the booked violations had, given what came before each, is at most ``upper``. The next
    violation's chance is *not* bounded, it may be far above the average of the past; only the
    one-step lookahead speaks about the next step.

    Parameters
    ----------
    n_cells : int
        Number of cells.
    delta : float
        Probability that the bound of a cell ever fails.

    Examples
    --------
    >>> bound = RiskBound(2, delta=0.1)
    >>> for violation in [0.0] * 9 + [1.0]:
    ...     bound.update([0] * 20, [violation] * 20)
    >>> bound.upper().round(2)  # nothing is known of the second cell
    array([0.18, 1.  ])
    """

    def __init__(self, n_cells: int, *, delta: float = 0.1) -> None:
        check_level("delta", delta)
        if not (isinstance(n_cells, (int, np.integer)) and n_cells >= 1):
            raise ParameterError(f"n_cells={n_cells!r}; needed is a whole number >= 1.")
        self.delta = delta
        self.n = np.zeros(n_cells)
        self.total = np.zeros(n_cells)
        self.spread = np.zeros(n_cells)

    def update(self, cells: ArrayLike, values: ArrayLike) -> None:
        """Book values in [0, 1], one for each entry of cells.

        Raises
        ------
        DataError
            For a cell out of range or a value outside [0, 1], naming the entry.
        """
        cell = np.atleast_1d(np.asarray(cells, dtype=np.int64))
        value = np.atleast_1d(np.asarray(values, dtype=np.float64))
        wrong = ~((value >= 0) & (value <= 1)) | (cell < 0) | (cell >= self.n.size)
        if wrong.any():
            place = int(np.argmax(wrong))
            raise DataError(
                f"entry {place} books {value[place]:.6g} in cell {cell[place]}; needed are values "
                f"in [0, 1] and cells from 0 to {self.n.size - 1}."
            )
        order = np.argsort(cell, kind="stable")
        cell, value = cell[order], value[order]
        first = np.searchsorted(cell, cell)  # where the cell of each entry begins
        summed = np.concatenate([[0.0], np.cumsum(value)])
        earlier = self.total[cell] + summed[:-1] - summed[first]
        guess = (earlier + 0.5) / (self.n[cell] + np.arange(cell.size) - first + 1.0)
        size = self.n.size
        self.spread += np.bincount(cell, weights=(value - guess) ** 2, minlength=size)
        self.n += np.bincount(cell, minlength=size)
        self.total += np.bincount(cell, weights=value, minlength=size)

    def upper(self, pools: Sequence[Index] | None = None) -> Array:
        """Bound of each cell, or of each pool of cells; 1 where nothing was booked."""
        n, total, spread = self.n, self.total, self.spread
        if pools is not None:
            n, total, spread = (np.array([x[p].sum() for p in pools]) for x in (n, total, spread))
        return empirical_bernstein_upper(n, total, spread, self.delta)


class SaturationCells:
    """A `RiskBound` by category and by bin of D / L, merged until each cell says something.

    A cell with fewer than 200 values takes in the next more saturated bins of its category, and
    where these do not suffice, all categories in those bins. So a bound errs to the careful side.

    Parameters
    ----------
    n_categories : int
        Number of categories.
    delta : float
        Probability that the bound of a pool ever fails.

    Examples
    --------
    >>> cells = SaturationCells(3, delta=0.1)
    >>> cells.update([0] * 300, [0.1] * 300, [0] * 300)
    >>> cells.upper([0.1]).round(2)  # one row for each D / L, one column for each category
    array([[0.01, 0.01, 0.01]])
    """

    def __init__(self, n_categories: int, *, delta: float = 0.1) -> None:
        self.n_categories = n_categories
        self.n_bins = len(EDGES) + 1
        self.bound = RiskBound(n_categories * self.n_bins, delta=delta)

    def update(self, categories: ArrayLike, relative: ArrayLike, violations: ArrayLike) -> None:
        """Book violations after showing categories to users with this D / L before."""
        cell = np.asarray(categories, dtype=np.int64) * self.n_bins + self.bins(relative)
        self.bound.update(cell, violations)

    def bins(self, relative: ArrayLike) -> Index:
        """Bin of each D / L, 0 to 6."""
        return np.searchsorted(EDGES, np.asarray(relative, dtype=np.float64), side="right")

    def upper(self, relative: ArrayLike) -> Array:
        """Bound for users with these D / L, shape (B, C)."""
        table = self.bound.upper(self._pools()).reshape(self.n_categories, self.n_bins)
        return np.asarray(table[:, self.bins(np.atleast_1d(np.asarray(relative)))].T)

    @property
    def counts(self) -> Array:
        """Values booked, shape (C, 7)."""
        return self.bound.n.reshape(self.n_categories, self.n_bins)

    def _pools(self) -> list[Index]:
        counts, J = self.counts, self.n_bins
        pools = []
        for c in range(self.n_categories):
            for j in range(J):
                reach = np.cumsum(counts[c, j:])
                last = int(np.argmax(reach >= _ENOUGH)) if reach[-1] >= _ENOUGH else J - j - 1
                own = c * J + np.arange(j, j + last + 1)
                everyone = (np.arange(self.n_categories)[:, None] * J + np.arange(j, J)).ravel()
                pools.append(own if reach[-1] >= _ENOUGH else everyone)
        return pools
