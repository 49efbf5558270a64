"""Notes of ten thousand passages, a server over them, and clients that type."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from _common import data
from _texts import glosses
from websockets.asyncio.client import ClientConnection, connect

DISTRACTORS = 10_000


def questions() -> list[str]:
    """Those of XQuAD in English, in an order of their own."""
    asked = [q["question"].strip() for p in _paragraphs() for q in p["qas"]]
    return [asked[i] for i in np.random.default_rng(1).permutation(len(asked))]


def _paragraphs() -> list[dict[str, Any]]:
    path = data("xquad/xquad.en.json")
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    return [paragraph for article in articles for paragraph in article["paragraphs"]]


def write_notes(folder: Path) -> None:
    """Paragraphs of XQuAD and glosses of WordNet, each under a heading of its own."""
    folder.mkdir()
    for n, paragraph in enumerate(_paragraphs()):
        (folder / f"article-{n}.md").write_text(f"# {n}\n\n{paragraph['context']}\n")
    texts, _ = glosses()
    chosen = np.random.default_rng(0).permutation(len(texts))[:DISTRACTORS]
    for n, part in enumerate(np.array_split(chosen, 100)):
        lines = [f"## {i}\n\n{texts[i]}\n" for i in part]
        (folder / f"glosses-{n}.md").write_text(f"# Glosses {n}\n\n" + "\n".join(lines))


@contextmanager
def served(*flags: str) -> Iterator[tuple[int, int, Path]]:
    """Port and process of a server over such notes, and the folder where it runs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_notes(folder / "notes")
        with started(folder, "--notes", str(folder / "notes"), *flags) as (port, pid):
            yield port, pid, folder


@contextmanager
def started(folder: Path, *flags: str) -> Iterator[tuple[int, int]]:
    """Port and process of `foretell talk --serve`, run in a folder, where its log is."""
    command = [sys.executable, "-c", "from foretell.app.cli import main; main()", "talk"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--serve", "--port", "0", *flags], stderr=log, cwd=folder
        )
    try:
        port = None
        while port is None:
            time.sleep(0.1)
            said = (folder / "log").read_text()
            if process.poll() is not None:
                raise SystemExit(said)
            found = re.search(r"Open http://[^:]+:(\d+)/", said)
            port = int(found[1]) if found else None
        yield port, process.pid
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def resident_mb(pid: int) -> float:
    """Memory of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) / 1000


class Typist:
    """One page that somebody types into."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.seen: list[dict[str, Any]] = []

    @classmethod
    async def open(cls, port: int) -> "Typist":
        socket = await connect(
            f"ws://127.0.0.1:{port}/ws", proxy=None, compression=None, max_queue=None
        )
        one = cls(socket)
        await one.say("hello")
        await one.until("welcome")
        return one

    async def say(self, kind: str, **data: Any) -> None:
        await self.socket.send(json.dumps({"kind": kind, **data}))

    async def until(self, kind: str, **wanted: Any) -> dict[str, Any]:
        async with asyncio.timeout(60):
            while True:
                data = await self.socket.recv()
                if isinstance(data, bytes):
                    continue
                message = json.loads(data)
                self.seen.append(message)
                if message["kind"] == kind and wanted.items() <= message.items():
                    return message

    async def ask(self, question: str, words_per_s: float | None) -> tuple[float, dict[str, Any]]:
        """Seconds from Enter to the answer, and the answer; None pastes the question."""
        words = question.split()
        if words_per_s is not None:
            for n in range(1, len(words) + 1):
                await self.say("partial", text=" ".join(words[:n]) + " " * (n < len(words)))
                await asyncio.sleep(1 / words_per_s)
        began = time.perf_counter()
        await self.say("end_of_turn", text=question)
        answer = await self.until("answer")
        waited = time.perf_counter() - began
        await self.until("state", to="idle")
        return waited, answer

    async def close(self) -> None:
        await self.socket.close()
