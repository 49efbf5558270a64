"""You have candidates from a database with binary codes (Qdrant, pgvector): order them anew.

A vector database that quantises to one bit keeps the signs of the vectors themselves, so the
matrix is the identity. Its answer is a list of points per query, each with its bits.
"""

import numpy as np

from foretell.recall import CosineDecoder, SignSketch
from foretell.recall.adapters import rerank_codes

rng = np.random.default_rng(0)
d = 256
X = rng.normal(size=(5000, d))
q = X[42] + 1.5 * rng.normal(size=d)
q /= np.linalg.norm(q)


def database(query: np.ndarray, limit: int) -> list[dict]:
    """SELECT id, code FROM items ORDER BY code <~> query LIMIT limit, as pgvector would."""
    bits, asked = X >= 0, query >= 0
    nearest = np.argsort((bits != asked).sum(axis=1), kind="stable")[:limit]
    return [{"id": int(i), "code": "".join("01"[b] for b in bits[i].astype(int))} for i in nearest]


points = database(q, 100)
ids = np.array([[point["id"] for point in points]])
codes = np.packbits([[c == "1" for c in point["code"]] for point in points], axis=1)

sketch = SignSketch.from_matrix(np.eye(d), bit_order="big")  # packbits without arguments
found = rerank_codes(sketch, q, ids, [codes], k=3, decoder=CosineDecoder("mle"))
for name, cosine, error in zip(
    found.ids[0], found.cosines[0], found.standard_errors[0], strict=True
):
    print(f"item {name}: cosine {cosine:.2f} +- {error:.2f}")
assert found.ids[0, 0] == 42
