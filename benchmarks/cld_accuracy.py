"""Accuracy of the convex ReLU classifier beside other heads on the same features.

Texts split by message, voices by espeak-ng variant, 20 splits each: no message or variant is on
both sides. Then another source of texts, and voices through a telephone band, which no setting was
chosen on. All heads at their defaults, the others on standardised columns.
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from _common import WORKERS, _resampled, run_jobs, write_result
from _languages import RATE, texts, voices

from foretell.converse.language import CharacterNgrams, ConvexReLUClassifier, LogMel

SPLITS, TRAIN_TEXT = 20, 300


def heads(seed: int) -> dict[str, Callable[[], Any]]:
    from sklearn.linear_model import LogisticRegression, RidgeClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    def scaled(head: Any) -> Any:
        return make_pipeline(StandardScaler(), head)

    return {
        "convex ReLU": lambda: ConvexReLUClassifier(random_state=seed),
        "logistic regression": lambda: scaled(LogisticRegression(max_iter=2000)),
        "ridge": lambda: scaled(RidgeClassifier()),
        "SVM, rbf": lambda: scaled(SVC()),
        "MLP, 256": lambda: scaled(MLPClassifier((256,), random_state=seed)),
    }


def sound_features(sounds: list[np.ndarray]) -> np.ndarray:
    encoder = LogMel()
    return np.array([encoder.summary(encoder(sound).mean(axis=0)) for sound in sounds])


def telephone(sounds: list[np.ndarray]) -> list[np.ndarray]:
    from scipy.signal import butter, sosfilt

    band = butter(4, [300, 3400], "bandpass", fs=RATE, output="sos")
    return [np.asarray(sosfilt(band, sound)) for sound in sounds]


def features(kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows, labels, groups; rows of the held-out variation and their labels."""
    if kind == "text":
        encoder = CharacterNgrams()
        turns, labels, groups = texts()
        others, other_labels, _ = texts("pydata_sphinx_theme")
        X = np.vstack([encoder(turn) for turn in turns])
        return X, labels, groups, np.vstack([encoder(t) for t in others]), other_labels
    sounds, labels, groups = voices()
    return sound_features(sounds), labels, groups, sound_features(telephone(sounds)), labels


def split(kind: str, seed: int) -> dict[str, Any]:
    X, y, groups, X_other, y_other = features(kind)
    rng = np.random.default_rng(seed)
    names = rng.permutation(np.unique(groups))
    held = np.isin(groups, names[: round(0.3 * names.size)])
    train = np.flatnonzero(~held)
    if kind == "text":
        train = rng.permutation(train)[:TRAIN_TEXT]
        other = np.ones(len(y_other), bool)
    else:
        other = held
    result: dict[str, Any] = {}
    for name, make in heads(seed).items():
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = make().fit(X[train], y[train])
        seconds = time.process_time() - start
        result[name] = [
            float(np.mean(model.predict(X[held]) == y[held])),
            float(np.mean(model.predict(X_other[other]) == y_other[other])),
            seconds,
        ]
    return result


def table(kind: str, results: list[dict[str, Any]]) -> dict[str, Any]:
    ours = np.array([result["convex ReLU"] for result in results])
    rows = []
    for name in results[0]:
        theirs = np.array([result[name] for result in results])
        edge = ours[:, 0] - theirs[:, 0]
        means = _resampled(edge.size, 0, edge).mean(axis=1)
        low, high = np.quantile(means, [0.025, 0.975])
        rows.append([
            name, f"{theirs[:, 0].mean():.3f}",
            "" if name == "convex ReLU" else f"{edge.mean():+.3f} [{low:+.3f}, {high:+.3f}]",
            f"{theirs[:, 1].mean():.3f}", f"{np.median(theirs[:, 2]):.2g}",
        ])  # fmt: skip
    other = "other source" if kind == "text" else "telephone band"
    return {
        "columns": [
            "head", "accuracy, new groups", "ours less this", f"accuracy, {other}", "fit, CPU-s",
        ],
        "rows": rows,
        "note": f"{len(results)} splits; intervals by paired bootstrap over splits.",
    }  # fmt: skip


def main() -> None:
    tables = {}
    for kind in ("text", "voice"):
        jobs = [{"kind": kind, "seed": seed} for seed in range(SPLITS)]
        tables[f"cld-accuracy-{kind}"] = table(kind, run_jobs("cld_accuracy", split, jobs, WORKERS))
    write_result("cld_accuracy", {"splits": SPLITS, "texts that train": TRAIN_TEXT}, tables)


if __name__ == "__main__":
    main()
