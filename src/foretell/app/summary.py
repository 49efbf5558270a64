"""The findings of a study as one JSON object, for programs and for ``foretell show``."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

import numpy as np

from foretell.app.folder import FitFolder
from foretell.app.inputs import InputEffects
from foretell.app.study import Study


def summarise(study: Study, folder: FitFolder) -> dict[str, Any]:
    """Numbers and words of a study as plain JSON values."""
    data, held, origin = study.recordings, study.held_out, study.provenance
    analysis = study.analysis
    return {
        "title": study.title,
        "verdict": {"grade": study.verdict.grade, "sentence": study.verdict.sentence},
        "findings": list(study.findings),
        "warnings": list(study.warnings),
        "report": folder.report.as_posix(),
        "model": folder.model.as_posix(),
        "data": {
            "source": origin.source,
            "fingerprint": origin.fingerprint,
            "recordings": data.n_recordings,
            "samples": data.n_samples,
            "duration": data.duration,
            "median_interval": data.median_interval,
            "variables": list(data.names),
            "units": list(data.units),
            "controls": list(data.control_names),
            "time_unit": data.time_unit,
        },
        "held_out": {
            "state_space_divergence": held.divergence,
            "state_space_divergence_floor": held.divergence_floor,
            "histogram_divergence": held.histogram_divergence,
            "histogram_divergence_floor": held.histogram_divergence_floor,
            "spectrum_distance": held.hellinger,
            "spectrum_distance_floor": held.hellinger_floor,
            "valid_time": held.forecast.valid_time,
            "free_run": held.state,
            "driven_error": held.driven_error,
            "dominant_frequency": held.spectra[0].peak,
            "model_frequency": held.spectra[1].peak,
        },
        "trust_horizon": None if held.trust is None else asdict(held.trust),
        "equilibria": None
        if analysis.equilibria is None
        else {
            "completeness": str(analysis.equilibria.completeness),
            "items": [
                {
                    "state": np.asarray(e.state).tolist(),
                    "stable": bool(e.stable),
                    "kind": str(e.kind),
                    "unstable_dimension": int(e.unstable_dimension),
                }
                for e in analysis.equilibria.items
            ],
        },
        "cycles": None
        if analysis.cycles is None
        else [
            {
                "period": float(c.period),
                "stable": bool(c.stable),
                "quality": str(c.quality),
                "multipliers": [[float(m.real), float(m.imag)] for m in np.asarray(c.multipliers)],
                "residual": float(c.residual),
                "crossings": int(c.n_crossings),
            }
            for c in analysis.cycles
        ],
        "lyapunov": None
        if analysis.exponents is None
        else {
            "exponents": np.asarray(analysis.exponents.exponents).tolist(),
            "standard_errors": np.asarray(analysis.exponents.standard_errors).tolist(),
        },
        "inputs": _inputs(study.inputs),
        "plan": {
            "learner": study.plan.learner,
            "settings": dict(study.plan.settings),
            "effort": study.plan.effort,
            "embedding_dimension": study.plan.embedding_dimension,
            "lag": study.plan.lag,
            "choices": [[c.what, c.value, c.why] for c in study.plan.choices],
        },
        "comparison": None if study.comparison is None else asdict(study.comparison),
        "citations": list(study.citations),
        "provenance": {
            "created": origin.created,
            "versions": origin.versions,
            "command": origin.command,
            "fit_seconds": origin.fit_seconds,
            "total_seconds": origin.total_seconds,
            "updates": origin.updates,
            "random_state": origin.random_state,
        },
    }


def _inputs(found: InputEffects | None) -> dict[str, Any] | None:
    if found is None:
        return None
    reach = found.reachability
    return {
        "horizon": float(reach.times[-1]),
        "reach": reach.reach.tolist(),
        "directions": reach.directions.tolist(),
        "reached": reach.n_reached,
        "condition": reach.condition,
        "lead": found.lead.tolist(),
        "error_50_80_95": found.error.tolist(),
        "error_of_last_value": found.still.tolist(),
        "forecasts": found.n_starts,
    }


def to_json(content: dict[str, Any]) -> str:
    """Strict JSON: numbers that are not finite become null."""
    return json.dumps(_finite(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
