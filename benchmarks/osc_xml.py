"""Many labels: a dense layer, holographic label vectors, and OSCHead on WordNet's nouns.

Input: the gloss of a noun, 384 numbers (idf-weighted average of token vectors). Labels: all of its
hypernyms that have 30 to 20,000 nouns below them. 20,000 glosses to learn from, 3,000 to judge by.
Same hidden layer of 256 units, optimiser and epochs for all; only the output layer differs. Judged
by precision at 1 and 5, and by PSP@5, where rare labels weigh more (propensities of Jain et al.
2016, A = 0.55, B = 1.5). "HRR" is Ganesan et al.'s head: a random vector for every label, 1 - cos.
"""

import time
from typing import Any

import numpy as np
import torch
from _common import run_jobs, shown, wordnet, write_result
from _texts import TokenAverage
from torch import nn

from foretell.recall import OSCHead

SEEDS, EPOCHS, BATCH = range(10), 8, 256
HEADS = ("dense", "HRR 400", "OSC p=2, d=20", "HRR 1024", "OSC p=2, d=32", "OSC p=3, d=10")


def data() -> tuple[Any, Any, Any, Any]:
    above: dict[str, list[str]] = {}
    texts = {}
    for line in wordnet("data.noun").read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            continue
        head, _, gloss = line.partition(" | ")
        fields = head.split()
        words = int(fields[3], 16)
        pointers = fields[5 + 2 * words :]
        above[fields[0]] = [
            pointers[k + 1] for k in range(len(pointers) - 1) if pointers[k] in ("@", "@i")
        ]
        texts[fields[0]] = gloss.split('; "')[0]
    ancestors: dict[str, set[str]] = {}

    def collect(name: str) -> set[str]:
        if name not in ancestors:
            ancestors[name] = set(above[name]).union(*map(collect, above[name]))
        return ancestors[name]

    count: dict[str, int] = {}
    for name in above:
        for label in collect(name):
            count[label] = count.get(label, 0) + 1
    labels = {n: k for k, n in enumerate(sorted(x for x, c in count.items() if 30 <= c <= 20_000))}
    names = [n for n in above if any(a in labels for a in ancestors[n])]
    chosen = [names[k] for k in np.random.default_rng(0).permutation(len(names))[:23_000]]
    embed = TokenAverage.fit([texts[n] for n in chosen])
    X = torch.from_numpy(embed([texts[n] for n in chosen])).float()
    X = (X - X[:20_000].mean(0)) / X[:20_000].std(0)
    Y = torch.zeros(len(chosen), len(labels))
    for row, name in enumerate(chosen):
        Y[row, [labels[a] for a in ancestors[name] if a in labels]] = 1
    return X[:20_000], Y[:20_000], X[20_000:], Y[20_000:]


class Holographic(nn.Module):
    def __init__(self, n_labels: int, size: int, seed: int) -> None:
        super().__init__()
        self.project = nn.Linear(256, size)
        code = torch.randn(n_labels, size, generator=torch.Generator().manual_seed(seed))
        self.register_buffer("code", nn.functional.normalize(code, dim=1))

    def loss(self, h: Any, Y: Any) -> Any:
        return 1 - nn.functional.cosine_similarity(self.project(h), Y @ self.code, dim=1).mean()

    def scores(self, h: Any) -> Any:
        return self.project(h) @ self.code.T


class Dense(nn.Module):
    def __init__(self, n_labels: int) -> None:
        super().__init__()
        self.project = nn.Linear(256, n_labels)

    def loss(self, h: Any, Y: Any) -> Any:
        each = nn.functional.binary_cross_entropy_with_logits(self.project(h), Y, reduction="none")
        return each.sum(1).mean()

    def scores(self, h: Any) -> Any:
        return self.project(h)


def head_of(name: str, n_labels: int, seed: int) -> Any:
    if name == "dense":
        return Dense(n_labels)
    if name.startswith("HRR"):
        return Holographic(n_labels, int(name.split()[1]), seed)
    order, dim = (int(part.split("=")[1]) for part in name.removeprefix("OSC ").split(", "))
    return OSCHead(256, n_labels, order=order, dim=dim, seed=seed)


