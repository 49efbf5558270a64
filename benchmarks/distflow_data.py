"""Moving the rows of a step between stages: through one process, or from owner to owner.

Each host is a network namespace whose link is limited to 200 Mbit/s in both directions, with one
rank of gloo. The rows of all hosts are shared out anew, weak scaling: 64 rows a host, lengths
lognormal, five float columns; and 512 rows a host, where the links and not the two cores decide.
Through one process: all rows go to rank 0, which plans (equal numbers, longest first), cuts and
sends; padded to the longest row, or packed, which is the fair peer. From owner to owner: the same
plan, or the one that moves little. All ways alternate within a run.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from _common import median_interval, shown, write_result

from foretell.train.coordinator import Coordinator
from foretell.train.rl import RowBatch, join
from foretell.train.rl.balancing import balance
from foretell.train.rl.launch import leave

WAYS = ("central, padded", "central, packed", "decentral, same plan", "decentral, min_move")
COLUMNS, REPEATS, ROWS = 5, 15, 64


def rows_of(rank: int, n_rows: int, seed: int, columns: int, bimodal: bool) -> RowBatch:
    rng = np.random.default_rng([seed, rank])
    n = np.clip(rng.lognormal(5.8, 1.0, n_rows), 16, 4096).astype(np.int64)
    if bimodal:
        n = np.where(rng.random(n_rows) < 0.7, rng.integers(40, 80, n_rows),
                     rng.integers(1500, 2500, n_rows))  # fmt: skip
    total = int(n.sum())
    tokens = {f"c{k}": torch.full((total,), float(rank)) for k in range(columns)}
    uid = torch.arange(n_rows) + 10_000 * rank
    return RowBatch(torch.from_numpy(n), uid, tokens)


def central(group, rows: RowBatch, padded: bool) -> int:
    """Through rank 0; returns the tokens that this rank gets."""
    counts = group.all_gather(torch.tensor([len(rows), max(rows.lengths.tolist())]))
    width = int(counts[:, 1].max()) if padded else 0
    meta = torch.zeros(2, int(counts[:, 0].max()), dtype=torch.int64)
    meta[:, : len(rows)] = torch.stack([rows.uid, rows.lengths])
    metas = group.all_gather(meta)  # the sizes that the receiver needs; 16 bytes a row
    schema = rows.schema()
    parts = [(metas[r, 0, : counts[r, 0]], metas[r, 1, : counts[r, 0]]) for r in range(group.size)]

    def packed(batch: RowBatch) -> torch.Tensor:
        if not padded:
            return batch.to_bytes()
        both = torch.stack([batch.to_padded(name, width=width) for name in sorted(batch.tokens)])
        return both.view(-1).view(torch.uint8)

    def unpacked(data: torch.Tensor, uid, lengths) -> RowBatch:
        if not padded:
            return RowBatch.from_bytes(data, schema, lengths, uid)
        both = data.view(torch.float32).view(-1, len(uid), width)
        empty = RowBatch(lengths, uid)
        names = sorted(rows.tokens)
        return empty.with_tokens(**{n: empty.pack(both[k]) for k, n in enumerate(names)})

    def size(lengths) -> int:
        tokens = len(lengths) * width if padded else int(lengths.sum())
        return 4 * len(rows.tokens) * tokens

    uid, lengths = (torch.cat([p[k] for p in parts]) for k in (0, 1))
    now = np.repeat(np.arange(group.size), counts[:, 0].numpy())
    if group.rank != 0:
        group.exchange({0: packed(rows)}, {})
        plan = balance("lpt_equal", lengths.numpy(), now, uid.numpy(), group.size).owner
        mine = lengths[torch.from_numpy(plan == group.rank)]
        data = group.exchange({}, {0: size(mine)})[0]
        at = torch.from_numpy(plan == group.rank)
        return int(unpacked(data, uid[at], lengths[at]).lengths.sum())
    into = {r: size(parts[r][1]) for r in range(1, group.size)}
    data = group.exchange({}, into)
    whole = RowBatch.concat([rows, *(unpacked(data[r], *parts[r]) for r in sorted(data))])
    plan = balance("lpt_equal", lengths.numpy(), now, uid.numpy(), group.size).owner
    split = [whole.select(np.flatnonzero(plan == r)) for r in range(group.size)]
    group.exchange({r: packed(split[r]) for r in range(1, group.size)}, {})
    return int(split[0].lengths.sum())


def one(way: str, group, coordinator: Coordinator, rows: RowBatch) -> int:
    if way.startswith("central"):
        return central(group, rows, way.endswith("padded"))
    policy = "lpt_equal" if way.endswith("same plan") else "min_move"
    return int(coordinator.reshard(rows, policy=policy).lengths.sum())


def peak_growth(action) -> float:
    """Growth of the peak of resident memory during an action, MB."""
    Path("/proc/self/clear_refs").write_text("5")

    def peak() -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(float(x.split()[1]) / 1024 for x in lines if x.startswith("VmHWM"))

    before = peak()
    action()
    return peak() - before


def worker(out: str, n_rows: str, repeats: str, bimodal: str) -> None:
    torch.set_num_threads(1)
    group = join(timeout_s=120)
    coordinator = Coordinator(group)
    found: dict = {way: [] for way in WAYS}
    for repeat in range(int(repeats) + 1):
        rows = rows_of(group.rank, int(n_rows), repeat, COLUMNS, bimodal == "1")
        for way in WAYS[int(int(n_rows) > 100) :]:  # nobody waits for padding of large ones
            group.all_gather(torch.zeros(1))
            began = time.perf_counter()
            tokens = one(way, group, coordinator, rows)
            seconds = group.all_gather(torch.tensor([time.perf_counter() - began, tokens]))
            if repeat:  # the first one opens the connections
                loads = seconds[:, 1]
                found[way].append([float(seconds[:, 0].max()), float(loads.max() / loads.mean())])
    large = rows_of(group.rank, 128, 99, 40, False)
    memory = {}
    for way in (WAYS[1], WAYS[3]):
        group.all_gather(torch.zeros(1))
        memory[way] = peak_growth(lambda way=way: one(way, group, coordinator, large))
    if group.rank == 0:
        total = [int(rows_of(r, int(n_rows), 1, COLUMNS, bimodal == "1").n_bytes().sum())
                 for r in range(group.size)]  # fmt: skip
        Path(out).write_text(json.dumps({"times": found, "memory": memory, "bytes": total}))
    leave()


def measure(
    rates: list[float], n_rows: int = ROWS, bimodal: bool = False, repeats: int = REPEATS
) -> dict:
    from _namespaces import hosts, run_ranks

    with tempfile.TemporaryDirectory() as folder, hosts(rates) as places:
        out = f"{folder}/found.json"
        run_ranks(places, out, str(n_rows), str(repeats), str(int(bimodal)))
        return json.loads(Path(out).read_text())


def seconds(found: dict, way: str) -> np.ndarray:
    return np.array([t for t, _ in found["times"][way]])


def table_rows(found: dict[str, dict]) -> list:
    rows = []
    for name, one_size in found.items():
        packed = seconds(one_size, "central, packed")
        for way in (way for way in WAYS if one_size["times"][way]):
            t = seconds(one_size, way)
            ratio = median_interval(t / packed)
            balance_ = np.mean([b for _, b in one_size["times"][way]])
            rows.append([f"{name}: {way}", shown(median_interval(t)), shown(ratio), balance_])
    return rows


def slope(found: dict[int, dict], way: str, rng) -> float:
    """Exponent of the time in the number of hosts, from resampled medians."""
    n = np.log(list(found))
    t = [np.median(rng.choice(seconds(f, way), len(seconds(f, way)))) for f in found.values()]
    return float(np.polyfit(n, np.log(t), 1)[0])


def bars_of(found: dict[int, dict]) -> list:
    """Ratio at 8 hosts, and by how much the exponent of ours is lower, for both plans of ours."""
    rng, rows = np.random.default_rng(0), []
    for way in WAYS[2:]:
        ratio = median_interval(seconds(found[8], way) / seconds(found[8], "central, packed"))
        lower = [slope(found, "central, packed", rng) - slope(found, way, rng) for _ in range(2000)]
        apart = (float(np.median(lower)), *np.quantile(lower, [0.025, 0.975]).tolist())
        rows += [
            [f"time {way} / central, packed, 8 hosts", shown(ratio), "<= 0.35",
             "yes" if ratio[2] <= 0.35 else "NO"],
            [f"exponent of the time in hosts, central, packed - {way}", shown(apart), ">= 0.4",
             "yes" if apart[1] >= 0.4 else "by the median" if apart[0] >= 0.4 else "NO"],
        ]  # fmt: skip
    return rows


def large() -> None:
    found = {hosts_: measure([200.0] * hosts_, 512, repeats=10) for hosts_ in (2, 4, 8)}
    write_result(
        "distflow_data_large",
        {"rows_per_host": 512, "columns": COLUMNS, "repeats": 10, "mbit_s": 200},
        {
            "distflow-data-large": {
                "columns": ["hosts: way", "seconds", "/ central, packed", "largest load / mean"],
                "rows": table_rows({f"{n} hosts": f for n, f in found.items()}),
                "note": "512 rows a host: about 6 MB.",
            },
            "distflow-data-large-bars": {
                "columns": ["what", "measured", "bar", "met at the far end"],
                "rows": bars_of(found),
                "note": "512 rows a host.",
            },
        },
        raw={str(n): f for n, f in found.items()},
    )


def main() -> None:
    found = {hosts_: measure([200.0] * hosts_) for hosts_ in (2, 4, 8)}
    grows = {
        way: (found[8]["memory"][way] - found[2]["memory"][way]) / 6 for way in (WAYS[1], WAYS[3])
    }
    bars = [
        *bars_of(found),
        ["peak memory of rank 0, growth for each host, MB: decentral", f"{grows[WAYS[3]]:.2g}",
         "at most 1", "yes" if grows[WAYS[3]] <= 1 else "NO"],
        ["peak memory of rank 0, growth for each host, MB: central", f"{grows[WAYS[1]]:.3g}", "> 0",
         "yes" if grows[WAYS[1]] > 1 else "NO"],
    ]  # fmt: skip
    write_result(
        "distflow_data",
        {"rows_per_host": ROWS, "columns": COLUMNS, "repeats": REPEATS, "mbit_s": 200},
        {
            "distflow-data": {
                "columns": ["hosts: way", "seconds", "/ central, packed", "largest load / mean"],
                "rows": table_rows({f"{n} hosts": f for n, f in found.items()}),
                "note": "Wall time of the slowest rank, median over repeats with 95 % interval; "
                "one network namespace a host, 200 Mbit/s each way, gloo.",
            },
            "distflow-data-bars": {
                "columns": ["what", "measured", "bar", "met at the far end"],
                "rows": bars,
                "note": "Memory: 128 rows a host with 40 columns, one exchange.",
            },
        },
        raw={str(n): f for n, f in found.items()},
    )


def held_out() -> None:
    found = measure([100.0, 400.0, 100.0, 400.0, 100.0, 400.0], 37, bimodal=True)
    write_result(
        "distflow_data_held_out",
        {"rows_per_host": 37, "hosts": 6, "mbit_s": [100, 400], "repeats": REPEATS},
        {
            "distflow-data-held-out": {
                "columns": ["way", "seconds", "/ central, packed", "largest load / mean"],
                "rows": table_rows({"6 hosts": found}),
                "note": "Nothing was tuned on it: 37 rows a host of two lengths, links of 100 and "
                "400 Mbit/s in turn (rank 0 has a slow one).",
            }
        },
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(*sys.argv[2:])
    elif sys.argv[1:] == ["large"]:
        large()
    else:
        main()
        held_out()
