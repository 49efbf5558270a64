"""What the theory of OSC says, measured: overlaps, depth, the exact regime.

Overlaps: 200,000 pairs for each line. Depth: 100 facts of distinct fillers at paths of a given
depth in 4096 cells, 10 seeds; TPR with a mode for every level needs 64^depth 64 cells. Exact
regime: as many facts as there are places, 10 seeds.
"""

from typing import Any

import numpy as np
from _common import run_jobs, shown, write_result

from foretell.core import ParameterError
from foretell.recall import OSCMemory, TPRMemory
from foretell.recall.hashed_normals import hashed_normals
from foretell.recall.tensor_products import orthonormal_frames

SEEDS, DEPTHS = range(10), (1, 2, 5, 10, 20, 50)
D, S, FRAMES, EACH = 64, 16, 4000, 50


def overlaps() -> list[list[Any]]:
    K = orthonormal_frames(hashed_normals(range(FRAMES), 1, D * S).reshape(FRAMES, D, S))
    L = np.roll(K, 1, axis=0)
    rows = []
    for binding, size in (("carve", D), ("embed", S)):
        found = {"inside": [], "across": [], "same": []}  # type: dict[str, list[Any]]
        for k in range(EACH):
            x, y = unit(size, 100 + k), unit(size, 200 + k)
            a, b = place(binding, K, x), place(binding, K, y)
            found["inside"].append((a * b).sum(1))
            found["across"].append((a * place(binding, L, y)).sum(1))
            found["same"].append((a * place(binding, L, x)).sum(1))
        inside, across, same = (np.concatenate(values) for values in found.values())
        same_filler = (
            ["mean", S / D, same.mean()] if binding == "carve" else ["variance", 1 / D, same.var()]
        )
        for name, (what, theory, measured) in {
            "same path, other filler": ("variance", 1 / S, inside.var()),
            "other path, other filler": ("variance", 1 / D, across.var()),
            "other path, same filler": same_filler,
        }.items():
            error = 100 * abs(measured / theory - 1)
            rows.append(
                [f"{binding}: {name}", what, float(theory), float(measured), f"{error:.2g} %"]
            )
    return rows


def unit(size: int, stream: int) -> Any:
    rows = hashed_normals(range(FRAMES), stream, size)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def place(binding: str, K: Any, x: Any) -> Any:
    if binding == "embed":
        return np.einsum("nds,ns->nd", K, x)
    z = np.einsum("nds,ns->nd", K, np.einsum("nes,ne->ns", K, x))
    return z / np.linalg.norm(z, axis=1, keepdims=True)


def depth(binding: str, levels: int, seed: int) -> dict[str, Any]:
    memory = OSCMemory(vocabulary=range(500), binding=binding, capacity=10**6, seed=seed)
    fillers = np.random.default_rng(seed).permutation(500)[:100]
    paths = [("down",) * (levels - 1) + (n,) for n in range(100)]
    memory.store_many(paths, fillers.tolist())
    right = memory.scores(paths).argmax(axis=1) == fillers
    return {"accuracy": float(right.mean()), "bytes": memory.nbytes}


def exact(dim: int, kept: int, order: int, seed: int) -> dict[str, Any]:
    memory = OSCMemory(
        regime="blocks", dim=dim, kept=kept, order=order, vocabulary=range(500), seed=seed
    )
    n = memory.capacity
    rng = np.random.default_rng(seed)
    fillers, weights = rng.integers(500, size=n), rng.uniform(0.5, 2, n)
    paths = [("p", k) for k in range(n)]
    memory.store_many(paths, fillers.tolist(), weights.tolist())
    scores = memory.scores(paths)
    return {
        "places": n,
        "wrong": int((scores.argmax(axis=1) != fillers).sum()),
        "error": float(np.abs(scores[np.arange(n), fillers] - weights).max()),
    }


def tpr(levels: int) -> str:
    try:
        return str(4 * TPRMemory(role_dim=64, filler_dim=64, depth=levels)._cells.size)
    except ParameterError:
        return f"{4.0 * 64.0 ** (levels + 1):.2g}, refused"


def main() -> None:
    deep = [{"binding": b, "levels": n, "seed": s}
            for b in ("embed", "carve") for n in DEPTHS for s in SEEDS]  # fmt: skip
    results = run_jobs("osc_depth", depth, deep, workers=2)
    shapes = ((64, 8, 2), (32, 8, 2), (16, 4, 3))
    blocks = [{"dim": d, "kept": s, "order": p, "seed": r} for d, s, p in shapes for r in SEEDS]
    exacts = run_jobs("osc_exact", exact, blocks, workers=2)
    rows = []
    for n in DEPTHS:
        row: list[Any] = [n]
        for b in ("embed", "carve"):
            values = [r["accuracy"] for j, r in zip(deep, results, strict=True)
                      if (j["binding"], j["levels"]) == (b, n)]  # fmt: skip
            half = 2.262 * np.std(values, ddof=1) / len(values) ** 0.5
            mean = float(np.mean(values))
            row.append(shown((100 * mean, 100 * (mean - half), 100 * (mean + half)), 4))
        rows.append([*row, results[0]["bytes"], tpr(n)])
    write_result(
        "osc_theory",
        {"seeds": list(SEEDS), "pairs": FRAMES * EACH, "d": D, "s": S},
        {
            "osc-overlaps": {
                "columns": ["pair", "moment", "theory", "measured", "off by"],
                "rows": overlaps(),
                "note": "One mode, d = 64, s = 16, 200,000 pairs.",
            },
            "osc-depth": {
                "columns": ["depth", "embedded, % right", "carved, % right", "bytes", "TPR bytes"],
                "rows": rows,
                "note": "100 facts, V = 500, 4096 cells; mean and t interval of 10 seeds.",
            },
            "osc-exact": {
                "columns": ["d, s, p", "places", "wrong", "largest error of a score"],
                "rows": [
                    [f"{d}, {s}, {p}", own[0]["places"], sum(r["wrong"] for r in own),
                     max(r["error"] for r in own)]
                    for d, s, p in shapes
                    for own in [[r for j, r in zip(blocks, exacts, strict=True)
                                 if (j["dim"], j["kept"], j["order"]) == (d, s, p)]]
                ],
                "note": "All places taken, weights from 0.5 to 2, float32; sums over 10 seeds.",
            },
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
