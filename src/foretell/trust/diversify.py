"""Slates that are not all of one kind: MMR, calibration, determinantal processes, a cap.

A diversifier prices the kinds of item that could come next, given the slate so far; the greedy
choice takes the item with the largest ``score_weight * (score - penalty) - cost of its kind``.
Items of one kind cost the same, so that only the best remaining item of each kind is looked at.

Legend: B users, K kinds of item, C categories; M_KC memberships, the identity where every item has
one category. Sources: MMR, Carbonell and Goldstein 1998; calibration, Steck 2018; determinantal
processes with the incremental Cholesky factor, Chen, Zhang and Zhou 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from foretell.core import ParameterError

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class SlateCosts(Protocol):
    """Costs of one batch of slates while they are filled."""

    def costs(self) -> Array:
        """Cost of each kind in the next slot, shape (B, K)."""
        ...

    def take(self, kinds: Index) -> None:
        """Book the kind that each slate took, shape (B,)."""
        ...


@runtime_checkable
class Diversifier(Protocol):
    """What re-ranking needs to know about variety; write your own with these two members."""

    @property
    def score_weight(self) -> float:
        """Weight of an item's standardised score beside the costs."""
        ...

    def begin(self, memberships: Array, usual: Array) -> SlateCosts:
        """Start empty slates: memberships (K, C), usual shares of the users (B, C)."""
        ...


@dataclass(frozen=True)
class MMR:
    """Maximal marginal relevance over categories.

    Parameters
    ----------
    theta : float
        From 0 (scores only) to 1 (variety only).
    over : {"share", "max"}
        "max" is the classical form, similarity to the most similar item of the slate. "share" costs
        four times the share of the slate that is alike, which still tells the second repeat from
        the first.

    Examples
    --------
    >>> costs = MMR(theta=0.5, over="max").begin(np.eye(3), np.full((1, 3), 1 / 3))
    >>> costs.take(np.array([1]))
    >>> costs.costs()
    array([[0. , 0.5, 0. ]])
    """

    theta: float = 0.7
    over: str = "share"

    def __post_init__(self) -> None:
        _check_weight("theta", self.theta)
        if self.over not in ("share", "max"):
            raise ParameterError(f'over={self.over!r} is not known; use "share" or "max".')

    @property
    def score_weight(self) -> float:
        """1 - theta."""
        return 1.0 - self.theta

    def begin(self, memberships: Array, usual: Array) -> SlateCosts:
        """Start empty slates."""
        return _MMRCosts(self, memberships @ memberships.T, usual.shape[0])


class _MMRCosts:
    def __init__(self, rule: MMR, similarity_KK: Array, n: int) -> None:
        self.rule, self.similarity_KK = rule, similarity_KK
        self.sum_BK = np.zeros((n, similarity_KK.shape[0]))
        self.slots = 0

    def costs(self) -> Array:
        if self.rule.over == "max":
            return self.rule.theta * self.sum_BK
        return 4.0 * self.rule.theta / max(1, self.slots) * self.sum_BK

    def take(self, kinds: Index) -> None:
        alike = self.similarity_KK[kinds]
        self.sum_BK = np.maximum(self.sum_BK, alike) if self.rule.over == "max" else (
            self.sum_BK + alike
        )  # fmt: skip
        self.slots += 1


@dataclass(frozen=True)
class SteckCalibration:
    """Slates whose category shares are close to the user's usual ones.

    The cost is the divergence KL(usual, shares of the slate with the candidate in it), with 1 % of
    the usual shares mixed in so that it is finite.

    Parameters
    ----------
    theta : float
        From 0 (scores only) to 1 (calibration only).

    Examples
    --------
    >>> costs = SteckCalibration(theta=1.0).begin(np.eye(2), np.array([[0.5, 0.5]]))
    >>> costs.take(np.array([0]))
    >>> costs.costs().round(2)  # one of each is calibrated
    array([[1.96, 0.  ]])
    """

    theta: float = 0.7

    def __post_init__(self) -> None:
        _check_weight("theta", self.theta)

    @property
    def score_weight(self) -> float:
        """1 - theta."""
        return 1.0 - self.theta

    def begin(self, memberships: Array, usual: Array) -> SlateCosts:
        """Start empty slates."""
        return _SteckCosts(self.theta, memberships, usual)


class _SteckCosts:
    def __init__(self, theta: float, M_KC: Array, usual_BC: Array) -> None:
        self.theta, self.M_KC, self.usual_BC = theta, M_KC, usual_BC
        self.count_BC = np.zeros_like(usual_BC)
        self.slots = 0
        self.single = M_KC.shape[0] == M_KC.shape[1] and bool((M_KC == np.eye(len(M_KC))).all())
        with np.errstate(divide="ignore", invalid="ignore"):
            self.own = np.where(usual_BC > 0, usual_BC * np.log(usual_BC), 0.0).sum(1)[:, None]

    def costs(self) -> Array:
        if self.single:  # only the candidate's own term changes
            terms, with_one = self._fit(self.count_BC), self._fit(self.count_BC + 1.0)
            fit = terms.sum(1, keepdims=True) - terms + with_one
        else:
            fit = np.stack([self._fit(self.count_BC + m).sum(1) for m in self.M_KC], axis=1)
        return np.asarray(self.theta * (self.own - fit))

    def _fit(self, count_BC: Array) -> Array:
        share = 0.99 * count_BC / (self.slots + 1) + 0.01 * self.usual_BC
        return self.usual_BC * np.log(np.maximum(share, 1e-300))

    def take(self, kinds: Index) -> None:
        self.count_BC += self.M_KC[kinds]
        self.slots += 1


