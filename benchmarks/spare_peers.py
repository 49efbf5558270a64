"""The same two kills under MaskedDataParallel, under torchft, and under DDP with restarts: REAL.

Four workers on two cores train a transformer on a text, two units each a step. Worker 2 is killed
in step 15 and worker 0 in step 55, between their two units. torchft (usual settings, a replica
group of one process each, started anew when it dies) leaves the units of the dead out. torchrun
ends everybody and starts anew from a checkpoint of every tenth step. Ours computes the units of the
dead on others. Each also runs without failures: how far are the final weights from those?

Needs torchft beside torch, for instance in an environment of its own.
"""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from _common import HERE, run_jobs, write_result

from foretell.train.stacked import Supervisor, WorkerSpec

JOB = {"workers": 4, "units": 8, "steps": 100, "width": 64, "layers": 2, "context": 64, "size": 8,
       "every": 10, "timeout_s": 4.0}  # fmt: skip
KILLS = [[2, 15], [0, 55]]
WAYS = ("exact, gloo", "exact, shared memory", "float32, gloo", "torchft", "DDP, restarts")


def run(way: str, killed: bool) -> dict:
    """One training: committed steps with their times, and the final weights."""
    with tempfile.TemporaryDirectory() as folder:
        job = {**JOB, "folder": folder, "kills": KILLS if killed else []}
        began = time.monotonic()
        {"torchft": torchft, "DDP, restarts": restarts}.get(way, ours)(job, way)
        lines = Path(folder, "steps").read_text().splitlines()
        return {
            "seconds": time.monotonic() - began,
            "lines": [json.loads(line) for line in lines],
            "weights": np.load(Path(folder, "weights.npy")).tolist(),
        }


def ours(job: dict, way: str) -> None:
    names = ("width", "layers", "context", "size", "folder")
    spec = WorkerSpec(
        target="_text_transformer:kept", arguments={k: job[k] for k in names}, path=[str(HERE)],
        steps=job["steps"], survive=1, units=job["units"],
        backend="gloo" if way.endswith("gloo") else "sockets",
        exact=way.startswith("exact"), timeout_s=job["timeout_s"], start_s=120.0,
        faults=",".join(f"kill:{w}@{s}/compute" for w, s in job["kills"]),
    )  # fmt: skip
    steps = Path(job["folder"], "steps").open("w")

    def note(event: dict, members: dict) -> None:
        if event["event"] == "step":
            line = [event["worker"], event["step"], job["units"], time.monotonic()]
            steps.write(json.dumps(line) + "\n")

    with steps:
        out = Supervisor(dataclasses.replace(spec), job["workers"], on_event=note).run()
    if out.status != "done":
        raise RuntimeError(out.message)


def torchft(job: dict, way: str) -> None:
    from torchft.coordination import LighthouseServer

    os.environ["RUST_LOG"] = "error"
    lighthouse = LighthouseServer(bind="127.0.0.1:0", min_replicas=2, join_timeout_ms=1000)
    content = Path(job["folder"], "job.json")
    content.write_text(json.dumps({**job, "lighthouse": lighthouse.address()}))
    environment = os.environ | {"RUST_LOG": "error"}

    def start(worker: int, life: int) -> subprocess.Popen:
        command = [sys.executable, str(HERE / "_survivors.py"), "torchft", str(content)]
        log = Path(job["folder"], f"log{worker}-{life}").open("w")
        return subprocess.Popen(
            [*command, str(worker), str(life)], env=environment, stdout=log, stderr=log
        )

    running = {worker: (start(worker, 0), 0) for worker in range(job["workers"])}
    end, weights = time.monotonic() + 200, Path(job["folder"], "weights.npy")
    try:
        while running:
            if time.monotonic() > end and not weights.exists():
                raise RuntimeError("torchft took more than 200 s")
            if weights.exists() and time.time() - weights.stat().st_mtime > 3:
                break  # one that came back too late would wait for a quorum for ever
            for worker, (process, life) in list(running.items()):
                code = process.poll()
                if code == 0:
                    del running[worker]
                elif code is not None:
                    if life > 3 or weights.exists():
                        del running[worker]
                    else:
                        running[worker] = (start(worker, life + 1), life + 1)
            time.sleep(0.02)
    finally:
        for process, _ in running.values():
            process.kill()
        lighthouse.shutdown()


