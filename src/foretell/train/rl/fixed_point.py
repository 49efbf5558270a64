"""Sums that do not depend on their order: numbers rounded once to multiples of 2^-b, then integers.

Rounding is the only error, at most 2^-(b+1) for each summand; integer addition is associative, so
the sum has the same bits whoever computed which part.
"""

from __future__ import annotations

from foretell.core.errors import MissingExtraError, NumericalError
from foretell.train.rl.group import Group

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtraError("torch", "learn", "train by reinforcement learning") from error

BITS = 40
MOST_TERMS = 2**14  # summands for which the guard leaves room


def to_fixed(values: Tensor, *, bits: int = BITS) -> Tensor:
    """Numbers as int64 multiples of 2^-bits.

    Raises
    ------
    NumericalError
        A number is not finite, or so large that a sum of 16,384 could leave 64 bits.

    Examples
    --------
    >>> parts = torch.tensor([0.1, 0.2, -0.3])
    >>> bool((to_fixed(parts).sum() == to_fixed(parts.flip(0)).sum()).item())
    True
    """
    largest = float(values.abs().max()) if values.numel() else 0.0
    if not largest < 2.0 ** (62 - bits) / MOST_TERMS:
        raise NumericalError(
            f"A summand of size {largest:.3g} is not finite or too large for an exact sum (limit "
            f"{2.0 ** (62 - bits) / MOST_TERMS:.3g}). Lower the learning rate, or use "
            'exactness="fast".'
        )
    return (values.double() * 2.0**bits).round().to(torch.int64)


def from_fixed(values: Tensor, *, bits: int = BITS) -> Tensor:
    """The numbers, as float64."""
    return values.double() / 2.0**bits


def summed(group: Group, values: Tensor, *, bits: int = 30) -> Tensor:
    """Sum of float64 over the ranks, the same bits in any order; for statistics."""
    total = to_fixed(values, bits=bits)
    group.all_sum(total)
    return from_fixed(total, bits=bits)
