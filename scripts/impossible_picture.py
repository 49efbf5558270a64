#!/usr/bin/env python3
"""Draw docs/images/impossible.png: the published claim beside what its rule does.

Left, for a score that says nothing: P(wrong | accepted) = p exactly, and the chance that the rule
finds a threshold, by `crossing_probability`. Right, by simulation, for a score whose surest answers
are worse: P(wrong | accepted).
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from foretell.trust import binomial_boundary, crossing_probability

OUT = Path(__file__).resolve().parent.parent / "docs" / "images" / "impossible.png"
ALPHA, SIZES, RUNS = 0.1, (10, 14, 20, 30, 50, 70, 100, 140, 200, 300), 20000


def chance(n: int, p: float) -> float:
    return crossing_probability(binomial_boundary(n, ALPHA, kind="linear").most_errors, p)


def bad_start(u: np.ndarray) -> np.ndarray:
    return np.select([u < 0.1, u < 0.35], [0.3, 0.02], 0.5)


def ratio(n: int, rng: np.random.Generator) -> float:
    """P(wrong | accepted) of the published rule, one new case for each calibration."""
    u = np.sort(rng.uniform(size=(RUNS, n)), axis=1)
    total = np.cumsum(rng.uniform(size=(RUNS, n)) < bad_start(u), axis=1)
    fits = total + 1 <= ALPHA * np.arange(1, n + 1) + 1e-9
    last = n - 1 - np.argmax(fits[:, ::-1], axis=1)
    lam = np.where(fits.any(axis=1), u[np.arange(RUNS), last], 0.0)
    area = np.array([bad_start(np.linspace(0, x, 400, endpoint=False)).mean() * x for x in lam])
    return float(area.sum() / lam.sum())


def main() -> None:
    figure = Figure(figsize=(8.4, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for i, p in enumerate((0.12, 0.15, 0.2)):
        left.plot(SIZES, [chance(n, p) for n in SIZES], f"C{i}o-", ms=3, label=f"{p:.0%} wrong")
    left.set(
        xscale="log", xlabel="calibration cases", ylim=(0, 1),
        ylabel="chance that it accepts", title="A score that says nothing", 
    )  # fmt: skip
    left.legend(frameon=False, fontsize="small", title="all answers", title_fontsize="small")
    rng = np.random.default_rng(0)
    right.axhline(ALPHA, color="tab:green", lw=1, label="claimed: at most 10 %")
    right.plot(SIZES, [ratio(n, rng) for n in SIZES], "C3o-", ms=3, label="the published rule")
    right.set(
        xscale="log", xlabel="calibration cases", ylim=(0, None),
        ylabel="P(wrong | accepted)", title="A score with a bad start",
    )  # fmt: skip
    right.legend(frameon=False, fontsize="small")
    figure.savefig(OUT, dpi=130)
    print(f"wrote {OUT.name}")


if __name__ == "__main__":
    main()
