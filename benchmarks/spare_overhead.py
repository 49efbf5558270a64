"""What exact sums cost beside plain data-parallel training, without failures: REAL, two workers.

A transformer of about ten million parameters. Counted is the process CPU time of a step, the median
over steps and workers, since the wall clock of a shared machine says little; the wall is shown too.
Both sides take the same batches' size, the same number of micro-batches and the same optimiser.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from _common import HERE, ratio_interval, run_jobs, shown, write_result

from foretell.train.stacked import Supervisor, WorkerSpec

STEPS, SKIP = int(os.environ.get("STEPS", "7")), 2
JOB = {"width": 384, "layers": 6, "context": 128, "size": 4, "units": 4, "steps": STEPS}


def plain(repeat: int) -> dict:
    """DistributedDataParallel over gloo."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [
        subprocess.Popen(
            [sys.executable, str(HERE / "_plain_ddp.py"), str(r), "2", str(port), json.dumps(JOB)],
            stdout=subprocess.PIPE, text=True,
        )
        for r in (0, 1)
    ]  # fmt: skip
    spent = [json.loads(r.communicate(timeout=300)[0]) for r in ranks]
    return {"spent": spent}


def masked(repeat: int, backend: str, exact: bool) -> dict:
    """The same by MaskedDataParallel."""
    arguments = {k: JOB[k] for k in ("width", "layers", "context", "size", "units")}
    with tempfile.TemporaryDirectory() as folder:
        times = Path(folder) / "times"
        times.mkdir()
        spec = WorkerSpec(
            target="_text_transformer:timed", arguments={**arguments, "folder": str(times)},
            path=[str(HERE)], steps=STEPS, survive=1, units=JOB["units"], backend=backend,
            exact=exact, start_s=120.0,
        )  # fmt: skip
        out = Supervisor(spec, 2).run()
        if out.status != "done":
            raise RuntimeError(out.message)
        return {"spent": [json.loads(p.read_text()) for p in sorted(times.iterdir())]}


def main() -> None:
    repeats = range(int(os.environ.get("REPEATS", "3")))
    kinds = [("gloo", True), ("sockets", True), ("gloo", False)]
    cpu, wall = {}, {}
    for r in repeats:  # alternating, so that both sides see the same machine
        runs = {"DDP": run_jobs("spare_overhead_ddp", plain, [{"repeat": r}], workers=1)[0]}
        for backend, exact in kinds:
            job = {"repeat": r, "backend": backend, "exact": exact}
            name = f"{'exact' if exact else 'float32'}, {backend}"
            runs[name] = run_jobs("spare_overhead", masked, [job], workers=1)[0]
        for name, run in runs.items():
            spent = np.array(run["spent"])[:, SKIP:]
            cpu.setdefault(name, []).append(float(np.median(spent[..., 0])))
            wall.setdefault(name, []).append(float(np.median(spent[..., 1])))
    rows = [
        [name, round(float(np.median(cpu[name])), 3), shown(ratio_interval(cpu[name], cpu["DDP"])),
         round(float(np.median(wall[name])), 3), shown(ratio_interval(wall[name], wall["DDP"]))]
        for name in cpu
    ]  # fmt: skip
    write_result(
        "spare_overhead",
        {**JOB, "skipped": SKIP, "repeats": len(repeats), "workers": 2},
        {
            "spare-overhead": {
                "columns": ["REAL, two workers, 10.8 million parameters", "CPU-s a step", "/ DDP",
                            "wall, s", "/ DDP "],
                "rows": rows,
                "note": "Without failures; two units of 4 x 128 tokens for each worker. Median of "
                f"{len(repeats)} alternating runs with the range of their resampled median. Bar: "
                "1.05.",
            }
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
