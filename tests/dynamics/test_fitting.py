"""The trainer: windows, schedule, selection, skipped batches, checkpoints, interrupts, reports."""

import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from foretell.core import ArtifactError, NumericalError, ParameterError
from foretell.dynamics.fitting import best_look
from foretell.dynamics.forced_task import forcing_share
from foretell.dynamics.free_run_score import FreeRunScore
from foretell.dynamics.layout import Layout
from foretell.dynamics.sequences import Sequences, WindowSampler, decorrelation, hold_back
from tests.dynamics.training import LAYOUT, Parabola, run, sequences, settings

# Windows -------------------------------------------------------------------------------------


def test_windows_stay_inside_a_recording_and_start_complete():
    data = sequences(30, 11, 10, 25, controls=True)
    rng = np.random.default_rng(1)
    for v in data.values:
        v[rng.random(v.shape) < 0.2] = np.nan
    sampler = WindowSampler(data, 10, 500, 0.0)
    x, u, dt = sampler.draw(np.random.default_rng(0))
    assert x.shape == (500, 11, 2)
    assert u.shape == (500, 10, 1)
    assert np.isfinite(x[:, 0]).all()
    assert np.isfinite(dt).all()
    assert (np.diff(u[:, :, 0], axis=1) == 1).all()  # the control counts rows
    borders = np.cumsum([30, 11, 10, 25])
    first = np.searchsorted(borders, u[:, 0, 0], side="right")
    last = np.searchsorted(borders, u[:, -1, 0] + 1, side="right")
    assert_array_equal(first, last)
    assert 2 not in first  # eleven rows are needed, ten are there
    steps = np.concatenate([np.append(d, np.nan) for d in data.dt])
    assert_array_equal(dt, steps[u[:, :, 0].astype(int)])
    complete = [np.isfinite(v[: max(len(v) - 10, 0)]).all(axis=1).sum() for v in data.values]
    assert sampler.n_windows == sum(complete) == np.unique(u[:, 0, 0]).size


def test_noise_has_its_size_and_leaves_the_recordings_alone():
    data = sequences(500)
    before = data.values[0].copy()
    x, u, _ = WindowSampler(data, 10, 300, 0.05).draw(np.random.default_rng(0))
    assert u is None
    off = x[..., 0] - np.round(x[..., 0])
    assert off.std() == pytest.approx(0.05, rel=0.05)
    assert_array_equal(data.values[0], before)


def test_no_window_in_short_recordings():
    assert WindowSampler(sequences(5, 10), 10, 3, 0.0).n_windows == 0


# Parts ---------------------------------------------------------------------------------------


def test_validation_is_the_end_of_each_recording():
    first, rest = hold_back(sequences(200, 300, controls=True), 0.2, 50)
    assert [len(v) for v in first.values] == [160, 240]
    assert [v[0, 0] for v in rest.values] == [160, 200 + 240]
    for part in (first, rest):
        for v, dt, u in zip(part.values, part.dt, part.controls, strict=True):
            assert len(v) == len(dt) + 1 == len(u)
            assert_array_equal(v[:, 0], u[:, 0])


@pytest.mark.parametrize(
    ("lengths", "share", "window"),
    [((200,), 0.0, 20), ((60,), 0.2, 55), ((100,), 0.2, 20), ((5,) * 60, 0.2, 3)],
    ids=["none", "window needs all", "few rows", "single rows"],
)
def test_without_a_useful_rest_all_data_validate(lengths, share, window):
    data = sequences(*lengths)
    first, rest = hold_back(data, share, window)
    assert rest is data
    assert first.values[0][0, 0] == 0
    assert np.isfinite(FreeRunScore(rest, LAYOUT)(Parabola(), np.zeros(LAYOUT.size)))


def test_a_rest_without_complete_rows_does_not_validate():
    data = sequences(500)
    data.values[0][400::2, 0] = np.nan
    data.values[0][401::2, 1] = np.nan
    first, rest = hold_back(data, 0.2, 50)
    assert len(first.values[0]) == 400
    assert rest is data


def test_decorrelation_is_a_quarter_of_the_period():
    t = np.arange(4000)
    x = np.column_stack([np.sin(2 * np.pi * t / 40), np.cos(2 * np.pi * t / 40)])
    data = Sequences((x,), (np.ones(3999),), None)
    assert decorrelation(data) == pytest.approx(10, abs=1)
    x[::3, 0] = np.nan
    assert decorrelation(data) == pytest.approx(10, abs=1)
    x[:, 1] = np.nan
    assert decorrelation(data) == pytest.approx(10, abs=1)
    assert decorrelation(Sequences((np.full((90, 2), np.nan),), (np.ones(89),), None)) == 90