@dataclass(frozen=True)
class DPP:
    """Greedy maximum of a determinantal point process: the volume that the slate's items span.

    The kernel of two items is q_i q_j s_ij with q = exp(quality * standardised score); s_ij is
    exp(-(1 - similarity) / width), times ``1 - distinct`` unless i = j.

    Parameters
    ----------
    quality : float
        Weight of the scores; large means scores only.
    width : float
        How far similarity reaches between categories (between memberships, where they are given).
    distinct : float
        In (0, 1]: the part of an item that no other item shares. At 0 two items of one category
        would be one item, and no slate could hold both.

    Examples
    --------
    >>> costs = DPP(width=0.5).begin(np.eye(2), np.full((1, 2), 0.5))
    >>> costs.take(np.array([0]))
    >>> costs.costs().round(3)
    array([[1.661, 0.015]])
    """

    quality: float = 0.5
    width: float = 0.5
    distinct: float = 0.1

    def __post_init__(self) -> None:
        for name in ("quality", "width", "distinct"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0 and (name != "distinct" or value <= 1)):
                raise ParameterError(
                    f"{name}={value!r}; needed is a positive number"
                    f"{' up to 1' if name == 'distinct' else ''}."
                )

    @property
    def score_weight(self) -> float:
        """2 * quality."""
        return 2.0 * self.quality

    def begin(self, memberships: Array, usual: Array) -> SlateCosts:
        """Start empty slates."""
        alike = np.exp(-(1.0 - memberships @ memberships.T) / self.width)
        return _DPPCosts((1.0 - self.distinct) * alike, usual.shape[0])


class _DPPCosts:
    """Incremental Cholesky factor: one row for each item taken, over the kinds."""

    def __init__(self, shared_KK: Array, n: int) -> None:
        self.shared_KK = shared_KK
        self.left_BK = np.ones((n, shared_KK.shape[0]))
        self.factor: list[Array] = []

    def costs(self) -> Array:
        return np.asarray(-np.log(np.maximum(self.left_BK, 1e-12)))

    def take(self, kinds: Index) -> None:
        at = np.arange(kinds.size)
        row = self.shared_KK[kinds]
        for earlier in self.factor:
            row = row - earlier[at, kinds][:, None] * earlier
        row = row / np.sqrt(np.maximum(self.left_BK[at, kinds], 1e-12))[:, None]
        self.factor.append(row)
        self.left_BK = self.left_BK - row**2


@dataclass(frozen=True)
class CategoryCap:
    """At most so many items of a category in a slate, while others are left.

    Parameters
    ----------
    most : int
        Largest number of items of one category.

    Examples
    --------
    >>> costs = CategoryCap(1).begin(np.eye(2), np.full((1, 2), 0.5))
    >>> costs.take(np.array([0]))
    >>> costs.costs()
    array([[1000000.,       0.]])
    """

    most: int = 2

    def __post_init__(self) -> None:
        if not (isinstance(self.most, (int, np.integer)) and self.most >= 1):
            raise ParameterError(f"most={self.most!r}; needed is a whole number >= 1.")

    @property
    def score_weight(self) -> float:
        """1."""
        return 1.0

    def begin(self, memberships: Array, usual: Array) -> SlateCosts:
        """Start empty slates."""
        return _CapCosts(self.most, memberships @ memberships.T, usual.shape[0])


class _CapCosts:
    def __init__(self, most: int, similarity_KK: Array, n: int) -> None:
        self.most, self.similarity_KK = most, similarity_KK
        self.sum_BK = np.zeros((n, similarity_KK.shape[0]))

    def costs(self) -> Array:
        return 1e6 * np.maximum(self.sum_BK - self.most + 1.0, 0.0)

    def take(self, kinds: Index) -> None:
        self.sum_BK += self.similarity_KK[kinds]


@dataclass(frozen=True)
class ScoresOnly:
    """No variety asked for: what ``diversifier=None`` stands for."""

    @property
    def score_weight(self) -> float:
        """1."""
        return 1.0

    def begin(self, memberships: Array, usual: Array) -> SlateCosts:
        """Start empty slates."""
        return _NoCosts(np.zeros((usual.shape[0], memberships.shape[0])))


class _NoCosts:
    def __init__(self, zeros_BK: Array) -> None:
        self.zeros_BK = zeros_BK

    def costs(self) -> Array:
        return self.zeros_BK

    def take(self, kinds: Index) -> None:
        return None


def _check_weight(name: str, value: float) -> None:
    if not (np.isfinite(value) and 0 <= value <= 1):
        raise ParameterError(f"{name}={value!r}; needed is a number from 0 to 1.")
