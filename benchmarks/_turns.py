"""Questions of XQuAD said aloud, whole and up to a pause, and what was heard at both places.

espeak-ng says them with five voices at three rates, and Piper with one where it is installed. A
pause comes after 40 % to 80 % of the words; what is before it is said either as if it went on (with
a comma) or as if it were all. Everything that a rule may use is heard 0.256 s after the words.
"""

import importlib.util
import json
import subprocess
import sys
import tempfile
import wave
from pathlib import Path
from typing import Any

import numpy as np
from _common import CACHE
from _speech import RATE, RATES, VOICES, questions, read_aloud

from foretell.converse.audio import (
    Resampler,
    SoundTurnEnd,
    TextTurnEnd,
    WhisperRecogniser,
    as_mono,
)
from foretell.converse.audio.weights import JOE

SETTLE_S = 0.256  # of silence that a detector hears
RATE_16, MORE_S = 16_000, 0.1  # and silence after the words of each sound


def texts(every: int) -> list[tuple[str, str, int]]:
    """What is said before the pause, the whole question, and its article."""
    found = []
    for n, (text, _, article) in enumerate(questions(every)):
        words = text.split()
        if len(words) >= 5:
            rng = np.random.default_rng(n)
            place = int(rng.integers(max(2, round(0.4 * len(words))), round(0.8 * len(words)) + 1))
            part = " ".join(words[:place]).rstrip(",;:") + ("," if rng.integers(2) else "")
            found.append((part, text, article))
    return found


def turns(every: int) -> list[dict[str, Any]]:
    """All turns; each is kept in a file, so that a run that was stopped goes on."""
    folder = CACHE / "speech" / f"turns-{every}"
    folder.mkdir(parents=True, exist_ok=True)
    asked = texts(every)
    combinations = [(v, r) for r in RATES for v in VOICES]
    found: list[dict[str, Any]] = []
    detectors: list[Any] = []
    for source in ("espeak-ng", "Piper"):
        pairs: Any = None
        for n, (part, text, article) in enumerate(asked):
            path = folder / f"{source}-{n}.json"
            if not path.exists():
                detectors = detectors or [WhisperRecogniser(), SoundTurnEnd(), TextTurnEnd()]
                if source == "Piper":
                    pairs = pairs or by_piper([t for row in asked for t in row[:2]])
                    if not pairs:
                        return found
                    sounds = pairs[2 * n : 2 * n + 2]
                else:
                    voice, rate = combinations[n % len(combinations)]
                    sounds = [at_16(read_aloud(t, voice, rate), RATE) for t in (part, text)]
                heard = [_heard(sound, *detectors) for sound in sounds]
                path.write_text(json.dumps({"pause": heard[0], "end": heard[1]}))
            kept = json.loads(path.read_text())
            found.append({"by": source, "article": article, "part": part, "text": text, **kept})
    return found


def _heard(sound: Any, recogniser: Any, by_sound: Any, by_text: Any) -> dict[str, Any]:
    whole = np.concatenate([sound, np.zeros(round(SETTLE_S * RATE_16), np.float32)])
    said = recogniser.transcribe(whole[: round(28 * RATE_16)], careful=True)
    return {
        "said": said,
        "voice (Smart Turn 3.2)": by_sound(whole, said),
        "words (LiveKit, Vietnamese)": by_text(whole, said),
    }


def by_piper(texts: list[str]) -> list[Any]:
    """All texts by one process, which loads its voice once; nothing where it is not installed."""
    if importlib.util.find_spec("piper") is None or JOE.place() is None:
        print("no voice of Piper is installed")
        return []
    model = JOE.checked() / JOE.sha256[0][0]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "piper", "-m", str(model), "-d", folder]
        subprocess.run(command, input="\n".join(texts).encode(), check=True, timeout=600,
                       capture_output=True)  # fmt: skip
        found = []
        for path in sorted(Path(folder).glob("*.wav")):
            with wave.open(str(path)) as sound:
                rate, data = sound.getframerate(), sound.readframes(sound.getnframes())
            samples = np.frombuffer(data, "<i2")
            loud = np.flatnonzero(np.abs(samples.astype(int)) > 200)
            found.append(at_16(samples[loud[0] : loud[-1]], rate))
    if len(found) != len(texts):
        raise SystemExit(f"Piper made {len(found)} sounds of {len(texts)} texts.")
    return found


def at_16(samples: Any, rate: int) -> Any:
    sound = np.concatenate([samples, np.zeros(round(MORE_S * rate), np.int16)])
    return Resampler(rate).feed(as_mono(sound))


if __name__ == "__main__":
    print(len(turns(int(sys.argv[1]))))
