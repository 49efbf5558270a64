"""Time until the language is decided, while the turn goes on, beside a fixed window.

Sound: voices by espeak-ng in five languages, as statistics of log-mel bands and as the frames of a
Whisper encoder (English weights); ten variants of the voice train the head and test thresholds,
the three others judge. Text: messages of Sphinx in six languages, split by message. The fixed rule
looks at the first 3 s or 80 characters and always answers. All rules of a split share one head.
"""

import hashlib
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
from _common import CACHE, WORKERS, median_interval, run_jobs, shown, write_result
from _languages import RATE, texts, voices

from foretell.converse.language import (
    CharacterNgrams,
    ConvexLanguageDetector,
    ConvexReLUClassifier,
    LogMel,
)
from foretell.converse.language.detector import THRESHOLDS
from foretell.converse.language.listening import Decider, looks

SPLITS = 6
PER_VOICE, MESSAGES = 4, 120
LEVELS = (0.05, 0.1, 0.2)
TARGET = 0.95  # of the decisions right: the bar compares times at this accuracy
AT_TARGET = "95 % right on groups held out of training"
FEATURES = ("log-mel", "Whisper encoder", "text")


class Remembered(ConvexReLUClassifier):
    """Fits the same rows once; the levels of one split differ in their threshold only."""

    known: dict[str, dict[str, Any]] = {}  # noqa: RUF012

    def fit(self, X: Any, y: Any, groups: Any = None) -> "Remembered":
        key = hashlib.sha256(np.ascontiguousarray(X).tobytes() + "".join(y).encode()).hexdigest()
        if key not in self.known:
            super().fit(X, y, groups=groups)
            self.known[key] = dict(self.__dict__)
        self.__dict__.update(self.known[key])
        return self


class Kept:
    """The mean frame of a Whisper encoder for each stretch of sound, kept in a file."""

    unit, sample_rate, name = "s", RATE, "kept"

    def __init__(self) -> None:
        self.path = CACHE / "cld_voices" / "whisper.npz"
        self.rows: dict[str, Any] = {}
        self.encoder: Any = None
        if self.path.exists():
            with np.load(self.path) as kept:
                self.rows = dict(zip(kept["keys"].tolist(), kept["rows"], strict=True))

    def __call__(self, samples: Any) -> Any:
        key = hashlib.sha256(samples.astype(np.float32).tobytes()).hexdigest()[:24]
        if key not in self.rows:
            if self.encoder is None:
                from foretell.converse.audio import WhisperEncoder

                self.encoder = WhisperEncoder()
            self.rows[key] = self.encoder(samples).mean(axis=0).astype(np.float32)
        return np.asarray(self.rows[key], dtype=np.float64)[None]

    def save(self) -> None:
        if self.encoder is not None:
            np.savez(self.path, keys=list(self.rows), rows=np.array(list(self.rows.values())))


def turns(features: str) -> tuple[Any, list[Any], Any, Any]:
    """Encoder, turns, languages and groups."""
    if features == "text":
        lines, y, groups = texts()
        chosen = np.random.default_rng(0).permutation(np.unique(groups))[:MESSAGES]
        keep = np.flatnonzero(np.isin(groups, chosen))
        return CharacterNgrams(), [lines[i] for i in keep], y[keep], groups[keep]
    sounds, y, groups = voices(PER_VOICE)
    return (LogMel() if features == "log-mel" else Kept()), sounds, y, groups


