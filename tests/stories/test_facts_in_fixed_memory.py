"""Facts said so far, as role-filler trees in fixed memory.

Exact recall within the stated capacity, a refusal beyond it, and never an answer for something that
was not said.
"""

import numpy as np
import pytest

from foretell.core import CapacityError
from foretell.recall import OSCMemory, plan

NAMES = ("Ada", "Grace", "Alan", "Kurt", "Emmy", "Sofia")
DRINKS = ("tea", "coffee", "water")
CITIES = ("London", "Paris", "Vienna", "Oslo")


def said(rng, person):
    """What one person tells in one turn."""
    return {
        f"person {person}": {
            "name": NAMES[rng.integers(len(NAMES))],
            "age": int(rng.integers(20, 60)),
            "drinks": [DRINKS[n] for n in rng.permutation(3)[: rng.integers(1, 4)]],
            "home": {"city": CITIES[rng.integers(len(CITIES))], "garden": bool(rng.integers(2))},
        }
    }


@pytest.mark.story
def test_a_conversation_is_remembered_exactly_until_the_memory_says_that_it_is_full():
    rng = np.random.default_rng(0)
    memory = OSCMemory.from_plan(plan(120, 1000, 0.999, jointly=True), seed=5)
    size, transcript, turns = memory.nbytes, {}, 0
    while True:
        turn = said(rng, turns)
        try:
            memory.store(turn)
        except CapacityError:
            break
        transcript |= turn
        turns += 1
    assert memory.tree().value == transcript
    with pytest.raises(CapacityError, match=r"Nothing was stored.*plan\("):
        memory.store(turn)
    assert turns >= 10
    assert memory.nbytes == size
    assert len(memory) <= memory.capacity == 120

    # Nothing was lost to the refusal, and every single answer is sure of itself.
    for person, facts in transcript.items():
        answer = memory.recall((person, "home", "city"))
        assert (answer.filler, answer.found) == (facts["home"]["city"], True)
        assert answer.p_value < 1e-3
        assert not memory.recall((person, "home", "street")).found
        assert not memory.recall((person, "drinks", len(facts["drinks"]))).found
    assert not memory.recall(("person 99", "name")).found

    # A correction takes the place of what it corrects, and forgetting makes room.
    memory.replace(("person 3", "home", "city"), "Rome")
    transcript["person 3"]["home"]["city"] = "Rome"
    memory.forget("person 4")
    del transcript["person 4"]
    memory.store({"weather": "rain"})
    assert memory.tree().value == {**transcript, "weather": "rain"}


@pytest.mark.story
def test_two_halves_of_a_conversation_are_added_up(tmp_path):
    promise = plan(100, 1000, 0.999, jointly=True)
    morning, evening = OSCMemory.from_plan(promise), OSCMemory.from_plan(promise)
    morning.store({"user": {"name": "Ada", "city": "London"}})
    evening.store({"user": {"likes": ["tea"]}, "booked": True})
    together = OSCMemory.load(morning.save(tmp_path / "morning")).merge(evening)
    assert together.tree().value == {
        "user": {"name": "Ada", "city": "London", "likes": ["tea"]},
        "booked": True,
    }
