"""Questions, passages and distractors for the streaming lookup; policies side by side.

The questions and paragraphs are those of XQuAD in English (folder xquad below FORETELL_DATA), the
distractors are glosses of WordNet (see _texts.py). A question is said at 2.7 words a second; words
reach the lookup every 0.5 s, except one that crosses the border. Splits are by article.
"""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from _common import data
from _texts import glosses

from foretell.converse import StreamingLookup
from foretell.converse.lookup import BM25, Query, Timing, Trace

K, WORDS_PER_SECOND = 5, 2.7


@dataclass(frozen=True)
class Question:
    text: str
    gold: str  # id of its paragraph
    article: int


class Cached(BM25):
    """The same index; repeated queries are answered from memory, so that policies share them."""

    def __init__(self, passages: dict[str, str]) -> None:
        super().__init__(passages)
        self.cached = lru_cache(maxsize=None)(super().search)

    def search(self, query: Query, k: int) -> list[tuple[str, float]]:
        return self.cached(query, k)


def load(n_distractors: int) -> tuple[Cached, list[Question]]:
    root = data("xquad/xquad.en.json")
    passages: dict[str, str] = {}
    questions = []
    for a, article in enumerate(json.loads(root.read_text(encoding="utf-8"))["data"]):
        for p, paragraph in enumerate(article["paragraphs"]):
            name = f"x{a}-{p}"
            passages[name] = paragraph["context"]
            questions += [Question(q["question"].strip(), name, a) for q in paragraph["qas"]]
    texts, _ = glosses()
    chosen = np.random.default_rng(0).permutation(len(texts))[:n_distractors]
    if len(chosen) < n_distractors:
        raise SystemExit(f"WordNet has {len(texts)} glosses, and {n_distractors} are wanted.")
    passages |= {f"w{i}": texts[i] for i in chosen}
    return Cached(passages), questions


def run(lookup: StreamingLookup, questions: Sequence[Question], timing: Timing) -> list[Trace]:
    """Traces of all questions; searches are not recorded, which only saves time."""
    lookup.plan = dataclasses.replace(lookup.plan, record_searches=False)
    return [lookup.replay(q.text, timing, words_per_second=WORDS_PER_SECOND) for q in questions]


def ratio_of_means(ours: Any, peer: Any, seed: int = 0) -> tuple[float, float, float]:
    """Ratio of means with a 95 % interval of a paired bootstrap over questions."""
    a, b = np.asarray(ours, dtype=float), np.asarray(peer, dtype=float)
    draws = np.random.default_rng(seed).integers(a.size, size=(4000, a.size))
    ratios = a[draws].mean(axis=1) / b[draws].mean(axis=1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(a.mean() / b.mean()), float(low), float(high)
