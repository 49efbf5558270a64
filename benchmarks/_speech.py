"""Questions of XQuAD read aloud by espeak-ng: five voices, three rates, with silence around.

A recording has half a second of faint noise before the words and two and a half seconds after them,
so that ends of turns can be waited for. Where the words really end is known from the samples.
"""

import json
import re
import subprocess
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from _common import CACHE, data, program

VOICES = ("en-us", "en-gb-scotland", "en-gb-x-rp", "en-us+f3", "en-gb+m3")
RATES = (130, 170, 210)  # words per minute
RATE = 22_050
BEFORE_S, AFTER_S = 0.5, 2.5
NOISE = 10 ** (-58 / 20)
_QUIET = 0.003  # of full scale: where the words end


@dataclass(frozen=True, eq=False)
class Spoken:
    """A question and its recording."""

    text: str
    gold: str  # id of its paragraph
    article: int
    voice: str
    rate: int
    samples: Any  # int16 at 22050 Hz
    stop_s: float  # where the words end

    @property
    def seconds(self) -> float:
        return len(self.samples) / RATE


def questions(every: int = 1, *, plain: bool = False) -> list[tuple[str, str, int]]:
    """Text, paragraph and article; `plain` leaves out those with digits or foreign letters."""
    root = data("xquad/xquad.en.json")
    found = []
    for a, article in enumerate(json.loads(root.read_text(encoding="utf-8"))["data"]):
        for p, paragraph in enumerate(article["paragraphs"]):
            found += [(q["question"].strip(), f"x{a}-{p}", a) for q in paragraph["qas"]]
    if plain:
        found = [row for row in found if re.fullmatch(r"[A-Za-z ,.?'-]+", row[0])]
    return found[::every]


def read_aloud(text: str, voice: str, rate: int, *, markup: bool = False) -> Any:
    """Samples of espeak-ng, without the silence around the words."""
    command = [program("espeak-ng"), "-v", voice, "-s", str(rate), *(["-m"] if markup else [])]
    done = subprocess.run([*command, "--stdin", "--stdout"], input=text.encode(),
                          capture_output=True, check=True, timeout=60)  # fmt: skip
    sound = np.frombuffer(done.stdout[44 : len(done.stdout) // 2 * 2], dtype="<i2")
    loud = np.flatnonzero(np.abs(sound) > _QUIET * 32768)
    return sound[loud[0] : loud[-1] + 1]


def recorded(pieces: list[Any], gaps_s: list[float], seed: int) -> tuple[Any, float]:
    """Pieces with silences between them and around, in noise; and where the last one ends."""
    silence = [np.zeros(round(s * RATE)) for s in (BEFORE_S, *gaps_s, AFTER_S)]
    parts = [silence[0]]
    for piece, after in zip(pieces, silence[1:], strict=True):
        parts += [piece, after]
    sound = np.concatenate(parts)
    noise = np.random.default_rng(seed).normal(scale=NOISE * 32768, size=sound.size)
    stop = (sound.size - silence[-1].size) / RATE
    return np.clip(np.round(sound + noise), -32768, 32767).astype(np.int16), stop


def spoken(every: int, *, plain: bool = False) -> list[Spoken]:
    """Recordings; voices and rates take turns over the questions."""
    rows = questions(every, plain=plain)
    path = CACHE / "speech" / f"{every}-{plain}.npz"
    combinations = [(v, r) for r in RATES for v in VOICES]
    chosen = [combinations[n % len(combinations)] for n in range(len(rows))]
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        sounds = [read_aloud(t, v, r) for (t, _, _), (v, r) in zip(rows, chosen, strict=True)]
        ends = np.cumsum([len(s) for s in sounds])
        np.savez(path, flat=np.concatenate(sounds), ends=ends)
    with np.load(path) as kept:
        sounds = np.split(kept["flat"], kept["ends"][:-1])
    found = []
    for n, ((text, gold, article), (voice, rate)) in enumerate(zip(rows, chosen, strict=True)):
        samples, stop = recorded([sounds[n]], [], n)
        found.append(Spoken(text, gold, article, voice, rate, samples, stop))
    return found


def words(text: str) -> list[str]:
    """What counts for the word error rate: no case, no punctuation, hyphens as spaces."""
    return re.sub(r"[^a-z0-9' ]+", " ", text.lower().replace("-", " ")).replace("'", "").split()


def errors(reference: str, heard: str) -> tuple[int, int]:
    """Words to change, and words said."""
    a, b = words(reference), words(heard)
    row = list(range(len(b) + 1))
    for i, word in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (word != other))
    return row[-1], len(a)


def hear_recording(samples: Any, ears: Any) -> dict[str, Any]:
    """Events that are no frames, those frames at which silence begins, and CPU-s of readings.

    Chunks of 32 ms, as they would come; `readings` has for each frame with words the CPU-s that
    hearing it took, of which almost all is the recogniser.
    """
    ears.reset()
    step = round(0.032 * RATE)
    events, readings, quiet = [], [], []
    spent, speech = 0.0, False
    for place in range(0, len(samples), step):
        began = time.process_time()
        heard = ears.feed(samples[place : place + step], RATE)
        took = time.process_time() - began
        spent += took
        for entry in heard:
            if entry.kind != "frame":
                events.append([entry.kind, entry.data])
                readings.append([entry.kind, took])
            elif entry.data["speech"] != speech:
                speech = entry.data["speech"]
                quiet += [] if speech else [entry.time]
    return {"events": events, "readings": readings, "quiet": quiet, "cpu": spent}


def heard(every: int, cpu_s: float = np.inf) -> list[tuple[Spoken, dict[str, Any]]]:
    """Recordings with what was heard of them; kept, so that a run that was stopped goes on.

    After `cpu_s` CPU-s of hearing the others are left for the next run.
    """
    from foretell.converse.audio import Hearing, Patience

    folder = CACHE / "speech" / f"heard-{every}"
    folder.mkdir(parents=True, exist_ok=True)
    ears, found = None, []
    for n, one in enumerate(spoken(every)):
        path = folder / f"{n}.json"
        if not path.exists():
            if time.process_time() > cpu_s:
                break
            ears = ears or Hearing(turn_end=None, patience=Patience(plain_s=0.7))
            path.write_text(json.dumps(hear_recording(one.samples, ears)))
        found.append((one, json.loads(path.read_text())))
    return found
