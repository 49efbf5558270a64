"""What happened in a closed loop, and every measure of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.trust import exposure_metrics as metrics

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True)
class LoopRun:
    """What happened in a closed loop.

    Parameters
    ----------
    users : int array (B,)
        Rows of the user model.
    clicked : int array (T, B)
        Category clicked, -1 for none.
    saturation, limit : array (T, B), array (B,)
        D after each step in the world that judges, and the limit.
    slates : int array (T, B, k)
        Categories shown.
    item_exposure : array (I,)
        Slots that each item got.
    changed : array (T, B)
        Share of the slots that the policy changed.
    n_categories : int
    """

    users: Index
    clicked: Index
    saturation: Array
    limit: Array
    slates: Index
    item_exposure: Array
    changed: Array
    n_categories: int

    def __repr__(self) -> str:
        return (
            f"LoopRun({self.users.size} users, {self.clicked.shape[0]} steps: "
            f"{self.reward:.3g} clicks a user, {self.violation_rate:.3f} above the limit)"
        )

    @property
    def violated(self) -> NDArray[np.bool_]:
        """Steps above the limit, shape (T, B)."""
        return np.asarray(self.saturation > self.limit)

    @property
    def reward(self) -> float:
        """Clicks of a user, mean."""
        return metrics.cumulative_reward(self.clicked >= 0)

    @property
    def violation_rate(self) -> float:
        """Share of steps above the limit."""
        return metrics.violation_rate(self.violated)

    def summary(self) -> dict[str, float]:
        """Every measure of the run by name: rewards, violations, and concentration.

        The last five do not use the excitation model.
        """
        shown = np.bincount(self.slates.ravel(), minlength=self.n_categories)
        recovery = metrics.recovery_time(self.violated)
        k = self.slates.shape[2]
        return {
            "clicks": self.reward,
            "late_ctr": metrics.late_ctr(self.clicked >= 0),
            "violations": self.violation_rate,
            "recovery_steps": recovery.mean,
            "unfinished": float(recovery.censored),
            "changed_slots": float(self.changed.mean()),
            "coverage": metrics.category_coverage(self.clicked, self.n_categories),
            "entropy": metrics.exposure_entropy(shown),
            "gini_categories": metrics.exposure_gini(shown),
            "gini_items": metrics.exposure_gini(self.item_exposure),
            "slate_distance": (
                metrics.slate_distance(self.slates.reshape(-1, k)) if k > 1 else 0.0
            ),
        }

    def frame(self) -> Any:
        """One row for each step and user, as a pandas data frame.

        Raises
        ------
        MissingExtraError
            When pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            from foretell.core import MissingExtraError

            raise MissingExtraError("pandas", "tables", "make a data frame") from error

        T, B = self.clicked.shape
        return pd.DataFrame(
            {
                "step": np.repeat(np.arange(T), B),
                "user": np.tile(self.users, T),
                "clicked": self.clicked.ravel(),
                "saturation": self.saturation.ravel(),
                "relative": (self.saturation / self.limit).ravel(),
                "violated": self.violated.ravel(),
                "changed": self.changed.ravel(),
            }
        )
