"""Pause or end of the turn: how soon an answer comes, and what happens when it was a pause.

Questions of XQuAD are said with a pause inside (see _turns.py). First table: the whole path in
virtual time. The sound goes through resampling, voice activity and a conversation whose answers
take 0.05 s; words are those that the recogniser heard once, so that the readings cost nothing. A
question is cut in two when what is answered at the end lacks its first part; an answer is too early
when it is shown, or heard, while the speaker only paused. Second table: what detectors of an end
say at both places.
"""

from typing import Any

import numpy as np
from _common import CACHE, write_result
from _speech import NOISE, RATE as RATE_ESPEAK, RATES, VOICES, read_aloud
from _turns import MORE_S, RATE_16, SETTLE_S, at_16, by_piper, turns

from foretell.converse import Conversation, StreamingLookup, run_conversation
from foretell.converse.audio import Hearing, Patience, unfinished
from foretell.converse.audio.activity import best_activity
from foretell.converse.audio.resampling import BLOCK
from foretell.converse.lookup import BM25, Timing
from foretell.converse.lookup.words import split_words
from foretell.core.timeline import Event

EVERY = 36
PAUSES = (0.6, 0.8, 1.2)
BEFORE_S, AFTER_S, ANSWER_S = 0.3, 1.8, 0.05
VOICE_S = 0.15  # an answer is heard so much later than it is shown
SMART = "voice (Smart Turn 3.2)"
NEVER = 1e-3  # seconds: nothing goes on after its answer
RULES: dict[str, tuple[Patience, float, bool]] = {
    "0.7 s, an answer ends the question": (Patience(plain_s=0.7, resume_s=NEVER), 0.0, False),
    "0.55 s, taken back if speech goes on (default)": (Patience(), VOICE_S, False),
    "0.4 s, taken back if speech goes on": (Patience(plain_s=0.4), VOICE_S, False),
    "Smart Turn, taken back if speech goes on": (Patience(), VOICE_S, True),
}


class Scripted:
    """A recogniser that knows what was heard."""

    text = ""

    def transcribe(self, samples: Any, *, careful: bool = False) -> str:
        return self.text

    def words(self, samples: Any) -> list[Any]:
        return []


class Replayed:
    """Voice activity that was computed before."""

    def __init__(self, chances: Any) -> None:
        self.chances, self.at = chances, 0

    def __call__(self, frame: Any) -> float:
        self.at += 1
        return float(self.chances[self.at - 1])

    def reset(self) -> None:
        self.at = 0


