"""What to look for, from the words so far: only what is stable counts in full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from foretell.converse.lookup.repair import repaired
from foretell.converse.lookup.words import is_content, split_words, term

UNSTABLE = 0.3  # weight of a content word that the recogniser may still change


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for.

    Parameters
    ----------
    text : str
        In words, for a search that reads text.
    weights : tuple of (str, float)
        Weight of each term, in the order said, for a search by terms.

    Examples
    --------
    >>> query = content_query(["Who", "discovered", "radium"], stable=2)
    >>> query
    Query('discovered radium')
    >>> query.weights
    (('discovered', 1.0), ('radium', 0.3))
    >>> query.key
    'discovered ~radium'
    """

    text: str
    weights: tuple[tuple[str, float], ...]

    @property
    def key(self) -> str:
        """Equal for queries that look for the same, in any order; unstable terms are marked."""
        marked = (name if weight >= 1 else f"~{name}" for name, weight in self.weights)
        return " ".join(sorted(marked, key=lambda name: (name[0] == "~", name)))

    def __bool__(self) -> bool:
        return bool(self.weights)

    def __repr__(self) -> str:
        return f"Query({self.text!r})"


def content_query(
    words: Sequence[str], stable: int | None = None, *, unstable: float = UNSTABLE
) -> Query:
    """The content words, after self-repair; those that may still change have a smaller weight.

    Parameters
    ----------
    words : sequence of str
    stable : int, optional
        How many first words will not change any more; all of them by default.
    unstable : float
        Weight of the others, in [0, 1).
    """
    sure = len(words) if stable is None else stable
    fixed = {term(word) for word in words[:sure]}
    kept = [word for word in repaired(words) if is_content(word)]
    weights: dict[str, float] = {}
    for word in kept:
        name = term(word)
        weight = 1.0 if name in fixed else unstable
        if weight > 0:
            weights[name] = max(weight, weights.get(name, 0.0))
    return Query(" ".join(kept), tuple(weights.items()))


def text_query(text: str) -> Query:
    """The query of a complete text.

    Examples
    --------
    >>> text_query("flights on Tuesday, no, Thursday")
    Query('flights Thursday')
    """
    return content_query(split_words(text))


def agreed(before: Sequence[str], now: Sequence[str]) -> int:
    """How many first words two successive hypotheses share: what LocalAgreement-2 calls stable.

    Examples
    --------
    >>> agreed(["who", "discovered", "the"], ["who", "discovered", "radium"])
    2
    """
    shared = 0
    for old, new in zip(before, now, strict=False):
        if term(old) != term(new):
            break
        shared += 1
    return shared
