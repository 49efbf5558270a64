"""Texts and voices in several languages that are at hand offline.

Texts: the translated messages that Sphinx carries, cut at word ends to at most 80 characters; the
same message in all languages is one group. Held-out source: the messages of pydata-sphinx-theme.
Voices: espeak-ng reads such messages in variants of its voice; a variant is a group.
"""

import gettext
import io
import re
import subprocess
import wave

import numpy as np
from _common import CACHE, package, program

TEXT_LANGUAGES = ("ca", "de", "es", "fr", "it", "pt_BR")
VOICES = {"de": "de", "es": "es", "fr": "fr-fr", "it": "it", "pt_BR": "pt-br"}
VARIANTS = ("m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "f1", "f2", "f3", "f4", "f5")
RATE = 16_000


def messages(source: str, language: str) -> dict[str, str]:
    """Translations without markup and place holders."""
    folder = package(source) / "locale" / language / "LC_MESSAGES"
    with (folder / "sphinx.mo").open("rb") as handle:
        catalogue = gettext.GNUTranslations(handle)._catalog  # type: ignore[attr-defined]
    clean = {
        key: re.sub(r"\s+", " ", re.sub(r"[%{<:`][^ ]*|[^\w ,.']", " ", text)).strip()
        for key, text in catalogue.items()
        if isinstance(key, str) and key and isinstance(text, str)
    }
    return {key: text for key, text in clean.items() if len(text) >= 12 and text != key}


def texts(package: str = "sphinx") -> tuple[list[str], np.ndarray, np.ndarray]:
    """Turns, languages and groups (message); messages known in at least three languages."""
    languages = TEXT_LANGUAGES if package == "sphinx" else ("ca", "de", "es", "fr", "it")
    known = {language: messages(package, language) for language in languages}
    rows = []
    for key in sorted(set().union(*known.values())):
        have = [language for language in languages if key in known[language]]
        if len(have) >= 3:
            rows += [(_cut(known[language][key]), language, key) for language in have]
    turns, labels, groups = zip(*rows, strict=True)
    return list(turns), np.array(labels), np.array(groups)


def voices(per_voice: int = 8, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Sounds at 16 kHz with a little noise, languages and groups (variant)."""
    path = CACHE / "cld_voices" / f"{per_voice}-{seed}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        sounds, labels, groups = _read_aloud(per_voice, seed)
        ends = np.cumsum([len(sound) for sound in sounds])
        np.savez(path, flat=np.concatenate(sounds), ends=ends, labels=labels, groups=groups)
    with np.load(path) as kept:
        flat = kept["flat"].astype(np.float64) / 32768.0
        rng = np.random.default_rng(seed)
        flat = flat + 10 ** rng.uniform(-3.5, -2.5) * rng.standard_normal(flat.size)
        return np.split(flat, kept["ends"][:-1]), kept["labels"], kept["groups"]


def _read_aloud(per_voice: int, seed: int) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    sounds, labels, groups = [], [], []
    for language, voice in VOICES.items():
        lines = [text for text in messages("sphinx", language).values() if len(text) > 40]
        for variant in VARIANTS:
            for line in rng.choice(lines, per_voice, replace=False):
                pace, pitch = str(rng.integers(140, 200)), str(rng.integers(35, 65))
                done = subprocess.run(
                    [program("espeak-ng"), "-v", f"{voice}+{variant}", "-s", pace, "-p", pitch,
                     "--stdout", line[:90]],
                    capture_output=True, check=True, timeout=60,
                )  # fmt: skip
                sounds.append(_samples(done.stdout))
                labels.append(language)
                groups.append(variant)
    return sounds, np.array(labels), np.array(groups)


def _samples(content: bytes) -> np.ndarray:
    from scipy.signal import resample_poly

    with wave.open(io.BytesIO(content)) as sound:
        rate, data = sound.getframerate(), sound.readframes(sound.getnframes())
    samples = np.frombuffer(data, dtype="<i2").astype(np.float64)
    samples = resample_poly(samples, RATE, rate)[: 5 * RATE]
    return np.clip(np.round(samples), -32768, 32767).astype(np.int16)


def _cut(text: str) -> str:
    return text if len(text) <= 80 else text[:80].rsplit(" ", 1)[0]
