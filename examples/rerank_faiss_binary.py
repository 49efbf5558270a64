"""You have a faiss binary index: order its candidates by what the query knows about each bit.

Same codes, same index, no new encoding. Needs faiss: pip install "foretell[find]"
"""

import importlib.util

import numpy as np

from foretell.recall import SignSketch
from foretell.recall.adapters import from_faiss_binary, rerank_codes

if importlib.util.find_spec("faiss") is None:
    print('faiss is not installed: pip install "foretell[find]"')
    raise SystemExit(0)
import faiss

rng = np.random.default_rng(0)
d, bits = 128, 256
topics = rng.normal(size=(300, d))
X = topics[rng.integers(300, size=20_000)] + rng.normal(size=(20_000, d))
Q = X[:200] + rng.normal(size=(200, d))
Q /= np.linalg.norm(Q, axis=1, keepdims=True)
cosines = Q @ (X / np.linalg.norm(X, axis=1, keepdims=True)).T
truth = np.argsort(-cosines, axis=1)[:, :10]

# What you have: SimHash codes in faiss, and the matrix that made them.
G = rng.normal(size=(bits, d))
index = faiss.IndexBinaryFlat(bits)
index.add(np.packbits(X @ G.T >= 0, axis=1, bitorder="little"))

# What is new: five lines.
sketch = SignSketch.from_matrix(G)
codes = from_faiss_binary(index)
_, candidates = index.search(sketch.transform(Q), 200)
found = rerank_codes(sketch, Q, candidates, codes, k=20)
print(found)

before, after = (
    np.mean([np.isin(t, row).mean() for t, row in zip(truth, rows, strict=True)])
    for rows in (candidates[:, :20], found.ids)
)
print(f"ten nearest among the first twenty: {before:.2f} by Hamming, {after:.2f} re-ranked")
assert after > before + 0.05
