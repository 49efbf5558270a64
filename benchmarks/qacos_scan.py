"""Time of finding the best 100 of a million 384-bit codes, and of turning their votes into cosines.

Ours: the blocked scan with eight-bit tables, the best codes scored again with exact weights, then
estimated cosines and standard errors. Peer: faiss IndexBinaryFlat, Hamming distance, one thread.
Both on the same random codes (time does not depend on what they say), one query at a time and
twenty at once. Sides alternate; process CPU time.
"""

import time
from collections.abc import Callable
from typing import Any

import faiss  # after the thread limits of _common
import numpy as np
from _common import ratio_interval, shown, write_result

from foretell.recall import BlockedCodes, CosineDecoder, SignSketch
from foretell.recall.scan import weighted_votes

N, BITS, K, BATCH, ROUNDS = 1_000_000, 384, 100, 20, 15


def main() -> None:
    faiss.omp_set_num_threads(1)
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 256, size=(N, BITS // 8), dtype=np.uint8)
    queries = generator.normal(size=(BATCH, BITS))
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    sketch = SignSketch(n_bits=BITS, random_state=0).fit(np.eye(BITS))
    decoder, blocked = CosineDecoder(), BlockedCodes.from_codes(codes)
    binary = faiss.IndexBinaryFlat(BITS)
    binary.add(codes)
    own = sketch.transform(queries)

    def ours(Q: Any) -> None:
        plans = decoder.prepare_many(sketch, Q)
        found = blocked.top(np.stack([plan.weights for plan in plans]), K)
        for plan, votes in zip(plans, found.votes, strict=True):
            decoder.standard_error(plan, plan.offset + plan.scale * votes)

    plan = decoder.prepare(sketch, queries[0])
    sides: dict[str, Callable[[], Any]] = {
        "blocked scan and decode (ours)": lambda: ours(queries[:1]),
        "faiss IndexBinaryFlat": lambda: binary.search(own[:1], K),
        "blocked scan and decode (ours), 20 queries": lambda: ours(queries),
        "faiss IndexBinaryFlat, 20 queries": lambda: binary.search(own, K),
        "byte tables (ours), all scores": lambda: weighted_votes(codes, plan.weights),
    }
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for search in sides.values():
        search()
    for _ in range(ROUNDS):
        for name, search in sides.items():
            start = time.process_time()
            search()
            share = BATCH if "20" in name else 1
            spent[name].append((time.process_time() - start) * 1e3 / share)
    rows = []
    for name, ms in spent.items():
        peer = "faiss IndexBinaryFlat" + (", 20 queries" if "20" in name else "")
        ratio = "1" if name == peer else shown(ratio_interval(ms, spent[peer]))
        rows.append([name, float(np.quantile(ms, 0.25)), ratio])
    write_result(
        "qacos_scan",
        {"codes": N, "bits": BITS, "found": K, "rounds": ROUNDS, "faiss": faiss.__version__},
        {
            "qacos-scan": {
                "columns": ["search", "CPU-ms a query", "time / faiss"],
                "rows": rows,
                "note": f"{N:,} codes of {BITS} bits, the best {K}. Lower quartile of {ROUNDS} "
                "alternating rounds; median of paired ratios with 95 % interval.",
            }
        },
        milliseconds=spent,
    )
    print(*rows, sep="\n")


if __name__ == "__main__":
    main()
