"""The data plane beside two peers: a Ray driver that gathers and scatters, and TransferQueue.

Each host is a network namespace whose link is limited to 200 Mbit/s both ways, with a Ray node and
one actor that holds its rows (64 a host, lengths lognormal, five float columns, as in
distflow_data). "Ray driver": all rows go to the driver on the first host, which shares them out
anew. TransferQueue 0.1.11: every actor puts its rows, storage on every host, and gets those that it
is to have. Ours, with the same plan and with the one that moves little, by gloo in the same
namespaces before Ray is started. Needs ray and transferqueue; Linux, root.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from _common import median_interval, run_jobs, shown, write_result
from _namespaces import hosts, run_ranks
from distflow_data import COLUMNS, ROWS, WAYS, rows_of

from foretell.train.rl.balancing import balance

REPEATS, SIZES = 10, (2, 4)
PEERS = ("Ray driver", "TransferQueue")


def ours(places: list[tuple[str, str]]) -> dict[str, list[float]]:
    """distflow_data in the same namespaces."""
    with tempfile.TemporaryDirectory() as folder:
        before, sys.argv[0] = sys.argv[0], str(Path(__file__).with_name("distflow_data.py"))
        try:
            run_ranks(places, f"{folder}/out", str(ROWS), str(REPEATS), "0")
        finally:
            sys.argv[0] = before
        found = json.loads(Path(folder, "out").read_text())["times"]
    return {way: [seconds for seconds, _ in found[way]] for way in WAYS[1:]}


def peers(places: list[tuple[str, str]]) -> dict[str, list[float]]:
    """A Ray node in every namespace, and the driver in the first one."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    ray = str(Path(sys.executable).with_name("ray"))
    environment = os.environ | {
        "RAY_DISABLE_METRICS_COLLECTION": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    nodes = []
    with tempfile.TemporaryDirectory(prefix="r") as folder:
        try:
            for n, (name, address) in enumerate(places):
                role = ["--head", "--port=6379"] if n == 0 else [f"--address={places[0][1]}:6379"]
                if n == 0:
                    role += [f"--temp-dir={folder}", "--include-dashboard=false"]
                command = [
                    "ip", "netns", "exec", name, ray, "start", *role, "--block", "--num-cpus=4",
                    f"--node-ip-address={address}", f'--resources={{"host{n}": 100}}',
                    "--object-store-memory=100000000", "--disable-usage-stats",
                ]  # fmt: skip
                nodes.append(subprocess.Popen(command, env=environment, **quiet))
                time.sleep(8 if n == 0 else 1)
            out = f"{folder}/found.json"
            driver = ["ip", "netns", "exec", places[0][0], sys.executable, __file__, "driver",
                      str(len(places)), places[0][1], out]  # fmt: skip
            subprocess.run(driver, check=True, timeout=220, env=environment)
            return json.loads(Path(out).read_text())
        finally:
            for node in nodes:
                node.terminate()
            for node in nodes:
                try:
                    node.wait(20)
                except subprocess.TimeoutExpired:
                    node.kill()


def driver(size: str, address: str, out: str) -> None:
    import ray
    import transfer_queue as tq

    ray.init(address=f"{address}:6379", _node_ip_address=address, logging_level="error")
    holders = [ray.remote(Holder).options(resources={f"host{n}": 1}).remote(n)
               for n in range(int(size))]  # fmt: skip
    ray.get([h.ready.remote() for h in holders])
    found: dict[str, list[float]] = {way: [] for way in PEERS}
    for repeat in range(REPEATS + 1):
        sizes = ray.get([h.draw.remote(repeat) for h in holders])
        began = time.perf_counter()
        through_driver(ray, holders)
        if repeat:
            found["Ray driver"].append(time.perf_counter() - began)
    tq.init({"backend": {"SimpleStorage": {"num_data_storage_units": 2 * int(size)}}})
    ray.get([h.join.remote() for h in holders])
    for repeat in range(REPEATS + 1):
        sizes = ray.get([h.draw.remote(repeat) for h in holders])
        began = time.perf_counter()
        ray.get([h.put.remote(repeat) for h in holders])
        owner, uid = planned(sizes)
        ray.get([h.get.remote(repeat, uid[owner == n].tolist()) for n, h in enumerate(holders)])
        if repeat:
            found["TransferQueue"].append(time.perf_counter() - began)
    Path(out).write_text(json.dumps(found))
    ray.shutdown()


def planned(sizes: list) -> tuple[np.ndarray, np.ndarray]:
    """Who gets which row, equal numbers, longest first: the plan of all but the last way."""
    uid = np.concatenate([u for u, _ in sizes])
    lengths = np.concatenate([n for _, n in sizes])
    now = np.repeat(np.arange(len(sizes)), [len(u) for u, _ in sizes])
    return balance("lpt_equal", lengths, now, uid, len(sizes)).owner, uid


def through_driver(ray, holders: list) -> None:
    rows = ray.get([h.rows.remote() for h in holders])  # packed: uid, lengths, one array
    owner, _ = planned([(u, n) for u, n, _ in rows])
    lengths = np.concatenate([n for _, n, _ in rows])
    cuts = np.cumsum(lengths)[:-1]
    parts = np.split(np.concatenate([values for _, _, values in rows], axis=1), cuts, axis=1)
    sent = []
    for n, h in enumerate(holders):
        mine = np.concatenate([parts[k] for k in np.flatnonzero(owner == n)], axis=1)
        sent.append(h.take.remote(mine))
    ray.get(sent)


class Holder:
    """The rows of one host."""

    def __init__(self, rank: int) -> None:
        torch.set_num_threads(1)
        self.rank = rank

    def ready(self) -> int:
        return self.rank

    def draw(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        self.batch = rows_of(self.rank, ROWS, seed, COLUMNS, False)
        columns = [self.batch.tokens[k].numpy() for k in sorted(self.batch.tokens)]
        self.packed = np.stack(columns)
        return self.batch.uid.numpy(), self.batch.lengths.numpy()

    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.batch.uid.numpy(), self.batch.lengths.numpy(), self.packed

    def take(self, values: np.ndarray) -> int:
        return values.shape[1]

    def join(self) -> None:
        import transfer_queue as tq

        tq.init()

    def put(self, repeat: int) -> None:
        import transfer_queue as tq
        from tensordict import TensorDict

        n = self.batch.lengths.tolist()
        fields = {
            name: torch.nested.as_nested_tensor(list(values.split(n)), layout=torch.jagged)
            for name, values in self.batch.tokens.items()
        }
        keys = [str(u) for u in self.batch.uid.tolist()]
        tq.kv_batch_put(keys, f"step{repeat}", TensorDict(fields, batch_size=len(n)))

    def get(self, repeat: int, uid: list[int]) -> int:
        import transfer_queue as tq

        found = tq.kv_batch_get([str(u) for u in uid], f"step{repeat}")
        return len(found)


def measure(size: int) -> dict:
    with hosts([200.0] * size) as places:
        return {**ours(places), **peers(places)}


def main() -> None:
    runs = run_jobs("distflow_peers_one_pass", measure, [{"size": n} for n in SIZES], workers=1)
    rows = []
    for size, found in zip(SIZES, runs, strict=True):
        base = np.array(found["decentral, min_move"])
        for way in (*PEERS, *WAYS[1:]):
            t = np.array(found[way])
            ratio = np.median(t) / np.median(base)
            rows.append([f"{size} hosts: {way}", shown(median_interval(t)), round(float(ratio), 1)])
    write_result(
        "distflow_peers",
        {"rows_per_host": ROWS, "columns": COLUMNS, "repeats": REPEATS, "mbit_s": 200},
        {
            "distflow-peers": {
                "columns": ["hosts: way", "seconds", "/ decentral, min_move"],
                "rows": rows,
                "note": "Same rows, network namespaces and links of 200 Mbit/s. Central, packed is "
                "our own gather by gloo. Ray 2.60 and TransferQueue 0.1.11 with a Ray node on each "
                "host; their calls are in the time, as ours are.",
            }
        },
        raw={str(n): f for n, f in zip(SIZES, runs, strict=True)},
    )


if __name__ == "__main__":
    driver(*sys.argv[2:]) if sys.argv[1:2] == ["driver"] else main()
