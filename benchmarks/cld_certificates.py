"""Certified radii of the convex ReLU classifier: three bounds, attacks, and real movements.

Voices (log-mel features, new variants of the voice in the test part): median radii by bound and
beta, 10^4 projected gradient attacks inside the radius, the share of a radius at which attacks
succeed at last, and how far a white noise at 20 dB moves the features. All in scaled units.
"""

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _common import write_result
from _languages import voices
from cld_accuracy import sound_features

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from foretell.converse.language import ConvexReLUClassifier
from tests.theory.test_relu_certificates import attack

SHARES = (0.003, 0.03, 0.3)
ATTACKS = 10_000


def noisy(sounds: list[np.ndarray], decibels: float, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [
        sound + np.std(sound) * 10 ** (-decibels / 20) * rng.standard_normal(sound.size)
        for sound in sounds
    ]


def main() -> None:
    warnings.simplefilter("ignore")
    sounds, y, groups = voices()
    names = np.random.default_rng(0).permutation(np.unique(groups))
    held = np.isin(groups, names[:4])
    X = sound_features(sounds)
    moved = sound_features(noisy([s for s, h in zip(sounds, held, strict=True) if h], 20.0, 1))
    first = ConvexReLUClassifier(calibrate=False, random_state=0).fit(X[~held], y[~held])
    rows: list[list[Any]] = []
    more: dict[str, Any] = {}
    for share in SHARES:
        model = ConvexReLUClassifier(
            beta=share * first.beta_max_, calibrate=False, random_state=0
        ).fit(X[~held], y[~held])
        scaled, network = model.scaling_(X[held]), model.network_
        right = model.predict(X[held]) == y[held]
        reach = {b: network.certified_radius(scaled, b) for b in ("total", "pairwise", "spectral")}
        medians = {bound: float(np.median(radius)) for bound, radius in reach.items()}
        movement = np.linalg.norm(model.scaling_(moved) - scaled, axis=1)
        rows.append([
            f"{share:g}", f"{right.mean():.3f}", *(f"{v:.4f}" for v in medians.values()),
            f"{np.min(reach['pairwise'] / reach['total']):.2f}",
            f"{np.median(reach['spectral'] / reach['total']):.1f}",
            f"{np.median(movement):.2f}", f"{np.mean(reach['spectral'] > movement):.3f}",
            f"{np.mean(model.predict(moved) != model.predict(X[held])):.3f}",
        ])  # fmt: skip
        print(rows[-1], flush=True)
        if share == 0.03:
            more = attacked(network, scaled, reach["spectral"])
    table = {
        "columns": [
            "beta / largest", "accuracy", "median T2", "median T3", "median T4",
            "least T3 / T2", "median T4 / T2", "movement by 20 dB noise", "certified against it",
            "labels that it flips",
        ],
        "rows": rows,
        "note": f"{int(held.sum())} turns of new voices, 5 languages; T2 total, T3 pairwise, T4 "
        "spectral bound.",
    }  # fmt: skip
    attacks = {
        "columns": ["", "count"],
        "rows": [[key, value] for key, value in more.items()],
        "note": "Each attack: 25 projected gradient steps from a random start towards one class.",
    }
    write_result("cld_certificates", {}, {"cld-radii": table, "cld-attacks": attacks})


def attacked(network: Any, X: np.ndarray, radius: np.ndarray) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    each = len(X) * (network.n_outputs - 1)
    starts = -(-ATTACKS // each)
    inside = attack(network, X, radius, rng, starts=starts)
    result = {
        "attacks inside the radius": each * starts,
        "turns whose label they change": int(inside.sum()),
        "turns": len(X),
    }
    for factor in (2, 4, 8):
        broken = attack(network, X, factor * radius, rng, starts=2)
        result[f"turns changed within {factor} radii"] = int(broken.sum())
    return result


if __name__ == "__main__":
    main()
