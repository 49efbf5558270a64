"""Is the turn over, or is this a pause? A probability, and how long to wait then.

`unfinished` knows English words after which nobody is done. `SoundTurnEnd` hears it from the last
8 s of the voice and `TextTurnEnd` reads it from the words; both run weights that a package carries.
Silence alone always ends a turn in the end.
"""

from __future__ import annotations

import os
import string
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from foretell.converse.audio.log_mel import log_mel
from foretell.converse.audio.samples import RATE, Samples
from foretell.converse.audio.weights import SMART_TURN, TURN_TEXT, named
from foretell.converse.lookup.words import split_words
from foretell.core.errors import ArtifactError, MissingExtraError, ParameterError

TurnEnd = Callable[[Samples, str], float | None]
"""From the sound and the words of a turn to the probability that it is over; None: no opinion."""

_GO_ON = frozenset(
    "a an the my your our their its whose every and or but because if whether although while than "
    "of into between during among within without toward towards per versus very".split()
)

_HEARD = 8 * RATE
_MOST_TOKENS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a silence is waited for, in seconds.

    Parameters
    ----------
    sure_s : float
        Where the turn seems to be over.
    unsure_s : float
        Where it does not.
    plain_s : float
        Without an opinion.
    threshold : float
        Probability from which on it seems to be over.
    resume_s : float
        Speech that begins so soon after the end shows that it was a pause: the question goes on.

    Examples
    --------
    >>> Patience().wait(0.9), Patience().wait(0.1), Patience().wait(None)
    (0.35, 1.5, 0.55)
    """

    sure_s: float = 0.35
    unsure_s: float = 1.5
    plain_s: float = 0.55
    threshold: float = 0.5
    resume_s: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.sure_s <= self.plain_s <= self.unsure_s < float("inf"):
            raise ParameterError(
                f"sure_s={self.sure_s!r}, plain_s={self.plain_s!r} and unsure_s={self.unsure_s!r} "
                "must be positive and in this order."
            )
        if not 0 < self.resume_s < float("inf"):
            raise ParameterError(f"resume_s={self.resume_s!r}; needed is a positive number.")
        if not 0 <= self.threshold <= 1:
            raise ParameterError(f"threshold={self.threshold!r}; needed is a number from 0 to 1.")

    def wait(self, probability: float | None) -> float:
        """Seconds of silence after which the turn is over."""
        if probability is None:
            return self.plain_s
        return self.sure_s if probability >= self.threshold else self.unsure_s


class SoundTurnEnd:
    """Smart Turn 3.2: from the sound of the voice, in 23 languages.

    Parameters
    ----------
    model : path, optional
        Another ``.onnx`` file with the same input; by default the one that ``pipecat-ai`` carries.
    """

    def __init__(self, model: str | os.PathLike[str] | None = None) -> None:
        path = SMART_TURN.checked() / SMART_TURN.sha256[0][0] if model is None else Path(model)
        self._session = _session(path)
        self._input = self._session.get_inputs()[0].name

    def __call__(self, samples: Samples, text: str = "") -> float:
        """Probability that the turn that ends with these samples at 16 kHz is over."""
        heard = np.zeros(_HEARD, np.float32)
        last = samples[-_HEARD:]
        heard[_HEARD - len(last) :] = last
        heard = (heard - heard.mean()) / np.sqrt(heard.var() + 1e-7)
        return float(self._session.run(None, {self._input: log_mel(heard)[None]})[0].reshape(-1)[0])

    def __repr__(self) -> str:
        return "SoundTurnEnd()"


class TextTurnEnd:
    """A text classifier of LiveKit's plug-ins; its packaged weights were trained on Vietnamese.

    Parameters
    ----------
    model : path, optional
        A folder with ``model_quantized.onnx`` and ``spm.model``, for another language.
    """

    def __init__(self, model: str | os.PathLike[str] | None = None) -> None:
        files = tuple(name for name, _ in TURN_TEXT.sha256)
        folder = TURN_TEXT.checked() if model is None else named(model, files)
        try:
            import sentencepiece
        except ImportError as error:
            raise MissingExtraError("sentencepiece", "speech", TURN_TEXT.purpose) from error
        self._session = _session(folder / files[0])
        self._pieces: Any = sentencepiece.SentencePieceProcessor(model_file=str(folder / files[1]))

    def __call__(self, samples: Samples | None, text: str) -> float:
        """Probability that a turn of these words is over."""
        plain = text.lower().translate(str.maketrans("", "", string.punctuation)).strip()
        if not plain:
            return 0.0
        pieces = self._pieces.encode(plain)[: _MOST_TOKENS - 2]
        ids = np.array([[1, *pieces, 2]], np.int64)
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        off, over = self._session.run(None, given)[0][0]
        return float(1 / (1 + np.exp(np.clip(off - over, -50, 50))))

    def __repr__(self) -> str:
        return "TextTurnEnd()"


def unfinished(samples: Samples | None, text: str) -> float | None:
    """0 after a word after which no English turn is over, such as "the"; else no opinion.

    Examples
    --------
    >>> unfinished(None, "When did the"), unfinished(None, "When did the pump stop?")
    (0.0, None)
    """
    words = split_words(text)
    return 0.0 if words and words[-1].lower() in _GO_ON else None


def _session(path: Path) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("onnxruntime", "speech", "run a turn detector") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the library raises what it likes
        raise ArtifactError(f"{path} is no network that can be run: {error}") from error
