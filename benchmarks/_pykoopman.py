"""EDMDc of PyKoopman 1.2.1 as a peer; run by a Python of its own, in which PyKoopman imports.

Of its dictionaries (states alone, polynomials to degree 2 and 3, 50 thin-plate splines, both
together), the one with the least error over 15 steps from every sample of a fifth of the
recordings that the first fit does not see; then all are fitted. It fits pairs of samples of all
recordings, so that none crosses a border, and runs by its own ``simulate``.

_pykoopman.py FOLDER     for each n-given.npz with standardised arrays x (R, T, N), u (R, T, K),
                         x0 (B, N) and inputs (B, H, K) writes the runs (B, H, N) to n-runs.npz
"""

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pykoopman as pk

STEPS = 15
DICTIONARIES = ("states", "degree 2", "degree 3", "50 splines", "degree 3, 50 splines")


def fitted(name: str, x: Any, u: Any) -> Any:
    def splines() -> Any:
        return pk.observables.RadialBasisFunction(
            rbf_type="thinplate", n_centers=50, include_state=not name.startswith("degree")
        )

    made = {
        "states": pk.observables.Identity,
        "degree 2": lambda: pk.observables.Polynomial(degree=2),
        "degree 3": lambda: pk.observables.Polynomial(degree=3),
        "50 splines": splines,
        "degree 3, 50 splines": lambda: pk.observables.Polynomial(degree=3) + splines(),
    }[name]()
    np.random.seed(0)  # noqa: NPY002 (its centres are drawn from the global generator)
    model = pk.Koopman(observables=made, regressor=pk.regression.EDMDc(), quiet=True)
    return model.fit(
        x[:, :-1].reshape(-1, x.shape[-1]),
        y=x[:, 1:].reshape(-1, x.shape[-1]),
        u=u[:, :-1].reshape(-1, u.shape[-1]),
    )


def runs(model: Any, x0: Any, u: Any) -> Any:
    return np.array([model.simulate(a, b, n_steps=len(b)) for a, b in zip(x0, u, strict=True)])


def forecast(x: Any, u: Any, x0: Any, inputs: Any) -> dict[str, Any]:
    n = max(1, len(x) // 5)
    rows = np.arange(x.shape[1] - STEPS)[:, None] + np.arange(STEPS + 1)
    windows, window_u = x[:n, rows].reshape(-1, STEPS + 1, x.shape[2]), u[:n, rows[:, :-1]]
    start, after = windows[:, 0], windows[:, 1:]
    window_u = window_u.reshape(-1, STEPS, u.shape[2])
    scores, began = {}, time.process_time()
    for name in DICTIONARIES:
        model = fitted(name, x[n:], u[n:])
        off = runs(model, start, window_u) - after
        scores[name] = float(np.nan_to_num(np.sqrt((off**2).mean(axis=(0, 2))).mean(), nan=np.inf))
    best = min(scores, key=scores.__getitem__)
    model = fitted(best, x, u)
    seconds = time.process_time() - began
    return {"runs": runs(model, x0, inputs), "chosen": best, "seconds": seconds}


def main(folder: Path) -> None:
    for given in sorted(folder.glob("*-given.npz")):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = forecast(**np.load(given))
        np.savez(str(given).replace("-given", "-runs"), **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
