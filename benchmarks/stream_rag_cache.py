"""Documents shared between the queries of one question: how long is still waited for, at what cost?

Five documents of 0.4 s each, one worker, an endpoint wait of 0.5 s, 0.1 s to make a query. At-VAD
asks when the last word ends and belongs into every comparison. On every question the evidence has
to be that of asking after the turn. The learned trigger has seen twenty other articles. Beside it:
what the size of the corpus does to how early a search settles, questions whose rarest word comes
last, and tools so fast that there is nothing to hide.
"""

import argparse
import time
from typing import Any

import numpy as np
from _common import write_result
from _stream_rag import K, Question, load, ratio_of_means, run

from foretell.converse import StreamingLookup
from foretell.converse.lookup import (
    AfterTurn,
    AtPause,
    CostAwareTrigger,
    EveryChange,
    FixedInterval,
    LearnedStays,
    ModelTrigger,
    Timing,
    TopKEqual,
    latency_report,
    stabilization,
    text_query,
)
from foretell.converse.lookup.words import content_terms, split_words

SIZES, SIZE = (0, 10_000, 100_000), 10_000
TIMING = Timing(endpoint_s=0.5, generate_s=0.1, document_s=0.4, call_s=2.0)


def halves(questions: list[Question]) -> tuple[list[Question], list[Question]]:
    """Twenty articles to learn from, the other ones to measure on."""
    order = np.random.default_rng(0).permutation(48)
    learn = set(order[:20].tolist())
    return [q for q in questions if q.article in learn], [
        q for q in questions if q.article not in learn
    ]


def policies(index: Any, learn: list[Question], workers: int = 1) -> dict[str, StreamingLookup]:
    def lookup(trigger: Any, **more: Any) -> StreamingLookup:
        options = {"k": K, "workers": workers, "timeout_s": 60.0, "max_calls": 12, **more}
        return StreamingLookup(index, trigger=trigger, **options)

    plain = lookup(AfterTurn())
    looks = [plain.looks(q.text) for q in learn]
    stays = LearnedStays().fit(looks, [plain.final_ids(q.text) for q in learn])
    model = ModelTrigger().fit(looks, [q.article for q in learn])
    return {
        "sequential": plain,
        "at_vad": lookup(AtPause()),
        "every second, all or nothing": lookup(FixedInterval(1.0), reflector=TopKEqual(K)),
        "every second": lookup(FixedInterval(1.0)),
        "every change": lookup(EveryChange()),
        "words (learned)": lookup(model),
        "cost, rule of thumb": lookup(CostAwareTrigger()),
        "cost (learned)": lookup(CostAwareTrigger(stays=stays)),
        "cost (learned), 0.2 s a call": lookup(CostAwareTrigger(stays=stays, call_cost_s=0.2)),
        "cost (learned), at most 4": lookup(CostAwareTrigger(stays=stays), max_calls=4),
    }


def late(question: Question, index: Any) -> bool:
    """Whether the rarest content word is one of the last two words."""
    words = split_words(question.text)
    terms = content_terms(words)
    rarest = max(terms, key=index.idf, default="")
    return rarest in content_terms(words[-2:])


