"""Speed of the scans and loss of 8-bit tables, on WordNet glosses and on random codes.

117,659 glosses, 384 dimensions, as many bits. Peer: faiss IndexBinaryFlat on SimHash codes of the
same bytes. Sides alternate in one process on one thread, process CPU time, decoding included.
"""

import time
from typing import Any

import numpy as np
from _common import ratio_interval, shown, write_result
from _texts import wordnet

from foretell.recall import CosineDecoder, SignSketch
from foretell.recall.backends import Request, ScanBackend, Tables, scanned, sign_index
from foretell.recall.block_scan import BlockedCodes
from foretell.recall.rows import Rows
from foretell.recall.table import Column, MemoryTable

BITS, SEEDS, QUERIES, BUDGET, ROUNDS, K = 384, 5, 400, 100, 7, 10
MILLION = 1_000_000


def recall(found: Any, truth: Any) -> np.ndarray:
    """Per query, the share of the true neighbours that were found."""
    return np.array([np.isin(b, a).mean() for a, b in zip(found, truth, strict=True)])


def spread(values: Any, seed: int = 0) -> tuple[float, float, float]:
    """Mean with a bootstrap 95 % interval over queries."""
    x = np.asarray(values, float)
    draws = x[np.random.default_rng(seed).integers(len(x), size=(2000, len(x)))].mean(axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(x.mean()), float(low), float(high)


def timed(call: Any, repeats: int = 1) -> float:
    start = time.process_time()
    for _ in range(repeats):
        call()
    return (time.process_time() - start) / repeats


def one_seed(X: Any, Q: Any, truth: Any, seed: int, clock: bool) -> dict[str, Any]:
    import faiss

    sketch = SignSketch(n_bits=BITS, random_state=seed).fit(X[:10])
    simhash = SignSketch(n_bits=BITS, projection="gaussian", random_state=seed).fit(X[:10])
    codes, old = sketch.transform(X), simhash.transform(X)
    flat = faiss.IndexBinaryFlat(BITS)
    flat.add(old)
    fast = sign_index(Rows.of(codes))
    table = MemoryTable({"codes": Column("|u1", BITS // 8)})
    view, backend = table.commit({"codes": codes}), ScanBackend()
    state = backend.extend(view)

    def ours() -> np.ndarray:  # from raw queries to candidates
        plans = CosineDecoder().prepare_many(sketch, Q)
        weights = np.stack([plan.weights for plan in plans]).astype(np.float32)
        return fast.search(weights, BUDGET)[1]

    def drop_in() -> np.ndarray:
        plans = CosineDecoder().prepare_many(simhash, Q)
        weights = np.stack([plan.weights for plan in plans]).astype(np.float32)
        return old_fast.search(weights, BUDGET)[1]

    def scan() -> np.ndarray:
        plans = CosineDecoder().prepare_many(sketch, Q)
        weights = np.stack([plan.weights for plan in plans])
        return backend.candidates(state, view, request_for(weights))

    def exact() -> np.ndarray:
        plans = CosineDecoder().prepare_many(sketch, Q)
        return scanned(view, request_for(np.stack([plan.weights for plan in plans])))

    def peer() -> np.ndarray:
        return flat.search(simhash.transform(Q), BUDGET)[1]

    old_fast = sign_index(Rows.of(old))
    sides = {"IndexBinaryFlat": peer, "drop-in": drop_in, "fastscan": ours, "numpy": scan}
    out: dict[str, Any] = {name: recall(side(), truth) for name, side in sides.items()}
    out["exact"] = recall(exact(), truth)
    if clock:
        spent: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(ROUNDS):
            for name, side in sides.items():
                spent[name].append(1e3 * timed(side) / len(Q))
        out["ms"] = spent
    return out


def request_for(weights: Any) -> Request:
    return Request(Tables(weights, BITS // 8, "little"), BUDGET, 1, None, "little")


def one_million(seed: int = 0) -> dict[str, list[float]]:
    """Milliseconds a query over 10^6 random codes of 384 bits, decoding included."""
    import faiss

    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 256, (MILLION, BITS // 8), dtype=np.uint8)
    Q = rng.normal(size=(20, BITS))
    Q /= np.linalg.norm(Q, axis=1, keepdims=True)
    sketch = SignSketch(n_bits=BITS, random_state=0).fit(Q)
    flat = faiss.IndexBinaryFlat(BITS)
    flat.add(codes)
    fast = sign_index(Rows.of(codes))

    def ours() -> Any:
        plans = CosineDecoder().prepare_many(sketch, Q)
        return fast.search(np.stack([p.weights for p in plans]).astype(np.float32), BUDGET)

    def blocked() -> Any:
        plans = CosineDecoder().prepare_many(sketch, Q)
        return own.top(np.stack([p.weights for p in plans]), BUDGET)

    def peer() -> Any:
        return flat.search(sketch.transform(Q), BUDGET)

    own = BlockedCodes.from_codes(codes)
    sides = {"fastscan": ours, "numpy": blocked, "IndexBinaryFlat": peer}
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for side in sides.values():
        side()
    for _ in range(ROUNDS):
        for name, side in sides.items():
            spent[name].append(1e3 * timed(side) / len(Q))
    return spent


def main() -> None:
    import faiss

    faiss.omp_set_num_threads(1)
    corpus = wordnet()
    X, Q = corpus.documents, corpus.queries[:QUERIES].astype(np.float64)
    Q /= np.linalg.norm(Q, axis=1, keepdims=True)
    truth = np.argsort(-(Q.astype(np.float32) @ X.T), axis=1)[:, :K]
    runs = [one_seed(X, Q, truth, seed, clock=seed == 0) for seed in range(SEEDS)]
    names = ["IndexBinaryFlat", "drop-in", "fastscan", "numpy"]
    pooled = {name: np.mean([run[name] for run in runs], axis=0) for name in names}
    ms = runs[0]["ms"]
    labels = {
        "IndexBinaryFlat": "faiss IndexBinaryFlat, SimHash",
        "drop-in": "same codes, decorrelated votes, faiss fast-scan",
        "fastscan": "orthogonal codes, votes, faiss fast-scan",
        "numpy": "orthogonal codes, votes, our blocked scan",
    }
    rows = [
        [
            labels[name], float(np.median(ms[name])),
            "1" if name == names[0] else shown(ratio_interval(ms[name], ms[names[0]])),
            shown(spread(pooled[name])), BITS // 8,
        ]
        for name in names
    ]  # fmt: skip
    loss = spread(np.mean([run["exact"] - run["fastscan"] for run in runs], axis=0))
    big = one_million()
    rows_million = [
        [
            name, float(np.median(big[side])),
            "1" if side == names[0] else shown(ratio_interval(big[side], big[names[0]])),
        ]
        for name, side in (
            ("faiss IndexBinaryFlat", names[0]), ("votes by faiss fast-scan", "fastscan"),
            ("votes by our blocked scan", "numpy"),
        )
    ]  # fmt: skip
    write_result(
        "qacos_index",
        {"bits": BITS, "seeds": SEEDS, "queries": QUERIES, "budget": BUDGET, "rounds": ROUNDS,
         "faiss": faiss.__version__},
        {
            "qacos-index-scan": {
                "columns": ["scan of 117,659 codes", "CPU-ms a query", "time / IndexBinaryFlat",
                            "recall of top 10 at 100", "bytes a code"],
                "rows": rows,
                "note": f"Decoding included; {QUERIES} queries, {SEEDS} projections, interval over "
                f"queries. 8-bit tables lose {100 * loss[0]:.2f} points of recall "
                f"[{100 * loss[1]:.2f}, {100 * loss[2]:.2f}] against 16-bit ones.",
            },
            "qacos-index-million": {
                "columns": ["scan of 10^6 codes of 384 bits", "CPU-ms a query", "time ratio"],
                "rows": rows_million,
                "note": "Random codes, 20 queries at a time, one thread; decoding included.",
            },
        },
        milliseconds={"wordnet": ms, "million": big},
    )  # fmt: skip
    print(*rows, *rows_million, loss, sep="\n")


if __name__ == "__main__":
    main()
