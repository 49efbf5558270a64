"""Cost of a calibration: ours beside MAPIE's controller on the same 10,000 cases; and larger jobs.

Same guarantee (with probability .9 at most a share alpha is wrong), same cases, one process,
alternating, process CPU time. MAPIE gets its cheapest valid setting among those tried. Our boundary
is computed once for each n and kept, so both the first and every later calibration are shown.
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from _common import median_interval, ratio_interval, shown, write_result

from foretell.trust import CascadeRouter, SelectiveThreshold, binomial_boundary

ROUNDS, ALPHA = 25, 0.15


def cases(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    u = rng.uniform(size=n)
    return u, (rng.uniform(size=n) < 0.3 * u).astype(int)


def mapie(u: np.ndarray, e: np.ndarray, method: str) -> Callable[[], Any]:
    from mapie.risk_control import BinaryClassificationController

    def proba(X: Any) -> np.ndarray:
        x = np.asarray(X, dtype=float).ravel()
        return np.column_stack([1 - x, x])

    def run() -> Any:
        controller = BinaryClassificationController(
            proba, "precision", 1 - ALPHA, confidence_level=0.9, fwer_method=method,
            list_predict_params=np.linspace(0.9, 0, 91),
        )  # fmt: skip
        return controller.calibrate(1 - u[:, None], 1 - e)

    return run


def seconds(function: Callable[[], Any]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def main() -> None:
    warnings.simplefilter("ignore")
    u, e = cases(10_000)

    def ours(**more: Any) -> Callable[[], Any]:
        return lambda: SelectiveThreshold(alpha=ALPHA, guarantee="pac", **more).fit(u, e)

    first = seconds(ours())
    sides = {
        "ours, pac": ours(),
        "ours, pac, any score": ours(assume_monotone=False),
        **{f"MAPIE {m}": mapie(u, e, m) for m in ("bonferroni", "fixed_sequence")},
    }
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, side in sides.items():
            repeats = 10 if "ours" in name else 1
            spent[name].append(sum(seconds(side) for _ in range(repeats)) / repeats * 1e3)
    cheapest = min((n for n in sides if "MAPIE" in n), key=lambda n: np.median(spent[n]))
    rows = [
        [name, shown(median_interval(ms)), shown(ratio_interval(spent[cheapest], ms))]
        for name, ms in spent.items()
    ]
    rows.append(["ours, pac, the first time (boundary computed)", f"{first * 1e3:.3g}", "-"])
    large = [[name, seconds(run)] for name, run in jobs().items()]
    write_result(
        "lec_speed",
        {"n": 10_000, "alpha": ALPHA, "rounds": ROUNDS, "grid": 91},
        {
            "lec-speed": {
                "columns": ["calibration of 10,000 cases", "CPU-ms", "MAPIE's cheapest / this"],
                "rows": rows,
                "note": f"Median of {ROUNDS} alternating rounds with a 95 % interval.",
            },
            "lec-large": {
                "columns": ["job", "CPU-s"],
                "rows": large,
                "note": "Once each, nothing computed before.",
            },
        },
    )


def jobs() -> dict[str, Callable[[], Any]]:
    u, e = cases(1_000_000)
    pool = np.random.default_rng(1).uniform(size=1_000_000)
    rng = np.random.default_rng(2)
    difficulty = rng.uniform(size=(200_000, 1))
    wrong = (rng.uniform(size=(200_000, 3)) < difficulty * [0.6, 0.4, 0.2]).astype(int)
    scores = difficulty + rng.normal(0, 0.1, size=(200_000, 3))
    tune, new = slice(0, 100_000), slice(100_000, 200_000)
    router = CascadeRouter(alpha=0.1, costs=[1, 5, 30])

    def fit(guarantee: str, **more: Any) -> Callable[[], Any]:
        return lambda: SelectiveThreshold(alpha=0.1, guarantee=guarantee).fit(u, e, **more)

    return {
        "calibrate 1,000,000 scores, pac": fit("pac"),
        "calibrate 1,000,000 scores, fdr, a pool of 1,000,000": fit("fdr", unlabeled_scores=pool),
        "calibrate 1,000,000 scores, marginal": fit("marginal"),
        "calibrate 1,000,000 scores, plugin_corrected": fit("plugin_corrected"),
        "minP boundary, n = 10,000, alpha = .1": lambda: binomial_boundary(10_000, 0.1),
        "minP boundary, n = 10,000, alpha = .5": lambda: binomial_boundary(10_000, 0.5),
        "route of three models, learnt on 100,000": lambda: router.fit_path(
            scores[tune], wrong[tune]
        ),
        "route of three models, calibrated on 100,000": lambda: router.fit(scores[new], wrong[new]),
        "route 100,000 cases": lambda: router.route(scores[new]),
    }


if __name__ == "__main__":
    main()
