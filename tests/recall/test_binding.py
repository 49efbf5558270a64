"""OSCMemory: what is stored comes back, what is not does not, and arithmetic is arithmetic."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose

from foretell.core import CapacityError, DataError, ForetellWarning, ParameterError
from foretell.recall import OSCMemory, Vocabulary, plan
from foretell.recall.role_paths import path_key

MAKES = {
    "embedded": {},
    "carved": {"binding": "carve"},
    "order 3": {"order": 3, "dim": 16},
    "order 3 carved": {"order": 3, "dim": 16, "binding": "carve"},
    "order 4": {"order": 4, "dim": 8},
    "tied": {"tied": True},
    "without signs": {"signs": False},
    "double": {"dtype": np.float64},
    "blocks": {"regime": "blocks"},
    "carved blocks": {"regime": "blocks", "binding": "carve"},
}


@pytest.fixture(params=MAKES.values(), ids=MAKES.keys())
def make(request):
    def build(**more):
        return OSCMemory(**{**request.param, **more})

    return build


def test_one_fact_scores_its_weight_and_the_others_next_to_nothing(make):
    memory = make(vocabulary=range(200))
    memory.store(("a", 3), 7, weight=2.0)
    scores = memory.scores([("a", 3)])[0]
    assert_allclose(scores[7], 2.0, atol=1e-5)
    # An overlap is a product of p nearly normal numbers, each below 3.5 standard deviations.
    others = np.delete(scores, 7)
    assert np.abs(others).max() <= 2.0 * 3.5**memory.order * memory.kept ** (-memory.order / 2)
    assert np.abs(others).mean() <= 2.0 * memory.kept ** (-memory.order / 2)


def test_many_facts_come_back_with_small_p_values(make):
    memory = make(vocabulary=[f"word {n}" for n in range(300)])
    facts = {("list", n): f"word {7 * n % 300}" for n in range(30)}
    assert memory.store_many(list(facts), list(facts.values())) == 30
    answers = memory.recall_many(list(facts))
    assert [answer.filler for answer in answers] == list(facts.values())
    assert max(answer.p_value for answer in answers) < 1e-3
    assert min(answer.z for answer in answers) > 4


def test_an_empty_path_is_said_to_be_empty(make):
    memory = make(vocabulary=range(100))
    memory.store_many([("full", n) for n in range(20)], range(20))
    answers = memory.recall_many([("empty", n) for n in range(50)])
    # Carved items of one filler overlap, so that with carving p-values are only about right.
    assert sum(answer.found for answer in answers) <= (2 if memory.binding == "carve" else 0)
    assert all(answer.filler is None for answer in answers if not answer.found)


def test_forgetting_everything_leaves_only_rounding(make):
    memory = make()
    paths = [("p", n) for n in range(10)]
    memory.store_many(paths, list(range(10)), np.linspace(0.5, 2, 10))
    for n, path in enumerate(paths):
        memory.forget(path, n, weight=float(np.linspace(0.5, 2, 10)[n]))
    assert len(memory) == 0
    assert memory.load_factor() < 1
    assert np.abs(memory.scores(paths)).max() < 1e-5


def test_merging_is_the_same_as_storing_in_one(make):
    one, two, both = make(), make(), make()
    one.store_many([("a", n) for n in range(8)], list(range(8)))
    two.store_many([("b", n) for n in range(8)], list(range(4, 12)))
    both.store_many([("a", n) for n in range(8)], list(range(8)))
    both.store_many([("b", n) for n in range(8)], list(range(4, 12)))
    if one.regime == "blocks" and one.binding == "carve":
        with pytest.raises(ParameterError, match=r"(?s)different blocks.*embed"):
            one.merge(two)
        return
    merged = one.merge(two)
    assert merged is one
    assert len(one) == 16
    paths = [("a", 2), ("b", 6)]
    assert_allclose(one.scores(paths, range(12)), both.scores(paths, range(12)), atol=1e-5)
    assert [answer.filler for answer in one.recall_many(paths)] == [2, 10]


def test_the_same_arguments_make_the_same_memory(make):
    one, two, other = make(), make(), make(seed=1)
    for memory in (one, two, other):
        memory.store_many([("a", n) for n in range(5)], list(range(5)))
    assert (one._cells == two._cells).all()
    assert np.abs(one._cells - other._cells).max() > 0.01


@pytest.mark.parametrize("regime", ["hashed", "blocks"])
def test_several_fillers_at_one_path(regime):
    memory = OSCMemory(vocabulary=[f"friend {n}" for n in range(60)], kept=16, regime=regime)
    for name in ("friend 3", "friend 14", "friend 41"):
        memory.store("friends", name)
    memory.store_many([("noise", n) for n in range(5)], [f"friend {n}" for n in range(5)])
    found = {candidate.filler for candidate in memory.recall_all("friends")}
    assert found == {"friend 3", "friend 14", "friend 41"}
    assert memory.contains("friends", "friend 14")
    assert not memory.contains("friends", "friend 15")


def test_decay_lets_older_facts_fade():
    memory = OSCMemory(capacity=60, vocabulary=range(50))
    for n in range(400):
        memory.decay(0.95)
        memory.store(("turn", n), n % 50)
    assert memory.load_factor() < 0.25
    assert memory.recall(("turn", 399)).filler == 399 % 50
    assert_allclose(memory.recall(("turn", 390)).score, 0.95**9, atol=0.25)
    assert not memory.recall(("turn", 5)).found


def test_replace_overwrites():
    memory = OSCMemory()
    memory.store("user.city", "London")
    memory.store("user.city", "Leeds")
    assert memory.replace("user.city", "Paris") == -1
    assert [c.filler for c in memory.recall_all("user.city")] == ["Paris"]
    assert len(memory) == 1


def test_forget_refuses_what_is_not_there():
    memory = OSCMemory()
    memory.store("user.city", "London")
    memory.store("user.name", "Ada")
    with pytest.raises(DataError, match=r"'Ada' is not stored at user.city.*London"):
        memory.forget("user.city", "Ada")
    assert len(memory) == 2


def test_a_full_memory_refuses_and_stores_nothing():
    memory = OSCMemory(capacity=20)
    memory.store_many([(n,) for n in range(18)], list(range(18)))
    before = memory._cells.copy()
    with pytest.raises(CapacityError, match=r"21 facts where 20.*predicted accuracy.*plan\(21"):
        memory.store_many([("more", n) for n in range(3)], ["x", "y", "z"])
    assert len(memory) == 18
    assert (memory._cells == before).all()
    assert "x" not in memory.vocabulary
    memory.forget((0,), 0)
    assert memory.store_many([("more", n) for n in range(3)], ["x", "y", "z"]) == 3
    with pytest.raises(CapacityError):
        memory.merge(OSCMemory(capacity=20)).store("last", "w")


def test_a_full_memory_can_warn_instead():
    memory = OSCMemory(capacity=2, beyond="warn")
    memory.store_many([(0,), (1,)], [0, 1])
    with pytest.warns(ForetellWarning, match=r"3 facts where 2.*accuracy"):
        memory.store((2,), 2)
    assert len(memory) == 3
    assert memory.load_factor() == pytest.approx(1.5)


def test_blocks_are_exact_until_they_are_full():
    memory = OSCMemory(regime="blocks", dim=32, kept=8, vocabulary=range(100))
    assert memory.capacity == 16
    for n in range(16):
        memory.store(("p", n), 5 * n, weight=1 + n / 8)
        memory.store(("p", n), 5 * n + 1, weight=0.25)
    scores = memory.scores([("p", n) for n in range(16)])
    assert (scores.argmax(axis=1) == 5 * np.arange(16)).all()
    with pytest.raises(CapacityError, match=r"16 of the 16 places"):
        memory.store(("p", 16), 1)
    assert len(memory) == 32
    assert memory.load_factor() == 1.0
    assert memory.nbytes == 4 * 32**2 + 8 * 16


def test_blocks_move_when_memories_are_merged():
    one = OSCMemory(regime="blocks", vocabulary=range(40))
    two = OSCMemory(regime="blocks", vocabulary=range(40))
    one.store_many([("x", n) for n in range(10)], range(10))
    two.store_many([("y", n) for n in range(10)], range(20, 30))
    two.store(("x", 3), 33)
    one.merge(two)
    assert_allclose(one.scores([("y", 4)])[0, 24], 1.0, atol=1e-5)
    assert_allclose(one.scores([("x", 3)])[0, [3, 33]], 1.0, atol=0.5)


def test_rank_one_guess_finds_a_dominant_fact():
    memory = OSCMemory(vocabulary=range(300))
    memory.store("a", 17, weight=1.0)
    memory.store_many([("b", n) for n in range(5)], range(5))
    assert memory.rank_one_guess("a")[0] == 17
    with pytest.raises(ParameterError, match="order 3"):
        OSCMemory(order=3, dim=8).rank_one_guess("a")


def test_trained_components_are_used():
    rows = np.random.default_rng(0).normal(size=(2, 5, 24)) * 3
    words = Vocabulary("abcde", order=2, dim=24, components=rows)
    memory = OSCMemory(vocabulary=words)
    memory.store("x", "c")
    assert memory.recall("x").filler == "c"
    assert_allclose(np.linalg.norm(words.components, axis=2), 1, atol=1e-6)


def test_candidates_narrow_the_question():
    memory = OSCMemory(vocabulary=["red", "green", 1, 2, 1.0, True, None])
    memory.store("colour", "green")
    memory.store("flag", True)
    memory.store("nothing", None)
    answer = memory.recall("colour", 2, ["red", "green"])
    assert [c.filler for c in answer] == ["green", "red"]
    assert len(answer) == 2
    assert memory.recall("flag").filler is True
    nothing = memory.recall("nothing")
    assert nothing.found
    assert nothing.filler is None
    assert repr(nothing).startswith("Recollection(nothing = None")


@given(
    st.lists(
        st.lists(
            st.one_of(st.text(max_size=5), st.integers(), st.binary(max_size=4)), max_size=4
        ).map(tuple),
        min_size=2,
        max_size=6,
        unique_by=repr,
    )
)
def test_different_paths_have_different_keys(paths):
    keys = [path_key(path, 0) for path in paths]
    assert len(set(keys)) == len(paths)


def test_batches_and_single_questions_agree():
    for binding in ("embed", "carve"):
        memory = OSCMemory(vocabulary=range(64), binding=binding)
        paths = [("p", n) for n in range(12)]
        memory.store_many(paths, range(12))
        together = memory.scores(paths)
        alone = np.vstack([memory.scores([path]) for path in paths])
        assert_allclose(together, alone, atol=1e-5)


def test_the_plan_holds_what_it_promises():
    promise = plan(60, 400, 0.95)
    accuracy = []
    for seed in range(5):
        memory = OSCMemory.from_plan(promise, vocabulary=range(400), seed=seed)
        paths, fillers = [("p", n) for n in range(60)], [7 * n % 400 for n in range(60)]
        memory.store_many(paths, fillers)
        accuracy.append(np.mean(memory.scores(paths).argmax(axis=1) == fillers))
        with pytest.raises(CapacityError):
            memory.store("more", 0)
    assert np.mean(accuracy) >= 0.92
    assert promise.nbytes == memory.nbytes


def test_predicted_accuracy_falls_with_load_and_repeats():
    memory = OSCMemory(vocabulary=range(500))
    assert memory.predicted_accuracy() == pytest.approx(1.0)
    values = [memory.predicted_accuracy(n) for n in (50, 100, 200, 400)]
    assert values == sorted(values, reverse=True)
    carved = OSCMemory(vocabulary=range(500), binding="carve")
    assert carved.predicted_accuracy(100, repeats=20) < carved.predicted_accuracy(100)
    assert memory.predicted_accuracy(100, repeats=20) == memory.predicted_accuracy(100)
    assert memory.predicted_accuracy(100, weight=0.5) < memory.predicted_accuracy(100)
