"""How many facts a memory of fixed size can hold: the noise of a score, and what follows from it.

A query adds up the wanted fact, of weight 1, and the overlaps with all others, which are as good as
normal: score = 1 + noise * u for the stored filler, and a normal number of variance
noise^2 + rival^2 for each of the V - 1 others, rival being their overlap with the stored one. So

    P(correct) = integral phi(u) Phi((1 + noise u) / sqrt(noise^2 + rival^2))^(V - 1) du.

Legend: d component size, p order, s kept dimensions, D = d^p cells, N facts, V vocabulary.
Source: Pence, Yamada, Singh 2026 bound the interference by sqrt((N - 1) / d^p); the integral and
the planner are ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from scipy.special import log_ndtr

from foretell.core.errors import ParameterError

Binding = Literal["embed", "carve"]

MOST_CELLS = 2**28
_GRID = np.linspace(-8.5, 8.5, 1201)
_WEIGHT = np.exp(-(_GRID**2) / 2) / math.sqrt(2 * math.pi) * (_GRID[1] - _GRID[0])
_SAFE_CARVE = {2: 1 / 4, 3: 3 / 8}  # flat optimum of the kept fraction; a half from order 4 on
_RIVAL_SHARE = 0.1  # of the noise variance at full load that rivals in the same place may add


@dataclass(frozen=True, kw_only=True)
class MemoryPlan:
    """The smallest memory that does a job, from `plan`.

    Parameters
    ----------
    n_facts, vocab_size : int
        The job: facts at once, and possible fillers.
    accuracy : float
        Predicted probability that one fact is recalled right when the memory is full.
    order, dim, kept : int
        Arguments for `OSCMemory`.
    binding : {"embed", "carve"}
        How fillers are bound.
    repeats : int
        How often the most frequent filler was assumed to be stored.
    nbytes : int
        Bytes of the memory (float32).
    symbol_nbytes : int
        Bytes of the vocabulary's components (float32).

    Examples
    --------
    >>> plan(94, 10_000)
    MemoryPlan(99 % of 94 facts of 10000 symbols: order 2, dim 63, kept 24, 15876 bytes, 169 a fact)
    """

    n_facts: int
    vocab_size: int
    accuracy: float
    order: int
    dim: int
    kept: int
    binding: Binding
    repeats: int
    nbytes: int
    symbol_nbytes: int

    @property
    def bytes_per_fact(self) -> float:
        """Bytes of memory for each fact; a Python dictionary needs about 50 to 100."""
        return self.nbytes / self.n_facts

    def __repr__(self) -> str:
        return (
            f"MemoryPlan({100 * self.accuracy:.6g} % of {self.n_facts} facts of {self.vocab_size} "
            f"symbols: order {self.order}, dim {self.dim}, kept {self.kept}, {self.nbytes} bytes, "
            f"{self.bytes_per_fact:.0f} a fact)"
        )


def plan(
    n_facts: int,
    vocab_size: int,
    accuracy: float = 0.99,
    *,
    jointly: bool = False,
    order: int = 2,
    repeats: int = 1,
    binding: Binding = "embed",
    tied: bool = False,
) -> MemoryPlan:
    """The smallest memory that holds so many facts.

    Parameters
    ----------
    n_facts : int
        Facts at once.
    vocab_size : int
        Possible fillers.
    accuracy : float
        Wanted probability that a recalled filler is right.
    jointly : bool
        Whether the accuracy is that of all facts together instead of that of one fact.
    order : int
        Order of the tensor; 2 answers fastest, 3 has the smallest symbols.
    repeats : int
        How often the most frequent filler is stored; matters only for ``binding="carve"``.
    binding, tied
        As for `OSCMemory`.

    Raises
    ------
    ParameterError
        For impossible arguments, and when no memory of up to 2^28 cells does the job; the message
        says how far that one gets.

    Examples
    --------
    >>> plan(200, 1000, 0.999, jointly=True).accuracy
    0.999995
    """
    _check_job(n_facts, vocab_size, accuracy, order, repeats, binding)
    wanted = 1 - (1 - accuracy) / n_facts if jointly else accuracy

    def reached(dim: int) -> float:
        kept = default_kept(order, dim, binding, vocab_size=vocab_size, repeats=repeats)
        noise, rival = osc_variances(
            n_facts, order=order, dim=dim, kept=kept, binding=binding, repeats=repeats, tied=tied
        )
        return expected_accuracy(noise, rival, vocab_size)

    largest = int(MOST_CELLS ** (1 / order) + 1e-9)
    if reached(largest) < wanted:
        raise ParameterError(
            f"No memory of up to {MOST_CELLS} cells ({4 * MOST_CELLS} bytes) recalls {n_facts} "
            f"facts of {vocab_size} symbols with accuracy {wanted:.9g}; that one reaches "
            f"{reached(largest):.4g}. Ask for fewer facts, or split them over several memories."
        )
    dim = _first(lambda d: reached(d) >= wanted, 2, largest)
    kept = default_kept(order, dim, binding, vocab_size=vocab_size, repeats=repeats)
    return MemoryPlan(
        n_facts=n_facts,
        vocab_size=vocab_size,
        accuracy=wanted,
        order=order,
        dim=dim,
        kept=kept,
        binding=binding,
        repeats=repeats,
        nbytes=4 * dim**order,
        symbol_nbytes=4 * vocab_size * order * (kept if binding == "embed" else dim),
    )


def osc_variances(
    n_facts: float,
    *,
    order: int,
    dim: int,
    kept: int,
    binding: Binding = "embed",
    repeats: float = 1,
    siblings: float = 0,
    tied: bool = False,
    signs: bool = True,
) -> tuple[float, float]:
    """Variance of a query's noise, and of the overlap of a rival filler with the stored one.

    Parameters
    ----------
    n_facts : float
        Facts in the memory, the wanted one included.
    order, dim, kept, binding, tied, signs
        As for `OSCMemory`.
    repeats : float
        How often the wanted filler is stored, at any path. Only carving suffers from it; without
        signs it is a bias, of which the square is counted.
    siblings : float
        Other fillers at the same path.

    Examples
    --------
    >>> osc_variances(101, order=2, dim=64, kept=16)
    (0.0244140625, 0.00390625)
    """
    factor = float(math.prod(range(1, 2 * order, 2))) if tied else 1.0
    rival = factor * float(kept) ** -order
    noise = factor * (n_facts - 1) / float(dim) ** order + siblings * rival
    if binding == "carve":
        others = repeats - 1 if signs else (repeats - 1) ** 2
        noise += others * (kept / dim) ** (2 * order)
    return noise, rival


def expected_accuracy(noise: float, rival: float, vocab_size: int) -> float:
    """Probability that the stored filler scores highest.

    Parameters
    ----------
    noise, rival : float
        Variances, as from `osc_variances`, for a fact of weight 1.
    vocab_size : int
        Possible fillers.

    Examples
    --------
    >>> round(expected_accuracy(0.03, 0.004, 500), 3)
    0.99
    """
    if vocab_size < 2:
        return 1.0
    sigma = math.sqrt(max(noise, 0.0))
    spread = math.sqrt(max(noise + rival, 1e-300))
    highest = np.exp((vocab_size - 1) * log_ndtr((1 + sigma * _GRID) / spread))
    return float(min(1.0, np.sum(_WEIGHT * highest) / np.sum(_WEIGHT)))


def capacity(
    variances: Callable[[float], tuple[float, float]], vocab_size: int, accuracy: float, most: int
) -> int:
    """Most facts at which the expected accuracy is still reached, between 1 and ``most``.

    Parameters
    ----------
    variances : callable
        Number of facts -> (noise, rival).
    vocab_size : int
        Possible fillers.
    accuracy : float
        Wanted accuracy.
    most : int
        Where to stop looking.
    """

    def fails(n: int) -> bool:
        return expected_accuracy(*variances(n), vocab_size) < accuracy

    return max(1, _first(fails, 1, most + 1) - 1)


@cache
def default_kept(
    order: int, dim: int, binding: Binding, *, vocab_size: int = 10_000, repeats: int = 1
) -> int:
    """Kept dimensions that serve well.

    Embedding: as few as leave rivals in the same place a tenth of the noise at full load, and never
    more than ``dim``. Carving: the minimum of sqrt(2 ln V) s^(-p/2) + sqrt(N_f) (s/d)^p, or a safe
    fraction where no filler repeats.

    Examples
    --------
    >>> default_kept(2, 64, "embed"), default_kept(2, 64, "carve"), default_kept(3, 16, "carve")
    (24, 16, 6)
    """
    reach = math.sqrt(2 * math.log(max(vocab_size, 2)))
    if binding == "embed":
        kept = float(((reach + 2.33) ** 2 / _RIVAL_SHARE) ** (1 / order))
        return min(int(dim), math.ceil(kept / 4) * 4 if order == 2 else math.ceil(kept))
    if repeats <= 1:
        return max(1, round(_SAFE_CARVE.get(order, 1 / 2) * dim))
    s = np.arange(1, dim + 1)
    cost = reach * s ** (-order / 2) + math.sqrt(repeats) * (s / dim) ** order
    return int(s[np.argmin(cost)])


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest whole number in low..high for which a monotone condition holds, or high."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _check_job(
    n_facts: int, vocab_size: int, accuracy: float, order: int, repeats: int, binding: str
) -> None:
    for name, value in (("n_facts", n_facts), ("vocab_size", vocab_size), ("repeats", repeats)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise ParameterError(
                f"{name}={value!r} is not a whole number >= 1. Write for instance {name}=100."
            )
    if not 0 < accuracy < 1:
        raise ParameterError(f"accuracy={accuracy!r} is not between 0 and 1. Write accuracy=0.99.")
    if isinstance(order, bool) or not isinstance(order, (int, np.integer)) or not 2 <= order <= 8:
        raise ParameterError(f"order={order!r} is not a whole number from 2 to 8. Write order=2.")
    if binding not in ("embed", "carve"):
        raise ParameterError(f'binding={binding!r} is neither "embed" nor "carve".')
