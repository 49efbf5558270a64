"""The time of a training with failures, by our simulator and by SimGrid, a simulator of networks.

Ours takes the time of an all-reduce as given, whoever is alive, and adds patches and stalls up.
SimGrid is given a star of hosts with full-duplex links, and the same controller: it runs the units
of every group and each message of every sum, which share the links, and is told who dies when.
The same failures on both sides, without jitter, checkpoints and restarts. SIMULATED, both.

Needs the Python module of SimGrid for this Python (Debian: python3-simgrid).
"""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

import numpy as np
from _common import run_jobs, write_result

from foretell.train.plan import (
    EnduranceModel,
    MaskingPolicy,
    ReorderController,
    StackPlacement,
    TimeToTrainSimulator,
    TrainingCosts,
)

N, HOSTS, MICRO, STEPS, FAILURES = 48, 5, 8, 100, 14
COMPUTE_S, STALL_S, GRADIENT, RATE, LATENCY = 8.0, 0.4, 64e6, 125e6, 50e-6


def simgrid_module():
    """SimGrid's module from the folders of the distribution, and nothing else from there."""
    for folder in (*sys.path, "/usr/lib/python3/dist-packages"):
        for path in Path(folder or ".").glob("simgrid.cpython-*.so"):
            loader = importlib.machinery.ExtensionFileLoader("simgrid", str(path))
            try:
                made = importlib.util.module_from_spec(
                    importlib.util.spec_from_loader("simgrid", loader)
                )
                loader.exec_module(made)
            except ImportError:
                continue
            return made
    from _common import left_out

    return left_out("install SimGrid's module for this Python (Debian: python3-simgrid)")


class Given:
    """Failures that are given, for our simulator."""

    def __init__(self, times: np.ndarray, groups: np.ndarray) -> None:
        self.times, self.groups, self.mtbf_s = times, groups, float(np.diff(times).mean())

    def first_s(self, rng) -> float:
        return 0.0

    def epoch(self, n: int, first_s: float, rng):
        return self.times, self.groups


