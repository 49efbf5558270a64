"""Validity in numbers: what each rule does on laws whose risk is known, abstention included.

The laws and the vectorised rules are those of tests/theory/selective_laws.py, where every cell is
an assertion. Here a few cells are shown for reading, and the number of cells above their bound by
2.33 standard errors (which chance alone does to 1 % of the cells that sit exactly on it).
And the digits of scikit-learn with two classifiers, half for calibration, half for testing.
"""

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _common import write_result

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from foretell.core import ForetellWarning
from foretell.trust import SelectiveThreshold
from tests.theory.selective_laws import LAWS, batch_fdp, thresholds

ALPHAS, SIZES = (0.05, 0.1, 0.2, 0.3, 0.5), (1, 2, 5, 10, 20, 50, 100, 1000)
DELTA, SHOWN_ALPHA, BATCH = 0.1, 0.1, 20
SHOWN = ("uninformative .15", "weakly informative", "u^2", "five tied levels", "bad start")
RULES = ("plugin", "plugin_corrected", "marginal", "pac")


def main() -> None:
    warnings.simplefilter("ignore", ForetellWarning)
    rng = np.random.default_rng(11)
    above: dict[str, list[bool]] = {rule: [] for rule in (*RULES, "fdr")}
    rows = []
    for law in LAWS:
        for n in SIZES:
            runs = 2000 if n <= 100 else 400
            u, e = law.draw(rng, (runs, n))
            for alpha in ALPHAS:
                for rule in RULES:
                    lam = thresholds(rule, u, e, alpha)
                    risk, kept = law.risk(lam), law.accepted(lam)
                    failed = (risk > alpha + 1e-9).astype(float)
                    held = {"marginal": risk * kept, "pac": failed}.get(rule, risk)
                    if rule != "pac" or law.monotone:
                        above[rule].append(_above(held, DELTA if rule == "pac" else alpha))
                    if law.name in SHOWN and n in (20, 100, 1000) and alpha == SHOWN_ALPHA:
                        ratio = float((risk * kept).sum() / max(kept.sum(), 1e-12))
                        rows.append([f"{law.name}, n={n}, {rule}", float(kept.mean()), ratio,
                                     float(risk.mean()), float(failed.mean())])  # fmt: skip
                if n <= 100:
                    pool, wrong = law.draw(rng, (500, BATCH))
                    fdp = batch_fdp(u[:500], e[:500], pool, wrong, alpha)
                    above["fdr"].append(_above(fdp, alpha))
    write_result(
        "lec_validity",
        {"alphas": ALPHAS, "sizes": SIZES, "delta": DELTA, "batch": BATCH},
        {
            "lec-cells": {
                "columns": ["guarantee", "cells", "above the bound by 2.33 se"],
                "rows": [
                    [rule, len(cells), sum(cells)]
                    for rule, cells in above.items()
                    if rule != "plugin"
                ],
                "note": "12 laws, 5 levels, 8 sizes (7 for fdr).",
            },
            "lec-validity": {
                "columns": ["law, n, rule", "accepted", "wrong / accepted", "mean risk, none = 0",
                            "P(risk > alpha)"],
                "rows": rows,
                "note": f"alpha = {SHOWN_ALPHA}, delta = {DELTA}; 2000 runs, 400 at n = 1000.",
            },
            "lec-digits": {
                "columns": ["model, rule", "accepted", "wrong / accepted", "runs above alpha"],
                "rows": digits(),
                "note": "load_digits, score 1 - largest probability, alpha = .02, 60 splits of the "
                "held-out half into calibration and test.",
            },
        },
    )  # fmt: skip


def _above(values: np.ndarray, bound: float) -> bool:
    return bool(values.mean() > bound + 2.33 * values.std() / np.sqrt(values.size) + 1e-9)


def digits() -> list[list[Any]]:
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(y.size)
    train, rest = order[:600], order[600:]
    rows = []
    for model in (LogisticRegression(max_iter=500), KNeighborsClassifier(7)):
        proba = model.fit(X[train] / 16, y[train]).predict_proba(X[rest] / 16)
        u, e = 1 - proba.max(axis=1), (proba.argmax(axis=1) != y[rest]).astype(int)
        for guarantee in ("plugin", "fdr", "marginal", "pac"):
            found = []
            for seed in range(60):
                parts = np.random.default_rng(seed).permutation(u.size)
                cal, test = parts[: u.size // 2], parts[u.size // 2 :]
                pool = {"unlabeled_scores": u[test]} if guarantee == "fdr" else {}
                rule = SelectiveThreshold(alpha=0.02, guarantee=guarantee).fit(
                    u[cal], e[cal], **pool
                )
                result = rule.predict(u[test], check=False)
                found.append([result.mean(), e[test][result].sum() / max(result.sum(), 1)])
            x = np.array(found)
            rows.append([f"{type(model).__name__}, {guarantee}", *map(float, x.mean(axis=0)),
                         float((x[:, 1] > 0.02).mean())])  # fmt: skip
    return rows


if __name__ == "__main__":
    main()
