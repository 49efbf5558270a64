"""The sources that readers are shown stay under a cap: what they open does not narrow what comes.

The notes that come with foretell, searched as ``foretell talk`` searches them. Simulated readers
ask about what they opened last; beside each answer the page shows the passages that came nearest,
and a reader opens one. Which passages those are goes through an ``ExposureRegulator`` whose
categories are the files. The best passage of a question, from which the answer is made, is not
touched.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest

from foretell.app.notes.passages import passages
from foretell.app.talk.calibration import example_folder
from foretell.converse.lookup import BM25, text_query
from foretell.trust import MMR, EventLog, ExposureRegulator

pytestmark = pytest.mark.story

READERS, STEPS, SHOWN = 20, 60, 3


@dataclass
class Shelf:
    """Passages of all files, with the file of each, and questions by file."""

    search: BM25
    file_of: np.ndarray
    questions: list[list[str]]


@pytest.fixture(scope="module")
def shelf() -> Shelf:
    folder = example_folder()
    files = sorted((folder / "notes").glob("*.md"))
    texts, owners = [], []
    for n, file in enumerate(files):
        for passage in passages(file.read_text(encoding="utf-8"), name=file.stem):
            texts.append(passage.text)
            owners.append(n)
    lines = (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    asked: list[list[str]] = [[] for _ in files]
    for line in map(json.loads, lines):
        if line.get("file"):
            asked[[f.name for f in files].index(line["file"])].append(line["question"])
    return Shelf(BM25(texts), np.array(owners), asked)


def history(n_files: int) -> EventLog:
    """What readers opened before there was a regulator: a file twice, then another."""
    rng = np.random.default_rng(0)
    stretches = rng.integers(n_files, size=READERS * 100 // 2)
    return EventLog.from_columns(
        np.repeat(np.arange(READERS), 100), np.repeat(stretches, 2), n_categories=n_files
    )


@dataclass
class Reading:
    """Share of steps above the cap, files opened by a reader, nearest passages that were shown."""

    above: float
    files: float
    nearest: float


def read(shelf: Shelf, regulator: ExposureRegulator, *, under_cap: bool, seed: int) -> Reading:
    """Readers ask, are shown three passages, and open one."""
    rng = np.random.default_rng(seed)
    n_files = len(shelf.questions)
    last = rng.integers(n_files, size=READERS)
    above, first, opened = 0, 0, [set() for _ in range(READERS)]
    for _ in range(STEPS):
        clicked = np.empty(READERS, dtype=int)
        for reader in range(READERS):
            topic = last[reader] if rng.random() < 0.8 else rng.integers(n_files)
            question = rng.choice(shelf.questions[topic])
            scores = np.zeros(len(shelf.search))  # of passages that share no word
            for id, score in shelf.search.search(text_query(question), k=len(shelf.search)):
                scores[int(id)] = score
            rows = np.argsort(-scores, kind="stable")
            if under_cap:
                shown = regulator.rerank(reader, rows, scores[rows], shelf.file_of[rows], k=SHOWN)
            else:
                shown = rows[:SHOWN]
            first += rows[0] in shown
            own = np.flatnonzero(shelf.file_of[shown] == last[reader])
            clicked[reader] = own[0] if own.size and rng.random() < 0.9 else rng.integers(SHOWN)
            last[reader] = shelf.file_of[shown[clicked[reader]]]
            opened[reader].add(int(last[reader]))
        booked = regulator.update(np.arange(READERS), last)
        above += int(booked.violated.sum())
    steps = READERS * STEPS
    return Reading(above / steps, float(np.mean([len(f) for f in opened])), first / steps)


def test_shown_sources_stay_under_the_cap_with_simulated_clicks(shelf: Shelf) -> None:
    log = history(len(shelf.questions))
    found = {}
    for under_cap in (False, True):
        regulator = ExposureRegulator(mode="barrier", diversifier=MMR(0.9)).fit(log)
        found[under_cap] = read(shelf, regulator, under_cap=under_cap, seed=1)
    alone, capped = found[False], found[True]
    assert alone.above > 0.05
    assert capped.above == 0.0  # the barrier's promise, where another file is always left
    assert capped.files > alone.files
    assert alone.nearest == 1.0
    assert capped.nearest > 0.95  # the passage that came nearest is seldom the one that is moved
