"""Carving is rejection from a blade; tensor products are a case of the geometric product.

In the Clifford algebra of R^6 with the Euclidean metric, for the blade R = u_1 ^ ... ^ u_k of an
orthonormal role basis U:

- (f ^ R) R^-1 = (I - U U^T) f, the carved filler; idempotent; (f . R) R^-1 is what was removed;
- for roles and fillers in orthogonal subspaces r f = r ^ f, with coefficients r_a f_b: the tensor
  product; at depth n the blade of order n + 1 has the coefficients of the order n + 1 tensor;
- with overlap, r f = r . f + r ^ P_r f: carving removes the scalar part and nothing else.

All are identities, checked to rounding: no false alarms.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

N = 6


def product(a, b):
    """Geometric product of multivectors, given as {bitmask of basis vectors: coefficient}."""
    result = {}
    for x, p in a.items():
        for y, q in b.items():
            swaps = sum((x >> (k + 1)).bit_count() for k in range(N) if y >> k & 1)
            key = x ^ y
            result[key] = result.get(key, 0.0) + (-1.0) ** swaps * p * q
    return result


def vector(v):
    return {1 << k: float(c) for k, c in enumerate(v)}


def wedge(a, b):
    """The parts of the product whose grade is the sum of the grades."""
    result = {}
    for x, p in a.items():
        for y, q in b.items():
            if x & y == 0:
                for key, value in product({x: p}, {y: q}).items():
                    result[key] = result.get(key, 0.0) + value
    return result


def inverse(blade):
    reverse = {}
    for key, value in blade.items():
        grade = key.bit_count()
        reverse[key] = value * (-1.0) ** (grade * (grade - 1) // 2)
    square = product(blade, reverse)[0]
    return {key: value / square for key, value in reverse.items()}


def minus(a, b):
    return {key: a.get(key, 0.0) - b.get(key, 0.0) for key in a.keys() | b.keys()}


def as_vector(a):
    rest = [value for key, value in a.items() if key.bit_count() != 1]
    assert_allclose(rest, 0, atol=1e-12)
    return np.array([a.get(1 << k, 0.0) for k in range(N)])


@pytest.mark.theory
@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_carving_is_rejection_from_the_blade_of_the_roles(k):
    rng = np.random.default_rng(k)
    f = rng.normal(size=N)
    U = np.linalg.qr(rng.normal(size=(N, k)))[0]
    blade = vector(U[:, 0])
    for j in range(1, k):
        blade = wedge(blade, vector(U[:, j]))
    carved = product(wedge(vector(f), blade), inverse(blade))
    P = np.eye(N) - U @ U.T
    assert_allclose(as_vector(carved), P @ f, atol=1e-12)
    again = product(wedge(vector(as_vector(carved)), blade), inverse(blade))
    assert_allclose(as_vector(again), P @ f, atol=1e-12)
    inner = minus(product(vector(f), blade), wedge(vector(f), blade))
    removed = product(inner, inverse(blade))
    assert_allclose(as_vector(removed), U @ U.T @ f, atol=1e-12)


@pytest.mark.theory
def test_a_tensor_product_is_a_geometric_product_in_orthogonal_subspaces():
    rng = np.random.default_rng(0)
    r, s, f = rng.normal(size=(3, 2))
    one, two, three = (np.zeros(N) for _ in range(3))
    one[:2], two[2:4], three[4:] = r, s, f
    pair = product(vector(one), vector(three))
    assert_allclose([[pair[1 << a | 1 << 4 + b] for b in (0, 1)] for a in (0, 1)], np.outer(r, f))
    triple = product(product(vector(one), vector(two)), vector(three))
    tensor = np.einsum("a,b,c->abc", r, s, f)
    found = [
        [[triple[1 << a | 1 << 2 + b | 1 << 4 + c] for c in (0, 1)] for b in (0, 1)] for a in (0, 1)
    ]
    assert_allclose(found, tensor, atol=1e-12)
    assert {key.bit_count() for key, value in triple.items() if abs(value) > 1e-12} == {3}


@pytest.mark.theory
def test_carving_removes_the_scalar_part_of_an_overlapping_pair():
    rng = np.random.default_rng(1)
    r, f = rng.normal(size=(2, N))
    r /= np.linalg.norm(r)
    carved = f - (r @ f) * r
    whole = product(vector(r), vector(f))
    bound = product(vector(r), vector(carved))
    assert_allclose(whole[0], r @ f, atol=1e-12)
    assert_allclose(bound[0], 0, atol=1e-12)
    for key in whole.keys() - {0}:
        assert_allclose(whole[key], bound[key], atol=1e-12)
