"""How many facts fit into 4096 cells, and what a question costs: OSC and torch-hd's memories.

Ours: OSCMemory, embedded (default) and carved (the paper's), at orders 2 and 3. Peers: torch-hd's
MAP, HRR (role vectors made unitary, its best setting) and FHRR (2048 phases are 4096 real numbers);
Kronecker-MAP and TPR are our own references, for torch-hd has neither. Every fact has a path of its
own. Distinct: V = 500 fillers, none used twice. Repeated: 20 of the 500 fillers are used.
N_99 is the number of facts at which the pooled accuracy falls below 99 %.
Also: how far the measured accuracy is from the formula.
"""

import math
import time
from typing import Any

import numpy as np
import torch
import torchhd
from _common import run_jobs, shown, write_result

from foretell.recall import KroneckerMAPMemory, OSCMemory, TPRMemory

SEEDS = range(10)
V, CELLS = 500, 4096
LOADS = (40, 60, 80, 90, 100, 110, 120, 130, 140, 160, 200, 280, 400)
OURS: dict[str, Any] = {
    "OSC embedded, p=2": lambda **k: OSCMemory(**k),
    "OSC embedded, p=3": lambda **k: OSCMemory(order=3, dim=16, **k),
    "OSC carved, p=2": lambda **k: OSCMemory(binding="carve", **k),
    "OSC carved, p=3": lambda **k: OSCMemory(order=3, dim=16, binding="carve", **k),
    "Kronecker-MAP, p=2": lambda **k: KroneckerMAPMemory(**k),
    "Kronecker-MAP, p=3": lambda **k: KroneckerMAPMemory(order=3, dim=16, **k),
    "TPR 64x64": lambda **k: TPRMemory(**k),
}
PEERS = ("MAP", "HRR", "FHRR")


