"""Fifty people who type into one server at once: how long they wait, and that nothing is mixed up.

Each types questions of XQuAD at 60 words a minute, reads the answer for five seconds, and goes on.
The notes are a folder that the server has just opened, or an index whose passages it read before.
Wall-clock times of the clients, on the machine that also runs them; the load is in the result.

FORETELL_DATA=... python benchmarks/talk_load.py
"""

import argparse
import asyncio
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
from _common import write_result
from _talk import DISTRACTORS, Typist, index, questions, resident_mb, served

SESSIONS, EACH, WORDS_PER_S, READING_S = 50, 4, 1.0, 5.0
STATES = {"a folder, just opened": False, "an index that was read": True}


async def one(port: int, asked: list[str], seed: int) -> dict[str, Any]:
    """The waits of one session, and what was wrong with it."""
    rng = random.Random(seed)
    await asyncio.sleep(rng.uniform(0, 10))
    typist = await Typist.open(port)
    waits, wrong = [], 0
    for number, question in enumerate(asked, 1):
        waited, answer = await typist.ask(question, WORDS_PER_S)
        waits.append(waited)
        wrong += answer["turn"] != number
        await asyncio.sleep(rng.uniform(0.5, 1.5) * READING_S)
    heard = [m["text"] for m in typist.seen if m["kind"] == "heard"]
    wrong += sum(not any(_begins(question, text) for question in asked) for text in heard)
    answers = sum(m["kind"] == "answer" for m in typist.seen)
    await typist.close()
    return {"waits": waits, "wrong": wrong, "lost": len(asked) - answers}


def _begins(question: str, text: str) -> bool:
    return " ".join(question.split()).startswith(" ".join(text.split()))


async def all_of(port: int, sessions: int) -> list[dict[str, Any]]:
    asked = questions()[100:]
    parts = [asked[n * EACH : (n + 1) * EACH] for n in range(sessions)]
    return await asyncio.gather(*(one(port, part, n) for n, part in enumerate(parts)))


def row(state: str, notes: Path | None, sessions: int) -> tuple[list[Any], list[float]]:
    with served(notes=notes) as (port, pid, _):
        asyncio.run(all_of(port, 1))
        before = resident_mb(pid)
        found = asyncio.run(all_of(port, sessions))
        after = resident_mb(pid)
    ms = 1000 * np.array([wait for each in found for wait in each["waits"]])
    cells = [
        state,
        sessions,
        len(ms),
        f"{np.median(ms):.0f}",
        f"{np.quantile(ms, 0.95):.0f}",
        f"{ms.max():.0f}",
        sum(each["lost"] for each in found),
        sum(each["wrong"] for each in found),
        f"{before:.0f}",
        f"{after:.0f}",
    ]
    print(cells, flush=True)
    return cells, [round(float(m), 1) for m in ms]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    parser.add_argument("--state", choices=list(STATES), help="only this one")
    parser.add_argument("--prepare", action="store_true", help="only make the index")
    options = parser.parse_args()
    known = index()
    if options.prepare:
        return
    rows, waits = [], {}
    for state in [options.state] if options.state else STATES:
        cells, waits[state] = row(state, known if STATES[state] else None, options.sessions)
        rows.append(cells)
    columns = [
        "notes", "sessions", "questions", "median, ms", "95 %, ms", "worst, ms", "lost", "crossed",
        "memory before, MB", "after, MB",
    ]  # fmt: skip
    settings = {
        "each": EACH,
        "words_per_s": WORDS_PER_S,
        "reading_s": READING_S,
        "passages": f"XQuAD and {DISTRACTORS} glosses",
        "load_average": [round(x, 1) for x in os.getloadavg()],
        "bars": "95 % 2000 ms, none lost or crossed",
    }
    if not options.state:
        tables = {"talk-load": {"columns": columns, "rows": rows}}
        write_result("talk_load", settings, tables, milliseconds=waits)


if __name__ == "__main__":
    main()
