"""Notes are searched, and the sources that a reader is shown stay under a limit on saturation.

What a reader opens brings more of the same file. The answer is made from the passages as they were
found; which three passages are shown beside it is chosen by a regulator whose categories are the
files.
"""

import numpy as np

from foretell.app.talk.assistant import build_assistant
from foretell.app.talk.calibration import example_folder
from foretell.converse.lookup import text_query
from foretell.trust import MMR, EventLog, ExposureRegulator

QUESTIONS = ["When does the inlet valve shut?", "What is the tank made of?", "How full is a tank?"]
STEPS, SHOWN, READER = 12, 3, 7

assistant = build_assistant(model=None, notes=example_folder() / "notes", vectors=False)
passages = [assistant.source(str(n)) for n in range(len(assistant.notebook))]
files = sorted({passage.file for passage in passages})
file_of = np.array([files.index(passage.file) for passage in passages])

# What twenty readers opened before: a file five times, then another. No reader shall be
# more saturated than in the calmer half of that.
rng = np.random.default_rng(0)
readers = np.repeat(np.arange(20), 100)
opened = np.repeat(rng.integers(len(files), size=400), 5)
log = EventLog.from_columns(readers, opened, n_categories=len(files))


def above(under_cap: bool) -> int:
    """Steps above the limit of a reader who opens the file on the tanks whenever it is shown."""
    regulator = ExposureRegulator(
        mode="barrier", limit={"quantile": 0.5}, diversifier=MMR(0.9)
    ).fit(log, warm=False)
    tanks, count = files.index("tank_farm.md"), 0
    for step in range(STEPS):
        query = text_query(QUESTIONS[step % len(QUESTIONS)])
        scores = np.zeros(len(passages))
        for number, score in assistant.notebook.scores(query).items():
            scores[int(number)] = score
        shown = np.argsort(-scores, kind="stable")[:SHOWN]
        if under_cap:
            shown = regulator.rerank(READER, np.arange(len(scores)), scores, file_of, k=SHOWN)
            print(", ".join(passages[n].place for n in shown))
        clicked = tanks if tanks in file_of[shown] else int(file_of[shown[0]])
        count += int(regulator.update(READER, clicked).violated.sum())
    return count


alone, capped = above(under_cap=False), above(under_cap=True)
assistant.close()
print(f"above the limit: {alone} of {STEPS} steps by themselves, {capped} under the cap")
assert alone > capped == 0
