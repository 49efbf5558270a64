"""Fifty people who type into one server at once: how long they wait, and that nothing is mixed up.

Each types questions of XQuAD at 60 words a minute, reads the answer for five seconds, and goes on.
The server has just opened the folder of notes, or it did so before and has embedded its sentences.
Wall-clock times of the clients, on the machine that also runs them; the load is in the result.

FORETELL_DATA=... python benchmarks/talk_load.py
"""

import argparse
import asyncio
import json
import os
import random
from typing import Any

import numpy as np
from _common import CACHE, write_result
from _talk import DISTRACTORS, Typist, folder_that_was_read, questions, resident_mb, served

SESSIONS, EACH, WORDS_PER_S, READING_S = 50, 4, 1.0, 5.0
STATES = ("a folder, just opened", "a folder, opened before")


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


def measured(state: str, sessions: int) -> dict[str, Any]:
    """Waits and what else is in a row."""
    with served(notes=folder_that_was_read() if state == STATES[1] else None) as (port, pid, _):
        asyncio.run(all_of(port, 1))
        before = resident_mb(pid)
        found = asyncio.run(all_of(port, sessions))
        after = resident_mb(pid)
    return {
        "state": state,
        "sessions": sessions,
        "ms": [round(1000 * wait, 1) for each in found for wait in each["waits"]],
        "lost": sum(each["lost"] for each in found),
        "crossed": sum(each["wrong"] for each in found),
        "memory": [before, after],
        "load_average": [round(x, 1) for x in os.getloadavg()],
    }


def cells(found: dict[str, Any]) -> list[Any]:
    ms = np.array(found["ms"])
    numbers = (np.median(ms), np.quantile(ms, 0.95), ms.max())
    return [
        found["state"], found["sessions"], len(ms), *(f"{x:.0f}" for x in numbers),
        found["lost"], found["crossed"], *(f"{x:.0f}" for x in found["memory"]),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    parser.add_argument("--state", choices=STATES, help="only this one, kept for the table")
    parser.add_argument("--prepare", action="store_true", help="only read the notes")
    options = parser.parse_args()
    if options.prepare:
        folder_that_was_read()
        return
    folder = CACHE / "talk_load"
    folder.mkdir(parents=True, exist_ok=True)
    every = []
    for state in [options.state] if options.state else STATES:
        path = folder / f"{state} {options.sessions}.json"
        if options.state or not path.exists():
            path.write_text(json.dumps(measured(state, options.sessions)))
        every.append(json.loads(path.read_text()))
        print(cells(every[-1]), every[-1]["load_average"], flush=True)
    if options.state:
        return
    columns = [
        "notes", "sessions", "questions", "median, ms", "95 %, ms", "worst, ms", "lost", "crossed",
        "memory before, MB", "after, MB",
    ]  # fmt: skip
    settings = {
        "each": EACH,
        "words_per_s": WORDS_PER_S,
        "reading_s": READING_S,
        "passages": f"XQuAD and {DISTRACTORS} glosses",
        "load_average": [one["load_average"] for one in every],
        "bars": "95 % 2000 ms, none lost or crossed",
    }
    tables = {"talk-load": {"columns": columns, "rows": [cells(one) for one in every]}}
    write_result("talk_load", settings, tables, every=every)


if __name__ == "__main__":
    main()
