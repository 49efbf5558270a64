"""What kind of answer a question wants, and whether a sentence offers one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from foretell.converse.lookup.words import is_content, split_words, term

_NUMBER_WORDS = frozenset(
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety "
    "hundred thousand million billion trillion half third quarter dozen twice once several "
    "first second".split()
)
_TIME = re.compile(
    r"\b(?:1\d{3}|20\d\d)s?\b|\b\d{1,4}(?:st|nd|rd|th)?[ -]centur|centur(?:y|ies)|"
    r"\b\d+ ?(?:BC|AD|CE|BCE)\b|\b(?:January|February|March|April|May|June|July|August|September|"
    r"October|November|December|Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday|today|"
    r"yesterday|tomorrow|"
    r"nightly|daily|weekly|monthly|yearly|annually|hourly)\b|"
    r"\b(?:second|minute|hour|day|week|month|year|decade)s?\b"
)
_DIGIT = re.compile(r"\d")
_SHARE = re.compile(r"%|per ?cent|percentage|proportion|\bhalf\b|\bthird\b|\bquarter\b", re.I)
_REASON = re.compile(
    r"\b(?:because|due to|owing to|since|so that|so as to|in order|therefore|thus|hence|reason|as "
    r"a result|result(?:s|ed|ing)? (?:in|from)|to (?:avoid|prevent|keep|ensure|protect)|caus\w+|"
    r"otherwise|leads? to|led to|would)\b",
    re.I,
)
_MANNER = re.compile(
    r"\b(?:by|using|use|via|through|with|call|run|set|pass|press|turn|open|install|add|first|then|"
    r"must|should)\b|`",
    re.I,
)
_MEANS = re.compile(
    r"\b(?:is|are|was|were) (?:a|an|the|one|any|defined|known|called)\b|\b(?:means?|refers? to|"
    r"denotes?|stands? for|defined as|known as|called)\b",
    re.I,
)
_PLACE = re.compile(
    r"\b(?:in|at|near|from|on|to|of|under|behind|inside|between|along|north|south)\b"
)
_NAME = re.compile(r"(?<![.!?:] )(?<!^)\b[A-Z][\w.'-]*")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a question asks for.

    Parameters
    ----------
    kind : str
        "person", "time", "number", "share", "place", "reason", "manner", "definition", "name" or
        "thing".
    terms : frozenset of str
        Of all words of the question.
    """

    kind: str
    terms: frozenset[str]


_KINDS = (
    ("time", r"\bwhen\b|\b(?:what|which) (?:year|date|day|month|century|decade|time|era)\b|"
             r"\bhow (?:long|often)\b|\b(?:what|which) \w+ (?:year|century|decade)\b"),
    ("share", r"\b(?:percentage|per ?cent|proportion|fraction|share) of\b|\bwhat percent"),
    ("number", r"\bhow (?:many|much|far|tall|high|old|deep|large|big|fast|hot|cold|heavy|wide|"
               r"thick)\b|\bwhat (?:is|was|are) the (?:\w+ ){0,3}(?:number|amount|population|size|"
               r"length|height|weight|speed|temperature|pressure|price|cost|rate|age|distance|limit|"
               r"maximum|minimum|default)\b|\bat (?:what|which) (?:temperature|pressure|speed|"
               r"level)\b"),
    ("person", r"\bwho(?:m|se)?\b|\bwhat (?:person|man|woman|king|author|scientist|player|"
               r"president)\b|\bwhich (?:person|man|woman|king|author|scientist|player|"
               r"president)\b"),
    ("place", r"\bwhere\b|\b(?:what|which) (?:\w+ )?(?:city|country|state|river|place|town|region|"
              r"continent|room|building|street|location|area|stadium)\b"),
    ("reason", r"\bwhy\b|\bwhat (?:is|was) the (?:reason|cause)|\bwhat (?:causes?|caused)\b|"
               r"\bfor what reason\b"),
    ("manner", r"\bhow (?:do|does|did|can|should|could|to|is|are|was|were|would|will|must)\b"),
    ("name", r"\bname of\b|\bwhat (?:is|was) .* (?:called|named|known as)\b|\bwhich\b"),
    ("definition", r"^\W*what(?:'s| is| are| was| were) (?:(?:a|an|the|meant by) )?"
                   r"[\w' -]{1,40}\W*$|\bwhat does .* (?:mean|stand for)\b|\bdefine\b|"
                   r"\bmeaning of\b"),
)  # fmt: skip
_COMPILED = tuple((kind, re.compile(pattern, re.I)) for kind, pattern in _KINDS)


def wanted(question: str) -> Wanted:
    """What a question asks for.

    Examples
    --------
    >>> [wanted(q).kind for q in ("Who found radium?", "How many pumps are there?", "Why?")]
    ['person', 'number', 'reason']
    """
    kind = next((name for name, pattern in _COMPILED if pattern.search(question)), "thing")
    return Wanted(kind, frozenset(stem(word) for word in split_words(question)))


def offers(wanted: Wanted, sentence: str) -> float:
    """1 where a sentence has what is asked for beyond the question, 0 where not; 0.5 if no telling.

    Examples
    --------
    >>> asked = wanted("When was radium found?")
    >>> offers(asked, "It was found in 1898."), offers(asked, "It glows.")
    (1.0, 0.0)
    """
    kind = wanted.kind
    if kind == "thing":
        return 0.5
    if kind == "time":
        return float(any(not _said(m[0], wanted) for m in _TIME.finditer(sentence)))
    if kind in ("number", "share"):
        words = [w for w in split_words(sentence) if stem(w) not in wanted.terms]
        numbers = any(_DIGIT.search(w) or w.casefold() in _NUMBER_WORDS for w in words)
        return float(numbers and (kind == "number" or bool(_SHARE.search(sentence))))
    if kind in ("person", "name"):
        return float(any(not _said(m[0], wanted) for m in _NAME.finditer(sentence)))
    if kind == "place":
        named = any(not _said(m[0], wanted) for m in _NAME.finditer(sentence))
        return 0.5 * named + 0.5 * bool(_PLACE.search(sentence))
    pattern = {"reason": _REASON, "manner": _MANNER, "definition": _MEANS}[kind]
    return float(bool(pattern.search(sentence)))


def _said(words: str, wanted: Wanted) -> bool:
    return all(stem(word) in wanted.terms for word in split_words(words))


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """A coarser form than `term`: without the commonest endings of verbs and adverbs.

    Examples
    --------
    >>> stem("discovered"), stem("discovering"), stem("discovers"), stem("runs"), stem("running")
    ('discover', 'discover', 'discover', 'run', 'run')
    """
    plain = term(word)
    for ending, least in (("ing", 6), ("edly", 7), ("ed", 5), ("ly", 6), ("ment", 8)):
        if plain.endswith(ending) and len(plain) >= least:
            plain = plain[: -len(ending)]
            if plain[-1] == plain[-2] and plain[-1] not in "lsz":
                plain = plain[:-1]
            break
    return plain.removesuffix("e") if len(plain) > 4 else plain


@lru_cache(maxsize=20_000)
def content_stems(text: str) -> tuple[str, ...]:
    """Stems of the words that say what a text is about, in their order."""
    return tuple(stem(word) for word in split_words(text) if is_content(word))
