"""How many candidates a sketch needs: WordNet glosses and Vaswani abstracts, 384 dimensions.

Truth is the exact top ten by cosine. A method ranks all documents by its own score; recall@C is the
share of the truth among the first C, and C95 the smallest C with recall 95 %. Ties, which Hamming
scores have many of, are broken at random. Peers: faiss IndexRaBitQ behind a random rotation, with
queries of eight bits (unquantised ones took over ten times as long, with a C95 of 37 instead of 38
for seed 0 on WordNet), and rabitqlib's 1-bit IvfIndex with one cluster at the mean. Both centre and
keep factors beside the bits; so a centred sketch of 432 bits and a norm has the same bytes. Five
projection seeds; intervals by bootstrap over queries, all seeds together. Bits and norm were chosen
on other queries and seeds; that queries are centred too came after a look at seeds 0 to 2.
"""

import os
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np  # after the thread limits of _common
from _common import run_jobs, write_result
from _texts import Corpus, vaswani, wordnet
from numba import njit

from foretell.recall import CosineDecoder, SignSketch

SEEDS, TOP, QUERIES = (0, 1, 2, 3, 4), 10, 200
DEEP = 1000  # results asked of the peers; a document beyond counts as never found
NEVER = 10**9
BAND, SAMPLE = 0.2, 4000
CORPORA = ("WordNet", "Vaswani")
PARTS = ("uncentred", "centred", "peers")
H, L, D, W = "hamming", "linear", "decorrelated", "llr"
KINDS = (  # projection, bits drawn, bits used, centre, decoders
    ("Gaussian", 384, 128, None, (H, L, D, W)),
    ("Gaussian", 384, 384, None, (H, L, D, W)),
    ("orthogonal", 384, 128, None, (H, L)),
    ("orthogonal", 384, 384, None, (H, L, W)),
    ("orthogonal", 448, 448, None, (L,)),
    ("orthogonal", 384, 384, "mean", (L,)),
    ("orthogonal", 432, 432, "mean", (L,)),
    ("Hadamard", 384, 384, None, (D,)),
)
CENTRED = "orthogonal, {} bits and norm, linear"
FAISS, RABITQLIB = "faiss IndexRaBitQ, rotated", "rabitqlib IvfIndex, 1 bit"


@lru_cache(maxsize=1)
def corpus(name: str) -> tuple[Corpus, Any, Any]:
    """The corpus, the exact top ten (nq, 10), and all cosines (nq, n)."""
    data = wordnet() if name == "WordNet" else vaswani()
    data = Corpus(name, data.documents, data.queries[:QUERIES], data.relevant[:QUERIES])
    cosines = data.queries @ data.documents.T
    part = np.argpartition(-cosines, TOP, axis=1)[:, :TOP]
    return data, part, cosines


