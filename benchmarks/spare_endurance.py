"""Failures that a placement endures and the load they leave, by formula and by Monte Carlo.

Simulated throughout: failures hit alive groups at random, or take whole racks.
"""

import numpy as np
from _common import run_jobs, write_result

from foretell.train.plan import (
    EnduranceModel,
    FailureModel,
    OverheadModel,
    StackPlacement,
    corrected_mean,
    golomb_offsets,
    published_mean,
)
from foretell.train.plan.rulers import SHORT_RULERS

GROUPS = (50, 200, 600, 1000)
TRIALS = 4000
SHOWN = {(200, 5), (200, 10), (600, 8), (600, 20), (1000, 10)}
LOADS = [(200, 5), (200, 7), (200, 9), (600, 5), (600, 7), (600, 10), (600, 20), (1000, 7)]
ORDERS = 100


def endurance(n: int, r: int) -> dict:
    """Formulas against Monte Carlo for every placement that exists."""
    result = {"published": published_mean(n, r), "corrected": corrected_mean(n, r)}
    for scheme in ("golomb", "contiguous", "block"):
        if scheme == "block" and n % r:
            continue
        if scheme == "golomb" and golomb_offsets(n, r) is None:
            continue
        model = EnduranceModel(StackPlacement(n, r, scheme))
        K = model.simulate(TRIALS, n * 100 + r)
        result[scheme] = {
            "law": model.mean(),
            "monte_carlo": float(K.mean()),
            "error": float(K.std(ddof=1) / TRIALS**0.5),
        }
    return result


def loads(n: int, r: int, scheme: str, micro: int) -> dict:
    """Exact loads of random failure orders."""
    short = scheme == "short ruler"
    placement = (
        StackPlacement(n, offsets=SHORT_RULERS[r]) if short else StackPlacement(n, r, scheme)
    )
    found = OverheadModel(placement, micro).simulate(ORDERS, 7)
    mean = EnduranceModel(StackPlacement(n, r) if short else placement).mean()
    early = found.failures <= 0.9 * mean
    reached = found.load <= found.bound + 1e-9
    by_order = np.split(reached, np.cumsum(found.fatal - 1)[:-1])
    shares = np.array([part.mean() for part in by_order])
    return {
        "load": float(found.load.mean()),
        "bound": float(found.bound.mean()),
        "reached": float(reached.mean()),
        "reached_error": float(shares.std(ddof=1) / ORDERS**0.5),
        "reached_early": float(reached[early].mean()),
        "worst": float(found.load.max()),
        "patch": float(found.patch.mean()),
    }


def racks(r: int, scheme: str, apart: bool, share: float) -> dict:
    """Events until a shard is lost, 600 groups in racks of 8 neighbours."""
    labels = np.arange(600) // 8
    placement = StackPlacement(600, r, scheme, failure_domains=labels if apart else None)
    failures = FailureModel.exponential(300.0).domains(labels, share)
    rng, events = np.random.default_rng(5), []
    hosts = placement.hosts_of
    for _ in range(200):
        times, groups = failures.epoch(600, 0.0, rng)
        at = np.empty(600)
        at[groups] = times
        fatal = at[hosts].max(axis=1).min()
        events.append(np.unique(times[times <= fatal]).size)
    return {"events": float(np.mean(events)), "error": float(np.std(events) / 200**0.5)}


