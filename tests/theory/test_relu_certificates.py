"""Certificates of ReLU networks: four theorems, none with a chance of failing.

T1 outputs are Lipschitz with the sum of the norms; T2, T3, T4 no point inside the radius changes
the answer, attacked along the exact gradients of the active pieces from random starts; T3 is at
least twice T2, and T4 at least T3. Certain: false-alarm rate 0 (attacks stay within 1 - 1e-9 of the
radius).
"""

import numpy as np
import pytest

from foretell.converse.language import ReLUNetwork
from foretell.converse.language.network import BOUNDS, radii

pytestmark = pytest.mark.theory


def random_network(seed, d=6, K=4, m=30):
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], size=m)
    owners = rng.integers(K, size=m)
    return ReLUNetwork(rng.normal(size=(m, d)), rng.normal(size=m), signs, owners, K), rng


def gradient(network, X, plus, minus):
    """Of f_plus - f_minus at every row."""
    active = X @ network.weights.T + network.biases > 0
    side = (network.owners == plus[:, None]) * 1.0 - (network.owners == minus[:, None]) * 1.0
    return (active * side * network.signs) @ network.weights


def attack(network, X, radius, rng, steps=25, starts=3):
    """Projected descent of the margin to every class; whether an answer changed."""
    answer = network(X).argmax(axis=1)
    broken = np.zeros(len(X), dtype=bool)
    reach = radius * (1 - 1e-9)
    for other in range(network.n_outputs):
        rows = np.flatnonzero(answer != other)
        for _ in range(starts):
            start = rng.normal(size=X[rows].shape)
            move = start / np.linalg.norm(start, axis=1, keepdims=True) * reach[rows, None]
            for step in range(steps):
                g = gradient(network, X[rows] + move, answer[rows], np.full(rows.size, other))
                size = np.linalg.norm(g, axis=1, keepdims=True)
                move = move - reach[rows, None] * (2 / (1 + step)) * g / np.maximum(size, 1e-300)
                length = np.linalg.norm(move, axis=1, keepdims=True)
                move *= np.minimum(1.0, reach[rows, None] / np.maximum(length, 1e-300))
                broken[rows] |= network(X[rows] + move).argmax(axis=1) != answer[rows]
    return broken


@pytest.mark.parametrize("seed", range(5))
def test_outputs_change_no_faster_than_the_sum_of_norms(seed):
    network, rng = random_network(seed)
    a, b = rng.normal(size=(2, 2000, 6)) * 3
    change = np.abs(network(a) - network(b)) / np.linalg.norm(a - b, axis=1, keepdims=True)
    assert (change <= network.lipschitz() * (1 + 1e-12)).all()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("bound", BOUNDS)
def test_no_attack_inside_the_radius_changes_the_answer(seed, bound):
    network, rng = random_network(seed)
    X = rng.normal(size=(150, 6)) * 2
    radius = network.certified_radius(X, bound)
    assert not attack(network, X, radius, rng).any()
    if bound == "spectral":  # the attack is able to find changes where there may be some
        assert attack(network, X, 6 * radius, rng).any()


@pytest.mark.parametrize("seed", range(20))
def test_pairwise_is_at_least_twice_total_and_spectral_at_least_pairwise(seed):
    network, rng = random_network(seed, d=2 + seed, K=2 + seed % 4)
    X = rng.normal(size=(200, 2 + seed))
    total, pairwise, spectral = (network.certified_radius(X, bound) for bound in BOUNDS)
    assert (pairwise >= 2 * total * (1 - 1e-12)).all()
    assert (spectral >= pairwise * (1 - 1e-12)).all()


def test_pairs_without_neurons_never_swap():
    nothing = ReLUNetwork(np.zeros((0, 2)), np.zeros(0), np.zeros(0), np.zeros(0, int), 2)
    assert nothing.certified_radius(np.ones((1, 2)))[0] == 0.0  # a tie is certain of nothing
    assert radii(np.array([[1.0, 0.0]]), np.zeros((2, 2)))[0] == np.inf
