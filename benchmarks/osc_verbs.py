"""Held out: facts from WordNet's verb hierarchy at order 4 with d = 8, a shape never tuned.

A fact is (path of hypernyms from the root to a verb synset) -> the synset's lexicographer class, or
its first lemma: two last roles. Classes repeat, lemmas hardly do. The peers are torch-hd's MAP with
4096 numbers and our Kronecker-MAP of the same shape. Run once.
"""

from typing import Any

import numpy as np
import torch
import torchhd
from _common import run_jobs, shown, wordnet, write_result

from foretell.recall import KroneckerMAPMemory, OSCMemory

SEEDS, COUNTS = range(10), (50, 150, 450)
MEMORIES = ("OSC embedded, p=4", "OSC carved, p=4", "Kronecker-MAP, p=4", "MAP (torch-hd)")


def facts() -> list[tuple[tuple[str, ...], str]]:
    above, lemma, group = {}, {}, {}
    for line in wordnet("data.verb").read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            continue
        fields = line.partition(" | ")[0].split()
        name, words = fields[0], int(fields[3], 16)
        lemma[name], group[name] = fields[4], fields[1]
        pointers = fields[5 + 2 * words :]
        above[name] = next(
            (pointers[k + 1] for k in range(len(pointers) - 2) if pointers[k] == "@"), None
        )
    found = []
    for name in above:
        path, at = [], name
        while at is not None and len(path) < 30:
            path.append(lemma[at] + at)
            at = above[at]
        found.append(((*path[::-1], "class"), group[name]))
        found.append(((*path[::-1], "lemma"), lemma[name]))
    return found


def accuracy(memory: str, count: int, seed: int) -> dict[str, Any]:
    known = facts()
    symbols = list(dict.fromkeys(filler for _, filler in known[:1000]))
    pool = [fact for fact in known if fact[1] in set(symbols)]
    rng = np.random.default_rng(seed)
    chosen = [pool[k] for k in rng.choice(len(pool), count, replace=False)]
    index = {symbol: n for n, symbol in enumerate(symbols)}
    wanted = np.array([index[filler] for _, filler in chosen])
    if memory == "MAP (torch-hd)":
        generator = torch.Generator().manual_seed(seed)
        code = torchhd.random(len(symbols), 4096, "MAP", generator=generator)
        roles = torchhd.random(count, 4096, "MAP", generator=generator)
        bundle = torchhd.bind(roles, code[torch.as_tensor(wanted)]).sum(0)
        scores = torchhd.dot_similarity(torchhd.bind(roles.inverse(), bundle), code)
        right = scores.argmax(1).numpy() == wanted
    else:
        made: Any
        common = {"order": 4, "dim": 8, "vocabulary": symbols, "capacity": 10**6, "seed": seed}
        if memory.startswith("Kron"):
            made = KroneckerMAPMemory(**common)
        else:
            binding: Any = "carve" if "carved" in memory else "embed"
            made = OSCMemory(binding=binding, **common)
        paths = [path for path, _ in chosen]
        made.store_many(paths, [filler for _, filler in chosen])
        right = made.scores(paths).argmax(axis=1) == wanted
    return {"accuracy": float(np.mean(right)), "symbols": len(symbols)}


def main() -> None:
    torch.set_num_threads(1)
    jobs = [{"memory": m, "count": n, "seed": s} for m in MEMORIES for n in COUNTS for s in SEEDS]
    results = run_jobs("osc_verbs", accuracy, jobs, workers=2)
    rows = []
    for m in MEMORIES:
        row: list[Any] = [m]
        for n in COUNTS:
            values = [r["accuracy"] for j, r in zip(jobs, results, strict=True)
                      if (j["memory"], j["count"]) == (m, n)]  # fmt: skip
            half = 2.262 * np.std(values, ddof=1) / len(values) ** 0.5
            mean = float(np.mean(values))
            row.append(shown((mean, mean - half, mean + half)))
        rows.append(row)
    write_result(
        "osc_verbs",
        {"seeds": list(SEEDS), "order": 4, "dim": 8},
        {
            "osc-verbs": {
                "columns": ["memory of 4096 cells", *[f"{n} facts" for n in COUNTS]],
                "rows": rows,
                "note": f"Share recalled right of {results[0]['symbols']} symbols; mean and t "
                "interval of 10 seeds. Held out: run once.",
            }
        },
    )


if __name__ == "__main__":
    main()
