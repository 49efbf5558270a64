"""From Enter to the first word of the sourced answer, over ten thousand passages.

Questions of XQuAD are typed at a steady pace, or pasted, in two ways. "CPU time": the conversation
runs in virtual time, in which reading a passage and composing an answer take the CPU seconds that
they take here, one passage after another; the socket is not in it. "wall clock": a client types
into `foretell talk --serve`; other work on the machine lengthens this, so the load is with it.

FORETELL_DATA=... python benchmarks/talk_latency.py [questions of the wall clock]
"""

import asyncio
import dataclasses
import os
import sys
import tempfile
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from _common import write_result
from _talk import DISTRACTORS, Typist, questions, served, write_notes

from foretell.app.talk.assistant import build_assistant
from foretell.app.talk.spans import turns_of
from foretell.converse import Conversation, run_conversation
from foretell.converse.lookup import Timing
from foretell.core.timeline import Event, Timeline

COUNT = 40  # questions in CPU time
PACES: dict[str, float | None] = {"typed, 2 words a second": 2.0, "pasted": None}


async def measure(port: int, asked: list[str], pace: float | None) -> list[tuple[float, bool]]:
    typist = await Typist.open(port)
    waits = []
    for question in asked:
        waited, answer = await typist.ask(question, pace)
        waits.append((waited, bool(answer["statements"])))
    await typist.close()
    return waits


def in_cpu_time(asked: list[str], pace: float | None, notes: Path) -> list[tuple[float, ...]]:
    """Seconds for passages and for composing, share done ahead, whether there is a source."""
    assistant = build_assistant(model=None, notes=notes)
    lookup = assistant.lookup
    lookup.plan = dataclasses.replace(lookup.plan, workers=1, record_searches=False)
    rows = []
    for question in asked:

        def read(id: str) -> float:
            began = time.process_time()
            assistant.notebook.fetch(id)
            return time.process_time() - began

        talk = Conversation(lookup)
        timing = Timing(document_s=lru_cache(maxsize=None)(read))
        timeline = run_conversation(talk, typed(question, pace), timing, fetch=lambda out: "")
        evidence = timeline.last("evidence")
        began = time.process_time()
        assistant.look_up(question)  # the search at the end
        passages = [assistant.source(id) for id in evidence["ids"]]
        answer = assistant.answer(question, passages, evidence["findings"])
        composing = time.process_time() - began
        (turn,) = turns_of(timeline)
        ahead = turn.ahead_s / turn.work_s if turn.work_s else 1.0
        rows.append((evidence["waited"], composing, ahead, bool(answer.statements)))
    assistant.close()
    return rows


def typed(question: str, pace: float | None) -> list[Event]:
    """What a page says while a question is typed; None pastes it."""
    words = question.split()
    events = []
    for n in range(1, len(words) + 1) if pace else ():
        stable = n - (n == len(words))
        events.append(Event("partial", n / pace, {"text": " ".join(words[:n]), "stable": stable}))
    end = (len(words) + 1) / pace if pace else 0.0
    return [*events, Event("end_of_turn", end, {"text": question})]


def breakdown(timeline: Timeline) -> dict[str, list[float]]:
    """Milliseconds: passages still waited for, composing, and the rest of the way in the server."""
    parts: dict[str, list[float]] = {"passages": [], "composing": [], "ahead": []}
    for turn in turns_of(timeline):
        if turn.waited is None or turn.ended is None:
            continue
        composing = sum(s.end - s.begin for s in turn.spans if s.kind == "answer")
        parts["composing"].append(1000 * composing)
        parts["passages"].append(1000 * max(turn.waited - composing, 0.0))
        parts["ahead"].append(turn.ahead_s / turn.work_s if turn.work_s else 1.0)
    return parts


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    asked = questions()
    rows, samples = [], {}
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "notes"
        write_notes(notes)
        for n, (name, pace) in enumerate(PACES.items()):
            found = np.array(in_cpu_time(asked[n * COUNT : (n + 1) * COUNT], pace, notes))
            ms = 1000 * found[:, :2].sum(axis=1)
            parts = {"passages": 1000 * found[:, 0], "composing": 1000 * found[:, 1]}
            parts["ahead"] = found[:, 2]
            samples[f"{name}, CPU time"] = [round(float(m), 1) for m in ms]
            rows.append(row(f"{name}: CPU time", ms, parts, int(found[:, 3].sum())))
            print(rows[-1], flush=True)
    for n, (name, pace) in enumerate(PACES.items() if count else ()):
        with served("--record", "talk.jsonl") as (port, _, folder):
            own = asked[n * count : (n + 1) * count]
            asyncio.run(measure(port, asked[-3:], pace))  # the first ones load what they need
            waits = asyncio.run(measure(port, own, pace))
            parts = breakdown(Timeline.open(Path(folder) / "talk-2.jsonl"))
        ms = 1000 * np.array([waited for waited, _ in waits])
        samples[f"{name}, wall clock"] = [round(float(m), 1) for m in ms]
        load = f"{name}: wall clock, load {os.getloadavg()[0]:.0f}"
        rows.append(row(load, ms, parts, sum(given for _, given in waits)))
        print(rows[-1], flush=True)
    columns = [
        "question", "median, ms", "95 %, ms", "worst, ms", "still read, ms", "composing, ms",
        "work done before Enter", "answered with a source",
    ]  # fmt: skip
    settings = {
        "questions": {"CPU time": COUNT, "wall clock": count},
        "passages": f"XQuAD and {DISTRACTORS} glosses",
        "bars": "median 300 ms, 95 % 900 ms",
    }
    write_result(
        "talk_latency",
        settings,
        {"talk-latency": {"columns": columns, "rows": rows}},
        milliseconds=samples,
    )


def row(name: str, ms: Any, parts: dict[str, list[float]], given: int) -> list[str]:
    return [
        name,
        f"{np.median(ms):.0f}",
        f"{np.quantile(ms, 0.95):.0f}",
        f"{ms.max():.0f}",
        f"{np.median(parts['passages']):.0f}",
        f"{np.median(parts['composing']):.0f}",
        f"{100 * np.mean(parts['ahead']):.0f} %",
        f"{given} of {len(ms)}",
    ]


if __name__ == "__main__":
    main()
