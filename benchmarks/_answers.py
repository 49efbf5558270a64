"""Questions with and without an answer in the notes, looked up and embedded.

The notes are the paragraphs of XQuAD in English (folder xquad below FORETELL_DATA) with glosses of
WordNet as distractors (see _texts.py). A question is asked three times: of all notes ("there"),
without its paragraph ("paragraph left out") and without all paragraphs of its article ("article
left out"). One whose answer still stands, word for word, in what was found is not counted as one
without an answer.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from _common import CACHE, data
from _texts import glosses

from foretell.app.notes.sentence_vectors import SentenceVectors
from foretell.app.talk.matching import gives
from foretell.app.talk.notebook import SLOPE
from foretell.converse.answer import Source, sentences
from foretell.converse.answer.learning import Example
from foretell.converse.lookup import BM25, text_query
from foretell.converse.lookup.words import is_content

K = 5
KINDS = ("there", "paragraph left out", "article left out")
SHORTENED = "words left out"  # only to learn from: questions that say too little


@dataclass(frozen=True)
class Asked:
    """A question in one of the three ways."""

    question: str
    kind: str
    answer: str
    example: Example


def questions() -> tuple[dict[str, str], list[tuple[str, str, str, int]]]:
    """Paragraphs by id; question, paragraph and text of the answer, article."""
    path = data("xquad/xquad.en.json")
    paragraphs, asked = {}, []
    for a, article in enumerate(json.loads(path.read_text(encoding="utf-8"))["data"]):
        for p, paragraph in enumerate(article["paragraphs"]):
            name = f"x{a}-{p}"
            paragraphs[name] = paragraph["context"]
            for qa in paragraph["qas"]:
                gold = qa["answers"][0]
                asked.append((qa["question"].strip(), name, gold["text"], a))
    return paragraphs, asked


def load(n_distractors: int, articles: Collection[int] = range(48)) -> tuple[list[Asked], BM25]:
    """Questions in all three ways and with words left out, and the index of everything."""
    paragraphs, asked = questions()
    texts, _ = glosses()
    chosen = np.random.default_rng(0).permutation(len(texts))[:n_distractors]
    if len(chosen) < n_distractors:
        raise SystemExit(f"WordNet has {len(texts)} glosses, and {n_distractors} are wanted.")
    notes = paragraphs | {f"w{i}": texts[i] for i in chosen}
    index = BM25(notes, b=SLOPE)
    vectors = Vectors()
    cases = []
    rng = np.random.default_rng(1)
    for question, home, answer, article in asked:
        short = shortened(question, rng)
        if article not in articles:
            continue
        for kind in (*KINDS, SHORTENED):
            text = short if kind == SHORTENED else question
            hits = index.search(text_query(text), 8 * K) if text_query(text) else []
            kept = [h for h in hits if _allowed(h[0], kind, home, article)][:K]
            sources = [Source(id, notes[id], score=score) for id, score in kept]
            holds = [_holds(s, article, answer) for s in sources]
            absent = kind in KINDS[1:]
            if absent and any(gives(s.text, [answer]) for s in sources):
                continue
            example = Example(
                text, sources, holds, article, vectors(text)[0],
                [vectors(*(s.text for s in sentences(source))) for source in sources],
            )  # fmt: skip
            cases.append(Asked(question, kind, answer, example))
    vectors.save()
    return cases, index


def shortened(question: str, rng: np.random.Generator) -> str:
    """A question with one to three of its content words, as people type them."""
    words = question.rstrip("?").split()
    content = [i for i, word in enumerate(words) if is_content(word.strip(",.;:()'\""))]
    kept = set(rng.permutation(content)[: rng.integers(1, 4)].tolist())
    return " ".join(w for i, w in enumerate(words) if i in kept or i not in content)


def _allowed(id: str, kind: str, home: str, article: int) -> bool:
    if kind == KINDS[1]:
        return id != home
    return kind in (KINDS[0], SHORTENED) or not id.startswith(f"x{article}-")


def _holds(source: Source, article: int, answer: str) -> list[bool]:
    """Which sentences give the answer, word for word; only passages of the right article can."""
    mine = source.id.startswith(f"x{article}-")
    return [mine and gives(sentence.text, [answer]) for sentence in sentences(source)]


class Vectors:
    """Sentence vectors, kept in benchmarks/.cache."""

    def __init__(self) -> None:
        self.path = CACHE / "answers-vectors.npz"
        self.known: dict[str, np.ndarray] = {}
        if self.path.is_file():
            with np.load(self.path) as kept:
                self.known = dict(zip(kept["texts"].tolist(), kept["vectors"], strict=True))
        self.before = len(self.known)
        self.model = lru_cache(maxsize=1)(SentenceVectors)

    def __call__(self, *texts: str) -> np.ndarray:
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        if new:
            self.known |= dict(zip(new, self.model().encode(new), strict=True))
        return np.array([self.known[text] for text in texts]).reshape(len(texts), -1)

    def save(self) -> None:
        if len(self.known) > self.before:
            CACHE.mkdir(exist_ok=True)
            names, vectors = list(self.known), np.array(list(self.known.values()))
            np.savez(self.path, texts=np.array(names), vectors=vectors)