def restarts(job: dict, way: str) -> None:
    content = Path(job["folder"], "job.json")
    content.write_text(json.dumps(job))
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone",
        f"--nproc-per-node={job['workers']}", "--max-restarts=4", "--monitor-interval=0.1",
        str(HERE / "_survivors.py"), "restarts", str(content),
    ]  # fmt: skip
    # A store that outlives a restart still names the ports of the dead.
    environment = os.environ | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    subprocess.run(command, check=True, timeout=200, capture_output=True, env=environment)


def commits(found: dict) -> tuple[np.ndarray, np.ndarray]:
    """When each number of steps was first reached by any worker, and with how many units."""
    first: dict[int, tuple[float, int]] = {}
    for _, step, units, when in sorted(found["lines"], key=lambda line: line[3]):
        first.setdefault(step, (when, units))
    steps = sorted(first)
    return np.array([first[s][0] for s in steps]), np.array([first[s][1] for s in steps])


def row(way: str, alone: dict, killed: dict, start: np.ndarray) -> tuple[list, float]:
    when, units = commits(killed)
    gaps, undisturbed = np.diff(when), np.diff(commits(alone)[0])
    pace = 1 / float(np.median(undisturbed[2:]))
    a, b = np.array(alone["weights"]), np.array(killed["weights"])
    apart = float(np.linalg.norm(a - b) / np.linalg.norm(a - start))
    wanted = JOB["units"] * JOB["steps"]
    done_twice = max(0, len({(w, s, t) for w, s, _, t in killed["lines"] if w == 1}) - JOB["steps"])
    equal = "equal bits" if (a == b).all() else f"{100 * apart:.2g} %"
    return [way, equal, f"{int(units.sum())} of {wanted}", done_twice, round(pace, 2),
            round(float(np.sort(gaps)[-1]), 2), round(float(np.sort(gaps)[-2]), 2),
            round(float(when[-1] - when[0]), 1)], pace  # fmt: skip


def main() -> None:
    jobs = [{"way": way, "killed": killed} for way in WAYS for killed in (False, True)]
    runs = run_jobs("spare_peers_shared", run, jobs, workers=1)
    from _survivors import fresh

    start = torch.cat([p.detach().reshape(-1) for p in fresh(JOB)[0].parameters()]).numpy()
    rows, pace = [], {}
    for k, way in enumerate(WAYS):
        made, pace[way] = row(way, runs[2 * k], runs[2 * k + 1], start)
        rows.append(made)
    bars = [
        [f"steps a second between failures, {way} / torchft", round(pace[way] / pace["torchft"], 3),
         f">= {bar}", "yes" if pace[way] >= bar * pace["torchft"] else "NO"]
        for way, bar in (("exact, gloo", 0.7), ("exact, shared memory", 0.7),
                         ("float32, gloo", 0.9))
    ]  # fmt: skip
    write_result(
        "spare_peers",
        {**JOB, "kills": KILLS},
        {
            "spare-peers": {
                "columns": ["REAL, two kills", "final weights from those without failures, of the "
                            "way travelled", "units used", "steps done again",
                            "steps / s without failures", "longest stall, s", "second, s",
                            "first to last step, s"],
                "rows": rows,
                "note": "Four workers on two cores, 100 steps; worker 2 is killed in step 15, "
                "worker 0 in step 55, and started anew. A step counts when one worker has it. "
                "One run each.",
            },
            "spare-peers-bars": {"columns": ["REAL", "measured", "bar", "met"], "rows": bars},
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
