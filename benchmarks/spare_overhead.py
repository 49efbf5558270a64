"""What exact sums cost beside plain data-parallel training, without failures: REAL, two workers.

A transformer of about ten million parameters. Each of the two processes holds it twice, for plain
DistributedDataParallel over gloo and for MaskedDataParallel, and takes their steps in turns, so
that both see the same machine. CPU seconds of a step are those of both processes, wall seconds
those of the slower one. Same batches, micro-batches and optimiser on both sides.
"""

import json
import os
import socket
import tempfile
from pathlib import Path

import numpy as np
from _common import HERE, median_interval, run_jobs, shown, write_result

from foretell.train.stacked import Supervisor, WorkerSpec

STEPS, SKIP = int(os.environ.get("STEPS", "42")), 2
JOB = {"width": 384, "layers": 6, "context": 128, "size": 4, "units": 4}
# Workers at different addresses do not share memory, as on two machines.
NEAR, FAR = ["127.0.0.1", "127.0.0.1"], ["127.0.0.1", "127.0.0.2"]
KINDS = {"exact, one machine (shared memory)": ("sockets", True, NEAR),
         "exact, sockets": ("sockets", True, FAR), "exact, gloo": ("gloo", True, NEAR),
         "float32, one machine (shared memory)": ("sockets", False, NEAR),
         "float32, gloo": ("gloo", False, NEAR)}  # fmt: skip


def in_turns(backend: str, exact: bool, hosts: list, steps: int) -> dict:
    """Seconds of every step, (2 ranks, steps, CPU and wall) for each side."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        times = Path(folder) / "times"
        times.mkdir()
        spec = WorkerSpec(
            target="_text_transformer:in_turns",
            arguments={**JOB, "folder": str(times), "port": port},
            path=[str(HERE)], steps=steps, survive=1, units=JOB["units"], backend=backend,
            exact=exact, start_s=120.0,
        )  # fmt: skip
        out = Supervisor(spec, 2, hosts=hosts).run()
        if out.status != "done":
            raise RuntimeError(out.message)
        ranks = [json.loads(p.read_text()) for p in sorted(times.iterdir())]
    return {side: [rank[side] for rank in ranks] for side in ("DDP", "ours")}


def main() -> None:
    jobs = [{"backend": b, "exact": e, "hosts": h, "steps": STEPS} for b, e, h in KINDS.values()]
    rows, bars = [], []
    for name, run in zip(
        KINDS, run_jobs("spare_overhead_shared", in_turns, jobs, workers=1), strict=True
    ):
        took = {side: np.array(run[side])[:, SKIP:] for side in run}
        cpu = {side: x[..., 0].sum(0) for side, x in took.items()}
        wall = {side: x[..., 1].max(0) for side, x in took.items()}
        row, ratios = [name], []
        for kind in (cpu, wall):
            ratios.append(median_interval(kind["ours"] / kind["DDP"]))
            row += [*(round(float(np.median(kind[s])), 3) for s in ("DDP", "ours")),
                    shown(ratios[-1])]  # fmt: skip
        rows.append(row)
        good = [r[0] <= 1.05 for r in ratios], [r[2] <= 1.05 for r in ratios]
        bars.append([name, "<= 1.05", "yes" if all(good[0]) else "NO",
                     "yes" if all(good[1]) else "NO"])  # fmt: skip
    write_result(
        "spare_overhead",
        {**JOB, "steps": STEPS, "skipped": SKIP, "workers": 2},
        {
            "spare-overhead": {
                "columns": ["REAL, two workers, 10.8 million parameters", "CPU-s a step, DDP",
                            "ours", "ours / DDP", "wall, s, DDP", "ours ", "ours / DDP "],
                "rows": rows,
                "note": f"Without failures; two units of 4 x 128 tokens for each worker. "
                f"{STEPS - SKIP} pairs of steps, in turns in the same processes; median of the "
                "paired ratios with 95 % interval.",
            },
            "spare-overhead-bars": {
                "columns": ["CPU and wall / DDP", "bar", "met by the medians",
                            "met by the upper ends"],
                "rows": bars,
            },
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
