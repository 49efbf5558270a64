"""From Enter to the first word of the sourced answer, over ten thousand passages.

A client types questions of XQuAD at a steady pace, or pastes them, into `foretell talk --serve`.
The wait is that of the client, over the socket; where it goes is read from the recorded timeline.
Wall-clock times: other work on the machine lengthens them, and the load is in the result.

FORETELL_DATA=... python benchmarks/talk_latency.py [questions]
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from _common import write_result
from _talk import DISTRACTORS, Typist, questions, served

from foretell.app.talk.spans import turns_of
from foretell.core.timeline import Timeline

PACES: dict[str, float | None] = {"typed, 2 words a second": 2.0, "pasted": None}


async def measure(port: int, asked: list[str], pace: float | None) -> list[tuple[float, bool]]:
    typist = await Typist.open(port)
    waits = []
    for question in asked:
        waited, answer = await typist.ask(question, pace)
        waits.append((waited, bool(answer["statements"])))
    await typist.close()
    return waits


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
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    asked = questions()
    rows, samples = [], {}
    for n, (name, pace) in enumerate(PACES.items()):
        with served("--record", "talk.jsonl") as (port, _, folder):
            own = asked[n * count : (n + 1) * count]
            asyncio.run(measure(port, asked[-3:], pace))  # the first ones load what they need
            waits = asyncio.run(measure(port, own, pace))
            parts = breakdown(Timeline.open(Path(folder) / "talk-2.jsonl"))
        ms = 1000 * np.array([waited for waited, _ in waits])
        samples[name] = [round(float(m), 1) for m in ms]
        rows.append(row(name, ms, parts, sum(given for _, given in waits)))
        print(rows[-1], flush=True)
    columns = [
        "question", "median, ms", "95 %, ms", "worst, ms", "still read, ms", "composing, ms",
        "work done before Enter", "answered with a source",
    ]  # fmt: skip
    settings = {
        "questions": count,
        "passages": f"XQuAD and {DISTRACTORS} glosses",
        "load_average": [round(x, 1) for x in os.getloadavg()],
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
