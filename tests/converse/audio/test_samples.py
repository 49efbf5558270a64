"""Whatever comes in is mono at 16 kHz, or is refused with the reason."""

import numpy as np
import pytest

from foretell.converse.audio import Resampler, as_mono, log_mel
from foretell.core.errors import DataError, ParameterError
from tests.converse.audio.sounds import tone

RATES = [8_000, 11_025, 16_000, 22_050, 32_000, 44_100, 48_000, 12_347]


@pytest.mark.parametrize("rate", RATES)
def test_a_tone_keeps_its_pitch_level_and_time_at_every_rate(rate):
    resampler = Resampler(rate)
    out = resampler.feed(tone(1.0, rate, hertz=440.0, level=0.5).astype(np.float32))
    expected = tone(1.0, 16_000, hertz=440.0, level=0.5)[: len(out)]
    assert len(out) > 15_000
    assert np.abs(out - expected)[200:].max() < 0.002


@pytest.mark.parametrize("rate", [24_000, 44_100, 48_000])
def test_what_16_khz_cannot_hold_is_taken_out(rate):
    out = Resampler(rate).feed(tone(0.5, rate, hertz=10_500.0).astype(np.float32))
    assert np.abs(out[200:]).max() < 0.003


@pytest.mark.parametrize("rate", RATES)
def test_how_sound_is_cut_changes_no_bit(rate):
    sound = np.random.default_rng(rate).normal(size=rate // 2).astype(np.float32)
    whole = Resampler(rate).feed(sound)
    pieces, resampler, place = [], Resampler(rate), 0
    for size in [1, 7, 511, 513, 3, 1600, len(sound)]:
        pieces.append(resampler.feed(sound[place : place + size]))
        place += size
    assert np.array_equal(np.concatenate(pieces), whole)


def test_types_and_channels_come_to_the_same():
    stereo = np.array([[0.5, 0.0], [-0.25, -0.75]])
    mono = [0.25, -0.5]
    exact = (stereo * 32768).astype(np.int16)
    for given in (stereo, exact, exact.reshape(-1), (stereo * 2**31).astype(np.int32)):
        assert as_mono(given, channels=2).tolist() == mono
    assert as_mono(exact.tobytes(), channels=2).tolist() == mono
    assert as_mono((stereo * 128 + 128).astype(np.uint8), channels=2).tolist() == mono
    assert as_mono(np.array([3.0, -7.0])).tolist() == [1.0, -1.0]  # clipped to full scale
    assert as_mono(b"").size == 0


@pytest.mark.parametrize(
    ("pcm", "channels", "said"),
    [
        (b"abc", 1, "no whole number of 16-bit samples"),
        (np.zeros((4, 2)), 1, "channels=1"),
        (np.zeros((2, 2, 2)), 2, "shape"),
        (np.zeros(3), 2, "shape"),
        (np.zeros(4, np.int64), 1, "full scale is not known"),
        (np.array([0.0, np.nan]), 1, "nan at place 1"),
        (np.array([np.inf]), 1, "inf at place 0"),
        ([0.0], 1, "is list"),
        (np.zeros(4), 0, "channels=0"),
        (np.zeros(4), True, "channels=True"),
        (np.zeros(4), 99, "1 to 8"),
    ],
)
def test_other_sound_is_refused_with_the_reason(pcm, channels, said):
    with pytest.raises(DataError, match=said):
        as_mono(pcm, channels=channels)


@pytest.mark.parametrize("rate", [0, -16_000, 7_999, 96_000, 16_000.0, "16000", None, True])
def test_a_rate_that_cannot_be_is_refused(rate):
    with pytest.raises(DataError, match="rate="):
        Resampler(rate)


def test_log_mel_finds_a_tone_in_its_band_and_silence_in_none():
    bands = log_mel(tone(0.5, 16_000, hertz=1000.0).astype(np.float32))
    assert bands.shape == (80, 50)
    # Band 80 * mel(1000) / mel(8000) of Slaney's scale: 15 of 45.2.
    assert abs(int(bands[:, 25].argmax()) - 26) <= 1
    assert np.ptp(log_mel(np.zeros(16_000, np.float32))) == 0
    with pytest.raises(ParameterError, match="too few"):
        log_mel(np.zeros(399, np.float32))
