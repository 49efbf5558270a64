"""Sound to the events of a conversation: frames, partial and final words, ends of turns.

    sound -> 16 kHz, mono -> frames of 32 ms -> speech or not
    a stretch of speech -> every half second all of it is recognised again; what two readings in a
    row agree on is stable (LocalAgreement-2) -> at a silence its words are final
    the silence goes on -> the turn is over, sooner where the voice sounded like it

The only clock is the number of samples, so that a recording always gives the same events, however
it is cut into pieces.

Source: Macháček, Dabre and Bojar, 2023 (LocalAgreement).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from foretell.converse.audio.activity import FRAME_S, Activity, Gate, best_activity
from foretell.converse.audio.resampling import BLOCK, Resampler
from foretell.converse.audio.samples import (
    FULL,
    LONGEST_S,
    RATE,
    Pcm,
    Samples,
    as_mono,
    check_channels,
    check_rate,
)
from foretell.converse.audio.stretch import Stretch
from foretell.converse.audio.turn_end import Patience, TurnEnd, unfinished
from foretell.converse.audio.whisper import Recogniser, WhisperRecogniser
from foretell.converse.conversation import Manners
from foretell.core.errors import DataError, ParameterError
from foretell.core.timeline import Event, Timeline

PREROLL_S = 0.3  # of sound before the first frame of speech
_AUTO: Any = object()


class Heard(NamedTuple):
    """An input of a conversation: its kind and its data, with the time ``at`` in the sound."""

    kind: str
    data: dict[str, Any]

    @property
    def time(self) -> float:
        """Seconds of sound up to here."""
        return float(self.data["at"])


class Hearing:
    """Listens to one speaker.

    Parameters
    ----------
    recogniser : Recogniser or None, optional
        By default `WhisperRecogniser`; None gives frames only.
    activity : Activity, optional
        By default `SileroActivity` where it is installed, else `EnergyActivity`.
    turn_end : callable or None, optional
        Probability that a turn is over; by default `unfinished`. `SoundTurnEnd()` is another.
    patience : Patience
    block_s : float
        How much new sound a new reading needs.
    settle_s : float
        Silence after which words are final.
    longest_s : float
        A stretch of speech without pause is read in pieces of this length.

    Raises
    ------
    MissingExtraError
        There is nothing to recognise speech with; says what to install.

    Examples
    --------
    >>> from foretell.converse.audio import EnergyActivity
    >>> ears = Hearing(recogniser=None, activity=EnergyActivity(), turn_end=None)
    >>> heard = ears.feed(bytes(3200), 16_000)  # 0.1 s of silence
    >>> [(kind, data["speech"], data["at"]) for kind, data in heard]
    [('frame', False, 0.032), ('frame', False, 0.064), ('frame', False, 0.096)]
    """

    def __init__(
        self,
        recogniser: Recogniser | None = _AUTO,
        *,
        activity: Activity | None = None,
        turn_end: TurnEnd | None = unfinished,
        patience: Patience | None = None,
        block_s: float = 0.5,
        settle_s: float = 0.256,
        longest_s: float = 8.0,
    ) -> None:
        if not FRAME_S <= block_s <= longest_s / 2 or not longest_s <= 20:
            raise ParameterError(
                f"block_s={block_s!r} must be {FRAME_S} or more, and longest_s={longest_s!r} twice "
                "that or more and at most 20."
            )
        self.patience = patience or Patience()
        if not FRAME_S <= settle_s <= self.patience.sure_s:
            raise ParameterError(
                f"settle_s={settle_s!r}; needed is a number from {FRAME_S} to "
                f"patience.sure_s={self.patience.sure_s!r}."
            )
        self.recogniser = WhisperRecogniser() if recogniser is _AUTO else recogniser
        self.activity = activity or best_activity()
        self.turn_end = turn_end
        self.block_s, self.settle_s, self.longest_s = block_s, settle_s, longest_s
        self._gate = Gate()
        self._closed = False
        self._resampler: Resampler | None = None
        self.reset()

    @property
    def manners(self) -> Manners:
        """Manners that leave the end of a turn to this hearing; silence ends it in the end."""
        return Manners(
            pause_s=self.settle_s, end_s=self.patience.unsure_s, resume_s=self.patience.resume_s
        )

    @property
    def time(self) -> float:
        """Seconds of sound so far."""
        return self._frames * BLOCK / RATE

    def feed(self, pcm: Pcm, rate: int, channels: int = 1, *, behind: float = 0.0) -> list[Heard]:
        """Hear more; takes as long as recognising does, so call it in a thread.

        Parameters
        ----------
        pcm : bytes or array
            As `as_mono` takes it. Bytes may end in the middle of a sample.
        rate : int
            8000 to 48000 Hz.
        channels : int
        behind : float
            Seconds of sound that wait already. From 1 s on no partial words are made, so that a
            slow machine catches up; final words always are.

        Returns
        -------
        list of (kind, data)

        Raises
        ------
        DataError
            For sound that cannot be used; what was heard before stays.
        """
        if self._closed:
            raise DataError("This hearing is closed. Make another one.")
        mono = self._mono(pcm, check_rate(rate), check_channels(channels))
        if len(mono) > LONGEST_S * rate:
            raise DataError(
                f"The piece lasts {len(mono) / rate:.1f} s; at most {LONGEST_S:g} s are taken at "
                "once. Cut it, or use hear(sound, rate)."
            )
        if self._resampler is None or self._resampler.rate != rate:
            self._resampler = Resampler(rate)
        out: list[Heard] = []
        for frame in self._resampler.feed(mono).reshape(-1, BLOCK):
            out += self._frame(frame, partials=behind < 1.0)
        return out

    def finish(self) -> list[Heard]:
        """The sound is over: hear silence until the turn has ended."""
        rate = self._resampler.rate if self._resampler else RATE
        self._odd = b""
        seconds = self.settle_s + self.patience.unsure_s + 2 * FRAME_S
        return self.feed(np.zeros(round(seconds * rate), np.float32), rate)

    def reset(self) -> None:
        """Forget everything; the clock begins at 0."""
        self._resampler = None
        self._odd = b""
        self._frames = 0
        self._gate.reset()
        self.activity.reset()
        self._before: list[Samples] = []
        self._stretch: Stretch | None = None
        self._turn: list[Samples] = []  # what was heard of the open turn
        self._words = ""  # and its final words
        self._quiet = 0  # frames of silence after speech
        self._wait: float | None = None

    def close(self) -> None:
        """Give up the models."""
        self._closed = True
        self.recogniser = self.turn_end = None

    # Private -------------------------------------------------------------------------------------

    def _mono(self, pcm: Pcm, rate: int, channels: int) -> Samples:
        if isinstance(pcm, np.ndarray):
            if self._odd:
                raise DataError("After bytes that end within a sample an array cannot follow.")
            return as_mono(pcm, channels=channels)
        joined = self._odd + bytes(pcm)
        whole = len(joined) - len(joined) % (2 * channels)
        mono = as_mono(joined[:whole], channels=channels)
        self._odd = joined[whole:]
        return mono

    def _frame(self, frame: Samples, *, partials: bool) -> Iterator[Heard]:
        self._frames += 1
        speech = self._gate(self.activity(frame))
        data = {"seconds": FRAME_S, "speech": speech}
        if np.mean(np.abs(frame) >= FULL) > 0.01:
            data["clipped"] = True
        yield self._heard("frame", **data)
        self._quiet = 0 if speech else self._quiet + 1
        if self.recogniser is None:
            return
        if speech and self._stretch is None:
            self._stretch = Stretch(self.recogniser, self._before)
            self._wait = None
        if self._stretch is None:
            self._before = [*self._before, frame][-round(PREROLL_S / FRAME_S) :]
            yield from self._silence()
            return
        self._stretch.add(frame)
        yield from self._listen(self._stretch, partials)

    def _listen(self, stretch: Stretch, partials: bool) -> Iterator[Heard]:
        """What a frame adds to a stretch of speech."""
        quiet = self._quiet * FRAME_S
        if quiet >= self.settle_s - 1e-9:
            yield from self._settle(stretch)
        elif self._quiet == 3 or (not self._quiet and stretch.unread_s >= self.block_s):
            if stretch.seconds >= self.longest_s and not self._quiet:
                text = stretch.cut()
                if text:
                    self._words = f"{self._words} {text}".strip()
                    yield self._heard("final", text=text)
            if partials or self._quiet:
                text, stable = stretch.read(careful=self._quiet > 0)
                if text:
                    yield self._heard("partial", text=text, stable=stable)

    def _settle(self, stretch: Stretch) -> Iterator[Heard]:
        """The words of the stretch are final; how long the turn is waited for."""
        text = stretch.final()
        self._turn = [*self._turn, *stretch.frames][-round(8 / FRAME_S) :]
        self._before = stretch.frames[-round(PREROLL_S / FRAME_S) :]
        self._stretch = None
        if not text and not self._words:
            self._turn = []
            return
        if text:
            self._words = f"{self._words} {text}".strip()
            yield self._heard("final", text=text)
        over = None
        if self.turn_end is not None:
            over = self.turn_end(np.concatenate(self._turn), self._words)
        self._wait = self.patience.wait(over)

    def _silence(self) -> Iterator[Heard]:
        if self._wait is not None and self._quiet * FRAME_S >= self._wait - 1e-9:
            self._wait, self._turn, self._words = None, [], ""
            yield self._heard("end_of_turn")

    def _heard(self, kind: str, **data: Any) -> Heard:
        return Heard(kind, {**data, "at": self.time})


def hear(
    pcm: Pcm, rate: int, channels: int = 1, *, hearing: Hearing | None = None, start: float = 0.0
) -> Timeline:
    """The events of a recording, with the times of its own clock.

    Parameters
    ----------
    pcm, rate, channels
        As for `Hearing.feed`, of any length.
    hearing : Hearing, optional
        It is reset before and after.
    start : float
        Time of the first sample.

    Returns
    -------
    Timeline
        Inputs for a `Conversation`.

    Examples
    --------
    >>> from foretell.converse.audio import EnergyActivity
    >>> ears = Hearing(recogniser=None, activity=EnergyActivity(), turn_end=None)
    >>> hear(np.zeros(8000, np.int16), 8000, hearing=ears)[-1]
    Event(2.816 s, frame, seconds=0.032, speech=False, at=2.816)
    """
    ears = hearing or Hearing()
    ears.reset()
    mono = as_mono(pcm, channels=channels)
    step = check_rate(rate)
    found = [
        h
        for begin in range(0, len(mono), step)
        for h in ears.feed(mono[begin : begin + step], rate)
    ]
    found += ears.finish()
    ears.reset()
    return Timeline(Event(h.kind, start + h.time, h.data) for h in found)
