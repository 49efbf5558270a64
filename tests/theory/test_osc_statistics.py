"""Overlaps of bound components have the means and variances from which capacity is computed.

One mode, unit vectors: same path, different filler: 0 and 1/s. Different path and filler: 0 and
1/d. Different path, same filler: carved s/d; embedded 0 and 1/d. Over p independent modes the
variances multiply, and (2p - 1)!! comes on top for tied components. Also here: the accuracy that
follows, the exactness of blocks, and that projecting out one role at a time neither binds nor
keeps the norm.

20 000 pairs have a standard error of 1 % of a variance; bounds of 5 % are passed by chance failure
with probability below 1e-5 for each comparison. Accuracies are compared at 5 points, which
is more than three standard errors even for independent memories; seeds are fixed.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from foretell.recall import OSCMemory
from foretell.recall.hashed_normals import hashed_normals
from foretell.recall.tensor_products import orthonormal_frames

pytestmark = pytest.mark.theory
D, S, PAIRS = 64, 16, 20_000


def frames(n, stream):
    return orthonormal_frames(hashed_normals(range(n), stream, D * S).reshape(n, D, S))


def units(n, size, stream):
    rows = hashed_normals(range(n), stream, size)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def carve(K, x):
    z = np.einsum("nds,ns->nd", K, np.einsum("nds,nd->ns", K, x))
    return z / np.linalg.norm(z, axis=1, keepdims=True)


def embed(K, a):
    return np.einsum("nds,ns->nd", K, a)


@pytest.mark.parametrize(("place", "size"), [(carve, D), (embed, S)])
def test_overlaps_have_the_stated_moments(place, size):
    few = PAIRS // 4
    K, L = frames(few, 1), frames(few, 2)
    inside, across, same = [], [], []
    for k in range(4):
        x, y = units(few, size, 10 + k), units(few, size, 20 + k)
        inside.append((place(K, x) * place(K, y)).sum(1))
        across.append((place(K, x) * place(L, y)).sum(1))
        same.append((place(K, x) * place(L, x)).sum(1))
    inside, across, same = map(np.concatenate, (inside, across, same))
    assert_allclose(np.mean(inside**2), 1 / S, rtol=0.05)
    assert_allclose(np.mean(across**2), 1 / D, rtol=0.05)
    assert_allclose([inside.mean(), across.mean()], 0, atol=4.5 * (1 / S / PAIRS) ** 0.5)
    if place is carve:
        assert_allclose(same.mean(), S / D, rtol=0.05)
    else:
        assert_allclose(np.mean(same**2), 1 / D, rtol=0.05)
        assert abs(same.mean()) < 4.5 * (1 / D / PAIRS) ** 0.5


def test_tied_components_multiply_the_variance_by_three():
    x, y = units(PAIRS * 3, S, 1), units(PAIRS * 3, S, 2)
    tied = (x * y).sum(1) ** 2
    # E u^4 over the sphere of R^S is 3 / (S (S + 2)): the limit 3 / S^2 less one part in nine.
    assert_allclose(np.mean(tied**2), 3 / (S * (S + 2)), rtol=0.06)


@pytest.mark.parametrize(
    ("arguments", "repeats"),
    [({}, 1), ({}, 20), ({"binding": "carve"}, 1), ({"order": 3, "dim": 16}, 1)],
)
@pytest.mark.parametrize("n", [120, 300])
def test_the_accuracy_is_that_of_the_formula(arguments, repeats, n):
    V, seeds = 500, 4
    right = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        fillers = rng.permutation(V)[:n] if repeats == 1 else rng.choice(V // 20, n)
        memory = OSCMemory(vocabulary=range(V), capacity=n, seed=seed, **arguments)
        paths = [("p", k) for k in range(n)]
        memory.store_many(paths, fillers.tolist())
        right += int((memory.scores(paths).argmax(axis=1) == fillers).sum())
    assert abs(right / (seeds * n) - memory.predicted_accuracy(n)) < 0.05


def test_blocks_that_differ_in_one_mode_are_exactly_orthogonal():
    memory = OSCMemory(regime="blocks", dim=32, kept=8, vocabulary=range(50), dtype=np.float64)
    paths = [("p", n) for n in range(16)]
    memory.store_many(paths, range(16), [1 + n / 4 for n in range(16)])
    scores = memory.scores(paths)
    assert_allclose(scores[range(16), range(16)], 1 + np.arange(16) / 4, atol=1e-5)
    assert (scores.argmax(axis=1) == np.arange(16)).all()


def test_projecting_out_one_role_does_not_bind():
    roles, x = units(400, D, 1), units(1, D, 9)[0]
    bound = x - (roles @ x)[:, None] * roles
    bound /= np.linalg.norm(bound, axis=1, keepdims=True)
    assert (bound[1:] @ bound[0]).mean() > 0.95


def test_chained_projections_fade_and_a_hashed_path_does_not():
    x = units(200, D, 9)
    half = D // 2
    lengths = []
    for level in range(12):
        normals = hashed_normals(range(200), level, D * half).reshape(200, D, half)
        K = orthonormal_frames(normals)
        x = np.einsum("nds,ns->nd", K, np.einsum("nds,nd->ns", K, x))
        lengths.append(np.linalg.norm(x, axis=1).mean())
    assert_allclose(lengths[0], 0.5**0.5, rtol=0.03)
    assert lengths[-1] < 0.02
    memory = OSCMemory(vocabulary=range(50))
    paths = [("level",) * depth for depth in range(1, 51)]
    memory.store_many(paths, range(50))
    assert (memory.scores(paths).argmax(axis=1) == np.arange(50)).all()
