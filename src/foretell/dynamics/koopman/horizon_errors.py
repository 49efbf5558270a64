"""Errors of forecasts of a lifted linear model, by how far ahead they look."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HorizonErrors:
    """Errors of forecasts that start from measured states, by how far ahead they look.

    Attributes
    ----------
    rmse : array (H, N)
        Root mean square error in data units.
    nrmse : array (H,)
        Root of the mean square error summed over variables, each in its standard deviations, over
        root N.
    diverged : float
        Share of windows whose error at the last step exceeds two standard deviations.
    n_windows : int
    """

    rmse: Array
    nrmse: Array
    diverged: float
    n_windows: int

    def mean(self, horizon: int | None = None) -> float:
        """Mean nrmse of the first steps."""
        return float(self.nrmse[:horizon].mean())

    def __repr__(self) -> str:
        return (
            f"HorizonErrors({len(self.nrmse)} steps, mean nRMSE {self.mean():.4g}, "
            f"{100 * self.diverged:.2g} % diverged, {self.n_windows} windows)"
        )
