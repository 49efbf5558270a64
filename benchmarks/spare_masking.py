"""Seven real processes train a transformer and are killed, stopped, cut off: are all states equal?

Twenty schedules of faults, each its own training. The hashes of parameters, optimiser and schedule
of every worker at every committed step are compared with those of one process without failures.
Partitions are real where this machine lets us make network namespaces: links are taken down.

Needs torch; Linux. Each schedule is kept, so that a run that was stopped goes on where it was.
"""

import dataclasses
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from _common import HERE, run_jobs, write_result

from foretell.train.stacked import Supervisor, WorkerSpec

N, STEPS, TIMEOUT = 7, 25, 4.0
PLACES = ("before", "compute", "reduce", "reduce-late", "commit", "apply")
SPEC = WorkerSpec(
    target="_text_transformer:main", arguments={"pause": 0.01}, path=[str(HERE)], steps=STEPS,
    survive=2, micro=2, units=14, hashes=True, timeout_s=TIMEOUT, start_s=90.0, patience_s=30.0,
    fault_s=2.5 * TIMEOUT,
)  # fmt: skip


def schedules() -> list[dict]:
    """Twenty, each kind of fault several times, drawn with a fixed seed."""
    rng = np.random.default_rng(20261)
    found = []
    for k in range(20):
        a, b, c = (int(w) for w in rng.permutation(N)[:3])
        s, t = sorted(int(x) for x in rng.choice(np.arange(3, 20), 2, replace=False))
        place, other = PLACES[k % len(PLACES)], PLACES[int(rng.integers(len(PLACES)))]
        backend = ("sockets", "gloo", "torchft")[k % 3]
        if k < 6:
            kind, text = f"kill, {place}", f"kill:{a}@{s}/{place},kill:{b}@{t}/{other}"
        elif k < 9:
            kind = "double fault in recovery"
            text = f"kill:{a}@{s}/{place},kill:{b}@{s}/recover"
        elif k < 12:
            kind, text = "hang (SIGSTOP)", f"stop:{a}@{s}/{place},kill:{b}@{t}/{other}"
        elif k < 14:
            kind = "hang, then back (SIGCONT)"
            text = f"pause:{a}@{s}/{place},kill:{b}@{t}/{other}"
        elif k < 17:
            kind, text = "link down, then up", f"{a} {b}@{s}"
        elif k < 19:
            kind, text = "network cut in 4 and 3", f"{s}"
        else:  # the three hosts of a shard
            hosts = [(c - o) % N for o in (0, 1, 3)]
            kind = "wipe-out, restart"
            text = ",".join(f"kill:{w}@{s}/before" for w in hosts)
        found.append({"k": k, "kind": kind, "text": text, "backend": backend})
    return found


def reference() -> dict:
    """The hashes of one process without failures."""
    alone = dataclasses.replace(SPEC, survive=0, arguments={"pause": 0.0})
    out = Supervisor(alone, 1).run()
    return {"hashes": {str(s): sorted(h) for s, h in out.hashes.items()}, "final": out.sha256}


def one(k: int, kind: str, text: str, backend: str) -> dict:
    """Run one schedule."""
    folder = Path(tempfile.mkdtemp(prefix="spare-masking-"))
    steps: list[dict] = []
    spec = dataclasses.replace(SPEC, backend=backend)

    def watch(event: dict, members: dict) -> None:
        if event["event"] == "step":
            steps.append(event)
        if cutter is not None:
            cutter(event)

    cutter, extra = None, {"fence_s": None if "back" in kind else 8.0}
    if kind in ("link down, then up", "network cut in 4 and 3"):
        if not namespaces_allowed():
            return {"skipped": "no network namespaces on this machine"}
        cutter = Cutter(k, kind, text)
        extra = {
            "hosts": cutter.hosts, "port": 29500, "fence_s": None, "prefix": lambda w: [],
        }  # fmt: skip
        inside = {**spec.arguments, "name": f"{cutter.tag}n"}
        spec = dataclasses.replace(spec, target="_text_transformer:inside", arguments=inside)
    else:
        spec = dataclasses.replace(spec, faults=text)
    wiped = "wipe" in kind
    if wiped:
        extra = {"replace_dead": False, "fence_s": 8.0}
    try:
        out = Supervisor(spec, N, folder=folder, on_event=watch, **extra).run()
        first = out.status
        if wiped:
            again = dataclasses.replace(spec, faults="", resume=True)
            out = Supervisor(again, N, folder=folder, on_event=watch).run()
    finally:
        if cutter is not None:
            cutter.remove()
        shutil.rmtree(folder, ignore_errors=True)
    normal = float(np.median([e["seconds"] for e in steps]))
    longest = max((e["seconds"] for e in steps), default=0.0)
    return {
        "status": out.status, "first": first, "final": out.sha256, "failures": out.failures,
        "replaced": out.replaced, "seconds": out.seconds,
        "states": [[e["worker"], e["life"], e["step"], e["sha256"]] for e in steps],
        "fewest": min(e["members"] for e in steps), "step_s": normal, "stall_s": longest - normal,
        "message": out.message,
    }  # fmt: skip


