"""Answers from notes: how many are given, how many of those are wrong, what is withheld.

Reader and judge are fitted on 24 articles of XQuAD, on which their features were chosen too. The
other 24 articles are cut at random, 200 times, into one half whose questions calibrate the
threshold and one half whose questions are answered. Each question is asked in one of three ways:
with its answer in the notes (60 %), without its paragraph (20 %), without its article (20 %).
"--models" also writes the models that the package ships, fitted on all 48 articles.
"""

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import _common  # noqa: F401  (limits the threads first)
import numpy as np
from _answers import KINDS, Asked, load
from _common import write_result

from foretell.converse.answer import Judge, Reader
from foretell.converse.answer.deciding import steps
from foretell.converse.answer.learning import fit_judge
from foretell.trust import SelectiveThreshold

N_DISTRACTORS, SPLITS, CONFIDENCE = 10_000, 200, 0.9
LEVELS = (0.05, 0.1, 0.2)
COUNTS = (150, 300, 600, 1200, 2400)  # of calibration questions
SHARES = (0.6, 0.2, 0.2)
MODELS = Path(__file__).resolve().parent.parent / "src/foretell/converse/answer/models.json"


def main() -> None:
    warnings.simplefilter("ignore")
    cases, index = load(N_DISTRACTORS)
    groups = np.array([case.example.group for case in cases])
    shuffled = np.random.default_rng(0).permutation(48)
    learning, rest = np.r_[shuffled[34:], shuffled[:10]], shuffled[10:34]
    learned = [c.example for c, g in zip(cases, groups, strict=True) if g in learning]
    rows, needed, notes = [], [], {}
    for name, vectors in (("words and meaning", True), ("words alone", False)):
        reader, judge = fit_judge(learned, index.idf, vectors=vectors)
        asked = [
            case
            for case, group in zip(cases, groups, strict=True)
            if group in rest and case.kind in KINDS
        ]
        began = time.process_time()
        doubts, wrong = outcomes(asked, reader, judge, index.idf)
        notes[name] = 1e3 * (time.process_time() - began) / len(asked)
        rows += table(name, asked, doubts, wrong, rest)
        needed += questions_needed(name, asked, doubts, wrong)
    asked = [
        case
        for case, group in zip(cases, groups, strict=True)
        if group in rest and case.kind in KINDS
    ]
    rows += table("nearest sentence by cosine", asked, *nearest(asked), rest)
    there = [case for case in asked if case.kind == KINDS[0]]
    found = float(np.mean([case.example.answerable for case in there]))
    write_result(
        "answers",
        {
            "questions": len({case.question for case in asked}),
            "articles": "24 to learn from, 12 to calibrate, 12 to test, 200 splits",
            "passages": len(index),
            "confidence": CONFIDENCE,
            "reading_ms": notes,
        },
        {
            "answers-xquad": {
                "columns": [
                    "read by", "level", "questions answered", "wrong among answered",
                    "splits above level", "... of those certified", "nothing certified",
                    "no answer in the notes: withheld",
                ],
                "rows": rows,
                "note": f"{len(index)} passages, of which 10,000 are distractors; the passage with "
                f"the answer is among the five found for {100 * found:.1f} % of the questions that "
                "have one. Wrong among answered: all splits together, with a 95 % interval of a "
                "bootstrap over articles. Splits above level: where more than the level of the "
                "answers were wrong; promised are at most 10 % of all splits.",
            },
            "answers-needed": {
                "columns": [
                    "read by", "level", "calibration questions", "nothing certified",
                    "questions answered", "draws above level",
                ],
                "rows": needed,
                "note": f"{SPLITS} draws of so many questions, with replacement, from all of the "
                "24 articles, whose true share of wrong answers is known: here questions are "
                "independent, as the theorem wants them.",
            },
        },
    )  # fmt: skip
    if "--models" in sys.argv:
        ship(cases, index.idf)


def outcomes(
    asked: list[Asked], reader: Reader, judge: Judge, idf: object
) -> tuple[np.ndarray, np.ndarray]:
    doubts, wrong = [], []
    for case in asked:
        reading = case.example.read(reader, idf)
        doubts.append(judge.doubt(reading))
        wrong.append(not case.example.right(reading))
    return np.array(doubts), np.array(wrong)


def nearest(asked: list[Asked]) -> tuple[np.ndarray, np.ndarray]:
    """The sentence with the largest cosine, and half of one minus the cosine as its score."""
    doubts, wrong = [], []
    for case in asked:
        e = case.example
        cosines = [v @ e.question_vector for v in e.vectors]
        flat = np.concatenate(cosines) if cosines else np.zeros(0)
        best = int(np.argmax(flat)) if flat.size else -1
        doubts.append(0.5 * (1 - flat[best]) if flat.size else 1.0)
        held = np.concatenate([np.asarray(h, bool) for h in e.holds]) if e.holds else []
        wrong.append(not (flat.size and held[best]))
    return np.array(doubts), np.array(wrong)