# Schedule and selection ------------------------------------------------------------------------


def test_forcing_schedule():
    assert forcing_share(settings(), 17) == (4, 1.0)
    gentle = settings(forcing="gtf", max_updates=100)
    shares = [forcing_share(gentle, step) for step in range(100)]
    assert {interval for interval, _ in shares} == {1}
    alphas = np.array([alpha for _, alpha in shares])
    assert alphas[0] == 1.0
    assert (np.diff(alphas) < 0).all()
    assert alphas[-1] == pytest.approx(0.05, rel=0.05)
    kernel = Parabola()
    run(kernel, forcing="gtf", max_updates=100)
    assert [(i, a) for i, a, _ in kernel.asked] == shares


def test_the_best_free_run_is_kept_not_the_lowest_loss():
    seen, scores = [], iter([-3.0, -1.0, -2.0, *[-4.0] * 40])

    def score(kernel, theta):
        seen.append(theta.copy())
        return next(scores)

    found = run(score=score)
    assert found.best_step == 4
    assert found.best_score == -1.0
    assert_array_equal(found.theta, seen[1])
    assert found.history.losses[-1] < found.history.losses[1]
    assert found.history.steps == list(range(2, 41, 2))


def test_where_every_free_run_escapes_the_last_parameters_are_kept():
    found = run(score=lambda kernel, theta: -np.inf)
    assert found.best_step == 40
    assert found.best_score == -np.inf


def test_score_of_a_run_that_leaves_the_range():
    score = FreeRunScore(sequences(80), LAYOUT)
    theta = np.zeros(LAYOUT.size)
    assert np.isfinite(score(Parabola(), theta))
    for far in (1e7, np.inf, np.nan):
        theta[0] = far
        assert score(Parabola(), theta) == -np.inf


def test_parameters_lie_one_after_the_other():
    layout = Layout(4, 3, 2)
    theta = np.arange(layout.size)
    parts = layout.views(theta)
    assert [p.shape for p in parts] == [(4,), (4, 4), (4,), (4, 2), (1, 3)]
    assert_array_equal(np.concatenate([p.ravel() for p in parts]), theta)
    assert all(np.shares_memory(p, theta) for p in parts)


# Batches without a gradient --------------------------------------------------------------------


def test_bad_batches_are_skipped_and_counted():
    found = run(Parabola(bad=frozenset({1, 2, 5, *range(10, 19)})))
    assert found.history.skipped == 12
    assert np.isfinite(found.theta).all()
    assert np.isfinite(found.history.losses[1:]).all()


def test_ten_bad_batches_in_a_row_end_it():
    kernel = Parabola(bad=frozenset(range(8, 18)))
    with pytest.raises(NumericalError, match=r"10 steps.*step 17.*lr=0\.01"):
        run(kernel)
    assert len(kernel.asked) == 17


def test_long_gradients_are_clipped():
    start = np.random.default_rng(0).normal(size=LAYOUT.size)
    one, other = (run(max_updates=1, grad_clip=clip).theta - start for clip in (1e9, 1e-3))
    assert np.linalg.norm(other) < 1e-2 * np.linalg.norm(one)
    assert one @ other == pytest.approx(np.linalg.norm(one) * np.linalg.norm(other))


# Checkpoints -----------------------------------------------------------------------------------


def same(a, b):
    assert_array_equal(a.theta, b.theta)
    assert (a.best_step, a.best_score) == (b.best_step, b.best_score)
    assert a.history.steps == b.history.steps
    assert_array_equal(a.history.losses, b.history.losses)
    assert a.history.scores == b.history.scores
    assert a.history.skipped == b.history.skipped


def stop_at(step):
    def on_step(progress):
        if progress.step == step:
            raise KeyboardInterrupt

    return on_step


