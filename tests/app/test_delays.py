"""Lifted models of a plant that is partly measured get former samples, and use them throughout."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from foretell.app.commands import app
from foretell.app.fitting import build
from foretell.app.planning import make_plan
from foretell.data import Trajectories
from foretell.data.controlled_systems import cascaded_tanks, duffing
from foretell.dynamics import EDMDc
from foretell.dynamics.choose import choose

run = CliRunner().invoke


def measured(data: Trajectories, columns: list[int]) -> Trajectories:
    """Some of the variables."""
    return Trajectories.from_arrays(
        [v[:, columns] for v in data.values], list(data.times), controls=list(data.controls or ()),
        names=[data.names[n] for n in columns], control_names=data.control_names,
    )  # fmt: skip


def delays_of(data: Trajectories) -> int:
    return int(make_plan(data, learner="edmdc", effort=1).settings.get("n_delays", 0))


def test_a_position_without_its_velocity_gets_delays_that_pay_on_new_recordings() -> None:
    data, new = (duffing().recordings(10, 149, random_state=s) for s in (0, 1))
    alone, later = measured(data, [0]), measured(new, [0])
    plan = make_plan(alone, learner="edmdc", effort=1)
    assert plan.settings["n_delays"] > 0
    (told,) = [c for c in plan.choices if c.what == "Delays"]
    assert "former samples" in told.value
    assert "without" in told.why
    errors = [
        EDMDc(**{**plan.settings, "n_delays": d}).fit(alone).horizon_errors(later, horizon=30)
        for d in (0, plan.settings["n_delays"])
    ]
    assert errors[1].mean() < 0.5 * errors[0].mean()


def test_where_they_do_not_help_there_are_none() -> None:
    rng, u, x = np.random.default_rng(0), np.zeros((1500, 1)), np.zeros((1500, 2))
    for t in range(1499):  # all of the state is measured, and chance acts on it
        u[t] = 0.9 * u[t - 1] + rng.normal()
        push = [0.0, 0.3 * u[t, 0]] + 0.2 * rng.normal(size=2)
        x[t + 1] = np.array([[0.95, 0.2], [-0.2, 0.9]]) @ x[t] + push
    plan = make_plan(Trajectories.from_arrays(x, controls=u), learner="edmdc", effort=1)
    assert "n_delays" not in plan.settings
    assert any(c.what == "Delays" and c.value == "none" for c in plan.choices)


def test_the_part_that_the_report_judges_by_plays_no_role() -> None:
    data = measured(duffing().recordings(10, 149, random_state=0), [0])
    rng = np.random.default_rng(1)
    other = [rng.normal(size=v.shape) if n >= 7 else v for n, v in enumerate(data.values)]
    changed = Trajectories.from_arrays(other, list(data.times), controls=list(data.controls or ()))
    assert delays_of(changed) == delays_of(data)


@pytest.mark.parametrize("hole", ["cell", "stamp", "inputs"])
def test_recordings_that_cannot_be_judged_get_none(hole: str) -> None:
    data = measured(duffing().recordings(1, 300, random_state=0), [0])
    values, times = data.values[0].copy(), data.times[0].copy()
    values[50] = np.nan if hole == "cell" else values[50]
    times[50:] += 3.0 if hole == "stamp" else 0.0
    controls = None if hole == "inputs" else data.controls[0]
    seen = Trajectories.from_arrays(values, times, controls=controls, mask=np.isfinite(values))
    plan = make_plan(seen, learner="edmdc", effort=1)
    assert "n_delays" not in plan.settings
    assert not any(c.what == "Delays" for c in plan.choices)


def test_learners_with_delays_are_compared_from_rows_that_they_know() -> None:
    data = measured(duffing().recordings(10, 149, random_state=0), [0])
    plain = {"degree": 2, "n_centres": 20, "stable": True, "random_state": 0}
    chosen = choose(data, {str(d): EDMDc(**plain, n_delays=d) for d in (0, 2)})
    assert chosen.name == "2"
    assert chosen.tried[1].score < 0.8 * chosen.tried[0].score


def test_one_level_of_two_tanks_is_fitted_reported_and_planned(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    plant = cascaded_tanks()
    data = plant.recordings(1, 1000, hold=20, random_state=4)
    rng, (x,), (u,) = np.random.default_rng(0), data.values, data.controls or ()
    rows = zip(4.0 * np.arange(len(x)), u[:, 0], x[:, 1] + 0.01 * rng.normal(size=len(x)),
               strict=True)  # fmt: skip
    Path("tank.csv").write_text(
        "time,pump,level\n" + "".join(f"{t:g},{p:.4f},{y:.4f}\n" for t, p, y in rows)
    )
    words = ["fit", "tank.csv", "--time", "time", "--controls", "pump", "--learner", "edmdc"]
    done = run(app, [*words, "--effort", "1", "--out", "tank", "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)["inputs"]
    report = Path("tank/report.html").read_text(encoding="utf-8")
    assert "former samples" in report
    assert "past_controls=" in report
    error = told["error_50_80_95"][0]
    assert error[10] < 0.5 * told["error_of_last_value"][10]
    limit = float(np.round(x[-1, 1], 1)) + 0.5
    done = run(app, ["plan", "tank", "--keep", f"level < {limit}", "--json"])
    assert done.exit_code == 0, done.output
    plan = json.loads(done.stdout)
    true = plant.run(x[-1:], np.array(plan["inputs"]["pump"])[None, :, None])[0, 1:, 1]
    assert plan["kept"] > 0.8
    assert true.max() < limit + 0.05


def test_the_network_learner_gets_them_too() -> None:
    data = measured(duffing().recordings(10, 149, random_state=0), [0])
    plan = make_plan(data, learner="koopman", effort=1)
    assert plan.settings["n_delays"] == delays_of(data)
    assert build(plan).get_params()["n_delays"] == plan.settings["n_delays"]
