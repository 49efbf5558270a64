"""Vectors that the gate reads, against the best fixed budget, on WordNet glosses.

z is chosen on one half of the queries for 95 or 99 % recall of the exact top 10, and tested on the
other.
The fixed budget is the smallest one with at least the recall that the gate reached, on the test
queries themselves: known in hindsight, which is in its favour.
"""

from typing import Any

import numpy as np
from _common import write_result
from _texts import wordnet
from qacos_index import recall, spread

from foretell.recall import SignSketch, SketchIndex
from foretell.recall.budget import plan_gate

SEEDS, QUERIES, K, MOST = 5, 800, 10, 3000


def measure(
    X: Any, Q: Any, truth: Any, bits: int, seed: int, targets: tuple[float, ...]
) -> list[dict[str, Any]]:
    index = SketchIndex(SignSketch(n_bits=bits, random_state=seed).fit(X[:10]))
    index.add(X)
    half = len(Q) // 2
    found = index.candidates(Q[half:], MOST)
    ranks = np.full((len(found), K), 10**9)
    for q, (row, ids) in enumerate(zip(found, truth[half:], strict=True)):
        place = np.nonzero(row[None] == ids[:, None])
        ranks[q, place[0]] = place[1] + 1
    out = []
    for target in targets:
        plan = plan_gate(index, Q[:half], target, k=K, budget=MOST, truth=truth[:half])
        test = index.search(Q[half:], k=K, budget=MOST, gate=plan.gate)
        reached = recall(test.ids, truth[half:])
        wanted = int(np.ceil(reached.mean() * ranks.size)) - 1
        fixed = int(np.sort(ranks.ravel())[wanted])
        out.append({"gate": plan.gate, "reads": test.info.reads, "recall": reached, "fixed": fixed})
    return out


def main() -> None:
    corpus = wordnet()
    X, Q = corpus.documents, corpus.queries[:QUERIES].astype(np.float64)
    Q /= np.linalg.norm(Q, axis=1, keepdims=True)
    truth = np.argsort(-(Q.astype(np.float32) @ X.T), axis=1)[:, :K]
    rows = []
    for bits, seeds, targets in ((384, SEEDS, (0.95, 0.99)), (128, 1, (0.95,))):
        runs = [measure(X, Q, truth, bits, seed, targets) for seed in range(seeds)]
        for target, found in zip(targets, zip(*runs, strict=True), strict=True):
            reads = np.mean([g["reads"] for g in found], axis=0)
            reached = np.mean([g["recall"] for g in found], axis=0)
            fixed = float(np.mean([g["fixed"] for g in found]))
            gates = sorted({g["gate"] for g in found})
            rows.append([
                f"{bits} bits, {target:.0%}", seeds, f"{gates[0]} to {gates[-1]}",
                text(spread(reached)), text(spread(reads)), fixed, text(spread(reads / fixed)),
            ])  # fmt: skip
    write_result(
        "qacos_gate",
        {"seeds": SEEDS, "queries": QUERIES, "most": MOST},
        {
            "qacos-gate": {
                "columns": ["gate", "projections", "z from the other half", "recall of top 10",
                            "reads a query", "fixed budget of equal recall", "reads / fixed"],
                "rows": rows,
                "note": f"{QUERIES // 2} test queries; 95 % interval over queries.",
            }
        },
    )  # fmt: skip
    print(*rows, sep="\n")


def text(values: tuple[float, ...]) -> str:
    middle, low, high = (f"{v:.3g}" if v < 100 else f"{v:.0f}" for v in values)
    return f"{middle} [{low}, {high}]"


if __name__ == "__main__":
    main()
