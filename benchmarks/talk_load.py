"""Fifty people who type into one server at once: how long they wait, and that nothing is mixed up.

Each types questions of XQuAD at 60 words a minute, reads the answer for five seconds, and goes on.
The server has just opened the folder, so that hardly any sentence is embedded yet. Wall-clock times
of the clients, on the machine that also runs them. Every run is a row, with the load of the
machine: where others work on it too, that decides more than anything here.

FORETELL_DATA=... python benchmarks/talk_load.py [sessions | --table]
"""

import asyncio
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from _common import CACHE, write_result
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


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(sessions: int) -> dict[str, Any]:
    """One run."""
    with served() as (port, pid, _):
        asyncio.run(all_of(port, 1))
        before, spent, began = resident_mb(pid), cpu_s(pid), time.perf_counter()
        found = asyncio.run(all_of(port, sessions))
        return {
            "sessions": sessions,
            "ms": [round(1000 * wait, 1) for each in found for wait in each["waits"]],
            "lost": sum(each["lost"] for each in found),
            "crossed": sum(each["wrong"] for each in found),
            "memory": [before, resident_mb(pid)],
            "cores": (cpu_s(pid) - spent) / (time.perf_counter() - began),
            "load_average": os.getloadavg()[0],
        }


def cells(run: dict[str, Any]) -> list[Any]:
    ms = np.array(run["ms"])
    numbers = (np.median(ms), np.quantile(ms, 0.95), ms.max())
    cores = f"{run['cores']:.2f}" if "cores" in run else None
    return [
        run["sessions"], len(ms), *(f"{x:.0f}" for x in numbers), run["lost"], run["crossed"],
        *(f"{x:.0f}" for x in run["memory"]), cores, f"{run['load_average']:.1f}",
    ]  # fmt: skip


def main() -> None:
    sessions = int(sys.argv[1]) if sys.argv[1:] and sys.argv[1].isdigit() else SESSIONS
    path = CACHE / "talk_load_runs.json"
    runs = json.loads(path.read_text()) if path.exists() else []
    if "--table" not in sys.argv:
        runs.append(measured(sessions))
    CACHE.mkdir(exist_ok=True)
    path.write_text(json.dumps(runs))
    rows = [cells(run) for run in runs]
    print(rows[-1])
    columns = [
        "sessions", "questions", "median, ms", "95 %, ms", "worst, ms", "lost", "crossed",
        "memory before, MB", "after, MB", "cores used by the server", "load of the machine",
    ]  # fmt: skip
    settings = {
        "each": EACH,
        "words_per_s": WORDS_PER_S,
        "reading_s": READING_S,
        "passages": f"XQuAD and {DISTRACTORS} glosses",
        "bars": "95 % 2000 ms, none lost or crossed",
    }
    tables = {"talk-load": {"columns": columns, "rows": rows}}
    write_result("talk_load", settings, tables, runs=runs)


if __name__ == "__main__":
    main()
