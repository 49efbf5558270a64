"""Vectors and measures that the tests of the index share."""

import numpy as np

D = 32


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def clustered(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(40, D))[rng.integers(40, size=n)] + 0.8 * rng.normal(size=(n, D))


def true_top(X: np.ndarray, Q: np.ndarray, k: int) -> np.ndarray:
    return np.argsort(-(Q @ unit(X).T), axis=1, kind="stable")[:, :k]


def recall(found: np.ndarray, truth: np.ndarray) -> float:
    return float(
        np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found, truth, strict=True)])
    )
