"""One rank three times slower than the others: barriers after each node, a plain chain, and chunks.

The compute of each stage is a wait, made of turns of 2 ms, so that four ranks fit on two cores;
the slow rank is stopped and continued from outside, two thirds of the time (SIGSTOP, SIGCONT).
Drawing and scoring use different resources and may overlap, as on an accelerator and its host.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from _common import median_interval, ratio_interval, shown, write_result

from foretell.train.coordinator import Coordinator
from foretell.train.graph import Workflow
from foretell.train.rl import RowBatch, Runner, join
from foretell.train.rl.launch import leave

RANKS, STEPS, CHUNKS, TURN = 4, 14, 4, 0.002
COSTS = {"rollout": 120, "reward": 50, "old_logp": 40, "ref_logp": 40, "actor_train": 60}
WAYS = ("barriers", "chain", "chunks")


def work(turns: int) -> None:
    for _ in range(turns):
        time.sleep(TURN)


def rows_of(rank: int, step: int, part: int) -> RowBatch:
    uid = torch.arange(8) + 1000 * step + 100 * rank + 10 * part
    return RowBatch(torch.full((8,), 16), uid, rows={"reward": torch.zeros(8)})


def one_step(way: str, runner: Runner, side: Runner, flow, group, step: int) -> None:
    nodes, chunks = flow.ordered(), CHUNKS if way == "chunks" else 1
    cut = next(k for k, n in enumerate(nodes) if n.kind == "train")

    def chain(part: int, rows: RowBatch) -> RowBatch:
        outputs, error = side.run(nodes[1:cut], {"rollout": rows}, (way, step, part))
        side.coordinator.agree(f"{step} {part}", error=error)
        side.coordinator.swap((way, step, part))
        return outputs[nodes[cut - 1].name]

    side.barriers = runner.barriers = way == "barriers"
    with ThreadPoolExecutor(1) as pool:
        waiting = []
        for part in range(chunks):
            work(COSTS["rollout"] // chunks)
            waiting.append(pool.submit(chain, part, rows_of(group.rank, step, part)))
        rows = RowBatch.concat([w.result() for w in waiting])
    if way == "barriers":
        runner.coordinator.agree(f"{step} drawn")
    runner.run(nodes[cut:], {nodes[cut - 1].name: rows}, (way, step))
    runner.coordinator.swap((way, step))


def worker(out: str) -> None:
    torch.set_num_threads(1)
    group = join(timeout_s=120)
    now = {"chunks": 1}

    def node(name):
        def run(rows):
            work(COSTS[name] // now["chunks"] if name != "actor_train" else COSTS[name])
            return rows

        return run

    names = [n for n in COSTS if n != "rollout"]
    flow = Workflow.grpo().without("advantage").bind(**{n: node(n) for n in names})
    main = Coordinator(group, balance="keep")
    stages = {n.name: n.layout for n in flow.nodes}
    runner, side = Runner(main, stages), Runner(main.twin(), stages)
    found: dict = {way: [] for way in WAYS}
    Path(f"{out}.{group.rank}").write_text(str(os.getpid()))
    for step in range(STEPS):
        for way in WAYS:
            now["chunks"] = CHUNKS if way == "chunks" else 1
            main.agree("begin")
            began = time.perf_counter()
            one_step(way, runner, side, flow, group, step)
            main.agree("end")
            if step:
                found[way].append(time.perf_counter() - began)
    if group.rank == 0:
        Path(out).write_text(json.dumps(found))
    leave()


def slowed(pid: int, done: threading.Event) -> None:
    """Let a process run a third of the time, in turns of 30 ms."""
    while not done.is_set():
        try:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.02)
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            return
        time.sleep(0.01)


def measure(slow: bool) -> dict:
    import socket

    with socket.socket() as probe, tempfile.TemporaryDirectory() as folder:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        out, started = f"{folder}/out.json", []
        for rank in range(RANKS):
            meeting = {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1",
                       "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}  # fmt: skip
            command = [sys.executable, __file__, "worker", out]
            started.append(subprocess.Popen(command, env=os.environ | meeting))
        done, last = threading.Event(), Path(f"{out}.{RANKS - 1}")
        while slow and not last.exists() and started[-1].poll() is None:
            time.sleep(0.05)
        thread = threading.Thread(target=slowed, args=(started[-1].pid, done))
        if slow:
            thread.start()
        try:
            codes = [p.wait(250) for p in started]
        finally:
            done.set()
            for process in started:
                if process.poll() is None:
                    os.kill(process.pid, signal.SIGCONT)
                    process.kill()
        if any(codes):
            raise SystemExit(f"ranks ended with {codes}")
        return json.loads(Path(out).read_text())


def main() -> None:
    rows, bars = [], []
    ideal = sum(COSTS.values()) * TURN
    for slow in (False, True):
        found = measure(slow)
        name = "one rank stopped 2/3 of the time" if slow else "no slow rank"
        for way in WAYS:
            ratio = ratio_interval(found[way], found["barriers"])
            rows.append([f"{name}: {way}", shown(median_interval(found[way])), shown(ratio)])
            if way != "barriers":
                bars.append([f"{name}: {way} / barriers", shown(ratio), "<= 0.85" if slow and
                             way == "chunks" else "", ("yes" if ratio[2] <= 0.85 else "NO")
                             if slow and way == "chunks" else ""])  # fmt: skip
    write_result(
        "distflow_stragglers",
        {"ranks": RANKS, "steps": STEPS, "chunks": CHUNKS, "costs": COSTS, "turn_s": TURN},
        {
            "distflow-stragglers": {
                "columns": ["", "seconds a step", "/ barriers"],
                "rows": rows,
                "note": f"Four real processes; the compute is waits, {ideal:.2f} s a step if "
                "nothing overlaps and no turn takes longer than asked.",
            },
            "distflow-stragglers-bars": {
                "columns": ["what", "measured", "bar", "met at the upper end"],
                "rows": bars,
                "note": "Paired by step, medians with 95 % interval.",
            },
        },
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(sys.argv[2])
    else:
        main()
