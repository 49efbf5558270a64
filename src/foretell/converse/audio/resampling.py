"""Any sampling rate to 16 kHz, as the sound comes in; how it is cut into pieces changes no bit.

A windowed-sinc low-pass below both Nyquist frequencies, evaluated only where an output falls. The
outputs are computed in blocks of one length, so that the same numbers are added in the same order
whatever the pieces were.
"""

from __future__ import annotations

from math import gcd

import numpy as np

from foretell.converse.audio.samples import RATE, Samples, check_rate

BLOCK = 512  # outputs computed at once: 32 ms
_CROSSINGS = 16  # of the sinc, to each side
_PASS = 0.95  # of the lower Nyquist frequency


class Resampler:
    """A stream at one rate to a stream at 16 kHz; output n stands for the time n / 16000 s.

    Parameters
    ----------
    rate : int
        Of what comes in, in Hz.

    Examples
    --------
    >>> resampler = Resampler(48_000)
    >>> tone = np.sin(2 * np.pi * 440 * np.arange(48_000) / 48_000).astype(np.float32)
    >>> out = np.concatenate([resampler.feed(tone[:777]), resampler.feed(tone[777:])])
    >>> expected = np.sin(2 * np.pi * 440 * np.arange(len(out)) / 16_000)
    >>> bool(np.abs(out - expected)[100:].max() < 0.002)
    True
    """

    def __init__(self, rate: int) -> None:
        self.rate = check_rate(rate)
        shared = gcd(self.rate, RATE)
        self._up, self._down = RATE // shared, self.rate // shared
        self._half = 0 if self.rate == RATE else -(-_CROSSINGS * max(self.rate, RATE) // RATE)
        self._filters = self._bank()
        self._kept: Samples = np.zeros(self._half, np.float32)  # silence before the first sample
        self._first = -self._half  # place of _kept[0] in the input
        self._done = 0  # outputs so far

    def feed(self, samples: Samples) -> Samples:
        """What can be said about the output by now, a whole number of blocks; may be empty."""
        self._kept = np.concatenate([self._kept, samples])
        blocks = []
        while (block := self._block()) is not None:
            blocks.append(block)
        return np.concatenate(blocks) if blocks else np.empty(0, np.float32)

    def _block(self) -> Samples | None:
        places = np.arange(self._done, self._done + BLOCK) * self._down
        starts = places // self._up - self._half - self._first
        width = self._filters.shape[1]
        if starts[-1] + width > len(self._kept):
            return None
        if self.rate == RATE:
            block = self._kept[starts[0] : starts[0] + BLOCK].copy()
        else:
            windows = np.lib.stride_tricks.sliding_window_view(self._kept, width)[starts]
            block = (windows * self._filters[places % self._up]).sum(axis=1, dtype=np.float32)
        self._done += BLOCK
        ahead = int(self._done * self._down // self._up) - self._half - self._first
        self._kept, self._first = self._kept[ahead:], self._first + ahead
        return block

    def _bank(self) -> Samples:
        """Filters for the places of outputs between inputs, (up, taps); each passes a constant."""
        if self.rate == RATE:
            return np.ones((1, 1), np.float32)
        offsets = np.arange(-self._half, self._half + 1)
        behind = (np.arange(self._up) / self._up)[:, None] - offsets
        cut = _PASS * min(1.0, RATE / self.rate)
        bank = np.sinc(cut * behind) * np.i0(
            8.0 * np.sqrt(np.maximum(0.0, 1 - (behind / (self._half + 1)) ** 2))
        )
        return np.asarray(bank / bank.sum(axis=1, keepdims=True), dtype=np.float32)