def train_and_judge(head: str, seed: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    X, Y, X_test, Y_test = data()
    n_labels = Y.shape[1]
    hidden = nn.Sequential(nn.Linear(X.shape[1], 256), nn.ReLU())
    top = head_of(head, n_labels, seed)
    optimiser = torch.optim.Adam([*hidden.parameters(), *top.parameters()], lr=1e-3)
    start = time.process_time()
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(X)).split(BATCH):
            optimiser.zero_grad()
            top.loss(hidden(X[rows]), Y[rows]).backward()
            optimiser.step()
    seconds = time.process_time() - start
    start = time.process_time()
    with torch.no_grad():
        scores = torch.cat([top.scores(hidden(part)) for part in X_test.split(500)])
    scoring = time.process_time() - start
    best = scores.topk(5, dim=1).indices
    hits = Y_test.gather(1, best)
    frequency = Y.sum(0)
    C = (np.log(len(X)) - 1) * (1.5 + 1) ** 0.55
    weight = 1 + C * (frequency + 1.5) ** -0.55
    gained = (hits * weight[best]).sum(1)
    possible = (Y_test * weight).topk(5, dim=1).values.sum(1)
    code = {"labels", "code"}
    stored = sum(b.numel() for n, b in top.named_buffers() if n in code)
    if head == "dense":
        stored = sum(p.numel() for p in top.parameters())
    return {
        "p1": float(hits[:, 0].mean()),
        "p5": float(hits.mean()),
        "psp5": float(gained.sum() / possible.sum()),
        "label_numbers": stored,
        "trained": sum(p.numel() for p in top.parameters()),
        "train_s": seconds,
        "score_us": 1e6 * scoring / len(X_test),
        "n_labels": n_labels,
        "labels_each": float(Y.sum(1).mean()),
    }


def main() -> None:
    jobs = [{"head": h, "seed": s} for s in SEEDS for h in HEADS]
    results = run_jobs("osc_xml", train_and_judge, jobs)
    of = {h: [r for j, r in zip(jobs, results, strict=True) if j["head"] == h] for h in HEADS}

    def mean(head: str, key: str) -> str:
        values = [r[key] for r in of[head]]
        return shown((float(np.mean(values)), min(values), max(values)))

    pairs = (
        ("OSC p=2, d=20", "HRR 400"),
        ("OSC p=2, d=32", "HRR 1024"),
        ("OSC p=3, d=10", "HRR 1024"),
    )
    write_result(
        "osc_xml",
        {"seeds": list(SEEDS), "epochs": EPOCHS, "batch": BATCH, "hidden": 256, "rate": 1e-3},
        {
            "osc-xml": {
                "columns": ["output layer", "P@1", "P@5", "PSP@5", "numbers for the labels",
                            "trained numbers", "training CPU-s", "scoring CPU-us a row"],
                "rows": [[h, mean(h, "p1"), mean(h, "p5"), mean(h, "psp5"),
                          of[h][0]["label_numbers"], of[h][0]["trained"],
                          float(np.median([r["train_s"] for r in of[h]])),
                          float(np.median([r["score_us"] for r in of[h]]))] for h in HEADS],
                "note": f"{results[0]['n_labels']} labels, {results[0]['labels_each']:.1f} a "
                f"gloss; mean [least, largest] of {len(SEEDS)} seeds.",
            },
            "osc-xml-difference": {
                "columns": ["pair", "P@5 difference, points", "label numbers, ratio"],
                "rows": [
                    [f"{a} minus {b}",
                     shown(points([100 * (x["p5"] - y["p5"])
                                   for x, y in zip(of[a], of[b], strict=True)])),
                     of[a][0]["label_numbers"] / of[b][0]["label_numbers"]]
                    for a, b in pairs
                ],
                "note": "Paired by seed: mean [least, largest].",
            },
        },
    )  # fmt: skip


def points(values: list[float]) -> tuple[float, ...]:
    return float(np.mean(values)), min(values), max(values)


if __name__ == "__main__":
    main()
