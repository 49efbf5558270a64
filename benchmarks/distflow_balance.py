"""Balance against tokens moved: the published policy, variants, and the one that moves little.

Rows lie where they were drawn; each policy shares them out anew. 50 draws of lognormal lengths, and
the lengths of the answers of GSM8K (characters / 4 as tokens), drawn with replacement.
"""

import gzip
import json
from pathlib import Path

import numpy as np
from _common import data, shown, write_result

from foretell.train.rl.balancing import balance, lower_bound

POLICIES = ("keep", "lpt_equal", "lpt_relabel", "min_move")
CELLS = {"8 x 16": (8, 16), "32 x 16": (32, 16), "128 x 64": (128, 64), "8 x 4": (8, 4)}
DRAWS = 50


def lognormal(rng, n: int) -> np.ndarray:
    return np.clip(rng.lognormal(5.8, 1.0, n), 16, 4096).astype(np.int64)


def gsm8k_lengths(path: Path) -> np.ndarray:
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    return np.array([max(len(json.loads(x)["answer"]) // 4, 1) for x in lines])


def cell(name: str, draw, n_parts: int, each: int) -> tuple[list, dict]:
    found: dict = {policy: [] for policy in POLICIES}
    bounds = []
    for seed in range(DRAWS):
        n = draw(np.random.default_rng([seed, n_parts, each]), n_parts * each)
        now, uid = np.repeat(np.arange(n_parts), each), np.arange(n_parts * each)
        bounds.append(lower_bound(n, n_parts))
        for policy in POLICIES:
            plan = balance(policy, n, now, uid, n_parts)
            found[policy].append((plan.largest, plan.moved))
    rows = []
    for policy in POLICIES:
        largest, moved = np.array(found[policy]).T
        rows.append(
            [f"{name}: {policy}", float(largest.mean()), float(largest.max()),
             float(np.mean(bounds)), float(moved.mean())]
        )  # fmt: skip
    ours, lpt = (np.array(found[p]) for p in ("min_move", "lpt_equal"))
    reached = np.mean(ours[:, 0] <= np.maximum(1.03, 1.03 * np.array(bounds)))
    ratio = ours[:, 1] / lpt[:, 1]
    ends = np.quantile(ratio, [0.5, 0.025, 0.975])
    return rows, {"reached": float(reached), "ratio": ends.tolist(), "most": float(ratio.max())}


def main() -> None:
    rows, bars = [], []
    lengths = gsm8k_lengths(data("gsm8k/train.jsonl.gz"))
    sources = {"lognormal": lognormal, "GSM8K answers": lambda rng, n: rng.choice(lengths, n)}
    for source, draw in sources.items():
        for name, (n_parts, each) in CELLS.items():
            more, bar = cell(f"{source}, {name}", draw, n_parts, each)
            rows += more
            bars.append(
                [f"{source}, {name}", bar["reached"], shown(tuple(bar["ratio"])), bar["most"],
                 "yes" if bar["reached"] == 1 and bar["most"] <= 0.2 else "NO"]
            )  # fmt: skip
    write_result(
        "distflow_balance",
        {"draws": DRAWS, "eps": 0.02},
        {
            "distflow-balance": {
                "columns": [
                    "ranks x rows: policy", "largest / mean", "worst draw", "bound",
                    "tokens moved",
                ],
                "rows": rows,
                "note": "Means over 50 draws; the bound is max(1, K max n / sum n).",
            },
            "distflow-balance-bars": {
                "columns": [
                    "ranks x rows", "draws within 3 % of the bound or of 1",
                    "tokens moved, min_move / lpt_equal", "worst draw", "1 and <= 0.2",
                ],
                "rows": bars,
                "note": "With four rows a rank nothing balances; the bound says why.",
            },
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
