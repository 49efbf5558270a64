"""Whatever a sound card, a browser or a file gives, as mono samples from -1 to 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import DataError

Samples = NDArray[np.float32]

RATE = 16_000  # Hz, of everything behind the resampler
LOWEST, HIGHEST = 8_000, 48_000  # Hz, of what comes in
MOST_CHANNELS = 8
LONGEST_S = 60.0  # of one piece
FULL = np.float32(0.999)  # from here on a sample counts as clipped

Pcm = bytes | bytearray | memoryview | NDArray[Any]


def check_rate(rate: Any) -> int:
    """A sampling rate that can be heard, or a DataError."""
    whole = isinstance(rate, (int, np.integer)) and not isinstance(rate, bool)
    if not whole or not LOWEST <= rate <= HIGHEST:
        raise DataError(
            f"rate={rate!r}; needed is a whole number of samples per second from {LOWEST} to "
            f"{HIGHEST}. Is it given in kHz?"
        )
    return int(rate)


def check_channels(channels: Any) -> int:
    """A number of channels, or a DataError."""
    whole = isinstance(channels, (int, np.integer)) and not isinstance(channels, bool)
    if not whole or not 1 <= channels <= MOST_CHANNELS:
        raise DataError(f"channels={channels!r}; needed is a whole number, 1 to {MOST_CHANNELS}.")
    return int(channels)


def as_mono(pcm: Pcm, *, channels: int = 1) -> Samples:
    """Samples of one channel, full scale 1; several channels are averaged.

    Parameters
    ----------
    pcm : bytes or array
        Bytes are 16-bit little-endian, channels interleaved. Arrays are (n,), interleaved where
        `channels` says so, or (n, channels); int16, int32 or uint8 at full scale, or floating point
        from -1 to 1. Floating-point values beyond full scale are clipped.
    channels : int

    Returns
    -------
    array (n,) of float32

    Raises
    ------
    DataError
        For other types or shapes, for half a sample, and for values that are not finite.

    Examples
    --------
    >>> as_mono(np.array([[16384, 0], [-32768, -32768]], dtype=np.int16), channels=2).tolist()
    [0.25, -1.0]
    """
    channels = check_channels(channels)
    if isinstance(pcm, (bytes, bytearray, memoryview)):
        if len(pcm) % (2 * channels):
            raise DataError(
                f"The sound has {len(pcm)} bytes, which is no whole number of 16-bit samples in "
                f"{channels} channel{'s' * (channels > 1)}."
            )
        return _averaged(_scaled(np.frombuffer(pcm, dtype="<i2")).reshape(-1, channels))
    if not isinstance(pcm, np.ndarray):
        raise DataError(
            f"The sound is {type(pcm).__name__}; needed are bytes of 16-bit samples or an array."
        )
    if pcm.ndim == 2 and pcm.shape[1] == channels:
        return _averaged(_scaled(pcm))
    if pcm.ndim != 1 or pcm.size % channels:
        raise DataError(
            f"The sound has the shape {pcm.shape}; needed is (n,) or (n, channels) with "
            f"channels={channels}. For (channels, n) give sound.T."
        )
    return _averaged(_scaled(pcm).reshape(-1, channels))


def _scaled(pcm: NDArray[Any]) -> Samples:
    kind = pcm.dtype
    if kind == np.int16:
        return pcm.astype(np.float32) / np.float32(32_768)
    if kind == np.int32:
        return np.asarray(pcm / 2_147_483_648.0, dtype=np.float32)
    if kind == np.uint8:
        return (pcm.astype(np.float32) - np.float32(128)) / np.float32(128)
    if kind.kind != "f":
        raise DataError(
            f"The sound has the type {kind}, whose full scale is not known. Give int16, int32, "
            "uint8, or floating point from -1 to 1."
        )
    if not np.isfinite(pcm).all():
        place = int(np.flatnonzero(~np.isfinite(pcm).reshape(-1))[0])
        raise DataError(
            f"The sound has {pcm.reshape(-1)[place]} at place {place}. Replace it: "
            "numpy.nan_to_num(sound)."
        )
    return np.asarray(np.clip(pcm, -1.0, 1.0), dtype=np.float32)


def _averaged(sound: Samples) -> Samples:
    return sound[:, 0] if sound.shape[1] == 1 else sound.mean(axis=1, dtype=np.float32)
