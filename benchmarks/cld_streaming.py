"""Time until the language is decided, while the turn goes on, beside a fixed window of 3 seconds.

Voices by espeak-ng; the detector is fitted and its threshold tested on ten variants of the voice,
and judged on the three others. The fixed rule pools the first 3 s and always answers.
"""

import warnings
from typing import Any

import numpy as np
from _common import WORKERS, median_interval, run_jobs, shown, write_result
from _languages import RATE, voices

from foretell.converse.language import ConvexLanguageDetector, LogMel
from foretell.converse.language.listening import looks

SPLITS = 3
LEVELS = (0.05, 0.1, 0.2)


def split(seed: int) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    sounds, y, groups = voices()
    rng = np.random.default_rng(seed)
    names = rng.permutation(np.unique(groups))
    new = np.isin(groups, names[:3])
    old = np.flatnonzero(~new)
    result: dict[str, Any] = {}
    for level in LEVELS:
        detector = ConvexLanguageDetector(
            encoder=LogMel(), level=level, delta=0.1, random_state=seed
        ).fit([sounds[i] for i in old], y[old], groups=groups[old])
        said = [detector.decide(sounds[i]) for i in np.flatnonzero(new)]
        decided = np.array([entry.accepted for entry in said])
        right = np.array([entry.label for entry in said]) == y[new]
        times = [e.after if e.accepted else min(3.0, len(sounds[i]) / RATE)
                 for e, i in zip(said, np.flatnonzero(new), strict=True)]  # fmt: skip
        result[str(level)] = [
            detector.threshold_ if np.isfinite(detector.threshold_) else 9.0,
            float(decided.mean()),
            float(right[decided].mean()) if decided.any() else 1.0,
            float(np.mean(times)),
        ]
    fixed = [
        looks(sounds[i], detector.encoder_, detector.windows_)[-1] for i in np.flatnonzero(new)
    ]
    answers = detector.head_.predict(np.array([x for _, x in fixed]))
    result["fixed"] = [
        0.0,
        1.0,
        float(np.mean(answers == y[new])),
        float(np.mean([t for t, _ in fixed])),
    ]
    return result


def main() -> None:
    results = run_jobs("cld_streaming", split, [{"seed": s} for s in range(SPLITS)], WORKERS)
    rows = []
    for key, name in [("fixed", "fixed window"), *((str(v), f"level {v:g}") for v in LEVELS)]:
        columns = np.array([result[key] for result in results]).T
        rows.append([name, *(shown(median_interval(column)) for column in columns[1:])])
    table = {
        "columns": ["rule", "share decided", "right among them", "mean time, s"],
        "rows": rows,
        "note": f"{SPLITS} splits by voice; turns without decision count with the time until then.",
    }
    write_result("cld_streaming", {"splits": SPLITS}, {"cld-streaming": table})


if __name__ == "__main__":
    main()
