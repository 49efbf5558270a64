"""Speech comes in pieces, stops at once when told to, and survives a program that dies."""

import os
import signal
import sys
import time

import numpy as np
import pytest

from foretell.converse.audio import Voice, available, voice as voice_module
from foretell.converse.audio.programs import run_program, wave_rate
from foretell.converse.audio.voice import sentences
from foretell.core.errors import DataError, MissingExtraError, ParameterError, ProgramError

TEXT = "The pump has stopped. Close the valve, and wait for ten minutes."


def program(tmp_path, body):
    """A stand-in for espeak-ng: a Python program."""
    path = tmp_path / "espeak-ng"
    path.write_text(f"#!{sys.executable}\nimport os, signal, sys, time, struct\n{body}")
    path.chmod(0o755)
    return path


WAVE = """
def header(rate=22050):
    out = b"RIFF" + struct.pack("<I", 0x7FFFF024) + b"WAVEfmt "
    out += struct.pack("<IHHIIHH", 16, 1, 1, rate, 2 * rate, 2, 16)
    return out + b"data" + struct.pack("<I", 0x7FFFF000)
text = sys.stdin.read()
out = sys.stdout.buffer
out.write(header())
samples = struct.pack("<44100h", *(i % 1000 for i in range(44100)))
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    def use(body):
        program(tmp_path, WAVE + body)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        return Voice()

    return use


@pytest.mark.system("espeak-ng")
def test_espeak_speaks_in_pieces_of_40_ms():
    pieces = list(Voice().say(TEXT))
    rates = {rate for _, rate in pieces}
    assert rates == {22_050}
    assert all(samples.dtype == np.int16 and len(samples) <= 882 for samples, _ in pieces)
    assert 2.0 < sum(len(samples) for samples, _ in pieces) / 22_050 < 8.0
    assert max(np.abs(samples.astype(int)).max() for samples, _ in pieces) > 3000


@pytest.mark.system("espeak-ng")
def test_speed_and_language_are_heard():
    def length(**options):
        language = options.pop("language", None)
        return sum(len(s) for s, _ in Voice(**options).say("one two three", language=language))

    assert length(words_per_minute=300) < 0.8 * length(words_per_minute=120)
    assert length(language="de") != length(language="fr-fr")
    with pytest.raises(ProgramError, match="espeak-ng"):
        length(language="xx")


@pytest.mark.system("espeak-ng")
@pytest.mark.parametrize("text", ["-v", "--help", "[[foo]] bar", "<speak>&", "\x00\x1b a", "ü 漢"])
def test_no_text_is_taken_for_an_option_or_for_phonemes(text):
    assert list(Voice().say(text)) != []


@pytest.mark.parametrize("text", ["", "   ", "...!", "\n\n"])
def test_nothing_to_say_is_silence(stand_in, text):
    assert list(stand_in("raise SystemExit(3)").say(text)) == []


def test_a_cancelled_speech_stops_within_100_ms_of_sound(stand_in):
    speaking = stand_in("out.write(samples)")
    said = []
    for samples, rate in speaking.say("Long. " * 20, cancelled=lambda: sum(said) >= 0.5):
        said.append(len(samples) / rate)
    assert 0.5 <= sum(said) <= 0.6


def test_giving_up_the_iterator_ends_the_program(stand_in, tmp_path):
    note = tmp_path / "pid"
    speaking = stand_in(
        f"open({str(note)!r}, 'w').write(str(os.getpid()))\n"
        "out.write(samples); out.flush(); time.sleep(60)"
    )
    stream = speaking.say("Hello.")
    next(stream)
    stream.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


def test_a_killed_program_is_started_again_and_goes_on_where_it_was(stand_in, tmp_path):
    note = tmp_path / "once"
    speaking = stand_in(
        f"first = not os.path.exists({str(note)!r}); open({str(note)!r}, 'w')\n"
        "if first:\n"
        "    out.write(samples[:50001]); out.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
        "out.write(samples)"
    )
    said = np.concatenate([samples for samples, _ in speaking.say("Hello.")])
    assert np.array_equal(said, np.arange(44_100) % 1000)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", f"signal {signal.SIGKILL.value}"),
        ("print('no such voice', file=sys.stderr); raise SystemExit(2)", "code 2: no such voice"),
        ("raise SystemExit(5)", "code 5"),
    ],
)
def test_a_program_that_fails_twice_says_how(stand_in, body, said):
    with pytest.raises(ProgramError, match=said):
        list(stand_in(body).say("Hello."))


def test_a_program_that_hangs_is_not_waited_for(stand_in, monkeypatch):
    monkeypatch.setattr(voice_module, "_SILENT_S", 0.2)
    began = time.monotonic()
    with pytest.raises(ProgramError, match=r"wrote nothing for 0\.2 s"):
        list(stand_in("time.sleep(60)").say("Hello."))
    assert time.monotonic() - began < 20


def test_other_output_than_sound_is_refused():
    with pytest.raises(ProgramError, match="no plain WAV"):
        wave_rate(b"<html>" * 20)
    with pytest.raises(ProgramError, match="cannot be started"):
        list(run_program(["/no/such/program"], "", lambda: False, silent_s=1))


def test_what_cannot_be_said_is_refused(stand_in):
    speaking = stand_in("")
    with pytest.raises(DataError, match="at most 5000"):
        speaking.say("x" * 5001)
    for language in ("en; rm", "-x", "", "e" * 40):
        with pytest.raises(DataError, match="no language"):
            speaking.say("x", language=language)
    with pytest.raises(ParameterError, match="engine="):
        Voice("festival")
    with pytest.raises(ParameterError, match="words_per_minute"):
        Voice(words_per_minute=0)


def test_missing_programs_are_named_with_the_line_that_installs_them(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingExtraError, match="apt-get install espeak-ng"):
        Voice()
    parts = {part.name: part for part in available()}
    assert not parts["voice"].present
    assert parts["voice"].install == "apt-get install espeak-ng"


def test_a_text_is_cut_into_sentences_without_losing_words():
    text = "It is 3.5 bar, e.g. too much! Why? Because; well: so\nEnd"
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())
