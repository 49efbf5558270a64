"""Memory that an index takes while vectors are added, and what follows for ten million of them.

Random vectors come from a mapped file and go to an index in a folder, 384 dimensions and bits.
Counted is anonymous memory (RssAnon), sampled by a thread: pages of mapped files can be given up by
the system at any time. Each size is measured in a process of its own.
"""

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from _common import CACHE, write_result

D, SIZES, TARGET = 384, (50_000, 100_000, 200_000), 10_000_000


def anonymous() -> int:
    """Bytes of memory of this process that no file backs."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    raise SystemExit("this measurement reads /proc, as Linux has it")


def measure(backend: str, n: int, folder: Path) -> None:
    """Print: bytes before, peak while adding, after; CPU seconds."""
    from foretell.recall import SignSketch, SketchIndex

    X = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (n, D))
    rng = np.random.default_rng(0)
    for start in range(0, n, 10_000):
        X[start : start + 10_000] = rng.normal(size=(min(10_000, n - start), D))
    sketch = SignSketch(n_bits=D, random_state=0).fit(X[:100])
    warm = SketchIndex(sketch, backend=backend, store=folder / "warm")
    warm.add(X[:9000])
    warm.search(np.asarray(X[:1]) / np.linalg.norm(X[0]), k=1)
    del warm
    before, peak, done = anonymous(), 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.is_set():
            peak = max(peak, anonymous())
            time.sleep(0.01)

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.process_time()
    index = SketchIndex(sketch, backend=backend, store=folder / "index")
    index.add(X)
    spent = time.process_time() - began
    done.set()
    watcher.join()
    print(before, peak, anonymous(), spent, index.nbytes["vectors"])


def main() -> None:
    rows: list[list[Any]] = []
    for backend in ("numpy", "fastscan"):
        held, peaks = [], []
        for n in SIZES:
            with tempfile.TemporaryDirectory(dir=CACHE) as folder:
                out = subprocess.run(
                    [sys.executable, __file__, backend, str(n), folder],
                    check=True, capture_output=True, text=True,
                ).stdout.split()  # fmt: skip
            before, peak, after = (int(v) for v in out[:3])
            held.append(after - before)
            peaks.append(peak - before)
            print(backend, n, out, flush=True)
        slope = float(np.polyfit(SIZES, held, 1)[0])
        top = float(np.polyfit(SIZES, peaks, 1)[0])
        rows.append([
            backend, slope, top, top / (4 * D), 1e-9 * TARGET * (slope + D / 8 + 8),
            1e-9 * TARGET * 4 * D,
        ])  # fmt: skip
    write_result(
        "qacos_index_memory",
        {"sizes": list(SIZES), "dimensions": D, "bits": D},
        {
            "qacos-index-memory": {
                "columns": [
                    "back end", "bytes a vector, after", "bytes a vector, peak of add",
                    "peak / bytes of the vectors", "GB in memory for 10^7, mapped codes included",
                    "GB on the disk for 10^7 float32 vectors",
                ],
                "rows": rows,
                "note": f"Slopes over {', '.join(f'{n:,}' for n in SIZES)} vectors of {D} "
                f"dimensions and {D} bits. Mapped codes and ids take {D // 8 + 8} bytes a vector "
                "of page cache.",
            }
        },
    )  # fmt: skip
    print(*rows, sep="\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
    else:
        main()
