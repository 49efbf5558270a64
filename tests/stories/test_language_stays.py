"""A perturbation inside the certified radius of every look never turns the language of a turn.

It may keep the detector from deciding, since the probability can fall below the threshold; then the
conversation goes on in the language that it had. Twice the radius, towards another class, is enough
to change labels, so the radius is no empty promise. Identities, up to rounding: no false alarms.
"""

import numpy as np
import pytest

from foretell.converse import Conversation
from foretell.converse.language import CharacterNgrams, ConvexLanguageDetector, ConvexReLUClassifier
from foretell.converse.lookup import BM25, StreamingLookup
from foretell.core import Event

WORDS = {
    "en": "the pump stops when valve water level is low open it again and wait please".split(),
    "de": "die Pumpe steht wenn das Ventil zu ist dann Wasser nachfüllen und warten bitte".split(),
    "it": "la pompa si ferma quando il livello scende apri la valvola e aspetta ancora".split(),
}


def sentences(language: str, n: int, rng: np.random.Generator) -> list[str]:
    return [" ".join(rng.choice(WORDS[language], size=12)) for _ in range(n)]


@pytest.fixture(scope="module")
def detector() -> ConvexLanguageDetector:
    rng = np.random.default_rng(0)
    turns, labels = [], []
    for language in WORDS:
        turns += sentences(language, 12, rng)
        labels += [language] * 12
    head = ConvexReLUClassifier(n_gates=4, beta=1e-3, random_state=0)
    return ConvexLanguageDetector(
        encoder=CharacterNgrams(n_features=64), head=head, threshold=0.7, random_state=0
    ).fit(turns, labels)


def seen_by(detector: ConvexLanguageDetector, text: str) -> list[tuple[float, np.ndarray]]:
    """Amount and features of every look at a text."""
    stream, looks = detector.stream(), []
    stream.see = lambda amount, features: looks.append((amount, features))  # type: ignore
    stream.push(text)
    return looks


def language_of(detector: ConvexLanguageDetector, looks: list[tuple[float, np.ndarray]]) -> str:
    """What a conversation is told when a turn looks like this."""
    talk = Conversation(StreamingLookup(BM25({"p": "Open the valve."}), k=1))
    stream, told = detector.stream(), "none"
    for k, (amount, features) in enumerate(looks):
        decision = stream.see(amount, features)
        talk.on(Event("partial", 0.1 * k, {"text": "word " * (k + 1)}))
        if decision is not None:
            told = decision.label
            talk.on(Event("language", 0.1 * k, {"language": told}))
    return told


def away(detector: ConvexLanguageDetector, x: np.ndarray, other: int, size: float) -> np.ndarray:
    """The row moved by a distance, down the difference of two scores (by finite differences)."""
    head = detector.head_
    label = int(np.argmax(head.predict_proba(x[None])[0]))

    def lead(rows: np.ndarray) -> np.ndarray:
        proba = np.log(head.predict_proba(rows))
        return proba[:, label] - proba[:, other]

    step = 1e-5 * (1.0 + np.abs(x))
    slope = (lead(x + np.diag(step)) - lead(x[None])) / step
    return x - size * slope / max(float(np.linalg.norm(slope)), 1e-300)


@pytest.mark.story
def test_the_language_never_turns_inside_the_radius(detector: ConvexLanguageDetector) -> None:
    rng = np.random.default_rng(1)
    decided = moved = 0
    for language in WORDS:
        for text in sentences(language, 2, rng):
            looks = seen_by(detector, text)
            before = language_of(detector, looks)
            decided += before != "none"
            labels = [int(np.argmax(detector.head_.predict_proba(x[None])[0])) for _, x in looks]
            radius = detector.head_.certified_radius(np.stack([x for _, x in looks]))
            attacks = [rng.normal(size=(len(looks), looks[0][1].size)) for _ in range(4)]
            for noise in attacks:
                noise *= 0.999 * (radius / np.linalg.norm(noise, axis=1))[:, None]
                near = [(a, x + d) for (a, x), d in zip(looks, noise, strict=True)]
                assert language_of(detector, near) in (before, "none")
            for other in range(3):
                targets = [(other + 1) % 3 if other == label else other for label in labels]
                for share in (0.999, 30.0):
                    near = [
                        (a, away(detector, x, to, share * r))
                        for (a, x), to, r in zip(looks, targets, radius, strict=True)
                    ]
                    if share < 1:
                        assert language_of(detector, near) in (before, "none")
                    else:
                        moved += language_of(detector, near) not in (before, "none")
    assert decided >= 5  # of 6 turns
    assert moved > 0  # far outside of it, the same attack turns the language
