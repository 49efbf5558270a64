"""A table of two tanks becomes a model, the model a plan, and the plan keeps the real tank below.

The tanks are simulated here by their equations with many small Euler steps, apart from everything
that the package knows; `foretell` sees a table with rounded, noisy levels only.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from foretell.app.commands import app

pytestmark = pytest.mark.story

STEP, INNER, NOISE, LIMIT = 4.0, 200, 0.02, 7.0


def tanks(upper: float, lower: float, pump: np.ndarray) -> np.ndarray:
    """Levels (T + 1, 2): a pump fills the upper tank, which runs into the lower one."""
    rows = [(upper, lower)]
    h = STEP / INNER
    for u in pump:
        for _ in range(INNER):
            out = 0.06 * np.sqrt(max(upper, 0.0))
            upper = min(upper + h * (0.04 * u - out), 10.0)
            lower = min(lower + h * (out - 0.06 * np.sqrt(max(lower, 0.0))), 10.0)
        rows.append((upper, lower))
    return np.array(rows)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """The folder with the table, and the true levels at its end."""
    folder = tmp_path_factory.mktemp("tanks")
    rng = np.random.default_rng(4)
    pump = np.repeat(rng.uniform(0.5, 4.5, 75), 16)
    pump[-16:] = 4.4  # it ends while the pump runs too fast for the lower tank
    levels = tanks(3.0, 3.0, pump)[:-1]
    seen = levels + NOISE * rng.normal(size=levels.shape)
    lines = ["time [s],pump [V],upper [m],level [m]"]
    lines += [
        f"{STEP * k:g},{u:.3f},{x:.3f},{y:.3f}"
        for k, (u, (x, y)) in enumerate(zip(pump, seen, strict=True))
    ]
    (folder / "tanks.csv").write_text("\n".join(lines) + "\n")
    return folder, levels[-1]


def test_the_plan_keeps_the_real_tank_below(
    place: tuple[Path, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, now = place
    monkeypatch.chdir(folder)
    run = CliRunner().invoke
    words = ["fit", "tanks.csv", "--controls", "pump", "--learner", "edmdc", "--effort", "1"]
    done = run(app, [*words, "--out", "tank", "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)["inputs"]
    assert told["reached"] == 2
    assert told["error_50_80_95"][0][-1] < told["error_of_last_value"][-1]
    assert "What the input can do" in Path("tank/report.html").read_text(encoding="utf-8")

    words = ["plan", "tank", "--keep", f"level below {LIMIT}", "--horizon", "40", "--json"]
    done = run(app, words)
    assert done.exit_code == 0, done.output
    plan = json.loads(done.stdout)
    assert plan["kept"] > 0.8
    pump = np.array(plan["inputs"]["pump"])
    assert pump.min() >= 0.5 - 1e-6
    assert pump.max() <= 4.5 + 1e-6
    real = tanks(*now, pump)[1:, 1]
    untouched = tanks(*now, np.full(40, 4.4))[1:, 1]
    assert real.max() < LIMIT < untouched.max()
    assert real.max() > 0.6 * LIMIT  # kept below by steering, not by shutting the pump off
    low, high = (np.array(plan[side]["level"])[1:] for side in ("low", "high"))
    assert ((real > low - 0.3) & (real < high + 0.3)).mean() > 0.8
