"""Sentence vectors are made once, kept beside an index, and never in the way of an answer."""

import threading
import time

import numpy as np
import pytest

from foretell.app.talk.shelf import STORE, Shelf, store_of
from foretell.converse.answer import Source

PUMP = Source("1", "Pull the cord. It starts.")
VALVE = Source("2", "The valve opens at 8 bar.")


class Model:
    """Counts what it embeds: a vector says how long a sentence is."""

    def __init__(self):
        self.texts = []

    def encode(self, texts):
        self.texts += texts
        return np.array([[len(text), 1.0] for text in texts], np.float32)


@pytest.fixture
def model():
    return Model()


def wait_for(condition):
    until = time.monotonic() + 5.0
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    assert condition()


def test_a_sentence_is_embedded_once(model):
    shelf = Shelf(model)
    shelf.prepare(PUMP)
    first, second = shelf.take([PUMP, VALVE])
    assert (first.shape, second.shape) == ((2, 2), (1, 2))
    again, _ = shelf.take([PUMP, VALVE])
    assert np.array_equal(first, again)
    assert model.texts == ["Pull the cord.", "It starts.", "The valve opens at 8 bar."]


def test_passages_without_sentences_have_no_vectors(model):
    assert [len(v) for v in Shelf(model).take([Source("3", "---"), PUMP])] == [0, 2]


def test_what_an_index_keeps_is_not_made_again(model, tmp_path):
    Shelf(model, store=tmp_path / STORE, name="one").take([PUMP])
    other = Model()
    later = Shelf(other, store=tmp_path / STORE, name="one")
    assert np.array_equal(later.take([PUMP])[0], Shelf(model).take([PUMP])[0])
    assert other.texts == []


def test_what_another_model_made_is_not_used(model, tmp_path):
    Shelf(model, store=tmp_path / STORE, name="one").take([PUMP])
    Shelf(model, store=tmp_path / STORE, name="two").take([PUMP])
    assert len(model.texts) == 4


@pytest.mark.parametrize("content", [b"not a database", b""])
def test_a_file_that_cannot_be_used_is_done_without(model, tmp_path, content):
    (tmp_path / STORE).write_bytes(content)
    assert len(Shelf(model, store=tmp_path / STORE).take([PUMP])[0]) == 2
    assert len(Shelf(model, store=tmp_path / STORE / "below a file").take([PUMP])[0]) == 2


def test_a_large_folder_has_a_file_of_its_own_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert store_of(tmp_path, 10) is None
    one, other = store_of(tmp_path, 1000), store_of(tmp_path / "notes", 1000)
    assert one != other
    assert one.is_relative_to(tmp_path / "cache" / "foretell")
    Shelf(Model(), store=one).take([PUMP])
    later = Model()
    Shelf(later, store=one).take([PUMP])
    assert later.texts == []


def test_memory_is_bounded(model):
    shelf = Shelf(model, most_bytes=20)
    for n in range(50):
        shelf.take([Source(str(n), f"Pump {n} runs. It is warm.")])
    assert shelf.bytes <= 20
    assert len(shelf) == 2


def test_all_passages_are_read_when_nobody_asks(model):
    shelf = Shelf(model)
    shelf.read(lambda: (Source(str(n), f"Pump {n} runs.") for n in range(9)), 9)
    wait_for(lambda: len(shelf) == 9)
    shelf.close()
    assert len(shelf) == 9


def test_reading_ahead_waits_for_answers():
    going, release = threading.Event(), threading.Event()

    class Slow(Model):
        def encode(self, texts):
            if "It starts." in texts:
                going.set()
                assert release.wait(5.0)
            return super().encode(texts)

    slow = Slow()
    shelf = Shelf(slow)
    answer = threading.Thread(target=shelf.take, args=([PUMP],))
    answer.start()
    assert going.wait(5.0)
    shelf.prepare(VALVE)
    shelf.read(lambda: [VALVE], 1)
    time.sleep(0.05)
    assert slow.texts == []
    release.set()
    answer.join(5.0)
    wait_for(lambda: len(shelf) == 2)
    shelf.close()


def test_a_passage_that_fails_does_not_end_the_reading():
    class Broken(Model):
        def encode(self, texts):
            if any("bad" in text for text in texts):
                raise ValueError("no")
            return super().encode(texts)

    shelf = Shelf(Broken())
    names = ["bad", *"abcdefg"]
    shelf.read(lambda: (Source(n, f"It is {n} now.") for n in names), len(names))
    wait_for(lambda: len(shelf) == 4)
    shelf.close()
    assert len(shelf) == 4