def main() -> None:
    pairs = [(n, r) for n in GROUPS for r in range(2, 21) if r < n]
    found = run_jobs(
        "spare_endurance_spread", endurance, [{"n": n, "r": r} for n, r in pairs], workers=1
    )
    by_pair = dict(zip(pairs, found, strict=True))
    rows, bars = [], []
    for (n, r), f in by_pair.items():
        if (n, r) in SHOWN:
            g, c, b = (f.get(k) for k in ("golomb", "contiguous", "block"))
            rows.append(
                [f"{n}, {r}", f["published"], f["corrected"], g["law"], cell(g), c["law"], cell(c),
                 b["law"] if b else None, cell(b) if b else None]
            )  # fmt: skip
    golomb = [(n, r, f) for (n, r), f in by_pair.items() if "golomb" in f]
    for name, least, most, bar in (("r >= 5", 5, 20, 0.015), ("r <= 4", 2, 4, 0.04)):
        for key, label in (
            ("published", "published"),
            ("corrected", "corrected"),
            ("law", "second order"),
        ):
            errors, inside = [], 0
            for _, r, f in golomb:
                if least <= r <= most:
                    g = f["golomb"]
                    value = g["law"] if key == "law" else f[key]
                    gap = abs(value - g["monte_carlo"])
                    errors.append(gap / g["monte_carlo"])
                    inside += gap <= bar * g["monte_carlo"] + 3 * g["error"]
            bars.append(
                [f"rulers, {label} mean, {name}", f"{100 * max(errors):.2f} % at most",
                 f"{100 * bar:g} % + 3 standard errors", f"{inside} of {len(errors)} cells"]
            )  # fmt: skip
    for scheme in ("contiguous", "block"):
        z = [
            abs(f[scheme]["law"] - f[scheme]["monte_carlo"]) / f[scheme]["error"]
            for f in found
            if scheme in f
        ]
        bars.append(
            [f"{scheme}, exact mean", f"{max(z):.2f} standard errors at most",
             "3 standard errors", f"{sum(v <= 3 for v in z)} of {len(z)} cells"]
        )  # fmt: skip
    cases = [
        {"n": n, "r": r, "scheme": s, "micro": q}
        for n, r in LOADS
        for s in ("contiguous", "short ruler", "golomb")
        for q in (1, 8)
    ]
    load_rows = []
    for case, f in zip(cases, run_jobs("spare_loads_spread", loads, cases, workers=1), strict=True):
        load_rows.append(
            [f"{case['n']}, {case['r']}, {case['scheme']}, {case['micro']}", f["load"], f["bound"],
             f"{100 * f['reached']:.2f} % +/- {100 * f['reached_error']:.2f}",
             f"{100 * f['reached_early']:.2f} %", f["worst"], f["patch"]]
        )  # fmt: skip
    kinds = [("contiguous", False), ("golomb", False), ("golomb", True), ("block", True)]
    jobs = [
        {"r": r, "scheme": s, "apart": a, "share": p}
        for r in (3, 8)
        for s, a in kinds
        for p in (0.0, 0.05, 0.2)
    ]
    together = run_jobs("spare_racks_spread", racks, jobs, workers=1)
    rack_rows = []
    for r in (3, 8):
        for s, a in kinds:
            cells = [
                f"{f['events']:.0f} +/- {f['error']:.0f}"
                for j, f in zip(jobs, together, strict=True)
                if (j["r"], j["scheme"], j["apart"]) == (r, s, a)
            ]
            rack_rows.append([f"{s}{', racks kept apart' if a else ''}, {r} hosts", *cells])
    write_result(
        "spare_endurance",
        {"trials": TRIALS, "orders": ORDERS, "groups": list(GROUPS)},
        {
            "spare-endurance": {
                "columns": [
                    "groups, hosts", "published", "corrected", "rulers, second order", "simulated",
                    "contiguous, exact", "simulated ", "blocks, exact", "simulated  ",
                ],
                "rows": rows,
                "note": "Mean number of the fatal failure. SIMULATED: 4000 trials, with standard "
                "error.",
            },
            "spare-endurance-bars": {
                "columns": ["mean number of the fatal failure", "measured", "bar", "inside"],
                "rows": bars,
                "note": "Against SIMULATED failures, 50, 200, 600 and 1000 groups, 2 to 20 hosts. "
                "Of 130 exact cells, chance alone puts 0.35 beyond three standard errors.",
            },
            "spare-loads": {
                "columns": ["groups, hosts, placement, units", "mean load", "bound",
                            "at the bound", "up to 0.9 E[K]", "worst load", "patch, stacks"],
                "rows": load_rows,
                "note": f"SIMULATED: exact matching over {ORDERS} random orders of failures, all "
                "before the wipe-out.",
            },
            "spare-racks": {
                "columns": ["600 groups, racks of 8", "single failures", "5 % take a rack",
                            "20 % take a rack"],
                "rows": rack_rows,
                "note": "SIMULATED: failure events until a shard is lost, 200 trials, standard "
                "error.",
            },
        },
    )  # fmt: skip


def cell(found: dict) -> str:
    return f"{found['monte_carlo']:.1f} +/- {found['error']:.1f}"


if __name__ == "__main__":
    main()
