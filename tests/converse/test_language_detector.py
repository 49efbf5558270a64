"""`ConvexLanguageDetector`: early decisions, loyalty, abstention, equal features, refusals."""

from copy import copy

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from foretell.converse.language import (
    CharacterNgrams,
    ConvexLanguageDetector,
    ConvexReLUClassifier,
    LogMel,
)
from foretell.converse.language.encoders import checked_piece
from foretell.converse.language.listening import Decider, GrowingTurn, Windows
from foretell.core import ArtifactError, DataError, ForetellWarning, NotFittedError, ParameterError

WORDS = {
    "en": "the cat sat on a mat and then went home with her friend from the old town",
    "de": "die Katze sitzt auf der Matte und geht dann nach Hause mit ihrem alten Freund",
}
RATE = 16_000


def sentences(language, n, seed=0):
    rng = np.random.default_rng(seed)
    words = WORDS[language].split()
    return [" ".join(rng.choice(words, 14)) for _ in range(n)]


def tone(pitch, seconds, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * RATE)) / RATE
    wobble = 1 + 0.2 * np.sin(2 * np.pi * rng.uniform(2, 5) * t)
    return 0.3 * np.sin(2 * np.pi * pitch * t) * wobble + 0.01 * rng.normal(size=t.size)


def small_head(**changes):
    return ConvexReLUClassifier(**{"n_gates": 8, "tol": 0.02, "random_state": 0, **changes})


@pytest.fixture(scope="module")
def detector():
    turns = sentences("en", 120) + sentences("de", 120)
    return ConvexLanguageDetector(head=small_head(), random_state=0).fit(
        turns, ["en"] * 120 + ["de"] * 120
    )


@pytest.fixture(scope="module")
def by_sound():
    turns = [tone(220 if i % 2 else 900, 2.0, i) for i in range(16)]
    labels = ["low" if i % 2 else "high" for i in range(16)]
    return ConvexLanguageDetector(
        encoder=LogMel(), head=small_head(), threshold=0.6, random_state=0
    ).fit(turns, labels)


# Deciding ---------------------------------------------------------------------------------------


def test_a_threshold_is_tested_on_held_out_turns(detector):
    assert detector.threshold_ < 1
    assert detector.n_tested_ == 96
    assert detector.risk_bound_ <= 0.05
    new = sentences("en", 30, seed=9) + sentences("de", 30, seed=9)
    said = [detector.decide(turn) for turn in new]
    decided = [entry for entry in said if entry.accepted]
    right = [e.label == ("en" if i < 30 else "de") for i, e in enumerate(said) if e.accepted]
    assert len(decided) > 50
    assert np.mean(right) > 0.9
    assert all(entry.after < 80 for entry in decided)
    assert all(entry.certified_radius > 0 for entry in decided)


def test_pieces_of_any_size_give_the_same_decision(detector):
    for turn in sentences("de", 5, seed=4):
        whole = detector.decide(turn)
        for size in (1, 7, 33):
            stream = detector.stream()
            pieces = [turn[i : i + size] for i in range(0, len(turn), size)]
            first = next((said for piece in pieces if (said := stream.push(piece))), None)
            assert (first or stream.end()) == whole


def test_what_stays_doubtful_is_withheld_once_and_falls_back(detector):
    stricter = copy(detector)
    stricter.threshold_ = 1.0
    stream = stricter.stream(fallback="de")
    said = [stream.push("the Katze sat auf ") for _ in range(12)]
    spoken = [entry for entry in said if entry is not None]
    assert len(spoken) == 1
    assert (spoken[0].action, spoken[0].label, spoken[0].accepted) == ("withhold", "de", False)
    assert spoken[0].after <= 80
    assert stream.decision is None


def test_a_decision_is_kept_until_the_other_language_holds_for_long(detector):
    stream = detector.stream()
    said = [stream.push(WORDS["en"])]
    assert said[0].label == "en"
    said += [stream.push(" " + WORDS["de"]) for _ in range(6)]
    switches = [entry for entry in said[1:] if entry is not None]
    assert [entry.action for entry in switches] in ([], ["switch"])
    assert stream.decision.label == ("de" if switches else "en")