def namespaces_allowed() -> bool:
    """Whether network namespaces can be made here."""
    made = subprocess.run(["ip", "netns", "add", "ft-try"], capture_output=True).returncode == 0
    subprocess.run(["ip", "netns", "del", "ft-try"], capture_output=True)
    return made


class Cutter:
    """Namespaces for the workers behind two bridges, and what is taken down in between."""

    def __init__(self, k: int, kind: str, text: str) -> None:
        self.k, self.kind, self.tag = k, kind, f"f{k}p{os.getpid() % 1000}"
        self.hosts = [f"10.77.{k}.{w + 1}" for w in range(N)]
        workers, _, step = text.rpartition("@")
        self.step = int(step)
        self.links = [f"{self.tag}v{w}" for w in workers.split()] or [f"{self.tag}x"]
        self.down_at = self.up_at = 0.0
        for bridge in ("a", "b"):
            ip("link", "add", f"{self.tag}{bridge}", "type", "bridge")
            ip("link", "set", f"{self.tag}{bridge}", "up")
        ip("link", "add", f"{self.tag}x", "type", "veth", "peer", "name", f"{self.tag}y")
        for end, bridge in (("x", "a"), ("y", "b")):
            ip("link", "set", f"{self.tag}{end}", "master", f"{self.tag}{bridge}", "up")
        for w in range(N):
            self._add(w, "a" if w < 4 else "b")

    def name(self, worker: int) -> str:
        return f"{self.tag}n{worker}"

    def _add(self, w: int, bridge: str) -> None:
        outer, inner = f"{self.tag}v{w}", f"{self.tag}i{w}"
        ip("netns", "add", self.name(w))
        ip("link", "add", outer, "type", "veth", "peer", "name", inner)
        ip("link", "set", outer, "master", f"{self.tag}{bridge}", "up")
        ip("link", "set", inner, "netns", self.name(w))
        ip("-n", self.name(w), "addr", "add", f"{self.hosts[w]}/24", "dev", inner)
        ip("-n", self.name(w), "link", "set", inner, "up")
        ip("-n", self.name(w), "link", "set", "lo", "up")

    def __call__(self, event: dict) -> None:
        now = time.monotonic()
        if event["event"] == "step" and event["step"] >= self.step and not self.down_at:
            self.down_at = now
            for link in self.links:
                ip("link", "set", link, "down")
        elif self.down_at and not self.up_at and now - self.down_at > 2.5 * TIMEOUT:
            self.up_at = now
            for link in self.links:
                ip("link", "set", link, "up")

    def remove(self) -> None:
        for w in range(N):
            subprocess.run(["ip", "netns", "del", self.name(w)], capture_output=True)
        for end in ("x", "a", "b"):
            subprocess.run(["ip", "link", "del", f"{self.tag}{end}"], capture_output=True)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def main() -> None:
    plans = schedules()
    truth = run_jobs("spare_masking_reference", reference, [{}], workers=1)[0]
    found = run_jobs("spare_masking_shared", one, plans, workers=1)
    rows, all_states, all_equal, met = [], 0, 0, 0
    for plan, f in zip(plans, found, strict=True):
        if "skipped" in f:
            rows.append([plan["k"], plan["kind"], plan["backend"], f["skipped"], *[None] * 5])
            continue
        equal = sum(truth["hashes"].get(str(s)) == [h] for _, _, s, h in f["states"])
        all_states, all_equal = all_states + len(f["states"]), all_equal + equal
        good = equal == len(f["states"]) and f["final"] == truth["final"] and f["fewest"] > N // 2
        met += good
        rows.append(
            [plan["k"], plan["kind"], plan["backend"], f"{equal} of {len(f['states'])}",
             "yes" if f["final"] == truth["final"] else f["status"], f["fewest"], f["replaced"],
             round(f["stall_s"], 2), round(f["step_s"], 3)]
        )  # fmt: skip
    kinds = sorted({p["kind"] for p in plans})
    write_result(
        "spare_masking",
        {"workers": N, "steps": STEPS, "timeout_s": TIMEOUT, "schedules": plans},
        {
            "spare-masking": {
                "columns": ["schedule", "faults", "sums by", "committed states equal",
                            "last state equal", "fewest workers in a step", "started anew",
                            "longest stall, s", "step, s"],
                "rows": rows,
                "note": "REAL: seven processes on two cores, transformer of two layers on text, 25 "
                f"steps, time-out {TIMEOUT:g} s. A state is the SHA-256 of parameters, optimiser "
                "and schedule of one worker after one step. Sums by sockets go through shared "
                "memory, except where the network is cut.",
            },
            "spare-masking-bars": {
                "columns": ["REAL", "measured", "bar"],
                "rows": [
                    ["committed states with the hash of the failure-free run",
                     f"{all_equal} of {all_states}", "all"],
                    ["schedules with every state and the last one equal, no step by a minority",
                     f"{met} of {len(plans)}", "20 of 20"],
                    ["kinds of fault", len(kinds), None],
                ],
            },
        },
        detail=[{**p, **{k: v for k, v in f.items() if k != "states"}}
                for p, f in zip(plans, found, strict=True)],
    )  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(schedules(), indent=1)) if os.environ.get("SHOW") else main()
