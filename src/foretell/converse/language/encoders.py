"""Features of sound and text that need no speech package; any callable can take their place.

An encoder turns a piece (samples or text) into rows of numbers, ``(rows, d)``; a turn is described
by their mean. It may have a ``summary`` of that mean, and if every row depends only on ``window``
samples that start every ``hop`` samples, growing turns are encoded piece by piece with the same
result.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import DataError, ParameterError

Array = NDArray[np.float64]


class CharacterNgrams:
    """Counts of character n-grams within words, hashed to a fixed number of columns.

    Parameters
    ----------
    n_features : int
    longest : int
        N-grams of 1 to this many characters.

    Examples
    --------
    >>> CharacterNgrams(n_features=64)("Guten Tag").shape
    (1, 64)
    """

    unit = "characters"
    sample_rate = None

    def __init__(self, *, n_features: int = 512, longest: int = 3) -> None:
        if n_features < 8 or longest < 1:
            raise ParameterError(
                f"n_features={n_features!r} must be at least 8 and longest={longest!r} at least 1."
            )
        self.n_features, self.longest = n_features, longest

    @property
    def name(self) -> str:
        """What a saved detector asks for."""
        return f"character-ngrams {self.longest} {self.n_features}"

    def __call__(self, text: str) -> Array:
        """One row of norm 1."""
        return np.asarray(self._hasher.transform([text]).toarray())

    def __repr__(self) -> str:
        return f"CharacterNgrams(n_features={self.n_features}, longest={self.longest})"

    @cached_property
    def _hasher(self) -> Any:
        from sklearn.feature_extraction.text import HashingVectorizer

        return HashingVectorizer(
            analyzer="char_wb", ngram_range=(1, self.longest), n_features=self.n_features
        )


class LogMel:
    """Mean, deviation and speed of change of log-mel bands.

    Parameters
    ----------
    sample_rate : int
        In Hz.
    n_bands : int

    Examples
    --------
    >>> sound = np.sin(2 * np.pi * 440 * np.arange(8000) / 16_000)
    >>> encoder = LogMel()
    >>> encoder.summary(encoder(sound).mean(axis=0)).shape
    (120,)
    """

    unit = "s"

    def __init__(self, *, sample_rate: int = 16_000, n_bands: int = 40) -> None:
        if sample_rate < 4000 or n_bands < 4:
            raise ParameterError(
                f"sample_rate={sample_rate!r} must be at least 4000 and n_bands={n_bands!r} at "
                "least 4."
            )
        self.sample_rate, self.n_bands = sample_rate, n_bands
        self.hop = sample_rate // 100
        self._frame = sample_rate // 40
        self.window = self._frame + self.hop  # a row needs the frame before it

    @property
    def name(self) -> str:
        """What a saved detector asks for."""
        return f"log-mel {self.sample_rate} {self.n_bands}"

    def __call__(self, samples: Array) -> Array:
        """Rows of band, its square, and its squared change; shape (rows, 3 n_bands)."""
        if len(samples) < self.window:
            return np.empty((0, 3 * self.n_bands))
        frames = np.lib.stride_tricks.sliding_window_view(samples, self._frame)[:: self.hop]
        power = np.abs(np.fft.rfft(frames * np.hanning(self._frame), n=self._n_fft)) ** 2
        bands = np.log(power @ self._filters + 1e-6)
        now, change = bands[1:], np.diff(bands, axis=0)
        return np.hstack([now, now**2, change**2])

    def summary(self, mean: Array) -> Array:
        """Mean, deviation and root mean squared change of every band."""
        level, square, change = np.split(mean, 3)
        spread = np.sqrt(np.maximum(square - level**2, 0.0))
        return np.concatenate([level, spread, np.sqrt(change)])

    def __repr__(self) -> str:
        return f"LogMel(sample_rate={self.sample_rate}, n_bands={self.n_bands})"

    @property
    def _n_fft(self) -> int:
        return int(2 ** np.ceil(np.log2(self._frame)))

    @cached_property
    def _filters(self) -> Array:
        """Triangles, equally wide on the mel scale, (frequencies, n_bands)."""
        top = 0.95 * self.sample_rate / 2
        mel = np.linspace(0.0, 2595.0 * np.log10(1 + top / 700.0), self.n_bands + 2)
        edges = 700.0 * (10 ** (mel / 2595.0) - 1)
        f = np.fft.rfftfreq(self._n_fft, 1 / self.sample_rate)[:, None]
        rise = (f - edges[:-2]) / np.diff(edges)[:-1]
        fall = (edges[2:] - f) / np.diff(edges)[1:]
        return np.maximum(0.0, np.minimum(rise, fall))


def known_encoder(name: str) -> Any:
    """The encoder of this package with that name, or None."""
    kind, *numbers = name.split(" ")
    if kind == "character-ngrams" and len(numbers) == 2:
        return CharacterNgrams(longest=int(numbers[0]), n_features=int(numbers[1]))
    if kind == "log-mel" and len(numbers) == 2:
        return LogMel(sample_rate=int(numbers[0]), n_bands=int(numbers[1]))
    return None


def checked_piece(piece: Any, encoder: Any, *, whole: bool) -> Any:
    """Text, or mono floating-point samples; a DataError says what else it is and how to mend it.

    Parameters
    ----------
    piece : str or array (n,)
    encoder : callable
    whole : bool
        Whether it is a whole turn, which must not be silent or shorter than 0.2 s.
    """
    if encoder.unit == "characters":
        if not isinstance(piece, str):
            raise DataError(f"A piece of text is needed; given is {type(piece).__name__}.")
        if whole and not piece.strip():
            raise DataError("The text is empty, so it has no language.")
        return piece
    samples = np.asarray(piece)
    if samples.ndim != 1:
        raise DataError(
            f"The sound has the shape {samples.shape}; needed is one channel, (n,). Average the "
            "channels: sound.mean(axis=1)."
        )
    if samples.dtype.kind != "f":
        raise DataError(
            f"The sound has the type {samples.dtype}, whose full scale is not known. Divide it: "
            "sound / 32768.0 for 16-bit samples."
        )
    if not np.isfinite(samples).all():
        place = int(np.flatnonzero(~np.isfinite(samples))[0])
        raise DataError(f"The sound has {samples[place]} at sample {place}. Cut it out, or use 0.")
    seconds = len(samples) / encoder.sample_rate
    if whole and seconds < 0.2:
        raise DataError(f"The sound lasts {seconds:.3g} s; at least 0.2 s are needed.")
    if whole and not samples.any():
        raise DataError("All samples of the sound are zero. Is the microphone muted?")
    return samples.astype(np.float64)
