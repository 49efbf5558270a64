"""Log-mel frames as the Whisper encoder reads them: 25 ms every 10 ms, Slaney's mel scale.

    n samples at 16 kHz    F frames    M bands

Source: Radford et al., 2022 (Whisper), section 2.2; Slaney, 1998 (the scale).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from foretell.converse.audio.samples import RATE, Samples
from foretell.core.errors import ParameterError

HOP = 160
_WINDOW = 400


def log_mel(samples: Samples, *, bands: int = 80) -> Samples:
    """Log-mel frames, the loudest band near 1 and at most 8 decades below it.

    Parameters
    ----------
    samples : array (n,)
        At 16 kHz; at least 400 of them.
    bands : int
        80, or 128 for the largest models.

    Returns
    -------
    array (bands, n // 160) of float32

    Examples
    --------
    >>> log_mel(np.zeros(16_000, np.float32)).shape
    (80, 100)
    """
    if len(samples) < _WINDOW:
        raise ParameterError(f"{len(samples)} samples are too few; needed are {_WINDOW} or more.")
    padded = np.pad(samples.astype(np.float32), _WINDOW // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::HOP][: len(samples) // HOP]
    power = np.square(np.abs(np.fft.rfft(frames * _hann())))
    levels = np.log10(np.maximum(power @ _triangles(bands), 1e-10))
    levels = (np.maximum(levels, levels.max() - 8.0) + 4.0) / 4.0
    return np.ascontiguousarray(levels.T, dtype=np.float32)


@lru_cache(maxsize=1)
def _hann() -> Samples:
    return np.hanning(_WINDOW + 1)[:-1].astype(np.float32)


@lru_cache(maxsize=2)
def _triangles(bands: int) -> NDArray[np.float64]:
    """Triangles of equal area, (frequencies, bands)."""
    edges = _hertz(np.linspace(0.0, _mel(RATE / 2), bands + 2))
    f = np.fft.rfftfreq(_WINDOW, 1 / RATE)[:, None]
    rise = (f - edges[:-2]) / np.diff(edges)[:-1]
    fall = (edges[2:] - f) / np.diff(edges)[1:]
    return np.maximum(0.0, np.minimum(rise, fall)) * 2 / (edges[2:] - edges[:-2])


def _mel(hertz: float) -> float:
    """Linear below 1 kHz, logarithmic above."""
    return hertz * 3 / 200 if hertz < 1000 else 15 + 27 * np.log(hertz / 1000) / np.log(6.4)


def _hertz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))
