"""Rules as JSON files, and what is checked when a rule meets new scores."""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import ArtifactError, DataError, ParameterError
from foretell.core.files import write_text_atomic
from foretell.trust.boundary import check_level
from foretell.trust.decision import Certificate
from foretell.trust.selective.checks import fingerprint, warn
from foretell.trust.selective.identity import ScoreIdentity, ScoreProfile, ScoreShift

if TYPE_CHECKING:
    from foretell.trust.selective.threshold import SelectiveThreshold

FORMAT, SCHEMA = "foretell.trust.rule", 1
PARAMETERS = (
    "alpha",
    "guarantee",
    "delta",
    "min_retention",
    "min_accept",
    "assume_monotone",
    "test_at",
    "direction",
)
RESULTS = (
    "guarantee_",
    "floor_",
    "n_calibration_",
    "n_accepted_",
    "n_errors_",
    "retention_",
    "calibration_hash_",
)


def describe(rule: SelectiveThreshold) -> dict[str, Any]:
    """A fitted rule as JSON values."""
    import foretell

    content: dict[str, Any] = {
        "format": FORMAT,
        "schema": SCHEMA,
        "foretell": foretell.__version__,
        "score": {**asdict(rule.identity_), "hash": rule.identity_.hash},
        "parameters": {name: _plain(getattr(rule, name)) for name in PARAMETERS},
        "results": {name: _plain(getattr(rule, name)) for name in RESULTS},
        "threshold": _number_out(rule.threshold_),
        "retention_interval": list(rule.retention_interval_),
        "certificate": rule.certificate_.to_dict(),
        "profile": rule.profile_.to_dict(),
        "wrong_scores": rule.wrong_scores_.tolist() if rule.guarantee_ == "fdr" else None,
    }
    return {**content, "sha256": _digest(content)}


def restore(cls: type[SelectiveThreshold], content: Any) -> SelectiveThreshold:
    """The rule that `describe` described."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ArtifactError(
            "This is not a rule: its format must be "
            f"{FORMAT!r}. Make one with SelectiveThreshold(...).fit(scores, errors).save(path)."
        )
    if content.get("schema") != SCHEMA:
        raise ArtifactError(
            f"This rule has schema {content.get('schema')!r}, and this version of foretell reads "
            f"schema {SCHEMA}. Update foretell, or calibrate again."
        )
    body = {key: value for key, value in content.items() if key != "sha256"}
    if content.get("sha256") != _digest(body):
        raise ArtifactError(
            "This rule was changed after it was calibrated (its checksum does not match), so its "
            "certificate says nothing. Calibrate again."
        )
    try:
        return _restored(cls, content)
    except (AttributeError, KeyError, TypeError, ValueError, ParameterError) as error:
        raise ArtifactError(
            f"This rule is incomplete or damaged ({type(error).__name__}: {error}). Calibrate "
            "again, and save the new rule."
        ) from error


def _restored(cls: type[SelectiveThreshold], content: dict[str, Any]) -> SelectiveThreshold:
    score = dict(content["score"])
    known = score.pop("hash")
    identity = ScoreIdentity(**score)
    identity.check()
    parameters, results = content["parameters"], content["results"]
    if known != identity.hash or {*parameters} != {*PARAMETERS} or {*results} != {*RESULTS}:
        raise ValueError("the hash of the score or the names of the fields do not fit")
    for name in ("alpha", "delta"):
        check_level(name, parameters[name])
    rule = cls(**parameters, score=identity)
    rule.identity_ = identity
    for name, value in results.items():
        setattr(rule, name, value)
    rule.threshold_ = _number_in(content["threshold"])
    rule._limit = None if rule.threshold_ is None else identity.sign * rule.threshold_
    low, high = content["retention_interval"]
    rule.retention_interval_ = (low, high)
    rule.profile_ = ScoreProfile.from_dict(content["profile"])
    rule.wrong_scores_ = np.asarray(content["wrong_scores"] or [], dtype=np.float64)
    rule.certificate_ = Certificate.from_dict(content["certificate"])
    return rule


def save(content: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a described rule to a JSON file."""
    write_text_atomic(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def read(path: str | os.PathLike[str]) -> Any:
    """The content of a JSON file, or an ArtifactError that says why not."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise ArtifactError(f"{path} is not a JSON file: {error}.") from error


def judge_shift(shift: ScoreShift, identity: ScoreIdentity, what: str) -> None:
    """Refuse scores that look turned around; warn where they look different."""
    if shift.mirrored:
        other = "higher" if identity.direction == "lower_is_surer" else "lower"
        anyway = " If they are right as they are, say predict(scores, check=False)."
        raise DataError(
            f"These {shift.n} {what} look like those of the calibration turned around (distance "
            f"{shift.distance:.2f} as given, {shift.mirrored_distance:.2f} turned), as if {other} "
            f"meant surer. The rule for {identity.name!r} expects the opposite: give -scores or "
            "1 - scores, or calibrate again on such scores."
            f"{anyway if what == 'scores' else ''}"
        )
    if shift.shifted:
        warn(
            f"These {shift.n} {what} are distributed differently from those of the calibration "
            f"(distance {shift.distance:.2f}, probability by chance {shift.p_value:.1g}). The "
            "certificate assumes that both come from one law; it does not hold for these cases. "
            "Calibrate again on labelled cases like them."
        )


def warn_if_calibration(raw: NDArray[np.float64], n: int, known: str) -> None:
    """Warn where a rule is applied to its own calibration cases."""
    if raw.size == n and fingerprint(raw) == known:
        warn(
            "These are the scores that the threshold was chosen on. What it does here says nothing "
            "about new cases: judge it on cases that it has not seen."
        )


def warn_if_small_pool(m: int, alpha: float) -> None:
    """Warn where few unlabelled cases make acceptance unlikely."""
    if m < 5 / alpha:
        warn(
            f"{m} unlabelled cases are few for alpha={alpha:g}: the guarantee holds, but little is "
            f"accepted below about {math.ceil(5 / alpha)}."
        )


def _digest(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple, np.ndarray)):
        return np.asarray(value).tolist()
    return value.item() if isinstance(value, np.generic) else value


def _number_out(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)


def _number_in(value: float | str | None) -> float | None:
    return None if value is None else float(value)