def test_the_rule_alone():
    rule = Decider(threshold=0.8, hysteresis=2, switch_after=1.0)
    sure, other, unsure = np.array([0.9, 0.1]), np.array([0.1, 0.9]), np.array([0.6, 0.4])
    assert rule.see(0.3, sure) is None
    assert rule.see(0.6, unsure) is None  # not in a row
    assert rule.see(0.9, sure) is None
    assert rule.see(1.2, sure) == 0
    assert rule.see(1.5, sure) is None  # said already
    assert rule.see(1.8, other) is None
    assert rule.see(2.1, sure) is None  # the opposition starts anew
    assert [rule.see(t, other) for t in (2.4, 2.9, 3.3)] == [None, None, None]
    assert rule.see(3.4, other) == 1


def test_too_few_turns_withhold_everything_with_a_warning():
    turns = sentences("en", 10) + sentences("de", 10)
    with pytest.warns(ForetellWarning, match="At least 86 decided turns"):
        detector = ConvexLanguageDetector(head=small_head(), random_state=0).fit(
            turns, ["en"] * 10 + ["de"] * 10
        )
    assert detector.threshold_ == np.inf
    assert not detector.decide(turns[0], fallback="en").accepted


def test_groups_are_never_divided():
    turns, groups = sentences("en", 30) + sentences("de", 30), np.arange(60) % 6
    detector = ConvexLanguageDetector(head=small_head(), random_state=0, level=0.5)
    detector.fit(turns, ["en"] * 30 + ["de"] * 30, groups=groups)
    assert detector.n_tested_ == 20  # two of six groups


def test_any_classifier_and_any_encoder_serve(tmp_path):
    def encode(text):
        return CharacterNgrams(n_features=64)(text)

    encode.unit = "characters"
    turns = sentences("en", 20) + sentences("de", 20)
    detector = ConvexLanguageDetector(
        encoder=encode, head=LogisticRegression(C=100.0), threshold=0.7, random_state=0
    ).fit(turns, ["en"] * 20 + ["de"] * 20)
    said = detector.decide(turns[0])
    assert said.label == "en"
    assert said.certified_radius is None
    with pytest.raises(ArtifactError, match="LogisticRegression"):
        detector.save(tmp_path / "model")


# Sound ------------------------------------------------------------------------------------------


def test_growing_sound_has_the_features_of_the_whole():
    sound, encoder = tone(300, 1.5, 0), LogMel()
    windows = Windows(0.6, 0.3, 3.0)
    whole = GrowingTurn(encoder, windows).hear(sound)
    pieces, growing = [], GrowingTurn(encoder, windows)
    for start in range(0, sound.size, 777):
        pieces += growing.hear(sound[start : start + 777])
    assert [round(amount, 6) for amount, _ in whole] == [0.6, 0.9, 1.2, 1.5]
    for (amount, one), (again, two) in zip(whole, pieces, strict=True):
        assert amount == again
        assert np.allclose(one, two, atol=1e-9)
    rows = encoder(sound[: int(0.9 * RATE)])
    assert np.allclose(whole[1][1], encoder.summary(rows.mean(axis=0)), atol=1e-9)


def test_sound_is_told_apart_and_silence_waits(by_sound):
    stream = by_sound.stream(sample_rate=RATE)
    assert stream.push(np.zeros(5 * RATE)) is None
    said = [stream.push(piece) for piece in np.split(tone(900, 2.0, 77), 10)]
    decision = next(entry for entry in said if entry is not None)
    assert (decision.label, decision.unit, decision.action) == ("high", "s", "accept")
    assert by_sound.decide(tone(220, 2.0, 78)).label == "low"
    assert by_sound.decide(tone(220, 0.4, 78)).action == "withhold"  # one look, two are needed


