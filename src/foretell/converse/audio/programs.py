"""A program that writes sound to its output, read as it comes, stopped at once, never waited for
without end."""

from __future__ import annotations

import queue
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from foretell.core.errors import ProgramError

_PIECE = 4096  # bytes
_LOOK_S = 0.02  # how often it is asked whether to stop
_HEADER = 44  # bytes before the samples of a plain WAV stream


def run_program(
    command: Sequence[str], text: str, cancelled: Callable[[], bool], *, silent_s: float
) -> Iterator[bytes]:
    """Bytes of its output; the program is ended when the iterator is.

    Parameters
    ----------
    command : sequence of str
    text : str
        What it reads.
    cancelled : callable
    silent_s : float
        How long it may write nothing.

    Raises
    ------
    ProgramError
        It cannot be started, ends with an error, is killed, or writes nothing for too long.
    """
    try:
        program = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        raise ProgramError(f"{command[0]} cannot be started: {error.strerror}.") from error
    written: queue.Queue[bytes] = queue.Queue(maxsize=64)
    stop, said = threading.Event(), bytearray()
    threads = [
        threading.Thread(target=_write, args=(program, text), daemon=True),
        threading.Thread(target=_read, args=(program, written, stop), daemon=True),
        threading.Thread(target=_listen, args=(program, said), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        yield from _pieces(program, command[0], written, cancelled, silent_s)
        if not cancelled():
            _check_end(program, command[0], threads[2], said)
    finally:
        stop.set()
        with suppress(OSError):
            program.kill()
        program.wait(timeout=5)
        for thread in threads:
            thread.join(timeout=1)
        for pipe in (program.stdin, program.stdout, program.stderr):
            with suppress(OSError):
                assert pipe is not None
                pipe.close()


def wave_rate(header: bytes) -> int:
    """The sampling rate in the first 44 bytes of mono 16-bit WAV; refuses other bytes."""
    if len(header) < _HEADER or header[:4] != b"RIFF" or header[36:40] != b"data":
        raise ProgramError("The program wrote no plain WAV sound.")
    kind, channels, rate, _, _, bits = struct.unpack("<HHIIHH", header[20:36])
    if (kind, channels, bits) != (1, 1, 16):
        raise ProgramError(f"The program wrote {channels} channels of {bits} bits, not 1 of 16.")
    return int(rate)


def _pieces(
    program: subprocess.Popen[bytes],
    name: str,
    written: queue.Queue[bytes],
    cancelled: Callable[[], bool],
    silent_s: float,
) -> Iterator[bytes]:
    last = time.monotonic()
    while not cancelled():
        try:
            piece = written.get(timeout=_LOOK_S)
        except queue.Empty:
            if time.monotonic() - last > silent_s:
                raise ProgramError(f"{name} wrote nothing for {silent_s:g} s.") from None
            continue
        if not piece:
            return
        yield piece
        last = time.monotonic()


def _check_end(
    program: subprocess.Popen[bytes], name: str, listening: threading.Thread, said: bytearray
) -> None:
    try:
        code = program.wait(timeout=5)
    except subprocess.TimeoutExpired:
        raise ProgramError(f"{name} has closed its output and does not end.") from None
    listening.join(timeout=1)
    if code:
        how = f"was ended by signal {-code}" if code < 0 else f"ended with the code {code}"
        last = said.decode(errors="replace").strip().splitlines()[-1:]
        raise ProgramError(f"{name} {how}" + "".join(f": {line:.200}" for line in last))


def _write(program: subprocess.Popen[bytes], text: str) -> None:
    assert program.stdin is not None
    with suppress(OSError):
        program.stdin.write(text.encode())
        program.stdin.close()


def _read(
    program: subprocess.Popen[bytes], written: queue.Queue[bytes], stop: threading.Event
) -> None:
    """Hand pieces over, the empty one last; gives up when nobody takes them any more."""
    assert program.stdout is not None
    piece = b"-"
    while piece and not stop.is_set():
        try:
            piece = program.stdout.read1(_PIECE)  # type: ignore[attr-defined]
        except (OSError, ValueError):
            piece = b""
        while not stop.is_set():
            with suppress(queue.Full):
                written.put(piece, timeout=0.1)
                break


def _listen(program: subprocess.Popen[bytes], said: bytearray) -> None:
    assert program.stderr is not None
    with suppress(OSError, ValueError):
        while piece := program.stderr.read(1024):
            said += piece
            del said[:-4096]
