"""Vectors, queries, a sketch and back ends that the tests of the index share."""

import numpy as np
import pytest

from foretell.recall import SignSketch
from tests.recall.vectors import D, clustered, unit


@pytest.fixture(scope="session")
def X() -> np.ndarray:
    """In 40 clusters."""
    return frozen(clustered(6000))


@pytest.fixture(scope="session")
def Q(X: np.ndarray) -> np.ndarray:
    """Near the first twenty vectors."""
    return frozen(unit(X[:20] + 0.2 * np.random.default_rng(1).normal(size=(20, D))))


@pytest.fixture(scope="session")
def sketch(X: np.ndarray) -> SignSketch:
    """Of 32 bits."""
    return SignSketch(n_bits=32, random_state=0).fit(X)


@pytest.fixture(params=["numpy", "fastscan", "hnsw"])
def backend(request: pytest.FixtureRequest) -> str:
    """Every back end that is installed."""
    if request.param == "fastscan":
        pytest.importorskip("faiss")
    return str(request.param)


def frozen(rows: np.ndarray) -> np.ndarray:
    rows.flags.writeable = False
    return rows