def failures_of(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Times and groups, of which some host of every shard stays alive."""
    rng, placement = np.random.default_rng(seed), StackPlacement(N, HOSTS)
    while True:
        groups = rng.permutation(N)[:FAILURES]
        if placement.is_maskable(groups):
            times = np.sort(rng.uniform(0, 1.1 * STEPS * (COMPUTE_S + 1), FAILURES))
            return times, groups.astype(np.int64)


class Cluster:
    """Hosts of SimGrid, and the training on them."""

    def __init__(self, n: int) -> None:
        self.sg = sg = simgrid_module()
        self.engine = sg.Engine(["simgrid", "--log=root.thres:critical"])
        zone = sg.NetZone.create_star_zone("cluster")
        self.hosts = []
        for k in range(n):
            host = zone.create_host(f"h{k}", 1e9)
            link = zone.create_split_duplex_link(f"l{k}", RATE)
            link.set_latency(LATENCY)
            up = sg.LinkInRoute(link, sg.LinkInRoute.UP)
            zone.add_route(host.netpoint, None, None, None, [up], True)
            self.hosts.append(host)
        zone.seal()

    def now(self) -> float:
        return self.sg.Engine.clock

    def work(self, units: np.ndarray) -> None:
        """Units of every group at the same time."""
        running = [
            self.sg.this_actor.exec_init(float(u) / MICRO * COMPUTE_S * 1e9)
            for u in units[units > 0]
        ]
        for one, g in zip(running, np.flatnonzero(units), strict=True):
            one.host = self.hosts[int(g)]
            one.start()
        for one in running:
            one.wait()

    def add_up(self, alive: np.ndarray, until: float) -> bool:
        """Two rounds, in which everybody writes to everybody; False where somebody dies first."""
        members = np.flatnonzero(alive).tolist()
        part = int(GRADIENT / len(members))
        for _ in range(2):
            under_way = [
                self.sg.Comm.sendto_async(self.hosts[a], self.hosts[b], part)
                for a in members for b in members if a != b
            ]  # fmt: skip
            for one in under_way:
                left = until - self.now()
                try:
                    if left <= 0:
                        raise self.sg.TimeoutException("somebody died")
                    one.wait_for(left if np.isfinite(left) else -1.0)
                except self.sg.TimeoutException:
                    for each in under_way:
                        each.cancel()
                    return False
        return True

    def train(self, times: np.ndarray, groups: np.ndarray, steps: int) -> float:
        """Seconds of a training with these failures."""
        seconds = []

        def driver() -> None:
            controller = ReorderController(StackPlacement(N, HOSTS), MICRO)
            alive, event, owner = np.ones(N, bool), 0, controller.assignment_.owner
            for _ in range(steps):
                self.work(np.bincount(owner.ravel(), minlength=N) * alive)
                first = True
                while True:
                    coming = times[event] if event < len(times) else np.inf
                    if coming > self.now() and self.add_up(alive, coming):
                        break
                    while event < len(times) and times[event] <= self.now():
                        alive[groups[event]] = False
                        event += 1
                    self.sg.this_actor.sleep_for(STALL_S)
                    plan = controller.plan(alive, same_step=not first)
                    self.work(plan.patch)
                    owner, first = plan.owner, False
            seconds.append(self.now())

        self.sg.Actor.create("driver", self.hosts[0], driver)
        self.engine.run()
        return seconds[0]


def compared(seed: int) -> dict:
    """Both simulators on the failures of a seed; SimGrid's engine lives once in a process."""
    import multiprocessing

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        reduce_s = pool.apply(alone)
    times, groups = failures_of(seed)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        theirs = pool.apply(by_simgrid, (times, groups))
    costs = TrainingCosts(COMPUTE_S, reduce_s, 1.0, 1.0, STALL_S, 0.0)
    policy = MaskingPolicy(StackPlacement(N, HOSTS), MICRO, interval_s=1e6)
    ours = TimeToTrainSimulator(policy, Given(times, groups), costs).run(STEPS, 1)
    return {
        "reduce_s": reduce_s, "theirs": theirs, "ours": float(ours.time_ratio[0]) * costs.step_s
        * STEPS, "plain": costs.step_s * STEPS, "failures": float(ours.failures[0]),
    }  # fmt: skip


def alone() -> float:
    """Seconds of one sum of all groups."""
    return Cluster(N).train(np.array([]), np.array([], int), 1) - COMPUTE_S


def by_simgrid(times: np.ndarray, groups: np.ndarray) -> float:
    return Cluster(N).train(times, groups, STEPS)


def main() -> None:
    simgrid_module()
    runs = run_jobs("spare_simgrid", compared, [{"seed": s} for s in range(5)], workers=1)
    rows = [
        [f"failures of seed {s}", r["failures"], round(r["theirs"] / r["plain"], 4),
         round(r["ours"] / r["plain"], 4), f"{100 * (r['ours'] / r['theirs'] - 1):+.2f} %"]
        for s, r in enumerate(runs)
    ]  # fmt: skip
    worst = max(abs(r["ours"] / r["theirs"] - 1) for r in runs)
    formula = 2 * (N - 1) / N * GRADIENT / RATE
    write_result(
        "spare_simgrid",
        {"groups": N, "hosts": HOSTS, "micro": MICRO, "steps": STEPS, "compute_s": COMPUTE_S,
         "gradient_bytes": GRADIENT, "bytes_per_s": RATE, "latency_s": LATENCY},
        {
            "spare-simgrid": {
                "columns": ["", "failures", "time / failure-free, SimGrid", "ours", "apart"],
                "rows": rows,
                "note": f"SIMULATED. {N} groups, {HOSTS} hosts a shard, {MICRO} units, {STEPS} "
                f"steps of {COMPUTE_S:g} s; {GRADIENT / 1e6:g} MB over links of "
                f"{RATE / 1e6:g} MB/s. A sum of all takes {runs[0]['reduce_s']:.3f} s in SimGrid, "
                f"2 (N - 1) / N bytes / rate are {formula:.3f} s. Mean number of the fatal "
                f"failure: {EnduranceModel(StackPlacement(N, HOSTS)).mean():.1f}.",
            },
            "spare-simgrid-bars": {
                "columns": ["simulated", "measured", "bar", "met"],
                "rows": [["ours against SimGrid, largest", f"{100 * worst:.2f} %", "4 %",
                          "yes" if worst <= 0.04 else "NO"]],
            },
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
