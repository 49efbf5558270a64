"""Pause or end of the turn: detectors and plain silence on the same turns.

Questions of XQuAD are read aloud by espeak-ng (five voices, three rates) and, where it is
installed, by a voice of Piper. A turn is cut between two of its words, at the quietest place near
that border: there the speaker pauses. A rule waits w seconds of silence; it is wrong in a pause of
d > w seconds, and at the true end the answer comes w seconds late. The words are those that the
recogniser heard.
"""

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
import wave
from pathlib import Path
from typing import Any

import numpy as np
from _common import write_result
from _speech import RATE, RATES, VOICES, questions, read_aloud

from foretell.converse.audio import (
    Patience,
    Resampler,
    SoundTurnEnd,
    TextTurnEnd,
    WhisperRecogniser,
    as_mono,
    unfinished,
)
from foretell.converse.audio.weights import JOE

EVERY = 100
PAUSES = (0.5, 0.8, 1.2)
SETTLE_S = 0.256  # of silence that a detector hears


def sounds(every: int) -> list[tuple[str, Any]]:
    """Where it comes from, and samples at 16 kHz without silence around."""
    combinations = [(v, r) for r in RATES for v in VOICES]
    texts = [text for text, _, _ in questions(every)]
    found = []
    for n, text in enumerate(texts):
        voice, rate = combinations[n % len(combinations)]
        found.append(("espeak-ng", _at_16(read_aloud(text, voice, rate), RATE)))
    return found + [("Piper", sound) for sound in by_piper(texts)]


def by_piper(texts: list[str]) -> list[Any]:
    """All texts by one process, which loads its voice once; nothing where it is not installed."""
    if importlib.util.find_spec("piper") is None or JOE.place() is None:
        print("no voice of Piper is installed")
        return []
    model = JOE.checked() / JOE.sha256[0][0]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "piper", "-m", str(model), "-d", folder]
        subprocess.run(command, input="\n".join(texts).encode(), check=True, timeout=300,
                       capture_output=True)  # fmt: skip
        found = []
        for path in sorted(Path(folder).glob("*.wav")):
            with wave.open(str(path)) as sound:
                rate, data = sound.getframerate(), sound.readframes(sound.getnframes())
            samples = np.frombuffer(data, "<i2")
            loud = np.flatnonzero(np.abs(samples.astype(int)) > 200)
            found.append(_at_16(samples[loud[0] : loud[-1]], rate))
    return found


def _at_16(samples: Any, rate: int) -> Any:
    sound = np.concatenate([samples, np.zeros(rate // 10, np.int16)])
    return Resampler(rate).feed(as_mono(sound))


def cut(sound: Any, words: list[Any], rng: np.random.Generator) -> tuple[Any, str]:
    """The turn up to a border between two words, and its words."""
    place = int(rng.integers(max(2, round(0.4 * len(words))), max(3, round(0.8 * len(words)))))
    near = round(words[place].start * 16_000)
    window = np.abs(sound[max(0, near - 1600) : near + 480])
    smooth = np.convolve(window, np.ones(320) / 320, mode="same")
    end = max(0, near - 1600) + int(smooth.argmin())
    return sound[:end], " ".join(word.text for word in words[:place])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=EVERY, help="take every n-th question")
    every = parser.parse_args().every
    recogniser, rng = WhisperRecogniser(), np.random.default_rng(0)
    detectors: dict[str, Any] = {
        "words that go on": unfinished,
        "voice (Smart Turn 3.2)": SoundTurnEnd(),
        "words (LiveKit, Vietnamese)": TextTurnEnd(),
    }
    found: list[tuple[str, dict[str, list[Any]]]] = []
    spent = dict.fromkeys(detectors, 0.0)
    quiet = np.zeros(round(SETTLE_S * 16_000), np.float32)
    for source, sound in sounds(every):
        words = recogniser.words(sound)
        if len(words) < 5:
            continue
        pieces = [cut(sound, words, rng), (sound, " ".join(word.text for word in words))]
        said: dict[str, list[Any]] = {}
        for name, detector in detectors.items():
            began = time.process_time()
            said[name] = [detector(np.concatenate([x, quiet]), text) for x, text in pieces]
            spent[name] += time.process_time() - began
        found.append((source, said))
    rows = [row for source in dict.fromkeys(s for s, _ in found) for row in table(source, found)]
    note = (
        f"{len(found)} turns, cut between 40 % and 80 % of their words. Detectors answer after "
        f"{SETTLE_S} s of silence; then {Patience().sure_s} s are waited where the probability is "
        f"0.5 or more, {Patience().unsure_s} s where it is less, {Patience().plain_s} s without an "
        "opinion. CPU-s for one answer: "
        + ", ".join(f"{name} {s / 2 / len(found):.3f}" for name, s in spent.items())
        + "."
    )
    columns = ["speech by", "rule", *(f"wrong in a pause of {d:g} s" for d in PAUSES),
               "wait at the end, mean (s)", "of more than 1 s", "AUC"]  # fmt: skip
    result = {"columns": columns, "rows": rows, "note": note}
    print(*rows, note, sep="\n")
    if every == EVERY:
        write_result(
            "audio_turn_end", {"every": EVERY, "pauses": PAUSES}, {"audio-turn-end": result}
        )


def table(source: str, found: list[tuple[str, dict[str, list[Any]]]]) -> list[list[Any]]:
    mine = [said for from_, said in found if from_ == source]
    rows: list[list[Any]] = [
        [source, f"{w:g} s of silence", *(float(w < d) for d in PAUSES), w, float(w > 1), None]
        for w in (0.4, 0.7, 1.0, 1.5)
    ]
    for name in mine[0]:
        opinions = [said[name] for said in mine]
        waits = np.array([[Patience().wait(q) for q in pair] for pair in opinions])
        p = np.array([[0.5 if q is None else q for q in pair] for pair in opinions])
        wrong = [float(np.mean(waits[:, 0] < d)) for d in PAUSES]
        auc = float(
            np.mean(p[:, 1][:, None] > p[:, 0]) + 0.5 * np.mean(p[:, 1][:, None] == p[:, 0])
        )
        late = waits[:, 1]
        rows.append([source, name, *wrong, float(late.mean()), float(np.mean(late > 1)), auc])
    return rows


if __name__ == "__main__":
    main()