def measure(corpus_name: str, seed: int, part: str) -> dict[str, Any]:
    """Ranks of the exact top ten and errors, for some of the methods and one seed."""
    data, truth, cosines = corpus(corpus_name)
    result: dict[str, Any] = {"bytes": {}, "ranks": {}, "rmse": {}}
    if part == "peers":
        for name, peer in ((FAISS, faiss_peer), (RABITQLIB, rabitqlib_peer)):
            found, size = peer(data, seed)
            result["bytes"][name], result["ranks"][name] = size, places(found, truth)
            result["rmse"][name] = None
        return result
    generator = np.random.default_rng(1000 + seed)
    sampled = generator.choice(len(data.documents), min(SAMPLE, len(data.documents)), False)
    near = np.abs(cosines[:, sampled]) < BAND
    queries = data.queries / norms(data.queries.astype(np.float64))
    drawn: Any = None
    for kind, bits, used, center, methods in KINDS:
        if (center is not None) != (part == "centred"):
            continue
        if drawn is None or drawn[0] != (kind, bits):
            settings = {"n_bits": bits, "center": center, "projection": kind.lower()}
            sketch = SignSketch(**settings, random_state=seed)
            fitted = data.documents if center else data.documents[:2]
            codes = sketch.fit(fitted).transform(data.documents)
            drawn = (kind, bits), sketch, codes
        _, sketch, codes = drawn
        rows = SignSketch.from_matrix(sketch.matrix_[:used], center=sketch.mean_)
        signs = np.unpackbits(codes[:, : used // 8], axis=1, bitorder="little")
        signs = signs.astype(np.float32) * 2 - 1
        lengths, lifts = np.float32(1), np.float32(0)
        if center:  # norms are kept in two bytes
            lengths = sketch.residual_norms(data.documents).astype(np.float16).astype(np.float32)
            lifts = lengths**2 / 2
        for method in methods:
            name = CENTRED.format(used) if center else f"{kind}, {used} bits, {method}"
            plans = CosineDecoder(method).prepare_many(rows, queries)
            weights = np.stack([plan.scale * plan.weights for plan in plans])
            offsets = np.array([[plan.offset] for plan in plans], np.float32)
            scores = offsets - lifts + weights.astype(np.float32) @ signs.T * lengths
            estimates = scores[:, sampled].astype(np.float64)
            if method == H:
                estimates = np.sin(np.pi / 2 * estimates)
            errors = (estimates - cosines[:, sampled])[near] ** 2
            result["bytes"][name] = used / 8 + (2 if center else 0)
            result["ranks"][name] = ranks(scores, truth, generator)
            result["rmse"][name] = None if method == W else float(np.sqrt(errors.mean()))
    return result


def norms(rows: Any) -> Any:
    return np.linalg.norm(rows, axis=1, keepdims=True)


def ranks(votes: Any, truth: Any, generator: np.random.Generator) -> list[list[int]]:
    """Rank of every true neighbour, ties at random."""
    above, equal = np.empty(truth.shape, np.int64), np.empty(truth.shape, np.int64)
    _count(votes.astype(np.float32, copy=False), truth, above, equal)
    return (above + generator.integers(1, equal + 1)).tolist()


@njit
def _count(votes: Any, truth: Any, above: Any, equal: Any) -> None:
    for q in range(truth.shape[0]):
        for k in range(truth.shape[1]):
            own = votes[q, truth[q, k]]
            more = same = 0
            for vote in votes[q]:
                more += vote > own
                same += vote == own
            above[q, k], equal[q, k] = more, same


def places(found: Any, truth: Any) -> list[list[int]]:
    """Rank of every true neighbour in a peer's results."""
    out = []
    for row, wanted in zip(found, truth, strict=True):
        place = {int(document): k + 1 for k, document in enumerate(row)}
        out.append([place.get(int(document), NEVER) for document in wanted])
    return out


def faiss_peer(data: Corpus, seed: int) -> tuple[Any, float]:
    import faiss

    faiss.omp_set_num_threads(1)
    d = data.documents.shape[1]
    rotation = faiss.RandomRotationMatrix(d, d)
    rotation.init(seed + 1)
    index = faiss.IndexRaBitQ(d, faiss.METRIC_INNER_PRODUCT)
    index.qb = 8
    whole = faiss.IndexPreTransform(rotation, index)
    whole.train(data.documents)
    whole.add(data.documents)
    return whole.search(data.queries, DEEP)[1], float(index.code_size)


def rabitqlib_peer(data: Corpus, seed: int) -> tuple[Any, float]:
    import rabitqlib

    n, d = data.documents.shape
    index = rabitqlib.IvfIndex(d, n, 1, 1, "l2")
    index.build(data.documents, data.documents.mean(axis=0, keepdims=True), np.zeros(n, np.uint32))
    with tempfile.TemporaryDirectory() as folder:
        index.save(str(Path(folder) / "index"))
        size = sum(path.stat().st_size for path in Path(folder).iterdir()) / n
    found = index.search(data.queries, DEEP, 1, high_accuracy=True)
    ids = found[0] if np.issubdtype(np.asarray(found[0]).dtype, np.integer) else found[1]
    return np.asarray(ids), round(size, 1)


def budget(ranks: Any, recall: float) -> float:
    flat = ranks.reshape(-1)
    place = int(np.ceil(recall * flat.size)) - 1
    return float(np.partition(flat, place)[place])


class Comparison:
    """Ranks (seeds, nq, 10) by method, and intervals over resampled queries."""

    def __init__(self, results: list[dict[str, Any]], resamples: int = 500) -> None:
        self.results = results
        self.ranks = {
            name: np.array([result["ranks"][name] for result in results], np.int64)
            for name in results[0]["ranks"]
        }
        n = next(iter(self.ranks.values())).shape[1]
        self.draws = np.random.default_rng(0).integers(n, size=(resamples, n))

    def statistic(self, function: Any, *names: str) -> tuple[float, float, float]:
        """A function of {name: ranks} for the methods named, with its interval."""
        ranks = {name: self.ranks[name] for name in names}
        value = function(ranks)
        draws = [function({k: v[:, d] for k, v in ranks.items()}) for d in self.draws]
        low, high = np.quantile(draws, [0.025, 0.975])
        return float(value), float(low), float(high)

    def budget(self, name: str, recall: float = 0.95) -> tuple[float, float, float]:
        return self.statistic(lambda r: np.mean([budget(seed, recall) for seed in r[name]]), name)

    def ratio(self, ours: str, peer: str) -> tuple[float, float, float]:
        def function(r: Any) -> Any:
            pairs = zip(r[ours], r[peer], strict=True)
            return np.mean([budget(a, 0.95) / budget(b, 0.95) for a, b in pairs])

        return self.statistic(function, ours, peer)

    def recall(self, name: str, minus: str | None = None) -> tuple[float, float, float]:
        def function(r: Any) -> Any:
            other = (r[minus] <= 100).mean() if minus else 0.0
            return 100 * ((r[name] <= 100).mean() - other)

        return self.statistic(function, *filter(None, (name, minus)))

    def rmse_ratio(self, ours: str, peer: str) -> tuple[float, float, float]:
        values = [r["rmse"][ours] / r["rmse"][peer] for r in self.results]
        return float(np.mean(values)), min(values), max(values)


def shown(values: tuple[float, float, float], digits: int = 3) -> str:
    middle, low, high = (
        "never" if v >= NEVER / 100 else f"{v:.0f}" if v >= 100 else f"{v:.{digits}g}"
        for v in values
    )
    return f"{middle} [{low}, {high}]"


def table(comparison: Comparison, corpus_name: str) -> dict[str, Any]:
    rows = []
    for name in comparison.ranks:
        rmse = [result["rmse"][name] for result in comparison.results]
        rows.append(
            [
                name,
                comparison.results[0]["bytes"][name],
                shown(comparison.recall(name)),
                shown(comparison.budget(name, 0.9)),
                shown(comparison.budget(name)),
                None if None in rmse else float(np.mean(rmse)),
            ]
        )
    data, truth, cosines = corpus(corpus_name)
    best = np.take_along_axis(cosines, truth, axis=1)
    low, middle, high = np.quantile(best, [0.1, 0.5, 0.9])
    return {
        "columns": ["sketch and decoder", "bytes", "recall@100, %", "C90", "C95", "RMSE"],
        "rows": rows,
        "note": f"{len(data.documents)} documents, {len(data.queries)} queries, {len(SEEDS)} "
        "projection seeds; 95 % intervals over queries. Cosines of the true top ten: 10/50/90 % = "
        f"{low:.2f}/{middle:.2f}/{high:.2f}. RMSE over pairs with a cosine between -0.2 and 0.2.",
    }


def bars(by_corpus: dict[str, Comparison]) -> list[list[Any]]:
    """The promises, each with its figure."""
    words, papers = by_corpus["WordNet"], by_corpus["Vaswani"]
    g, o = "Gaussian, {} bits, {}".format, "orthogonal, {} bits, {}".format
    rows: list[list[Any]] = []
    for m, bar in ((128, "0.60"), (384, "0.75")):
        ratio = words.rmse_ratio(g(m, L), g(m, H))
        rows.append([f"RMSE linear / hamming, Gaussian, {m} bits", "0.78 to 0.83", shown(ratio)])
        ratio = words.ratio(g(m, L), g(m, H))
        rows.append([f"C95 linear / hamming, Gaussian, {m} bits", f"at most {bar}", shown(ratio)])
    ratio = words.rmse_ratio(g(384, D), g(384, L))
    rows.append(["RMSE decorrelated / linear, Gaussian, 384 bits", "at most 0.95", shown(ratio)])
    for ours, label in ((o(384, L), "384 bits"), (CENTRED.format(384), "384 bits and norm")):
        difference = shown(words.recall(ours, FAISS))
        row = f"recall@100 orthogonal, {label} - faiss RaBitQ, points"
        rows.append([row, "at least -1", difference])
        share = words.results[0]["bytes"][ours] / words.results[0]["bytes"][FAISS]
        rows.append([f"bytes orthogonal, {label} / faiss RaBitQ", "at most 0.90", share])
    for name, data, bar in (("WordNet", words, "0.20"), ("Vaswani", papers, "0.60")):
        ratio = data.ratio(o(384, L), g(384, H))
        rows.append([f"C95 orthogonal / SimHash, {name}", f"at most {bar}", shown(ratio)])
    for name, data in by_corpus.items():
        for ours, label in ((CENTRED.format(432), "432 bits and norm"), (o(448, L), "448 bits")):
            for peer in (FAISS, RABITQLIB):
                text = f"C95 orthogonal, {label} / {peer.split()[0]}, {name}"
                rows.append([text, "at most 1", shown(data.ratio(ours, peer))])
    return rows


def main() -> None:
    workers = int(os.environ.get("WORKERS", "1"))
    jobs = [
        {"corpus_name": name, "seed": seed, "part": part}
        for name in CORPORA
        for seed in SEEDS
        for part in PARTS
    ]
    results = run_jobs("qacos_recall", measure, jobs, workers)
    parts = {tuple(job.values()): result for job, result in zip(jobs, results, strict=True)}
    by_corpus = {
        name: Comparison(
            [
                {
                    key: {k: v for part in PARTS for k, v in parts[name, seed, part][key].items()}
                    for key in ("bytes", "ranks", "rmse")
                }
                for seed in SEEDS
            ]
        )
        for name in CORPORA
    }
    tables = {f"qacos-{name.lower()}": table(by_corpus[name], name) for name in CORPORA}
    tables["qacos-recall-bars"] = {
        "columns": ["ratio or difference", "bar", "measured"],
        "rows": bars(by_corpus),
        "note": "Intervals: over queries for C95 and recall, lowest and highest seed for RMSE.",
    }
    write_result(
        "qacos_recall", {"seeds": list(SEEDS), "queries": QUERIES, "top": TOP, "deep": DEEP}, tables
    )
    for name in tables:
        print(*tables[name]["rows"], sep="\n")


if __name__ == "__main__":
    main()