def waits(index: Any, learn: list[Question], test: list[Question]) -> dict[str, Any]:
    traces = {name: run(p, test, TIMING) for name, p in policies(index, learn).items()}
    report = latency_report(traces)
    print(report, flush=True)
    vad = np.array([t.residual_s for t in traces["at_vad"]])
    slow = np.array([late(q, index) for q in test])
    rows, late_rows = [], []
    for name, some in traces.items():
        same = [a.ids == b.ids for a, b in zip(some, traces["sequential"], strict=True)]
        assert all(same), name  # the same evidence on every question
        row, left = report[name], np.array([t.residual_s for t in some])
        ratio, low, high = ratio_of_means(left, vad)
        rows.append(
            [name, row.residual_s, f"{ratio:.3f} [{low:.3f}, {high:.3f}]", row.mean_s, row.p95_s,
             row.slower, row.calls, row.most_calls, row.work, row.wasted]
        )  # fmt: skip
        ratio, low, high = ratio_of_means(left[slow], vad[slow])
        shown = f"{ratio:.3f} [{low:.3f}, {high:.3f}]"
        late_rows.append([name, float(left[slow].mean()), shown, row.calls])
    columns = [
        "policy", "still waited (s)", "of at-VAD", "first word (s)", "P95 (s)",
        "slower than at-VAD", "calls", "most calls", "fetched", "of these wasted",
    ]  # fmt: skip
    note = (
        f"{len(test)} questions of 28 articles among {len(index):,} passages; 0.4 s a document, "
        "5 documents, one worker, endpoint wait 0.5 s. First word: from the true end of the "
        "question to the evidence. Evidence identical to the sequential one on every question. "
        "In the row 'all or nothing' a call is one piece of 2 s, and calls run side by side."
    )
    late_note = f"The {int(slow.sum())} questions whose rarest word is among the last two."
    return {
        "stream-rag-cache": {"columns": columns, "rows": rows, "note": note},
        "stream-rag-late": {
            "columns": ["policy", "still waited (s)", "of at-VAD", "calls (all questions)"],
            "rows": late_rows,
            "note": late_note,
        },
    }


def nothing_to_hide(index: Any, learn: list[Question], test: list[Question]) -> dict[str, Any]:
    """Tools that are done within the endpoint wait: nobody may be slower than at-VAD."""
    rows = []
    for seconds, workers in ((0.3, K), (0.06, 1), (0.5, K), (0.1, 1)):
        timing = Timing(endpoint_s=0.5, document_s=seconds, call_s=seconds * K / workers)
        traces = {n: run(p, test, timing) for n, p in policies(index, learn, workers).items()}
        vad = np.array([t.first_word_s for t in traces["at_vad"]])
        for name in ("every second", "every change", "cost (learned)", "words (learned)"):
            late_by = np.array([t.first_word_s for t in traces[name]]) - vad
            rows.append(
                [f"{seconds:g} s a document, {workers} at once", name, 1e3 * float(late_by.mean()),
                 1e3 * float(late_by.max()), float(np.mean(late_by > 0.02))]
            )  # fmt: skip
    return {
        "stream-rag-fast-tools": {
            "columns": ["tool", "policy", "later than at-VAD, mean (ms)", "worst (ms)",
                        "share later by > 20 ms"],
            "rows": rows,
            "note": f"{len(test)} questions, endpoint wait 0.5 s, no time to make a query.",
        }
    }  # fmt: skip


def settling(every: int) -> dict[str, Any]:
    rows = []
    for size in SIZES:
        index, questions = load(size)
        found = []
        for q in questions[::every]:
            words = split_words(q.text)
            prefixes = [" ".join(words[: i + 1]) for i in range(len(words))]
            ids = [[id for id, _ in index.search(text_query(p), K)] for p in prefixes]
            found.append((stabilization(ids, [q.gold]), q.gold in ids[-1]))
        recall = float(np.mean([hit for _, hit in found]))
        shown = []
        for name in ("phi_set", "phi_sc", "phi_suf"):
            values = [v for s, _ in found if (v := getattr(s, name)) is not None]
            shown.append(f"{np.median(values):.2f} ({np.mean(values):.2f})")
        rows.append(
            [f"{len(index):,}", recall, *shown, float(np.mean([s.volatility for s, _ in found]))]
        )
    return {
        "stream-rag-settling": {
            "columns": ["passages", "recall of 5", "same five from", "same first from",
                        "right one among five from", "later changes of the first"],
            "rows": rows,
            "note": "Share of the question's words, median (mean); the third over questions whose "
            "paragraph is ever found.",
        }
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1, help="take every n-th question")
    every = parser.parse_args().every
    began = time.process_time()
    index, questions = load(SIZE)
    learn, test = halves(questions[::every])
    tables = waits(index, learn, test)
    tables |= nothing_to_hide(index, learn[::2], test[::8])
    tables |= settling(4 * every)
    spent = time.process_time() - began
    settings = {"k": K, "words_per_second": 2.7, "distractors": SIZE, "every": every}
    if every == 1:
        write_result("stream_rag_cache", settings, tables, cpu_seconds=spent)
    else:
        print(tables)
    print(f"{spent:.0f} CPU-s")


if __name__ == "__main__":
    main()
