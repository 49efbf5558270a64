from __future__ import annotations

import importlib.util
import subprocess
import sys

import numpy as np
import pytest

from foretell.core.errors import MissingExtraError, ParameterError
from foretell.data import choose_lag
from foretell.data.recordings import load_heartpy_ppg

needs_heartpy = pytest.mark.skipif(
    importlib.util.find_spec("heartpy") is None, reason="needs the extra 'demo'"
)


@needs_heartpy
@pytest.mark.parametrize(
    ("which", "n_samples", "duration"),
    [("irregular", 43_701, 681.898), ("regular", 15_000, 128.21), ("short", 2_483, 24.82)],
)
def test_recordings_are_in_seconds(which, n_samples, duration):
    tr = load_heartpy_ppg(which)
    assert (tr.n_samples, tr.names, tr.time_unit) == (n_samples, ("pulse",), "s")
    assert tr.duration == pytest.approx(duration)
    assert tr.times[0][0] == 0
    assert 0.03 < choose_lag(tr) < 0.3  # a small part of one heart beat


@needs_heartpy
def test_the_irregular_one_is_irregular():
    tr = load_heartpy_ppg()
    gaps = np.diff(tr.times[0])
    assert gaps.max() == pytest.approx(0.049)
    assert gaps.min() == pytest.approx(0.001)
    assert len(np.unique(np.round(gaps, 3))) > 5
    assert tr.notes == ("24775 duplicate stamps merged",)


@needs_heartpy
def test_the_package_itself_is_not_imported():
    code = (
        "import sys; from foretell.data.recordings import load_heartpy_ppg as load; load('short');"
        "sys.exit('heartpy' in sys.modules or 'matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setattr("foretell.data.recordings.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"foretell\[demo\]"):
        load_heartpy_ppg()


def test_unknown_recording():
    with pytest.raises(ParameterError, match=r"'irregular', 'regular', 'short'"):
        load_heartpy_ppg("long")
