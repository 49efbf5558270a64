"""Words from synthetic speech: errors, when words come, what it costs, beside reading everything
once with the whole sound at hand and 30 s of input, as the common package does.

Five voices of espeak-ng at three rates read questions of XQuAD; those with numerals are left out of
the error rate, which would compare spellings. Seconds of delay count on the clock of the sound,
from the true end of the words; the CPU time of the reading is given beside them.
"""

import argparse
import re
import time
from typing import Any

import numpy as np
from _common import write_result
from _speech import RATES, VOICES, Spoken, errors, heard, words

EVERY = 16
SPELLED = re.compile(r"\d|\b[IVXL]{2,}\b")  # numbers, which are spelled in many ways


def final(record: dict[str, Any]) -> str:
    return " ".join(data["text"] for kind, data in record["events"] if kind == "final")


def rate_of(pairs: list[tuple[int, int]]) -> float:
    return sum(wrong for wrong, _ in pairs) / max(sum(n for _, n in pairs), 1)


def interval(pairs: list[tuple[int, int]]) -> str:
    """Error rate with a 95 % interval over recordings."""
    counts = np.array(pairs, dtype=float)
    draws = np.random.default_rng(0).integers(len(counts), size=(4000, len(counts)))
    some = counts[draws].sum(axis=1)
    low, high = np.quantile(some[:, 0] / some[:, 1], [0.025, 0.975])
    return f"{rate_of(pairs):.3f} [{low:.3f}, {high:.3f}]"


def error_rates(rows: list[tuple[Spoken, dict[str, Any]]]) -> dict[str, Any]:
    table = []
    for rate in RATES:
        line: list[Any] = [f"{rate} words a minute"]
        for voice in VOICES:
            some = [errors(s.text, final(r)) for s, r in rows if (s.voice, s.rate) == (voice, rate)]
            line.append(rate_of(some) if some else None)
        line.append(interval([errors(s.text, final(r)) for s, r in rows if s.rate == rate]))
        table.append(line)
    voices = [
        rate_of([errors(s.text, final(r)) for s, r in rows if s.voice == voice]) for voice in VOICES
    ]
    table.append(["all rates", *voices, interval([errors(s.text, final(r)) for s, r in rows])])
    return {
        "columns": ["", *VOICES, "all voices"],
        "rows": table,
        "note": f"Word error rate of the final words; {len(rows)} questions without numerals, "
        f"{sum(len(words(s.text)) for s, _ in rows)} words; intervals over questions.",
    }


def delays(rows: list[tuple[Spoken, dict[str, Any]]]) -> dict[str, Any]:
    """When the last words are there, and when they are known to be all."""
    steps: dict[str, list[float]] = {name: [] for name in (
        "silence is noticed", "words of the whole turn (a partial)", "words are final",
        "turn is over, by 0.7 s of silence")}  # fmt: skip
    cpu: list[float] = []
    for spoken, record in rows:
        after = [t - spoken.stop_s for t in record["quiet"] if t > spoken.stop_s - 0.1]
        if after:
            steps["silence is noticed"].append(after[0])
        last: dict[str, float] = {}
        for (kind, data), (_, took) in zip(record["events"], record["readings"], strict=True):
            last[kind] = data["at"] - spoken.stop_s
            if kind == "partial":
                whole = took
        for name, kind in zip(list(steps)[1:], ("partial", "final", "end_of_turn"), strict=True):
            if kind in last:
                steps[name].append(last[kind])
        if "partial" in last:
            cpu.append(whole)
    table = [[n, *_quantiles(v), None] for n, v in steps.items()]
    table[1][-1] = f"{np.median(cpu):.2f} ({np.quantile(cpu, 0.95):.2f})"
    return {
        "columns": ["step", "median (s)", "P95 (s)", "CPU-s of its reading, median (P95)"],
        "rows": table,
        "note": f"{len(rows)} questions; from the true end of the words, on the clock of the "
        "sound. The reading begins when the partial is due, so its CPU-s come on top.",
    }


