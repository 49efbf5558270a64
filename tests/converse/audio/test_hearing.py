"""Sound becomes events that a conversation takes, by the clock of the samples alone."""

from itertools import pairwise

import numpy as np
import pytest

from foretell.converse import Conversation, StreamingLookup, replies, run_conversation
from foretell.converse.audio import EnergyActivity, Heard, Hearing, Patience, hear
from foretell.converse.lookup import BM25, Timing
from foretell.converse.messages import check_input
from foretell.core.errors import DataError, ParameterError
from foretell.core.timeline import Event
from tests.converse.audio.sounds import Counting, ears, spoken, tone


def words(events):
    return [event for event in events if event.kind != "frame"]


def fed(hearing, pcm, rate, size, channels=1):
    found = []
    for place in range(0, len(pcm), size):
        found += hearing.feed(pcm[place : place + size], rate, channels)
    return found + hearing.finish()


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100, 48_000])
def test_speech_gives_partials_then_a_final_then_the_end_of_the_turn(rate):
    events = hear(spoken([0.5, 2.0, 1.0], rate), rate, hearing=ears())
    kinds = [event.kind for event in words(events)]
    assert kinds == ["partial"] * (len(kinds) - 2) + ["final", "end_of_turn"]
    assert len(kinds) >= 5
    final, end = words(events)[-2:]
    assert final.time == pytest.approx(2.5 + 0.256, abs=0.1)
    assert end.time == pytest.approx(2.5 + 0.7, abs=0.1)
    for event in events:
        check_input(event)


def test_the_same_recording_gives_the_identical_events():
    sound = spoken([0.4, 1.5, 0.4, 0.8, 1.2])
    first = hear(sound, 16_000, hearing=ears())
    assert hear(sound, 16_000, hearing=ears()) == first


@pytest.mark.parametrize("size", [1, 2, 333, 1021, 44_100])
def test_how_bytes_are_cut_changes_no_event(size):
    sound = spoken([0.2, 0.5, 0.3], 22_050)
    stereo = np.repeat((sound * 32767).astype("<i2"), 2).tobytes()
    if size < 10:
        stereo = stereo[: 4 * 2205]
    whole = fed(ears(), stereo, 22_050, len(stereo), channels=2)
    assert fed(ears(), stereo, 22_050, size, channels=2) == whole


def test_a_word_is_stable_when_two_readings_agree_on_it():
    events = words(hear(spoken([0.4, 2.0, 1.0]), 16_000, hearing=ears()))
    partials = [event for event in events if event.kind == "partial"]
    for before, now in pairwise(partials):
        assert now["stable"] == len(before["text"].split())


def test_silence_and_a_click_give_no_words_and_no_turn():
    sound = np.zeros(16_000 * 3)
    sound[20_000:20_160] = 0.9
    counting = Counting()
    assert not words(hear(sound, 16_000, hearing=ears(counting)))
    assert not counting.calls


def test_noise_that_is_not_words_ends_no_turn():
    class Deaf(Counting):
        def transcribe(self, samples, *, careful=False):
            return ""

    assert not words(hear(spoken([0.4, 1.0, 1.0]), 16_000, hearing=ears(Deaf())))


def test_clipped_sound_is_heard_and_said_to_be_clipped():
    loud = np.clip(40 * spoken([0.5, 1.0, 0.5]), -1, 1)
    events = hear(loud, 16_000, hearing=ears())
    assert words(events)
    marked = [event for event in events if event.get("clipped")]
    assert marked
    assert all(0.4 < event.time < 1.7 for event in marked)


def test_speech_without_a_pause_is_read_in_pieces_and_nothing_is_said_twice():
    counting = Counting()
    events = words(hear(spoken([0.4, 30.0, 1.0]), 16_000, hearing=ears(counting)))
    finals = [event for event in events if event.kind == "final"]
    assert len(finals) >= 3
    assert max(counting.calls) < 21
    said = sum(len(event["text"].split()) for event in finals)
    assert said == pytest.approx(2 * 30.6, abs=len(finals) + 2)


