"""First-stage candidates for partial questions: the same recall with fewer candidates.

A question is heard word by word. At every partial the passages nearest to the words so far are
wanted; codes of equal bytes choose candidates, and the vectors of these are compared exactly. The
code's own cosine needs fewer of them than Hamming distance for nine in ten of the true neighbours.
"""

import numpy as np
import pytest

from foretell.converse.lookup import Query, StreamingLookup
from foretell.converse.lookup.retriever import Hits
from foretell.core import Event
from foretell.recall import CosineDecoder, SignSketch, SketchIndex

D, K, BITS = 96, 5, 96


def unit(X: np.ndarray) -> np.ndarray:
    return X / np.linalg.norm(X, axis=-1, keepdims=True)


class Meaning:
    """Words as random directions; a text is the mean of its words."""

    def __init__(self, rng: np.random.Generator, n_words: int = 600) -> None:
        topics = rng.normal(size=(30, D))
        self.topic = rng.integers(30, size=n_words)
        self.vectors = topics[self.topic] + 1.5 * rng.normal(size=(n_words, D))

    def of(self, text: str) -> np.ndarray:
        rows = [int(w.removeprefix("w")) for w in text.split() if w.startswith("w")]
        return unit(self.vectors[rows].mean(axis=0)) if rows else np.zeros(D)


class ByCode:
    """A retriever of a lookup whose candidates come from a sketch."""

    speculative = True

    def __init__(
        self, texts: list[str], meaning: Meaning, *, projection: str, decoder: str
    ) -> None:
        self.texts, self.meaning = texts, meaning
        X = np.stack([meaning.of(text) for text in texts])
        sketch = SignSketch(n_bits=BITS, projection=projection, random_state=0).fit(X)
        self.index = SketchIndex(sketch, CosineDecoder(decoder))
        self.index.add(X)
        self.budget = len(texts)

    def search(self, query: Query, k: int) -> Hits:
        q = self.meaning.of(query.text)
        if not q.any():
            return []
        found = self.index.search(q[None], k, max(k, self.budget))
        return [(str(n), float(c)) for n, c in zip(found.ids[0], found.cosines[0], strict=True)]

    def fetch(self, id: str) -> str:
        return self.texts[int(id)]

    def __len__(self) -> int:
        return len(self.texts)


def recall_at(retriever: ByCode, budget: int, Q: np.ndarray, truth: np.ndarray) -> float:
    found = retriever.index.search(Q, K, budget).ids
    return float(np.mean([len({*a} & {*b}) / K for a, b in zip(found, truth, strict=True)]))


@pytest.mark.story
def test_fewer_candidates_for_the_same_recall_while_a_question_is_said() -> None:
    rng = np.random.default_rng(0)
    meaning = Meaning(rng)
    by_topic = [np.flatnonzero(meaning.topic == t) for t in range(30)]

    def text(n: int) -> str:
        a, b = rng.integers(30, size=2)
        pool = np.concatenate([by_topic[a], by_topic[b], rng.integers(600, size=10)])
        return " ".join(f"w{w}" for w in rng.choice(pool, size=n))

    texts = [text(20) for _ in range(2000)]
    partials = []
    for n in rng.integers(2000, size=40):
        words = texts[n].split()[:8]
        partials += [" ".join(words[:m]) for m in (3, 5, 8)]
    plain = ByCode(texts, meaning, projection="gaussian", decoder="hamming")
    aware = ByCode(texts, meaning, projection="orthogonal", decoder="auto")
    assert plain.index.nbytes["codes"] == aware.index.nbytes["codes"]
    Q = np.stack([meaning.of(words) for words in partials])
    truth = aware.index.search(Q, K, len(texts)).ids
    needed = {}
    for name, retriever in (("plain", plain), ("aware", aware)):
        budgets = (5, 8, 12, 18, 27, 40, 60, 90, 135, 200, 300, 450, 675, 1000, 2000)
        needed[name] = next(b for b in budgets if recall_at(retriever, b, Q, truth) >= 0.9)
    assert needed["aware"] <= needed["plain"] / 2, needed

    # under a lookup: with that budget its evidence is nearly that of an exact search
    aware.budget = needed["aware"]
    lookup, same = StreamingLookup(aware, k=K), 0
    for words, wanted in zip(partials[2::3], truth[2::3], strict=True):
        machine = lookup.machine(store=lookup.new_store(), began=0.0)
        outs = machine.on(Event("partial", 0.1, {"text": words}))
        outs += machine.on(Event("commit", 0.2, {"text": words}))
        for out in outs:  # grows while it is gone through
            if out.kind == "work":
                value = aware.fetch(out["id"])
                outs += machine.on(Event("work_done", 0.2, {"job": out["job"], "value": value}))
        (evidence,) = (out for out in outs if out.kind == "evidence")
        same += len({int(id) for id in evidence["ids"]} & {*wanted.tolist()})
    assert same >= 0.85 * truth[2::3].size
