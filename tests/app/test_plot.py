"""The plot module: ticks, thinning and drawing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from foretell.app.report.plot import Plot, nice_decades, nice_ticks, padded, reduce_line


@given(low=st.floats(-1e6, 1e6), span=st.floats(1e-6, 1e9), count=st.integers(2, 12))
def test_ticks_are_inside_even_and_about_as_many_as_asked(
    low: float, span: float, count: int
) -> None:
    high = low + span
    if high - low < 1e-9 * max(abs(low), abs(high)):
        return
    ticks = nice_ticks(low, high, count)
    slack = 1e-6 * (high - low)
    assert 1 <= len(ticks) <= 2.1 * count + 1
    assert ticks[0] >= low - slack
    assert ticks[-1] <= high + slack
    if len(ticks) > 2:
        steps = np.diff(ticks)
        np.testing.assert_allclose(steps, steps[0], rtol=1e-3)


def test_decades_are_thinned() -> None:
    assert len(nice_decades(1e-12, 1e3, 5)) <= 6


@given(n=st.integers(1, 5000), columns=st.integers(4, 200), seed=st.integers(0, 99))
def test_thinning_keeps_the_envelope(n: int, columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.cumsum(rng.exponential(size=n))
    y = rng.normal(size=n)
    short_x, short_y = reduce_line(x, y, columns)
    assert short_x.size <= max(2 * columns, 4 * columns)
    assert (short_y.min(), short_y.max()) == (y.min(), y.max())
    assert (short_x[0], short_x[-1]) == (x[0], x[-1])
    assert (np.diff(short_x) >= 0).all()


def test_line_breaks_at_gaps_and_missing_values() -> None:
    x = np.array([0.0, 1.0, 2.0, 10.0, 11.0, 12.0])
    y = np.array([0.0, 1.0, np.nan, 1.0, 0.0, 1.0])
    html = Plot((0, 12), (0, 1)).line(x, y, "data", max_gap=3.0).html()
    drawn = html.split('class="line data" d="')[1].split('"')[0]
    assert drawn.count("M") == 2


@pytest.mark.parametrize("limits", [(1.0, 1.0), (np.nan, 1.0), (2.0, -1.0), (0.0, np.inf)])
def test_impossible_ranges_still_draw(limits: tuple[float, float]) -> None:
    for log in (False, True):
        html = Plot(limits, limits, log_x=log, log_y=log).line([1.0], [1.0], "data").html()
        assert "nan" not in html
        assert "inf" not in html


def test_labels_are_escaped() -> None:
    html = (
        Plot((0, 1), (0, 1), x_label="<b>", y_label='"q"')
        .line([0, 1], [0, 1], "data", "<i>")
        .html()
    )
    assert "<b>" not in html
    assert "<i>" not in html


def test_padded_ignores_what_is_not_finite() -> None:
    assert padded([np.array([np.inf, 0.0]), np.array([2.0])], 0.5) == (-1.0, 3.0)
    assert padded([np.nan]) == (0.0, 1.0)
