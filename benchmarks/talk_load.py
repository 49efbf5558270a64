"""Fifty people who type into one server at once: how long they wait, and that nothing is mixed up.

Each types questions of XQuAD at 60 words a minute, reads the answer for five seconds, and goes on.
The server has just opened the folder, so that hardly any sentence is embedded yet. Wall-clock times
of the clients, on the machine that also runs them; its load is in the result.

FORETELL_DATA=... python benchmarks/talk_load.py
"""

import asyncio
import os
import random
import sys
from typing import Any

import numpy as np
from _common import write_result
from _talk import DISTRACTORS, Typist, questions, resident_mb, served

SESSIONS, EACH, WORDS_PER_S, READING_S = 50, 4, 1.0, 5.0


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


def main() -> None:
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else SESSIONS
    with served() as (port, pid, _):
        asyncio.run(all_of(port, 1))
        before = resident_mb(pid)
        found = asyncio.run(all_of(port, sessions))
        after = resident_mb(pid)
    ms = 1000 * np.array([wait for each in found for wait in each["waits"]])
    columns = [
        "sessions", "questions", "median, ms", "95 %, ms", "worst, ms", "lost", "crossed",
        "memory before, MB", "after, MB", "load of the machine",
    ]  # fmt: skip
    row = [
        sessions,
        len(ms),
        f"{np.median(ms):.0f}",
        f"{np.quantile(ms, 0.95):.0f}",
        f"{ms.max():.0f}",
        sum(each["lost"] for each in found),
        sum(each["wrong"] for each in found),
        f"{before:.0f}",
        f"{after:.0f}",
        f"{os.getloadavg()[0]:.1f}",
    ]
    print(row)
    settings = {
        "each": EACH,
        "words_per_s": WORDS_PER_S,
        "reading_s": READING_S,
        "passages": f"XQuAD and {DISTRACTORS} glosses",
        "bars": "95 % 2000 ms, none lost or crossed",
    }
    tables = {"talk-load": {"columns": columns, "rows": [row]}}
    write_result("talk_load", settings, tables, milliseconds=[round(float(m), 1) for m in ms])


if __name__ == "__main__":
    main()