def table(
    name: str, asked: list[Asked], doubts: np.ndarray, wrong: np.ndarray, articles: np.ndarray
) -> list[list[str]]:
    own = name.startswith("words")
    kinds = np.array([KINDS.index(case.kind) for case in asked])
    groups = np.array([case.example.group for case in asked])
    names = np.array([case.question for case in asked])
    _, question = np.unique(names, return_inverse=True)
    rows = []
    for level in LEVELS:
        counts = np.zeros((48, 2))
        over, none, answered, withheld = [], [], [], []
        for split in range(SPLITS):
            rng = np.random.default_rng(split)
            half = set(rng.permutation(articles)[:12].tolist())
            drawn = rng.choice(3, size=question.max() + 1, p=SHARES)
            taken = kinds == drawn[question]
            cal = taken & np.isin(groups, list(half))
            test = taken & ~np.isin(groups, list(half))
            rule = SelectiveThreshold(
                alpha=level, delta=1 - CONFIDENCE, test_at=steps(level) if own else None
            )
            rule.fit(doubts[cal], wrong[cal].astype(float))
            accepted = rule.predict(doubts[test], check=False)
            bad, has = wrong[test][accepted], kinds[test] == 0
            none.append(rule.threshold_ is None)
            over.append(bad.size and bad.mean() > level)
            answered.append(accepted[has].mean())
            withheld.append(1 - accepted[~has].mean())
            for group in np.unique(groups[test][accepted]):
                mine = groups[test][accepted] == group
                counts[group] += mine.sum(), bad[mine].sum()
        rows.append(
            [
                name,
                f"{level:g}",
                f"{100 * np.mean(answered):.1f} %",
                share(counts[articles]),
                f"{100 * np.mean(over):.1f} %",
                f"{100 * np.sum(over) / max(SPLITS - np.sum(none), 1):.1f} %",
                f"{100 * np.mean(none):.1f} %",
                f"{100 * np.mean(withheld):.1f} %",
            ]
        )
        print(rows[-1], flush=True)
    return rows


def questions_needed(
    name: str, asked: list[Asked], doubts: np.ndarray, wrong: np.ndarray
) -> list[list[Any]]:
    """What a gate of so many independent questions certifies; the population is known."""
    kinds = np.array([KINDS.index(case.kind) for case in asked])
    _, question = np.unique([case.question for case in asked], return_inverse=True)
    drawn = np.random.default_rng(1).choice(3, size=question.max() + 1, p=SHARES)
    law = kinds == drawn[question]
    doubts, wrong, there = doubts[law], wrong[law], kinds[law] == 0
    rows = []
    for level in LEVELS[:2]:
        for n in COUNTS:
            none, answered, over = [], [], []
            for draw in range(SPLITS):
                chosen = np.random.default_rng((n, draw)).integers(len(doubts), size=n)
                rule = SelectiveThreshold(alpha=level, delta=1 - CONFIDENCE, test_at=steps(level))
                limit = rule.fit(doubts[chosen], wrong[chosen].astype(float)).threshold_
                accepted = doubts <= (-1.0 if limit is None else limit)
                none.append(limit is None)
                answered.append(accepted[there].mean())
                over.append(accepted.any() and wrong[accepted].mean() > level)
            shares = [f"{100 * np.mean(each):.1f} %" for each in (none, answered, over)]
            rows.append([name, f"{level:g}", n, *shares])
            print(rows[-1], flush=True)
    return rows


def share(counts: np.ndarray) -> str:
    """Wrong of accepted, with the interval over articles."""
    if not counts[:, 0].sum():
        return "none answered"
    draws = np.random.default_rng(0).integers(len(counts), size=(4000, len(counts)))
    sums = counts[draws].sum(axis=1)
    low, high = np.quantile(sums[:, 1] / np.maximum(sums[:, 0], 1), [0.025, 0.975])
    return f"{counts[:, 1].sum() / counts[:, 0].sum():.3f} [{low:.3f}, {high:.3f}]"


def ship(cases: list[Asked], idf: object) -> None:
    content = {}
    for kind, vectors in (("full", True), ("lexical", False)):
        reader, judge = fit_judge([case.example for case in cases], idf, vectors=vectors)
        content[kind] = rounded(reader.model.to_dict())
        content[f"judge-{kind}"] = rounded(judge.model.to_dict())
    MODELS.write_text(json.dumps(content) + "\n", encoding="utf-8")
    print(f"wrote {MODELS.name}")


def rounded(value: object) -> object:
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.8g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
