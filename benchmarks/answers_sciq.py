"""Answers on notes of another kind, run once: school science, one passage a question (SciQ).

Reader and judge are those that the package ships, fitted on encyclopedia articles. The notes are
the passages of SciQ's training part, with 10,000 glosses of WordNet. Six in ten questions are asked
of all notes, four without their passage, unless their answer still stands, word for word, in what
was found. Each question has a passage of its own, so that questions are close to independent, as
the theorem wants them. 1,000 of them calibrate; the others are answered. The first split gives the
exact bound, 200 the share of splits above the level. An answer counts as right only when the quoted
sentence is from the question's own passage and has the answer, word for word.
"""

import json
import warnings
from typing import Any

import numpy as np
from _answers import K, Vectors
from _common import data, write_result
from _texts import glosses
from scipy.stats import beta

from foretell.app.talk.matching import gives
from foretell.app.talk.notebook import SLOPE
from foretell.converse.answer import Judge, Reader, Source, sentences
from foretell.converse.answer.deciding import steps
from foretell.converse.answer.learning import Example
from foretell.converse.lookup import BM25, text_query
from foretell.trust import SelectiveThreshold

N_DISTRACTORS, CALIBRATION, SPLITS, CONFIDENCE = 10_000, 1000, 200, 0.9
LEVELS = (0.05, 0.1, 0.2)
THERE = 0.6  # share of questions whose passage is in the notes


def questions() -> list[tuple[str, str, str]]:
    """Question, answer and passage, where the passage has the answer; every passage once."""
    rows = json.loads(data("sciq/train.json").read_text(encoding="utf-8"))
    once = {row["support"].strip(): row for row in rows if row["support"].strip()}
    return [
        (row["question"].strip(), row["correct_answer"].strip(), passage)
        for passage, row in once.items()
        if gives(passage, [row["correct_answer"]])
    ]


def judged() -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Doubt, wrong and whether the passage was there, of each question; number of passages."""
    asked = questions()
    texts, _ = glosses()
    chosen = np.random.default_rng(0).permutation(len(texts))[:N_DISTRACTORS]
    notes = {f"s{n}": passage for n, (_, _, passage) in enumerate(asked)}
    notes |= {f"w{i}": texts[i] for i in chosen}
    index, vectors = BM25(notes, b=SLOPE), Vectors()
    reader, judge = Reader.shipped(), Judge.shipped()
    present = np.random.default_rng(1).random(len(asked)) < THERE
    found = []
    for n, (question, answer, _) in enumerate(asked):
        own = f"s{n}"
        hits = index.search(text_query(question), K + 1) if text_query(question) else []
        kept = [hit for hit in hits if present[n] or hit[0] != own][:K]
        sources = [Source(id, notes[id], score=score) for id, score in kept]
        if not present[n] and any(gives(s.text, [answer]) for s in sources):
            continue
        holds = [[s.id == own and gives(t.text, [answer]) for t in sentences(s)] for s in sources]
        example = Example(
            question, sources, holds, n, vectors(question)[0],
            [vectors(*(t.text for t in sentences(s))) for s in sources],
        )  # fmt: skip
        reading = example.read(reader, index.idf)
        found.append((judge.doubt(reading), not example.right(reading), present[n]))
    vectors.save()
    doubts, wrong, there = (np.array(column) for column in zip(*found, strict=True))
    return doubts, wrong, there, len(notes)


def upper(wrong: int, n: int) -> float:
    """Upper end of the exact interval of 95 %, one-sided."""
    return float(beta.ppf(0.95, wrong + 1, n - wrong)) if wrong < n else 1.0


def row(level: float, doubts: np.ndarray, wrong: np.ndarray, there: np.ndarray) -> list[Any]:
    over, none, answered, withheld, first = [], [], [], [], ("nothing answered", "")
    for split in range(SPLITS):
        order = np.random.default_rng(split).permutation(len(doubts))
        calibrate, test = order[:CALIBRATION], order[CALIBRATION:]
        rule = SelectiveThreshold(alpha=level, delta=1 - CONFIDENCE, test_at=steps(level))
        rule.fit(doubts[calibrate], wrong[calibrate].astype(float))
        accepted = rule.predict(doubts[test], check=False)
        bad = wrong[test][accepted]
        none.append(rule.threshold_ is None)
        over.append(bool(bad.size) and bad.mean() > level)
        answered.append(accepted[there[test]].mean())
        withheld.append(1 - accepted[~there[test]].mean())
        if split == 0 and bad.size:
            share = f"{bad.sum()} of {bad.size}, {bad.mean():.3f}"
            first = (share, f"{upper(int(bad.sum()), bad.size):.3f}")
    percent = [f"{100 * np.mean(each):.1f} %" for each in (answered, over, none, withheld)]
    return [f"{level:g}", percent[0], *first, *percent[1:]]


def main() -> None:
    warnings.simplefilter("ignore")
    doubts, wrong, there, passages = judged()
    rows = []
    for level in LEVELS:
        rows.append(row(level, doubts, wrong, there))
        print(rows[-1], flush=True)
    write_result(
        "answers_sciq",
        {"questions": len(doubts), "calibration": CALIBRATION, "passages": passages,
         "confidence": CONFIDENCE, "splits": SPLITS},
        {
            "answers-sciq": {
                "columns": ["level", "questions answered", "wrong among answered, first split",
                            "upper bound, 95 %", "splits above level", "nothing certified",
                            "no answer in the notes: withheld"],
                "rows": rows,
                "note": f"{len(doubts)} questions, {int(there.sum())} with their passage in the "
                f"notes ({passages} passages); {CALIBRATION} calibrate. Promised are at most "
                "10 % of splits above the level.",
            }
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