@pytest.mark.parametrize("steps", [(1,), (2,), (3, 4, 20), (39,), (40,)])
def test_going_on_gives_the_uninterrupted_result(steps, tmp_path):
    bad = frozenset({6, 7, 30})
    whole = run(Parabola(bad))
    for n, step in enumerate(steps):
        kernel = Parabola(frozenset(b - (steps[n - 1] if n else 0) for b in bad))
        with pytest.raises(KeyboardInterrupt):
            run(kernel, on_step=stop_at(step), checkpoint=tmp_path / "state", resume=n > 0)
    kernel = Parabola(frozenset(b - steps[-1] for b in bad))
    resumed = run(kernel, checkpoint=tmp_path / "state", resume=True)
    same(resumed, whole)


def test_a_checkpoint_is_written_now_and_then(tmp_path, monkeypatch):
    monkeypatch.setattr("foretell.train.loop._SLICE_SECONDS", -1.0)
    seen = []

    class Power(Exception):
        pass

    def cut(progress):
        seen.append((tmp_path / "state" / "model.json").exists())
        if progress.step == 25:
            raise Power

    with pytest.raises(Power):
        run(on_step=cut, checkpoint=tmp_path / "state")
    assert seen[1:] == [True] * 24
    same(run(checkpoint=tmp_path / "state", resume=True), run())


def test_strange_checkpoints_are_refused(tmp_path):
    with pytest.raises(ParameterError, match="checkpoint"):
        run(resume=True)
    with pytest.raises(ArtifactError, match="no checkpoint"):
        run(checkpoint=tmp_path / "nothing", resume=True)
    with pytest.raises(KeyboardInterrupt):
        run(on_step=stop_at(5), checkpoint=tmp_path / "state", identity="one")
    with pytest.raises(ArtifactError, match="other data or settings"):
        run(checkpoint=tmp_path / "state", resume=True, identity="other")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("years of work")
    with pytest.raises(ArtifactError, match="holds files"):
        run(on_step=stop_at(5), checkpoint=tmp_path / "full")
    assert (tmp_path / "full" / "thesis.txt").read_text() == "years of work"


# Reports and interrupts ------------------------------------------------------------------------


@pytest.mark.parametrize("updates", [1, 7, 1000])
def test_reports(updates):
    reports = []
    run(max_updates=updates, on_step=reports.append)
    assert reports[-1].step == reports[-1].total == updates
    assert reports[-1].eta == 0.0
    assert reports[-1].score is not None
    assert len(reports) == min(updates, 500)
    assert all(np.isfinite([r.loss, r.seconds, r.eta]).all() for r in reports)
    assert all(r.eta > 0 for r in reports[:-1])
    assert (np.diff([r.seconds for r in reports]) >= 0).all()


@pytest.fixture(autouse=True)
def keyboard() -> Iterator[None]:
    """Ctrl-C as in a terminal, also where the tests run as a background job deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupting(at):
    """A score that is interrupted by the real signal at its `at`-th call, and goes on."""
    calls = []

    def score(kernel, theta):
        calls.append(1)
        if len(calls) == at:
            signal.raise_signal(signal.SIGINT)
        return -float(theta @ theta)

    return score


def test_an_interrupt_during_the_free_run_score(tmp_path):
    whole = run(score=interrupting(0))
    with pytest.raises(KeyboardInterrupt):
        run(score=interrupting(3), checkpoint=tmp_path / "state")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    same(run(score=interrupting(0), checkpoint=tmp_path / "state", resume=True), whole)


def test_an_interrupt_during_the_last_update(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(score=interrupting(20), checkpoint=tmp_path / "state")
    same(
        run(score=interrupting(0), checkpoint=tmp_path / "state", resume=True),
        run(score=interrupting(0)),
    )


def test_a_second_interrupt_takes_effect_at_once():
    def score(kernel, theta):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("still here")

    with pytest.raises(KeyboardInterrupt):
        run(score=score)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_somebody_else_stays_in_charge():
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        run(score=interrupting(3))
        assert heard == [1]
    finally:
        signal.signal(signal.SIGINT, before)


class Picky:
    """Scores rise with time; the last looks fail the longer runs."""

    def __init__(self, passing: int) -> None:
        self.passing, self.looks, self.asked = passing, 0, []

    def __call__(self, kernel, theta):
        self.looks += 1
        return float(self.looks)

    def confirms(self, kernel, theta, score, start):
        self.asked.append((score, start))
        return score <= self.passing or start < 2


def test_parameters_have_to_pass_longer_runs():
    score = Picky(passing=18)
    found = run(score=score)
    assert found.confirmed
    assert found.best_score == 18
    assert score.asked[:6] == [(20, 0), (20, 1), (20, 2), (19, 0), (19, 1), (19, 2)]
    assert score.asked[6:] == [(18, n) for n in range(4)]
    only_so_many = run(score=Picky(passing=1))
    assert not only_so_many.confirmed
    assert only_so_many.best_score == 20
    assert run(score=lambda kernel, theta: -np.inf).confirmed  # escapes have their own warning


def test_longer_runs_choose_the_same_after_an_interrupt(tmp_path):
    class Stopping(Picky):
        def confirms(self, kernel, theta, score, start):
            signal.raise_signal(signal.SIGINT)
            return super().confirms(kernel, theta, score, start)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(score=Stopping(18), checkpoint=tmp_path / "state")
    finally:
        signal.signal(signal.SIGINT, before)
    same(run(score=Picky(18), checkpoint=tmp_path / "state", resume=True), run(score=Picky(18)))


def test_a_longer_run_that_comes_to_rest_does_not_confirm():
    score = FreeRunScore(sequences(300), LAYOUT)

    class Still(Parabola):
        def free_run(self, A, W, h, C, z0, u, dt):
            return np.repeat(z0[:, None], dt.shape[1] + 1, axis=1)

    assert not score.confirms(Still(), np.zeros(LAYOUT.size), -0.1, 3)
    assert score.confirms(Still(), np.zeros(LAYOUT.size), -20.0, 3)


PROGRAM = """
import signal
import sys
import numpy as np
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may start jobs deaf to it
from foretell.dynamics import CPLRNN
t = np.cumsum(np.random.default_rng(0).uniform(0.1, 0.3, 300))
x = np.column_stack([np.sin(t), np.cos(t)])
model = CPLRNN(latent_dim=5, n_relu=2, sequence_length=20, batch_size=4, max_updates=200,
               random_state=0)
