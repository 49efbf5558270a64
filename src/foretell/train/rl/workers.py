"""Ranks as processes of this machine: start them, listen to rank 0, end them all together."""

from __future__ import annotations

import json
import os
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from foretell.core.errors import ControllerError, DataError, ParameterError
from foretell.core.progress import Progress

_GRACE_S = 5.0
_KINDS: dict[str, type[Exception]] = {"DataError": DataError, "ParameterError": ParameterError}


def run_workers(
    table: Mapping[str, Any], workers: int, out: Path, on_step: Callable[[Progress], None] | None
) -> dict[str, Any]:
    """Run a job by several processes, and return the fields of its result.

    Raises
    ------
    ControllerError
        A worker failed; carries the end of what it said.
    """
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "job.json"
        job.write_text(json.dumps({"table": dict(table), "out": str(out)}), encoding="utf-8")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        errors = [Path(folder) / f"{rank}.err" for rank in range(workers)]
        started: list[subprocess.Popen[str]] = []
        try:
            for rank in range(workers):
                with errors[rank].open("w") as stream:
                    started.append(_start(job, rank, workers, port, stream))
            return _listen(started, errors, on_step)
        finally:
            _end(started)


def _start(job: Path, rank: int, size: int, port: int, errors: IO[str]) -> subprocess.Popen[str]:
    meeting = {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
    }  # fmt: skip
    threads = str(max((os.cpu_count() or 1) // size, 1))
    return subprocess.Popen(
        [sys.executable, "-m", "foretell.train.rl.workers", str(job)],
        env={"OMP_NUM_THREADS": threads, **os.environ, **meeting},
        stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
        stderr=errors,
        text=True,
    )


def _listen(
    started: list[subprocess.Popen[str]],
    errors: list[Path],
    on_step: Callable[[Progress], None] | None,
) -> dict[str, Any]:
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read(stream: IO[str]) -> None:
        for line in stream:
            lines.put(line)
        lines.put(None)

    assert started[0].stdout is not None
    threading.Thread(target=read, args=(started[0].stdout,), daemon=True).start()
    result: dict[str, Any] | None = None
    while True:
        try:
            line = lines.get(timeout=0.2)
        except queue.Empty:
            if any(process.poll() not in (None, 0) for process in started):
                break
            continue
        if line is None:
            break
        said = json.loads(line)
        if "result" in said:
            result = said["result"]
        elif on_step is not None:
            on_step(Progress(**said["progress"]))
    _wait(started)
    codes = {rank: p.returncode for rank, p in enumerate(started) if p.returncode}
    if codes:
        _raise(codes, errors)
    if result is None:
        raise ControllerError(
            "Rank 0 ended without a result. Run the job with workers=1 to see why."
        )
    return result


def _wait(started: list[subprocess.Popen[str]]) -> None:
    """Give the others a moment to end by themselves, once one of them has."""
    deadline = time.monotonic() + _GRACE_S
    for process in started:
        try:
            process.wait(max(deadline - time.monotonic(), 0.01))
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait(_GRACE_S)


def _raise(codes: Mapping[int, int], errors: list[Path]) -> None:
    """Raise what the rank that failed first said, not those that then missed it."""
    texts = [path.read_text(encoding="utf-8", errors="replace").strip() for path in errors]
    for text in texts:
        try:
            said = json.loads(text.splitlines()[-1])
        except (json.JSONDecodeError, IndexError):
            continue
        if isinstance(said, dict) and said.get("kind") in _KINDS:
            raise _KINDS[said["kind"]](said["text"])
    rank = min(codes, key=lambda r: ("ControllerError" in texts[r], r))
    last = texts[rank].splitlines()[-1] if texts[rank] else "it said nothing"
    raise ControllerError(
        f"Rank {rank} ended with code {codes[rank]}: {last} Look at what it was doing, and go on "
        "from the last state with resume = true."
    )


def _end(started: list[subprocess.Popen[str]]) -> None:
    for process in started:
        if process.poll() is None:
            process.terminate()
    for process in started:
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_GRACE_S)
        if process.stdout is not None:
            process.stdout.close()


def _main(path: str) -> int:
    from dataclasses import asdict

    from foretell.train.rl_job import run

    job = json.loads(Path(path).read_text(encoding="utf-8"))

    def say(content: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(content) + "\n")
        sys.stdout.flush()

    try:
        result = run(job["table"], out=job["out"], on_step=lambda p: say({"progress": asdict(p)}))
    except (DataError, ParameterError) as error:
        kind = "DataError" if isinstance(error, DataError) else "ParameterError"
        sys.stderr.write("\n" + json.dumps({"kind": kind, "text": str(error)}) + "\n")
        return 2
    say({"result": asdict(result)})
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1]))
