"""How early a search settles while a question is being said: what there is to gain at all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from foretell.core.errors import DataError, ParameterError


@dataclass(frozen=True, slots=True)
class Stabilization:
    """When the hits of a question settle.

    Parameters
    ----------
    n : int
        Words of the question, one prefix for each.
    t_sc : int or None
        First prefix, counted from 1, from which the best hit never changes; None: there is none.
    t_set : int or None
        First prefix from which the set of hits never changes.
    t_suf : int or None
        First prefix whose hits hold a right one; None where none does, or none is known.
    volatility : int
        How often the best hit changes after the final one was first best.
    """

    n: int
    t_sc: int | None
    t_set: int | None
    t_suf: int | None
    volatility: int

    @property
    def phi_sc(self) -> float | None:
        """`t_sc` as a share of the question."""
        return None if self.t_sc is None else self.t_sc / self.n

    @property
    def phi_set(self) -> float | None:
        """`t_set` as a share of the question."""
        return None if self.t_set is None else self.t_set / self.n

    @property
    def phi_suf(self) -> float | None:
        """`t_suf` as a share of the question."""
        return None if self.t_suf is None else self.t_suf / self.n

    def hideable_s(
        self,
        tool_s: float,
        *,
        words_per_second: float = 2.7,
        endpoint_s: float = 0.0,
        sufficient: bool = False,
    ) -> float:
        """Most seconds of the tool that can be hidden behind the rest of the question.

        Examples
        --------
        >>> stabilization([["a"], ["b"], ["b"], ["b"]]).hideable_s(1.5, words_per_second=2)
        1.0
        """
        if not (tool_s >= 0 and words_per_second > 0 and endpoint_s >= 0):
            raise ParameterError(
                f"tool_s={tool_s!r}, words_per_second={words_per_second!r}, endpoint_s="
                f"{endpoint_s!r}; needed are seconds >= 0 and a positive rate."
            )
        at = self.t_suf if sufficient else self.t_sc
        if at is None:
            return 0.0
        return min(tool_s, (self.n - at) / words_per_second + endpoint_s)


def stabilization(
    prefix_results: Sequence[Sequence[str]], gold: Collection[str] | None = None
) -> Stabilization:
    """When the hits settle.

    Parameters
    ----------
    prefix_results : sequence of sequence of str
        Hits after the first word, after the second, ...
    gold : collection of str, optional
        The right passages.

    Examples
    --------
    >>> stabilization([[], ["a", "b"], ["b", "a"], ["a", "b"], ["b", "a"]], gold=["b"])
    Stabilization(n=5, t_sc=5, t_set=2, t_suf=2, volatility=2)
    """
    if not prefix_results:
        raise DataError("There are no prefixes. Give the hits after each word.")
    tops = [tuple(ids[:1]) for ids in prefix_results]
    n = len(tops)
    final = tops[-1]
    first = tops.index(final)
    changes = sum(a != b for a, b in zip(tops[first:], tops[first + 1 :], strict=False))
    known = set(gold or ())
    suf = next((i + 1 for i, ids in enumerate(prefix_results) if known & set(ids)), None)
    return Stabilization(
        n,
        _settled(tops) if final else None,
        _settled([frozenset(ids) for ids in prefix_results]) if final else None,
        suf,
        changes if final else 0,
    )


def _settled(values: Sequence[object]) -> int:
    """First place, counted from 1, from which the value stays what it is at the end."""
    at = len(values)
    while at > 1 and values[at - 2] == values[-1]:
        at -= 1
    return at
