#!/usr/bin/env python3
"""Ask the questions that come with foretell of its example notes, and keep what came out.

Writes src/foretell/app/talk/example/calibration-{full,lexical}.json, with and without sentence
vectors. Run it after the models of the answers or the example have changed.
"""

from dataclasses import replace

from foretell.app.talk.assistant import Assistant, shipped_reading
from foretell.app.talk.calibration import (
    Calibration,
    example_folder,
    example_population,
    judged,
    read_questions,
)
from foretell.app.talk.notebook import Notebook
from foretell.converse.answer import Gate


def calibrated(*, vectors: bool) -> Calibration:
    """The example as the assistant answers it."""
    folder = example_folder()
    notes = Notebook.open(folder / "notes", vectors=vectors)
    assistant = Assistant(notes, *shipped_reading(vectors=vectors), Gate())
    questions = read_questions(folder / "questions.jsonl")
    made = judged(assistant, questions, population=example_population(len(questions)))
    return replace(made, example=True)


def main() -> None:
    """Write both files."""
    for kind, vectors in (("full", True), ("lexical", False)):
        calibrated(vectors=vectors).save(example_folder() / f"calibration-{kind}.json")
        print(f"wrote calibration-{kind}.json")


if __name__ == "__main__":
    main()
