"""Small notes, and a generated corpus with questions whose words come in an order that matters."""

import random

NOTES = {
    "curie": "Marie and Pierre Curie discovered the element radium in 1898.",
    "radon": "Radon is a radioactive noble gas, discovered by Dorn.",
    "water": "Water boils at a hundred degrees at sea level.",
    "tuesday": "Flights to Oslo leave on Tuesday at noon.",
    "thursday": "Flights to Oslo leave on Thursday at dawn.",
    "pump": "The pump of the second tank moves ten litres a second.",
}


def corpus(n: int = 300, vocabulary: int = 400, seed: int = 0) -> dict[str, str]:
    """Passages of 30 words whose frequencies fall like those of a language."""
    rng = random.Random(seed)
    words = [f"w{i}x" for i in range(vocabulary)]
    weights = [1 / (i + 3) for i in range(vocabulary)]
    return {f"p{i}": " ".join(rng.choices(words, weights, k=30)) for i in range(n)}


def questions(passages: dict[str, str], n: int, seed: int = 1) -> list[tuple[str, str]]:
    """Texts of 6 to 12 words drawn from one passage, in a random order, and its id."""
    rng = random.Random(seed)
    ids = sorted(passages)
    made = []
    for _ in range(n):
        id = rng.choice(ids)
        words = passages[id].split()
        made.append((" ".join(rng.sample(words, rng.randint(6, 12))), id))
    return made