def split(features: str, seed: int) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    encoder, all_turns, y, groups = turns(features)
    names = np.random.default_rng(seed).permutation(np.unique(groups))
    new = np.isin(groups, names[: 3 if features != "text" else MESSAGES // 4])
    old, test = np.flatnonzero(~new), np.flatnonzero(new)
    result: dict[str, Any] = {}
    for level in LEVELS:
        detector = ConvexLanguageDetector(
            encoder=encoder, head=Remembered(), level=level, random_state=seed
        ).fit([all_turns[i] for i in old], y[old], groups=groups[old])
        result[f"level {level:g}"] = detector.threshold_
    head = detector.head_
    known = {i: [(a, head.predict_proba(x[None])[0]) for a, x in looks(
        all_turns[i], encoder, detector.windows_)] for i in [*old, *test]}  # fmt: skip
    truth = {i: detector.classes_.tolist().index(y[i]) for i in known}
    held = detector._tested(groups[old], y[old], np.random.default_rng(seed))  # as in fit
    result[AT_TARGET] = _lowest(known, truth, old[held], detector)
    found = {name: _judge(known, truth, test, limit, detector) for name, limit in result.items()}
    fixed = [(known[i][-1][1].argmax() == truth[i], known[i][-1][0]) for i in test]
    found["fixed window"] = [1.0, *(float(v) for v in np.mean(fixed, axis=0))]
    if isinstance(encoder, Kept):
        encoder.save()
    return found


def _lowest(known: Any, truth: Any, rows: Any, detector: Any) -> float:
    """The lowest threshold at which the share of right decisions reaches the target."""
    for limit in sorted(THRESHOLDS):
        decided, right, _ = _judge(known, truth, rows, limit, detector)
        if decided and right >= TARGET:
            return limit
    return max(THRESHOLDS)


def _judge(known: Any, truth: Any, rows: Any, limit: float, detector: Any) -> list[float]:
    """Share decided, share of these that is right, mean time (all of it where undecided)."""
    said, times = [], []
    for i in rows:
        rule = Decider(limit, detector.hysteresis, detector.switch_after_)
        first = next(((a, c) for a, p in known[i] if (c := rule.see(a, p)) is not None), None)
        times.append(known[i][-1][0] if first is None else first[0])
        said.append(None if first is None else first[1] == truth[i])
    right = [s for s in said if s is not None]
    return [len(right) / len(said), float(np.mean(right)) if right else 1.0, float(np.mean(times))]


def _cell(values: Any) -> Any:
    return float(values[0]) if len(values) == 1 else shown(median_interval(values))


def warm() -> None:
    """Encode all sounds in a process of its own: the encoder does not survive a fork."""
    encoder, sounds, _, _ = turns("Whisper encoder")
    usual = ConvexLanguageDetector(encoder=encoder)
    usual.encoder_ = encoder
    usual._set_windows()
    for sound in sounds:
        looks(sound, encoder, usual.windows_)
    encoder.save()


def main() -> None:
    if "--warm" in sys.argv:
        return warm()
    subprocess.run([sys.executable, __file__, "--warm"], check=True, timeout=3600)
    jobs = [{"features": f, "seed": s} for f in FEATURES for s in range(SPLITS)]
    results = run_jobs("cld_streaming", split, jobs, WORKERS)
    rows = []
    for features in FEATURES:
        mine = [r for job, r in zip(jobs, results, strict=True) if job["features"] == features]
        fixed = np.array([r["fixed window"] for r in mine])
        for name in (
            "fixed window",
            AT_TARGET,
            *(f"level {v:g}" for v in LEVELS),
        ):
            columns = np.array([r[name] for r in mine])
            rows.append(
                [features, name, *(_cell(c) for c in columns.T), _cell(columns[:, 2] / fixed[:, 2])]
            )
            print(*rows[-1])
    table = {
        "columns": ["features", "rule", "share decided", "right among them", "mean time",
                    "of the fixed window"],
        "rows": rows,
        "note": f"{SPLITS} splits by voice or message; time in seconds or characters. Turns "
        "without decision count with all their time. A level is the share of wrong decisions that "
        "the threshold is certified for; where none is certified, nothing is decided.",
    }  # fmt: skip
    settings = {"splits": SPLITS, "per_voice": PER_VOICE, "messages": MESSAGES}
    write_result("cld_streaming", settings, {"cld-streaming": table})


if __name__ == "__main__":
    main()