def sounds(found: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    """The first part and the rest of each turn, at 16 kHz."""
    combinations = [(v, r) for r in RATES for v in VOICES]
    rests = [_rest(turn) for turn in found]
    said: list[Any] = []
    mine = [n for n, turn in enumerate(found) if turn["by"] == "Piper"]
    texts = [text for n in mine for text in (found[n]["part"], rests[n])]
    by_voice = by_piper(texts) if mine else []
    for n, turn in enumerate(found):
        if turn["by"] == "Piper":
            place = 2 * mine.index(n)
            said.append((by_voice[place], by_voice[place + 1]))
        else:
            voice, rate = combinations[n % len(combinations)]
            said.append(
                tuple(
                    at_16(read_aloud(t, voice, rate), RATE_ESPEAK) for t in (turn["part"], rests[n])
                )
            )
    return said


def _rest(turn: dict[str, Any]) -> str:
    return " ".join(turn["text"].split()[len(turn["part"].split()) :])


def laid_out(first: Any, rest: Any, pause: float, seed: int) -> tuple[Any, float, float, float]:
    """The sound, and where the first part ends, the rest begins and ends."""
    quiet = [np.zeros(round(s * RATE_16), np.float32) for s in (BEFORE_S, pause, AFTER_S)]
    first, rest = (part[: -round(MORE_S * RATE_16)] for part in (first, rest))
    sound = np.concatenate([quiet[0], first, quiet[1], rest, quiet[2]]).astype(np.float32)
    sound += np.random.default_rng(seed).normal(scale=NOISE, size=sound.size).astype(np.float32)
    ends = np.cumsum([len(p) for p in (quiet[0], first, quiet[1], rest)]) / RATE_16
    return sound[: len(sound) // BLOCK * BLOCK], float(ends[1]), float(ends[2]), float(ends[3])


def activity(found: list[dict[str, Any]]) -> list[list[tuple[Any, float, float, float]]]:
    """For each turn and pause: chances of speech by frame, and the three places; kept in files."""
    folder = CACHE / "speech" / f"turns-{EVERY}"
    paths = [folder / f"activity-{n}.npz" for n in range(len(found))]
    if not all(path.exists() for path in paths):
        gate = best_activity()
        for n, (first, rest) in enumerate(sounds(found)):
            if paths[n].exists():
                continue
            kept = {}
            for k, pause in enumerate(PAUSES):
                sound, *places = laid_out(first, rest, pause, n)
                gate.reset()
                kept[f"chances{k}"] = np.array([gate(x) for x in sound.reshape(-1, BLOCK)])
                kept[f"places{k}"] = np.array(places)
            np.savez(paths[n], **kept)
    rows = []
    for path in paths:
        with np.load(path) as kept:
            rows.append([(kept[f"chances{k}"], *map(float, kept[f"places{k}"]))
                         for k in range(len(PAUSES))])  # fmt: skip
    return rows


def played(
    turn: dict[str, Any], row: tuple[Any, float, float, float], rule: tuple[Patience, float, bool]
) -> dict[str, float]:
    """What becomes of one turn under one rule."""
    (chances, first_ends, rest_begins, rest_ends), (patience, voice_s, smart) = row, rule
    words, script = turn["pause"]["said"], Scripted()

    def opinion(samples: Any, text: str) -> float | None:
        there = unfinished(None, text)
        place = "pause" if text.strip() == words.strip() else "end"
        return there if there is not None or not smart else turn[place][SMART]

    ears = Hearing(script, activity=Replayed(chances), turn_end=opinion, patience=patience)
    events = []
    silence = np.zeros(BLOCK, np.float32)
    for n in range(len(chances)):
        script.text = words if n * BLOCK / RATE_16 < (first_ends + rest_begins) / 2 else "the rest"
        heard = ears.feed(silence, RATE_16)
        events += [Event(h.kind, h.time, h.data) for h in heard]
    talk = Conversation(StreamingLookup(BM25({"a": f"{turn['text']} the rest"}), k=1),
                        manners=ears.manners)  # fmt: skip
    line = run_conversation(talk, events, Timing(document_s=ANSWER_S / 2, reply_s=ANSWER_S / 2))
    said = [e.time for e in line.of("say")]
    last = split_words(line.of("compose")[-1]["text"]) if line.of("compose") else []
    early = [t for t in said if t < rest_begins]
    after = [t - rest_ends for t in said if t >= rest_ends]
    return {
        "cut": float(last[: len(split_words(words))] != split_words(words)),
        "shown": float(bool(early)),
        "heard": float(any(t + voice_s < rest_begins for t in early)),
        "wait": after[0] if after else np.nan,
    }


def whole_path(found: list[dict[str, Any]]) -> dict[str, Any]:
    known = activity(found)
    table = []
    for name, rule in RULES.items():
        per = [[played(turn, rows[k], rule) for turn, rows in zip(found, known, strict=True)]
               for k in range(len(PAUSES))]  # fmt: skip
        cells = [
            " / ".join(
                f"{np.mean([r[kind] for r in some]):.2f}" for kind in ("cut", "shown", "heard")
            )
            for some in per
        ]
        waits = [r["wait"] for some in per for r in some]
        table.append([name, *cells, float(np.nanmedian(waits)), float(np.nanquantile(waits, 0.95))])
        print(table[-1], flush=True)
    return {
        "columns": ["rule", *(f"pause of {d:g} s" for d in PAUSES), "answer shown after the end, "
                    "median (s)", "P95 (s)"],
        "rows": table,
        "note": f"{len(found)} turns. For each pause: share cut in two / where an answer was shown "
        f"in the pause / where it was heard in the pause, which begins {VOICE_S} s after it is "
        "shown. Seconds count from the true end of the words; readings and answers cost "
        f"{ANSWER_S} s.",
    }  # fmt: skip


def detectors(found: list[dict[str, Any]]) -> dict[str, Any]:
    rows = []
    for by in dict.fromkeys(turn["by"] for turn in found):
        mine = [turn for turn in found if turn["by"] == by]
        for name in ("words that go on", SMART, "words (LiveKit, Vietnamese)"):
            p = np.array(
                [[_chance(turn[place], name) for place in ("pause", "end")] for turn in mine]
            )
            above = np.mean(p[:, 1][:, None] > p[:, 0])
            auc = float(above + 0.5 * np.mean(p[:, 1][:, None] == p[:, 0]))
            rows.append([by, len(mine), name, float(np.mean(p[:, 0] >= 0.5 + 1e-9)),
                         float(np.mean(p[:, 1] < 0.5)), auc])  # fmt: skip
    return {
        "columns": ["speech by", "turns", "detector", "pauses taken for an end",
                    "ends taken for a pause", "AUC"],
        "rows": rows,
        "note": f"Detectors hear the words and {SETTLE_S} s of silence. Half of the pauses are "
        "said with a comma, half as if they were the end.",
    }  # fmt: skip


def _chance(heard: dict[str, Any], name: str) -> float:
    if name in heard:
        return float(heard[name])
    opinion = unfinished(None, heard["said"])
    return 0.5 if opinion is None else opinion


def main() -> None:
    found = turns(EVERY)
    tables = {"audio-turn-end": whole_path(found), "audio-turn-detectors": detectors(found)}
    print(*tables["audio-turn-detectors"]["rows"], sep="\n")
    write_result("audio_turn_end", {"every": EVERY, "pauses": PAUSES}, tables)


if __name__ == "__main__":
    main()
