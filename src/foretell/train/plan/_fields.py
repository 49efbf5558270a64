"""Sidon sets from finite fields: sets of numbers whose differences are all distinct modulo v.

Both constructions take the discrete logarithms of a line {theta + a} over a subfield GF(q):

- Singer (1938): in GF(q^3), with the point at infinity, q + 1 numbers modulo q^2 + q + 1;
- Bose (1942): in GF(q^2), q numbers modulo q^2 - 1.

Legend: p prime, q = p^m, theta a generator of the multiplicative group of GF(p^n). An element is a
tuple of n digits below p, the coefficients of 1, theta, ..., theta^(n-1).
"""

from __future__ import annotations

from functools import lru_cache
from random import Random

Element = tuple[int, ...]


@lru_cache(maxsize=64)
def singer(q: int) -> tuple[tuple[int, ...], int]:
    """A perfect difference set of a prime power q: (q + 1 numbers, the modulus q^2 + q + 1).

    Examples
    --------
    >>> numbers, v = singer(2)
    >>> v, sorted({(a - b) % v for a in numbers for b in numbers if a != b})
    (7, [1, 2, 3, 4, 5, 6])
    """
    v = q * q + q + 1
    logs = _line(q, 3)
    return tuple(sorted({0, *(log % v for log in logs)})), v


@lru_cache(maxsize=64)
def bose(q: int) -> tuple[tuple[int, ...], int]:
    """A Sidon set of a prime power q: (q numbers, the modulus q^2 - 1).

    Examples
    --------
    >>> numbers, v = bose(3)
    >>> len(numbers), v
    (3, 8)
    """
    return tuple(sorted(_line(q, 2))), q * q - 1


def prime_power(q: int) -> tuple[int, int] | None:
    """(p, m) with q = p^m, or None.

    Examples
    --------
    >>> prime_power(27), prime_power(12)
    ((3, 3), None)
    """
    if q < 2:
        return None
    p = next((d for d in range(2, int(q**0.5) + 1) if q % d == 0), q)
    m = 0
    while q % p == 0:
        q //= p
        m += 1
    return (p, m) if q == 1 else None


def _line(q: int, degree: int) -> list[int]:
    """Logarithms of theta + a for every a of GF(q) inside GF(q^degree)."""
    power = prime_power(q)
    if power is None:
        raise ValueError(f"{q} is not a power of a prime")
    p, m = power
    powers = _powers(p, degree * m)
    log = {element: k for k, element in enumerate(powers)}
    stride = len(powers) // (q - 1)
    zero = (0,) * (degree * m)
    subfield = [zero, *powers[::stride]]
    theta = powers[1]
    return [log[tuple((x + y) % p for x, y in zip(theta, a, strict=True))] for a in subfield]


@lru_cache(maxsize=2)
def _powers(p: int, n: int) -> list[Element]:
    """Every power of a generator theta of GF(p^n), from theta^0 on."""
    order = p**n - 1
    one = (1,) + (0,) * (n - 1)
    rng = Random(0)  # about one tail in n + 1 generates; in order, the first p^(n-1) may all fail
    while True:
        tail = (rng.randrange(1, p), *(rng.randrange(p) for _ in range(n - 1)))
        powers, element = [one], _times_theta(one, tail, p)
        while element != one and len(powers) < order:
            powers.append(element)
            element = _times_theta(element, tail, p)
        if len(powers) == order and element == one:
            return powers


def _times_theta(element: Element, tail: Element, p: int) -> Element:
    """The product with theta, where theta^n = tail."""
    carry = element[-1]
    shifted = (0, *element[:-1])
    return tuple((x + carry * t) % p for x, t in zip(shifted, tail, strict=True))