def fillers_of(kind: str, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    if kind == "distinct":
        return np.concatenate([rng.permutation(V) for _ in range(max(LOADS) // V + 1)])
    return rng.choice(rng.permutation(V)[:20], max(LOADS))


def accuracy(memory: str, kind: str, seed: int) -> dict[str, Any]:
    f = fillers_of(kind, seed)
    correct = theirs(memory, f, seed) if memory in PEERS else ours(memory, f, seed)
    return {"correct": correct}


def ours(name: str, f: Any, seed: int) -> list[int]:
    memory = OURS[name](vocabulary=range(V), capacity=10**9, seed=seed)
    correct, stored = [], 0
    for n in LOADS:
        paths = [("path", k) for k in range(n)]
        memory.store_many(paths[stored:], f[stored:n].tolist())
        stored = n
        correct.append(int((memory.scores(paths).argmax(axis=1) == f[:n]).sum()))
    return correct


def theirs(name: str, f: Any, seed: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    size = CELLS // 2 if name == "FHRR" else CELLS
    symbols = torchhd.random(V, size, name, generator=generator)
    roles = torchhd.random(max(LOADS), size, name, generator=generator)
    if name == "HRR":
        roles = unitary(roles)
    items = torchhd.bind(roles, symbols[torch.as_tensor(f[: max(LOADS)])])
    correct = []
    for n in LOADS:
        bundle = items[:n].sum(0)
        answers = torchhd.bind(roles[:n].inverse(), bundle)
        scores = torchhd.dot_similarity(answers, symbols)
        correct.append(int((scores.argmax(1).numpy() == f[:n]).sum()))
    return correct


def unitary(roles: Any) -> Any:
    spectrum = torch.fft.rfft(roles.as_subclass(torch.Tensor))
    return torch.fft.irfft(spectrum / spectrum.abs(), n=roles.shape[-1]).as_subclass(type(roles))


def n_99(correct: Any) -> float:
    """Where the accuracy crosses 99 %, by straight lines; correct has one row for each seed."""
    share = correct.mean(axis=0) / np.array(LOADS)
    below = np.flatnonzero(share < 0.99)
    if not below.size:
        return float(LOADS[-1])
    k = int(below[0])
    if k == 0:
        return float(LOADS[0])
    part = (share[k - 1] - 0.99) / (share[k - 1] - share[k])
    return LOADS[k - 1] + part * (LOADS[k] - LOADS[k - 1])


def n_99_interval(correct: Any) -> tuple[float, ...]:
    rng = np.random.default_rng(0)
    draws = [n_99(correct[rng.integers(len(correct), size=len(correct))]) for _ in range(2000)]
    return n_99(correct), *np.quantile(draws, [0.025, 0.975])


def scoring(memory: str, vocabulary: int, repeat: int) -> dict[str, Any]:
    """CPU microseconds for each candidate of one question, and bytes of all symbols."""
    paths = [("path", k) for k in range(30)]
    rng = np.random.default_rng(repeat)
    f = rng.integers(vocabulary, size=30)
    if memory in PEERS:
        generator = torch.Generator().manual_seed(repeat)
        size = CELLS // 2 if memory == "FHRR" else CELLS
        symbols = torchhd.random(vocabulary, size, memory, generator=generator)
        roles = torchhd.random(30, size, memory, generator=generator)
        inverse = (unitary(roles) if memory == "HRR" else roles).inverse()
        bundle = torchhd.bind(roles, symbols[torch.as_tensor(f)]).sum(0)
        nbytes = symbols.numel() * symbols.element_size()

        def ask(k: int) -> None:
            torchhd.dot_similarity(torchhd.bind(inverse[k], bundle), symbols)
    else:
        made = OURS[memory](vocabulary=range(vocabulary), capacity=10**9, seed=repeat)
        made.store_many(paths, f.tolist())
        nbytes = made.vocabulary.nbytes

        def ask(k: int) -> None:
            made.scores([paths[k]])

    ask(0)
    ask(1)
    seconds = []
    for k in range(2, 12):
        start = time.process_time()
        ask(k)
        seconds.append(time.process_time() - start)
    return {"us": 1e6 * float(np.median(seconds)) / vocabulary, "bytes": nbytes / vocabulary}


def main() -> None:
    torch.set_num_threads(1)
    names = [*OURS, *PEERS]
    kinds = ("distinct", "repeated")
    jobs = [{"memory": m, "kind": k, "seed": s} for m in names for k in kinds for s in SEEDS]
    results = run_jobs("osc_capacity", accuracy, jobs, workers=1)
    correct = {
        (m, k): np.array(
            [r["correct"] for j, r in zip(jobs, results, strict=True)
             if (j["memory"], j["kind"]) == (m, k)]
        )
        for m in names
        for k in kinds
    }  # fmt: skip
    sizes = (500, 10_000)
    timing = [{"memory": m, "vocabulary": v, "repeat": r}
              for r in range(3) for v in sizes for m in names]  # fmt: skip
    timed = run_jobs("osc_scoring", scoring, timing, workers=1)
    cost = {
        (m, v): np.array([t["us"] for j, t in zip(timing, timed, strict=True)
                          if (j["memory"], j["vocabulary"]) == (m, v)])
        for m in names
        for v in sizes
    }  # fmt: skip
    numbers = {j["memory"]: t["bytes"] for j, t in zip(timing, timed, strict=True)}
    n99 = {key: n_99_interval(value) for key, value in correct.items()}
    best = {k: max((n99[m, k][0], m) for m in PEERS) for k in kinds}
    write_result(
        "osc_capacity",
        {"cells": CELLS, "vocabulary": V, "loads": list(LOADS), "seeds": list(SEEDS)},
        {
            "osc-capacity": {
                "columns": ["memory of 4096 cells", "N_99 distinct", "N_99 repeated",
                            *[f"accuracy {n} distinct" for n in (100, 200, 400)],
                            *[f"accuracy {n} repeated" for n in (100, 200, 400)],
                            "bytes a symbol"],
                "rows": [
                    [m + (" (torch-hd)" if m in PEERS else ""),
                     *[shown(n99[m, k]) for k in kinds],
                     *[float(correct[m, k][:, LOADS.index(n)].mean() / n)
                       for k in kinds for n in (100, 200, 400)],
                     float(numbers[m])]
                    for m in names
                ],
                "note": "V = 500, 10 seeds, bootstrap interval over seeds.",
            },
            "osc-capacity-ratio": {
                "columns": ["memory", "N_99 distinct / best of torch-hd",
                            "N_99 repeated / best of torch-hd", "symbol bytes / MAP's"],
                "rows": [
                    [m, *[n99[m, k][0] / best[k][0] for k in kinds],
                     numbers[m] / numbers["MAP"]]
                    for m in OURS
                ],
                "note": f"Best of torch-hd: {best['distinct'][1]} (distinct), "
                f"{best['repeated'][1]} (repeated).",
            },
            "osc-scoring": {
                "columns": ["memory", *[f"CPU-us a candidate, V = {v}" for v in sizes],
                            "over Kronecker-MAP of that order, V = 10000", "bar 2 (s/d)^p"],
                "rows": [
                    [m, *[float(np.median(cost[m, v])) for v in sizes],
                     shown(ratio(cost[m, 10_000], cost[flips(m), 10_000])), bar(m)]
                    for m in names
                ],
                "note": "One question at a time, one thread; median of 3 runs of 10 questions at "
                "paths not asked before.",
            },
            "osc-formula": {
                "columns": ["memory", *[f"{n} facts" for n in LOADS[2:]], "largest"],
                "rows": [
                    formula_row(m, k, correct[m, k]) for m in list(OURS)[:5] for k in kinds
                    if not ("carved" in m and k == "repeated")
                ],
                "note": "Measured accuracy minus the formula's, in points, where N/D is between "
                "0.01 and 0.1.",
            },
        },
    )  # fmt: skip


def ratio(ours: Any, peer: Any) -> tuple[float, ...]:
    values = np.sort(ours / peer)
    return float(np.median(values)), float(values[0]), float(values[-1])


def flips(name: str) -> str:
    return "Kronecker-MAP, p=3" if "p=3" in name else "Kronecker-MAP, p=2"


def bar(name: str) -> float | None:
    if "OSC" not in name:
        return None
    memory = OURS[name]()
    return float(2 * (memory.kept / memory.dim) ** memory.order)


def formula_row(name: str, kind: str, correct: Any) -> list[Any]:
    memory = OURS[name](vocabulary=range(V), capacity=10**9)
    gaps = []
    for n, found in zip(LOADS[2:], correct[:, 2:].mean(axis=0), strict=True):
        gaps.append(100 * (found / n - memory.predicted_accuracy(n)))
    inside = [g for n, g in zip(LOADS[2:], gaps, strict=True) if 0.01 <= n / CELLS <= 0.1]
    largest = max(inside, key=abs)
    return [
        f"{name}, {kind}",
        *[round(g, 1) for g in gaps],
        round(math.copysign(abs(largest), largest), 1),
    ]


if __name__ == "__main__":
    main()