def tell(progress):
    print(progress.step, flush=True)
try:
    model.fit(x, t, on_step=tell, checkpoint=sys.argv[1], resume=sys.argv[2] == "resume")
except KeyboardInterrupt:
    sys.exit(130)
np.save(sys.argv[3], model.theta_)
"""


@pytest.mark.slow
def test_a_real_interrupt_at_any_moment(tmp_path):
    def go(state, how, out, interrupt_at=None):
        command = [sys.executable, "-c", PROGRAM, str(state), how, str(out)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                if int(line) == interrupt_at:
                    process.send_signal(signal.SIGINT)  # it runs on meanwhile
        return process.returncode

    assert go(tmp_path / "a", "anew", tmp_path / "whole.npy") == 0
    whole = np.load(tmp_path / "whole.npy")
    draw = random.Random(0)
    for trial in range(2):
        state, out = tmp_path / f"state{trial}", tmp_path / f"{trial}.npy"
        assert go(state, "anew", out, interrupt_at=draw.randrange(1, 150)) == 130
        assert not out.exists()
        assert go(state, "resume", out) == 0
        assert_array_equal(np.load(out), whole)


def test_on_training_data_a_later_look_is_preferred_unless_clearly_worse() -> None:
    assert best_look([-3.0, -0.10, -0.14, -0.40], slack=0.5) == 2
    assert best_look([-3.0, -0.10, -0.14, -0.40]) == 1
    assert best_look([-np.inf] * 3) == 2


def test_a_warm_up_hides_the_first_samples_of_a_window() -> None:
    rng = np.random.default_rng(0)
    x, _, _ = WindowSampler(sequences(80), 20, 4, 0.0, warm_up=6).draw(rng)
    assert np.isfinite(x[:, 0]).all()
    assert np.isnan(x[:, 1:7]).all()
    assert np.isfinite(x[:, 7:]).all()


def test_a_driven_run_is_scored_after_its_lead() -> None:
    data = replace(sequences(200, controls=True), driven=True)
    layout = Layout(LAYOUT.n_units, LAYOUT.n_observed, 1)
    early, late = (
        FreeRunScore(_shifted(data, rows), layout, 50)(Parabola(), np.zeros(layout.size))
        for rows in (slice(0, 50), slice(100, 150))
    )
    plain = FreeRunScore(data, layout, 50)(Parabola(), np.zeros(layout.size))
    assert early == plain
    assert late < plain


def _shifted(data: Sequences, rows: slice) -> Sequences:
    values = tuple(v.copy() for v in data.values)
    for v in values:
        v[rows][1:] += 1e3
    return replace(data, values=values)