@pytest.mark.parametrize(
    ("sound", "message"),
    [
        (np.zeros((RATE, 2)), r"one channel.*mean\(axis=1\)"),
        (np.zeros(RATE, dtype=np.int16), r"int16.*32768"),
        (np.ones(RATE // 10), r"0\.1 s.*0\.2 s"),
        (np.zeros(RATE), "All samples.*zero"),
        (np.r_[np.ones(RATE), np.nan], "nan at sample 16000"),
    ],
)
def test_unusable_sound(by_sound, sound, message):
    with pytest.raises(DataError, match=message):
        by_sound.decide(sound)
    with pytest.raises(DataError, match=message):
        checked_piece(sound, by_sound.encoder_, whole=True)


def test_another_sample_rate_is_refused_with_the_remedy(by_sound):
    with pytest.raises(ParameterError, match=r"8000.*16000 Hz.*resample_poly\(sound, 16000, 8000"):
        by_sound.stream(sample_rate=8000)


# Folders ----------------------------------------------------------------------------------------


def test_a_saved_detector_decides_the_same(detector, by_sound, tmp_path):
    again = ConvexLanguageDetector.load(detector.save(tmp_path / "text"))
    for turn in sentences("de", 5, seed=3):
        assert again.decide(turn) == detector.decide(turn)
    assert (again.threshold_, again.n_tested_) == (detector.threshold_, detector.n_tested_)
    sound = tone(900, 2.0, 5)
    heard = ConvexLanguageDetector.load(by_sound.save(tmp_path / "sound"))
    assert heard.decide(sound) == by_sound.decide(sound)


def test_a_foreign_encoder_needs_a_name_and_the_right_one(tmp_path):
    class Mine:
        unit, sample_rate = "characters", None

        def __call__(self, text):
            return CharacterNgrams(n_features=64)(text)

    turns = sentences("en", 20) + sentences("de", 20)
    mine = Mine()
    detector = ConvexLanguageDetector(encoder=mine, head=small_head(), threshold=0.7)
    detector.fit(turns, ["en"] * 20 + ["de"] * 20)
    with pytest.raises(ArtifactError, match="no `name`"):
        detector.save(tmp_path / "model")
    mine.name = "mine-1"
    path = detector.save(tmp_path / "model")
    with pytest.raises(ArtifactError, match=r"'mine-1'.*none was given"):
        ConvexLanguageDetector.load(path)
    with pytest.raises(ArtifactError, match="is another"):
        ConvexLanguageDetector.load(path, encoder=CharacterNgrams())
    assert ConvexLanguageDetector.load(path, encoder=mine).decide(turns[0]).label == "en"


# Refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"threshold": 1.5}, "threshold=1.5"),
        ({"threshold": "high"}, "threshold='high'"),
        ({"level": 0.0}, "level=0.0"),
        ({"delta": 1.0}, "delta=1.0"),
        ({"hysteresis": 0}, "hysteresis=0"),
        ({"first": -1.0}, "first=-1.0"),
        ({"first": 50.0, "last": 20.0}, "last=20.0 lies before first=50.0"),
        ({"calibration_size": 1.0}, "calibration_size=1.0"),
        ({"encoder": len}, "unit"),
    ],
)
def test_impossible_settings(changes, message):
    with pytest.raises(ParameterError, match=message):
        ConvexLanguageDetector(**changes).fit(["some text here", "noch ein Text"], ["a", "b"])


def test_unusable_turns(detector):
    with pytest.raises(DataError, match="empty"):
        detector.decide("   ")
    with pytest.raises(DataError, match="text is needed; given is ndarray"):
        detector.stream().push(np.zeros(3))
    with pytest.raises(ParameterError, match="'fr' is none of the languages"):
        detector.stream(fallback="fr")
    with pytest.raises(DataError, match=r"(?s)groups.*3.*2"):
        ConvexLanguageDetector().fit(["some text", "ein Text"], ["a", "b"], groups=[1, 2, 3])
    with pytest.raises(NotFittedError, match="fit"):
        ConvexLanguageDetector().decide("some text")
    with pytest.raises(DataError, match="too few to test"):
        ConvexLanguageDetector().fit(["some text", "ein Text"], ["a", "b"])
