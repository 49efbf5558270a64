"""You have an hnswlib index: walk its own graph with sign codes instead of floats.

The graph stays as it is; 16 bytes a vector take the place of 512.
Needs hnswlib: pip install hnswlib
"""

import importlib.util

import numpy as np

from foretell.recall import SignSketch, SketchIndex
from foretell.recall.adapters import from_hnswlib, rerank_codes
from foretell.recall.backends import GraphBackend
from foretell.recall.graph import Graph

if importlib.util.find_spec("hnswlib") is None:
    print("hnswlib is not installed: pip install hnswlib")
    raise SystemExit(0)
import hnswlib

rng = np.random.default_rng(0)
d = 128
topics = rng.normal(size=(100, d))
X = topics[rng.integers(100, size=5000)] + rng.normal(size=(5000, d))
X /= np.linalg.norm(X, axis=1, keepdims=True)
Q = X[:100] + 0.06 * rng.normal(size=(100, d))
Q /= np.linalg.norm(Q, axis=1, keepdims=True)

# What you have.
old = hnswlib.Index("ip", d)
old.init_index(len(X), M=16, ef_construction=100, random_seed=0)
old.add_items(X, np.arange(len(X)) + 1000)
labels, _ = old.knn_query(Q, 50)

# Its results in the order of estimated cosines, from codes alone.
sketch = SignSketch(n_bits=d, random_state=0).fit(X)
names, codes = from_hnswlib(old, sketch)
row = np.full(names.max() + 1, -1)
row[names] = np.arange(len(names))
print(rerank_codes(sketch, Q, row[labels.astype(np.int64)], codes, k=10))

# Its graph with our distance: node i is the i-th vector that was added.
index = SketchIndex(sketch, backend=GraphBackend(graph=Graph.from_hnswlib(old)), vectors=None)
index.add_codes(sketch.transform(X), ids=np.arange(len(X)) + 1000)
found = index.candidates(Q, 50)
shared = np.mean([np.isin(a[:10], b).mean() for a, b in zip(labels, found, strict=True)])
print(f"{index.nbytes['codes'] / len(X):.0f} bytes a vector, {shared:.2f} of the old top ten found")
assert shared > 0.8