def test_a_pause_is_waited_out_where_the_turn_does_not_sound_over():
    sound = spoken([0.4, 1.0, 0.9, 1.0, 2.0])
    sure = hear(sound, 16_000, hearing=ears(turn_end=lambda s, t: 1.0))
    unsure = hear(sound, 16_000, hearing=ears(turn_end=lambda s, t: 0.0))
    ends = [[e.time for e in found if e.kind == "end_of_turn"] for found in (sure, unsure)]
    assert [len(found) for found in ends] == [2, 1]
    assert ends[0][1] - 3.3 == pytest.approx(Patience().sure_s, abs=0.1)
    assert ends[1][0] - 3.3 == pytest.approx(Patience().unsure_s, abs=0.1)


def test_the_end_is_asked_with_the_words_and_the_sound_of_the_whole_turn():
    asked = []

    def over(samples, text):
        asked.append((len(samples) / 16_000, text))
        return 0.0

    hear(spoken([0.4, 1.0, 0.6, 1.0, 2.0]), 16_000, hearing=ears(turn_end=over))
    assert len(asked) == 2
    assert asked[1][0] == pytest.approx(asked[0][0] + 1.9, abs=0.4)
    assert asked[1][1].startswith(asked[0][1])


def test_a_machine_that_is_behind_makes_final_words_only():
    counting = Counting()
    hearing = ears(counting)
    sound = spoken([0.4, 3.0, 1.0])
    heard = hearing.feed(sound, 16_000, behind=2.0)
    kinds = [entry.kind for entry in words(heard)]
    assert kinds == ["partial", "final", "end_of_turn"]
    assert len(counting.calls) == 1


def test_speech_interrupts_the_answer_within_the_manners():
    hearing = ears()
    talk = Conversation(StreamingLookup(BM25({"p": "radium"}), k=1), manners=hearing.manners)
    sound = spoken([0.4, 1.0, 2.6, 1.0, 2.0])
    inputs = list(hear(sound, 16_000, hearing=hearing))
    timeline = run_conversation(
        talk, inputs, Timing(document_s=0.1), compose=lambda out: "so", speak_s=9.0
    )
    assert replies(timeline)[0][1] == "so"
    stopped = [event.time for event in timeline if event.kind == "stop_speaking"]
    assert stopped[0] == pytest.approx(4.0 + 0.25, abs=0.1)


def test_another_rate_may_follow_and_reset_forgets():
    hearing = ears()
    hearing.feed(spoken([0.2, 0.5], 16_000), 16_000)
    hearing.feed(spoken([0.0, 0.5], 48_000), 48_000)
    assert hearing.time > 1.0
    hearing.reset()
    assert hearing.time == 0
    assert hearing.feed(np.zeros(512), 16_000) == [
        Heard("frame", {"seconds": 0.032, "speech": False, "at": 0.032})
    ]


def test_what_cannot_be_heard_is_refused_and_changes_nothing():
    hearing = ears()
    with pytest.raises(DataError, match="at most 60 s"):
        hearing.feed(np.zeros(61 * 8_000), 8_000)
    with pytest.raises(DataError, match="rate="):
        hearing.feed(b"", 0)
    hearing.feed(b"\0", 16_000)
    with pytest.raises(DataError, match="array cannot follow"):
        hearing.feed(np.zeros(4), 16_000)
    hearing.feed(b"\0", 16_000)
    assert hearing.time == 0
    hearing.close()
    with pytest.raises(DataError, match="closed"):
        hearing.feed(b"", 16_000)
    with pytest.raises(ParameterError, match="block_s"):
        ears(block_s=0.0)
    with pytest.raises(ParameterError, match="settle_s"):
        ears(settle_s=0.5)
    with pytest.raises(ParameterError, match="in this order"):
        Patience(sure_s=2.0)


def test_without_a_recogniser_there_are_frames():
    hearing = Hearing(None, activity=EnergyActivity(), turn_end=None)
    heard = hearing.feed(tone(1.0, 16_000), 16_000)
    assert {entry.kind for entry in heard} == {"frame"}
    assert isinstance(Event(heard[0].kind, heard[0].time, heard[0].data), Event)
