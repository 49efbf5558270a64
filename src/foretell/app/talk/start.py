"""What `foretell talk` does with its flags: builds the assistant, then terminal or server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from foretell.app.talk.parts import EarPool, Ears, Listener
from foretell.app.talk.speaking import Speech
from foretell.converse.conversation import Manners
from foretell.core.errors import ForetellError, MissingExtraError, ParameterError
from foretell.core.timeline import TimelineWriter

if TYPE_CHECKING:
    from foretell.app.talk.assistant import Assistant
    from foretell.converse.answer import Gate

CALIBRATE = (
    "The threshold was calibrated on other documents. Calibrate it on questions of yours: foretell "
    "talk calibrate QUESTIONS.jsonl --notes FOLDER"
)
_SERVER = ("fastapi", "uvicorn", "websockets")
_RECORDINGS = 1000  # of one server


@dataclass(frozen=True, kw_only=True)
class TalkRequest:
    """The flags of the command."""

    model: Path | None = None
    notes: Path | None = None
    serve: bool = False
    host: str = "127.0.0.1"
    port: int = 8321
    record: Path | None = None
    llm: str | None = None
    level: float = 0.1
    whisper: str | None = None
    voice: str | None = None


@dataclass(frozen=True)
class Sound:
    """What hears and speaks, and what to tell where a part is missing."""

    ears: Callable[[], Ears] | None
    voice: Speech | None
    manners: Manners | None
    missing: dict[str, str]


def run(request: TalkRequest) -> None:
    """Ask in the terminal, or serve."""
    if request.serve:
        for package in _SERVER:
            if find_spec(package) is None:
                raise MissingExtraError(package, "serve", "serve the page")
    elif request.whisper is not None or request.voice is not None:
        raise ParameterError("--whisper and a voice are for the page. Add --serve.")
    if request.record is not None and request.record.exists():
        raise ParameterError(
            f"{request.record} is there already and is not written over. Give --record a new file."
        )
    from foretell.app.talk.assistant import build_assistant

    assistant = build_assistant(
        model=request.model,
        notes=request.notes,
        llm=request.llm,
        level=request.level,
        progress=lambda line: typer.echo(line, err=True),
    )
    typer.echo(promise(assistant.gate), err=True)
    record = None if request.record is None else recorders(request.record)
    assistant.notebook.read_ahead()
    try:
        if request.serve:
            _serve(request, assistant, record)
        else:
            from foretell.app.talk.terminal import run as ask_in_terminal

            asyncio.run(ask_in_terminal(assistant, record() if record else None))
    finally:
        assistant.close()


def promise(gate: Gate) -> str:
    """What is promised about all answers, and of which questions, in a line."""
    certificate = gate.certificate
    if certificate is None:
        return f"Nothing is promised about answers from these notes. {CALIBRATE}"
    if not certificate.feasible:
        return f"No answer from the notes is given: {certificate.statement}"
    share = f"{100 * certificate.level:.3g} %"
    condition = certificate.assumptions[0] if certificate.assumptions else "nothing is assumed"
    return (
        f"At most {share} of the answers from the notes that are given are wrong, if {condition}."
    )


def recorders(path: Path) -> Callable[[], Listener]:
    """Makes recorders of conversations: the file, then the same name with -2, -3 and so on."""
    count = 0

    def record() -> Listener:
        nonlocal count
        count += 1
        if count > _RECORDINGS:
            return lambda event: None
        name = path if count == 1 else path.with_stem(f"{path.stem}-{count}")
        return TimelineWriter(name)

    return record


def sound_parts(whisper: str | None = None, voice_name: str | None = None) -> Sound:
    """What of hearing and speaking is installed, or was named; the models are loaded here.

    Raises
    ------
    ForetellError
        Where a model or voice that was named cannot be used.
    """
    from foretell.converse.audio import Hearing, Voice, WhisperRecogniser

    ears: Callable[[], Ears] | None = None
    voice: Speech | None = None
    manners, missing = None, {}
    try:
        recogniser = WhisperRecogniser(whisper)
        manners = Hearing(recogniser).manners
        ears = EarPool(lambda: Hearing(recogniser))
    except ForetellError as error:
        if whisper is not None:
            raise
        missing["hearing"] = f"The microphone is off: {coded(error)} Typing works the same way."
    try:
        piper = voice_name is not None and voice_name.endswith(".onnx")
        voice = Voice("piper" if piper else "auto", voice=voice_name)
    except ForetellError as error:
        if voice_name is not None:
            raise
        missing["voice"] = f"Answers are not read aloud: {coded(error)}"
    return Sound(ears, voice, manners, missing)


def coded(error: Exception) -> str:
    """The message with the line that installs something marked as code."""
    said, install, line = str(error).partition("Install it with: ")
    return f"{said}{install}`{line}`." if install else said


def _serve(request: TalkRequest, assistant: Any, record: Callable[[], Listener] | None) -> None:
    from foretell.app.talk.gate import Gate
    from foretell.app.talk.server import Server, Service, serve

    gate = Gate(request.host, os.environ.get("FORETELL_TOKEN", ""))
    sound = sound_parts(request.whisper, request.voice)
    for line in sound.missing.values():
        typer.echo(line.replace("`", ""), err=True)

    def ready(server: Server) -> None:
        host = f"[{request.host}]" if ":" in request.host else request.host
        token = "?token=..." if gate.token else ""
        typer.echo(f"Open http://{host}:{server.port}/{token}   (Ctrl-C ends it)", err=True)

    service = Service(
        assistant=assistant,
        gate=gate,
        about=about(assistant, request, sound),
        ears=sound.ears,
        voice=sound.voice,
        manners=sound.manners,
        record=record,
        gauges={
            "passages": lambda: len(assistant.notebook),
            "passages_read": assistant.notebook.read,
        },
    )
    asyncio.run(serve(service, request.port, ready))


def about(assistant: Assistant, request: TalkRequest, sound: Sound) -> dict[str, Any]:
    """What every page is told."""
    names = [path.resolve().name for path in (request.model, request.notes) if path is not None]
    return {
        "name": " and ".join(names),
        "passages": len(assistant.lookup.plan.retriever),
        "missing": sound.missing,
        "speaks": sound.voice is not None,
        "calibrate": CALIBRATE if assistant.gate.elsewhere else "",
    }
