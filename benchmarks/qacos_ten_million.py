"""Ten million vectors in one index: memory, time to add, time of a question.

Vectors of 96 dimensions around ten thousand centres, 384 bits each, added in pieces. Questions are
vectors of the index with noise; right is the exact nearest one, which is the vector itself.
"""

import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from _common import CACHE, write_result

from foretell.recall import SignSketch, SketchIndex

N, D, BITS, PIECE, QUESTIONS = 10_000_000, 96, 384, 200_000, 20


def pieces() -> Any:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(10_000, D)).astype(np.float32)
    for _ in range(N // PIECE):
        noise = rng.standard_normal((PIECE, D), dtype=np.float32)
        yield centres[rng.integers(len(centres), size=PIECE)] + noise


def main() -> None:
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        first = next(pieces())
        sketch = SignSketch(n_bits=BITS, random_state=0).fit(first[:1000])
        index = SketchIndex(sketch, store=Path(folder) / "index")
        spent, asked = 0.0, []
        for n, piece in enumerate(pieces()):
            began = time.process_time()
            index.add(piece)
            spent += time.process_time() - began
            if n % 5 == 0 and len(asked) < QUESTIONS:
                row = int(rng.integers(PIECE))
                asked.append((n * PIECE + row, piece[row]))
        rows, found = [], 0
        for row, vector in asked:
            noisy = vector + 0.3 * rng.standard_normal(D, dtype=np.float32)
            began = time.process_time()
            result = index.search(noisy[None] / np.linalg.norm(noisy), k=10)
            rows.append(time.process_time() - began)
            found += int(row in np.asarray(result.ids)[0])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        write_result(
            "qacos_ten_million",
            {"vectors": N, "dimensions": D, "bits": BITS, "questions": len(asked)},
            {
                "qacos-ten-million": {
                    "columns": ["vectors", "bits", "added a CPU-s", "CPU-s a question",
                                "right one among 10", "largest resident memory, GB"],
                    "rows": [[N, BITS, N / spent, float(np.median(rows)),
                              f"{found} of {len(asked)}", peak / 1e9]],
                    "note": f"{D} dimensions, NumPy back end, vectors on the disk. Resident memory "
                    "counts mapped pages, which the system can take back.",
                }
            },
        )  # fmt: skip


if __name__ == "__main__":
    main()
