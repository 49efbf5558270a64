"""SINDy with inputs (package pysindy) as a peer: a sparse polynomial map of state and input.

Degree and threshold are those with the least error over 15 steps on a fifth of the recordings that
the first fit does not see; then all are fitted.
"""

import itertools
import warnings
from typing import Any

import numpy as np

DEGREES, THRESHOLDS = (3,), (0.0, 1e-3, 1e-2)
BOUND = 1e3  # standard deviations at which a run is stopped


class Sindy:
    """x+ = f(x, u) in standardised variables."""

    def __init__(self, degree: int, threshold: float) -> None:
        import pysindy

        self.model = pysindy.DiscreteSINDy(
            optimizer=pysindy.STLSQ(threshold=threshold, alpha=1e-6),
            feature_library=pysindy.PolynomialLibrary(degree=degree),
        )

    def fit(self, values: list[Any], controls: list[Any]) -> "Sindy":
        rows = np.concatenate(values)
        self.mean, self.scale = rows.mean(axis=0), rows.std(axis=0)
        x = [(v - self.mean) / self.scale for v in values]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model.fit(
                np.concatenate([v[:-1] for v in x]), t=1.0,
                x_next=np.concatenate([v[1:] for v in x]),
                u=np.concatenate([u[:-1] for u in controls]),
            )  # fmt: skip
        return self

    def nrmse(self, values: list[Any], controls: list[Any], steps: int) -> Any:
        """Error after 1 to ``steps`` steps from the first row of each recording."""
        true = np.array([(v[: steps + 1] - self.mean) / self.scale for v in values])
        u = np.array([c[:steps] for c in controls])
        x, errors = true[:, 0], []
        for k in range(steps):
            x = np.asarray(self.model.predict(x, u=u[:, k]))
            x = np.clip(np.nan_to_num(x, nan=BOUND), -BOUND, BOUND)
            errors.append(np.sqrt(((x - true[:, k + 1]) ** 2).mean()))
        self.diverged = float((np.sqrt(((x - true[:, steps]) ** 2).mean(axis=1)) > 2).mean())
        return np.array(errors)


def best_sindy(train: Any) -> Sindy:
    values, controls = list(train.values), list(train.controls)
    n = max(1, len(values) // 5)
    scores = {}
    for degree, threshold in itertools.product(DEGREES, THRESHOLDS):
        made = Sindy(degree, threshold).fit(values[n:], controls[n:])
        scores[degree, threshold] = made.nrmse(values[:n], controls[:n], 15).mean()
    return Sindy(*min(scores, key=scores.__getitem__)).fit(values, controls)