def streaming(rows: list[tuple[Spoken, dict[str, Any]]]) -> dict[str, Any]:
    """How early a word is there, how early it is stable, and whether stable words stay."""
    first, stable, revised, shown = [], [], 0, 0
    for spoken, record in rows:
        said = words(final(record))
        if len(said) != len(words(spoken.text)):
            continue  # a word cannot be matched with its time
        # Words are taken as evenly long in letters: espeak-ng gives no times here.
        lengths = np.cumsum([len(w) + 1 for w in said])
        ends = 0.5 + (spoken.stop_s - 0.5) * lengths / lengths[-1]
        seen: dict[int, float] = {}
        sure: dict[int, float] = {}
        for kind, data in record["events"]:
            if kind not in ("partial", "final"):
                continue
            now = words(data["text"])
            count = len(now) if kind == "final" else data["stable"]
            for place, word in enumerate(now[: len(said)]):
                if word == said[place]:
                    seen.setdefault(place, data["at"])
                    if place < count:
                        sure.setdefault(place, data["at"])
                if place < count and kind == "partial":
                    shown += 1
                    revised += word != said[place]
        first += [seen[p] - ends[p] for p in seen]
        stable += [sure[p] - ends[p] for p in sure]
    return {
        "columns": ["", "median (s)", "P95 (s)"],
        "rows": [
            ["a word is in a partial", *_quantiles(first)],
            ["a word is stable", *_quantiles(stable)],
        ],
        "note": f"From the end of the word, estimated from its place in the sentence, to the event "
        f"that has it; one pause-free stretch, new readings every 0.5 s. {revised} of {shown} "
        "words that were called stable were changed by the final reading.",
    }


def peers(rows: list[tuple[Spoken, dict[str, Any]]], limit: int) -> dict[str, Any]:
    """CPU time and errors of other ways to read the same sounds."""
    from foretell.converse.audio import Resampler, WhisperRecogniser, as_mono
    from foretell.converse.audio.weights import WHISPER

    rows = rows[:limit]
    ours = WhisperRecogniser()

    def cut(spoken: Spoken) -> Any:
        sound = Resampler(22_050).feed(as_mono(spoken.samples))
        return sound[round(0.2 * 16_000) : round((spoken.stop_s + 0.25) * 16_000)]

    def all_of(read: Any) -> tuple[float, list[tuple[int, int]]]:
        sounds = [cut(s) for s, _ in rows]
        read(sounds[0])
        began = time.process_time()
        texts = [read(sound) for sound in sounds]
        spent = time.process_time() - began
        return spent, [errors(s.text, t) for (s, _), t in zip(rows, texts, strict=True)]

    ways: dict[str, Any] = {"ours, all at once": lambda x: ours.transcribe(x, careful=True)}
    try:
        from faster_whisper import WhisperModel

        model = WhisperModel(str(WHISPER.checked()), device="cpu", compute_type="int8",
                             cpu_threads=1)  # fmt: skip
        for beam in (1, 5):
            ways[f"faster-whisper, beam {beam}"] = lambda x, beam=beam: " ".join(
                s.text for s in model.transcribe(x, beam_size=beam, language="en")[0]
            )
    except ImportError:
        print("faster-whisper is not installed")
    seconds = sum(s.seconds - 2.5 for s, _ in rows)
    streamed = sum(r["cpu"] for _, r in rows)
    table = [["ours, streaming", streamed / seconds,
              interval([errors(s.text, final(r)) for s, r in rows])]]  # fmt: skip
    for name, read in ways.items():
        spent, pairs = all_of(read)
        table.append([name, spent / seconds, interval(pairs)])
    return {
        "columns": ["", "CPU-s per second of speech", "word error rate"],
        "rows": table,
        "note": f"{len(rows)} questions, {seconds:.0f} s with half a second before each; the same "
        "weights everywhere, 8-bit, one thread. Streaming includes resampling, voice activity and "
        "2.5 s of silence after each question.",
    }


def _quantiles(values: Any) -> list[float]:
    return [float(np.median(values)), float(np.quantile(values, 0.95))]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=EVERY, help="take every n-th question")
    parser.add_argument("--peer", type=int, default=10, help="questions for the other ways")
    options = parser.parse_args()
    rows = heard(options.every)
    plain = [(s, r) for s, r in rows if not SPELLED.search(s.text)]
    tables = {
        "audio-errors": error_rates(plain),
        "audio-delays": delays(rows),
        "audio-partials": streaming(plain),
        "audio-cost": peers(plain, options.peer),
    }
    for table in tables.values():
        print(*table["rows"], table["note"], sep="\n")
    if options.every == EVERY:
        write_result(
            "audio_recognition", {"every": EVERY, "voices": VOICES, "rates": RATES}, tables
        )


if __name__ == "__main__":
    main()
