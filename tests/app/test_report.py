"""The report: complete, self-contained, small, and honest in words."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest

from foretell.app.evaluation import evaluate
from foretell.app.findings import judge
from foretell.app.fitting import prepare
from foretell.app.folder import FitFolder
from foretell.app.report import render
from foretell.app.report.figures import cycle_pieces
from foretell.app.report.page import loading_lines
from foretell.app.study import Analysis, Study
from foretell.data import Trajectories
from tests.app.fake import Pulse, pulse_recording

Fitted = tuple[Study, FitFolder]


class Balance(HTMLParser):
    """Checks that every tag is closed in order, and collects what could be loaded."""

    VOID = frozenset("meta link br hr img input path rect".split())

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "srcset", "action", "data", "poster", "xlink:href"):
                self.loads.append(value or "")
            if name == "id":
                self.ids.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def parsed(html: str) -> Balance:
    balance = Balance()
    balance.feed(html)
    assert balance.open == []
    return balance


def test_report_loads_nothing_and_is_well_formed(fitted: Fitted) -> None:
    html = fitted[1].report.read_text(encoding="utf-8")
    page = parsed(html)
    assert page.loads == ["data:,"]
    assert len(page.ids) == len(set(page.ids))
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|import\(", html)
    assert re.findall(r"https?://\S+", html) == []
    assert len(html.encode()) < 2_000_000


def test_report_has_every_part(fitted: Fitted) -> None:
    html = fitted[1].report.read_text(encoding="utf-8")
    for part in (
        "Good model.",
        "The recording",
        "held out",
        "How far a forecast can be trusted",
        "Power spectra",
        "Free run",
        "Floquet multipliers",
        "Lyapunov exponents",
        "The search was exhaustive",
        "region-2",
        "dot hole",
        "What was chosen, and why",
        "foretell.load(",
        "braendle2026continuous",
        "sha256",
        "There is a gap of",
    ):
        assert part in html, part


def test_long_series_stays_small(fitted: Fitted) -> None:
    study = fitted[0]
    rng = np.random.default_rng(0)
    n = 300_000
    times = np.cumsum(rng.uniform(0.5, 1.5, n))
    values = rng.normal(size=(n, 3))
    big = Trajectories.from_arrays(values, times, names=["a", "b", "c"])
    head, rest = big.split(0.7)
    held = replace(study.held_out, observed=rest, free_run=rest, long_run=rest)
    html = render(replace(study, recordings=big, train=head, held_out=held), "x/model")
    assert len(html.encode()) < 2_000_000


def test_names_from_the_data_are_escaped(fitted: Fitted) -> None:
    study = fitted[0]
    nasty = "</script><script>alert(1)</script>"
    n = study.held_out.observed.n_variables
    observed = replace(study.held_out.observed, names=(nasty,) * n)
    html = render(
        replace(
            study,
            title=nasty,
            recordings=replace(study.recordings, names=(nasty,)),
            held_out=replace(study.held_out, observed=observed),
        ),
        "x/model",
    )
    parsed(html)
    assert "<script>alert" not in html


def test_report_without_any_capability(fitted: Fitted) -> None:
    html = render(replace(fitted[0], analysis=Analysis()), "x/model")
    parsed(html)
    assert "offers no exact analysis" in html
    assert "Floquet" not in html


def test_report_with_inputs_leaves_out_what_they_decide(fitted: Fitted) -> None:
    study = fitted[0]
    data = study.recordings
    force = tuple(np.cos(t)[:, None] for t in data.times)
    driven = replace(data, controls=force, control_names=("force",), control_units=("N",))
    forecast = replace(study.held_out.forecast, examples=(), valid_time=float("nan"))
    held = replace(study.held_out, driven_error=0.3, run_up=40, forecast=forecast)
    html = render(replace(study, recordings=driven, held_out=held), "x/model")
    parsed(html)
    assert "input force [N]" in html
    assert "Variance explained" in html
    assert "91\u00a0%" in html
    assert "run-up" in html
    for rhythm in ("Power spectra", "Spectrum distance", "How far a forecast", "stands still"):
        assert rhythm not in html


@pytest.mark.parametrize("state", ["settles", "escapes"])
def test_report_of_a_failed_run(fitted: Fitted, state: str) -> None:
    study = fitted[0]
    run = study.held_out.free_run
    still = replace(run, values=tuple(np.full_like(v, v[0, 0]) for v in run.values))
    held = replace(
        study.held_out, free_run=still, long_run=still, state=state, divergence=float("inf")
    )
    html = render(replace(study, held_out=held, verdict=judge(held)), "x/model")
    parsed(html)
    assert judge(held).grade == "poor"
    assert "Good model" not in html


def test_lines_that_load_the_model_work_as_printed(
    fitted: Fitted, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study, folder = fitted
    loaded = []

    def load(path: str) -> Pulse:
        loaded.append(path)
        model = Pulse()
        return model.fit(study.train)

    import foretell

    monkeypatch.setattr(foretell, "load", load, raising=False)
    code = loading_lines(study, folder.model.as_posix())
    assert len(code.splitlines()) == 6
    exec(compile(code, "printed", "exec"), {})
    assert loaded == [folder.model.as_posix()]
    assert capsys.readouterr().out.startswith("[")


def test_cycle_is_cut_where_the_region_changes() -> None:
    model = Pulse().fit(
        Trajectories.from_arrays(
            np.random.default_rng(0).normal(size=(50, 3)), names=["x", "x(t-0.1)", "x(t-0.2)"]
        )
    )
    pieces = cycle_pieces(model.limit_cycles()[0])
    assert [region for _, region in pieces] == [0, 1, 2, 3, 0]
    ends = [states[-1] for states, _ in pieces]
    starts = [states[0] for states, _ in pieces]
    np.testing.assert_array_equal(ends[:-1], starts[1:])


def test_cycle_without_a_crossing_has_one_colour() -> None:
    times = np.linspace(0, 1, 400)
    cycle = SimpleNamespace(
        orbit=lambda n: (times, np.c_[np.cos(times), np.sin(times)]),
        events=SimpleNamespace(times=np.zeros(0)),
        codes=((1,),),
    )
    assert [region for _, region in cycle_pieces(cycle)] == [0]


def test_evaluation_of_several_recordings_with_missing_cells(fitted: Fitted) -> None:
    data = pulse_recording(3000)
    values = [v.copy() for v in data.values] + [v[:1500].copy() for v in data.values]
    times = [data.times[0], data.times[0][:1500]]
    both = Trajectories.from_arrays(values, times, time_unit="s", names=["pulse"])
    train, test = prepare(both, fitted[0].plan)
    held = evaluate(Pulse().fit(train), train, test, embedded=True)
    assert held.state == "moving"
    assert held.observed.times[0].size >= held.observed.times[1].size
    assert np.isfinite(held.forecast.model_error).all()
