"""From the end of a spoken question to its sourced answer, with real sound in real time.

espeak-ng says questions about the notes that come with foretell; the sound goes to the server as a
page sends it, 40 ms at a time, and the clock starts where the voice ends. Either a silence ends the
question, or the button is let go there. Wall-clock times; the load is in the result.

python benchmarks/talk_spoken.py [questions]
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import wave
from pathlib import Path
from typing import Any

import numpy as np
from _common import program, write_result
from _talk import Typist, started

from foretell.app.talk.calibration import example_folder

WAYS = {"a silence ends it": False, "the button is let go": True}
_PIECE_S = 0.04


def spoken(text: str, folder: Path) -> tuple[np.ndarray, int]:
    """Sound without the silence at its end."""
    path = folder / "said.wav"
    subprocess.run([program("espeak-ng"), "-s", "160", "-w", path, text], check=True)
    with wave.open(str(path)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
        rate = file.getframerate()
    loud = np.flatnonzero(np.abs(samples.astype(int)) > 300)
    return samples[: loud[-1] + 1], rate


async def play(typist: Typist, sound: np.ndarray, rate: int, held: bool) -> tuple[float, dict]:
    """Seconds from the end of the voice to the answer, and the answer."""
    size = round(rate * _PIECE_S)
    quiet = np.zeros(round(rate * (0.0 if held else 4.0)), np.int16)
    whole = np.concatenate([np.zeros(rate // 2, np.int16), sound, quiet])
    over = rate // 2 + len(sound)
    answered = asyncio.ensure_future(typist.until("answer"))
    began = time.perf_counter()
    for start in range(0, len(whole), size):
        if answered.done():
            break
        await asyncio.sleep(max(began + (start + size) / rate - time.perf_counter(), 0))
        await typist.socket.send(whole[start : start + size].tobytes())
    if held:
        await typist.say("mute")
    answer = await answered
    waited = time.perf_counter() - began - over / rate
    await typist.until("state", to="idle")
    return waited, answer


async def measure(port: int, cases: list[dict[str, str]], held: bool) -> list[tuple[float, bool]]:
    found = []
    with tempfile.TemporaryDirectory() as name:
        typist = await Typist.open(port)
        await typist.say("listen", rate=spoken("one", Path(name))[1])
        for case in cases:
            sound, rate = spoken(case["question"], Path(name))
            waited, answer = await play(typist, sound, rate, held)
            right = case["answer"].casefold() in str(answer["statements"]).casefold()
            found.append((waited, right))
        await typist.close()
    return found


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    lines = (example_folder() / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    cases = [case for case in map(json.loads, lines) if case.get("answer")]
    chosen = [cases[i] for i in np.random.default_rng(2).permutation(len(cases))[: 2 * count + 1]]
    rows: list[list[Any]] = []
    samples = {}
    with tempfile.TemporaryDirectory() as name:
        notes = example_folder() / "notes"
        with started(Path(name), "--notes", str(notes)) as (port, _):
            asyncio.run(measure(port, chosen[-1:], True))  # loads what it needs
            for n, (way, held) in enumerate(WAYS.items()):
                found = asyncio.run(measure(port, chosen[n * count : (n + 1) * count], held))
                ms = 1000 * np.array([waited for waited, _ in found])
                samples[way] = [round(float(m)) for m in ms]
                right = f"{sum(right for _, right in found)} of {count}"
                rows.append([way, f"{np.median(ms):.0f}", f"{ms.max():.0f}", right])
                print(rows[-1], flush=True)
    columns = ["the end of the question", "median, ms", "worst, ms", "right answer given"]
    settings = {
        "questions": count,
        "load_average": [round(x, 1) for x in os.getloadavg()],
        "bars": "median 800 ms",
    }
    tables = {"talk-spoken": {"columns": columns, "rows": rows}}
    write_result("talk_spoken", settings, tables, milliseconds=samples)


if __name__ == "__main__":
    main()
