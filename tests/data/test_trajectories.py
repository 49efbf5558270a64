from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from foretell.core.errors import DataError, ParameterError
from foretell.data import Scaler, Trajectories

T5 = np.array([0.0, 0.1, 0.3, 0.35, 1.0])
X5 = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 5.0], [4.0, 0.0], [0.0, 1.0]])


def test_one_recording_keeps_what_was_given_and_copies_it():
    values, times = X5.copy(), T5.copy()
    tr = Trajectories.from_arrays(
        values, times, names=["a", "b"], units=["m", ""], time_unit="s", time_name="t"
    )
    values[:] = times[:] = -1
    assert (len(tr), tr.n_recordings, tr.n_variables, tr.n_controls, tr.n_samples) == (
        1,
        1,
        2,
        0,
        5,
    )
    np.testing.assert_array_equal(tr.values[0], X5)
    np.testing.assert_array_equal(tr.times[0], T5)
    assert tr.complete
    assert tr.duration == 1.0
    assert tr.median_interval == pytest.approx(0.15)
    assert repr(tr) == ("<Trajectories: 1 recording, 5 samples, median interval 0.15 s; a [m], b>")


def test_arrays_inside_are_frozen():
    tr = Trajectories.from_arrays(X5, T5, controls=T5)
    for array in (tr.times[0], tr.values[0], tr.mask[0], tr.controls[0]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(AttributeError):
        tr.names = ()


@pytest.mark.parametrize(
    ("values", "shape", "count"),
    [
        (np.arange(4.0), (4, 1), 1),
        ([1, 2, 3], (3, 1), 1),
        ([[1, 2], [3, 4], [5, 6]], (3, 2), 1),
        ([np.zeros((3, 2)), np.zeros((4, 2))], (3, 2), 2),
        ([np.zeros(3), np.zeros(4)], (3, 1), 2),
        (np.zeros((5, 4, 2)), (4, 2), 5),
        ([[[1.0], [2.0]], [[3.0], [4.0]]], (2, 1), 2),
    ],
)
def test_shapes_that_are_accepted(values, shape, count):
    tr = Trajectories.from_arrays(values)
    assert tr.values[0].shape == shape
    assert len(tr) == count
    np.testing.assert_array_equal(tr.times[0], np.arange(shape[0]))


def test_one_vector_of_times_serves_equally_long_recordings():
    tr = Trajectories.from_arrays(np.zeros((3, 5, 2)), T5)
    np.testing.assert_array_equal(tr.times[2], T5)


def test_calendar_stamps_become_seconds_from_the_earliest():
    stamps = np.array(["2024-01-01T00:00:00", "2024-01-01T00:00:00.250", "2024-01-02"], "M8[ms]")
    tr = Trajectories.from_arrays(np.arange(3.0), stamps)
    np.testing.assert_array_equal(tr.times[0], [0, 0.25, 86400])
    assert tr.time_unit == "s"


BAD = {
    "inf": (dict(values=[[1, 2], [1, np.inf], [0, 0]]), r"values\[1, 1\] \(column 'x1'\) is inf"),
    "nan": (dict(values=[1.0, np.nan, 2.0]), r"values\[1, 0\].*nan.*mask=np.isfinite\(values\)"),
    "nan in the second recording": (
        dict(values=[np.zeros(3), np.array([0, 1, np.nan])]),
        r"values\[1\]\[2, 0\]",
    ),
    "repeated": (
        dict(values=X5, times=[0, 1, 1, 2, 3]),
        r"times\[2\] repeats the stamp 1 .*merge_duplicates=True.*--merge-duplicates",
    ),
    "backwards": (
        dict(values=X5, times=[0, 2, 1, 3, 4]),
        r"backwards: times\[2\] is 1 after 2 .*Sort the rows",
    ),
    "lengths": (dict(values=X5, times=[0, 1]), r"times has 2 entries and values has 5 rows"),
    "nan time": (dict(values=X5, times=[0, 1, np.nan, 3, 4]), r"times\[2\] is nan"),
    "text time": (dict(values=X5, times=list("abcde")), "times must be numbers or datetime64"),
    "2-D time": (dict(values=X5, times=X5), r"times has shape \(5, 2\)"),
    "one row": (dict(values=[[1.0, 2.0]]), r"1 usable row, .*at least 2"),
    "no row": (dict(values=np.zeros((0, 2))), "0 usable rows"),
    "no column": (dict(values=np.zeros((4, 0))), "no column"),
    "no recording": (dict(values=np.zeros((0, 3, 2))), "no recording"),
    "4-D": (dict(values=np.zeros((2, 2, 2, 2))), "values has shape"),
    "text": (dict(values=[["a"], ["b"]]), "not a table of numbers"),
    "ragged rows": (dict(values=[[1, 2], [3]]), "rows all have the same length"),
    "complex": (dict(values=np.ones(3) * 1j), "complex"),
    "widths": (
        dict(values=[np.zeros((3, 2)), np.zeros((3, 1))]),
        "Recording 1 has 1 columns and recording 0 has 2",
    ),
    "ragged names": (dict(values=X5, names=["a"]), "1 entries; needed are 2"),
    "one name as text": (dict(values=X5, names="ab"), "needed are 2"),
    "names twice": (dict(values=X5, names=["a", "a"]), r"names\[1\] repeats 'a'"),
    "units": (dict(values=X5, units=["m"]), "units=.* one entry per variable: 2"),
    "labels": (dict(values=X5, labels=["a", "b"]), "one per recording"),
    "mask dtype": (dict(values=X5, mask=np.ones((5, 2))), "needed is bool"),
    "mask shape": (dict(values=X5, mask=np.ones((5, 1), bool)), "must agree"),
    "controls rows": (dict(values=X5, controls=[1, 2]), "controls of recording 0 have shape"),
    "controls nan": (dict(values=X5, controls=[0, 1, np.nan, 0, 0]), r"control 'u0' is nan at val"),
    "shared name": (
        dict(values=X5, names=["a", "b"], controls=T5, control_names=["a"]),
        "'a' names a variable and a control",
    ),
    "number of times": (dict(values=[np.zeros(3)], times=[[0, 1, 2], [0, 1]]), "2 entries"),
}


@pytest.mark.parametrize("case", BAD, ids=str)
def test_bad_input_is_refused_with_place_and_remedy(case):
    arguments, message = BAD[case]
    with pytest.raises(DataError, match=f"(?s){message}"):
        Trajectories.from_arrays(**arguments)


def test_duplicates_merge_to_the_mean_of_observed_cells_and_the_last_control():
    tr = Trajectories.from_arrays(
        [[1.0, 9.0], [3.0, 2.0], [5.0, 4.0], [7.0, 0.0]],
        [0, 1, 1, 2],
        mask=[[True, True], [True, False], [True, True], [True, False]],
        controls=[0, 1, 2, 3],
        merge_duplicates=True,
    )
    np.testing.assert_array_equal(tr.times[0], [0, 1, 2])
    np.testing.assert_array_equal(tr.values[0], [[1, 9], [4, 4], [7, np.nan]])
    np.testing.assert_array_equal(tr.controls[0].ravel(), [0, 2, 3])
    assert tr.notes == ("1 duplicate stamp merged",)


def test_rows_without_a_value_go_unless_a_control_changes_there():
    mask = np.array([False, True, False, False, True])
    plain = Trajectories.from_arrays(np.arange(5.0), mask=mask)
    np.testing.assert_array_equal(plain.times[0], [1, 4])
    assert plain.notes == ("3 rows without a value dropped",)
    driven = Trajectories.from_arrays(np.arange(5.0), mask=mask, controls=[0, 0, 0, 1, 1])
    np.testing.assert_array_equal(driven.times[0], [1, 3, 4])
    assert not driven.complete
    assert "1 missing cell" in repr(driven)


def test_split_cuts_in_time_and_leaves_the_gap_out():
    tr = Trajectories.from_arrays(
        [np.arange(11.0), np.arange(21.0)], controls=[np.zeros(11), np.zeros(21)]
    )
    first, rest = tr.split(0.5, gap=2.0)
    assert [t[-1] for t in first.times] == [5, 10]
    assert [t[0] for t in rest.times] == [7, 12]
    assert rest.controls is not None
    head, tail = tr.split(0.5)
    assert head.n_samples + tail.n_samples == tr.n_samples


@pytest.mark.parametrize("arguments", [{"fraction": 0}, {"fraction": 1.2}, {"gap": -1}])
def test_split_refuses_impossible_arguments(arguments):
    with pytest.raises(ParameterError):
        Trajectories.from_arrays(X5).split(**arguments)


def test_split_names_the_recording_that_is_too_short():
    tr = Trajectories.from_arrays([np.arange(20.0), np.arange(3.0)], labels=["long", "short"])
    with pytest.raises(DataError, match="'short' with 3 rows"):
        tr.split(0.7)


@given(
    sizes=st.lists(st.integers(2, 40), min_size=1, max_size=4),
    length=st.integers(1, 40),
    stride=st.integers(1, 40) | st.none(),
)
def test_fold_covers_every_sample_and_never_crosses_recordings(sizes, length, stride):
    tr = Trajectories.from_arrays([100.0 * i + np.arange(n) for i, n in enumerate(sizes)])
    if max(sizes) < length:
        with pytest.raises(DataError, match="one window needs"):
            tr.fold(length, stride)
        return
    windows = tr.fold(length, stride)
    assert windows.times.shape == (len(windows), length)
    np.testing.assert_array_equal(
        windows.values[..., 0] // 100, np.tile(windows.recording[:, None], length)
    )
    np.testing.assert_array_equal(np.diff(windows.times, axis=1), 1)
    for i, n in enumerate(sizes):
        seen = np.unique(windows.times[windows.recording == i])
        if n < length:
            assert tr.labels[i] in windows.skipped
        elif stride is None or stride <= length:
            np.testing.assert_array_equal(seen, np.arange(n))
        else:
            assert seen[-1] == n - 1


@given(
    offset=st.floats(-1e6, 1e6),
    spread=st.floats(1e-3, 1e6),
    seed=st.integers(0, 2**32 - 1),
)
def test_standardise_and_inverse_agree(offset, spread, seed):
    rng = np.random.default_rng(seed)
    values = offset + spread * rng.standard_normal((30, 2))
    mask = rng.random((30, 2)) < 0.8
    mask[:3] = True
    tr = Trajectories.from_arrays(values, mask=mask, controls=rng.random(30))
    scaled, scaler = tr.standardise()
    assert np.nanmean(scaled.values[0], axis=0) == pytest.approx(0, abs=1e-6)
    assert np.nanstd(scaled.values[0], axis=0) == pytest.approx(1)
    back = scaler.inverse(scaled)
    tolerance = 1e-12 * (abs(offset) + spread)
    np.testing.assert_allclose(back.values[0], tr.values[0], rtol=1e-12, atol=tolerance)
    np.testing.assert_allclose(back.controls[0], tr.controls[0], atol=1e-12)
    np.testing.assert_array_equal(back.mask[0], tr.mask[0])
    again = Scaler.from_dict(scaler.to_dict())
    assert again.transform(tr).fingerprint() == scaled.fingerprint()
    np.testing.assert_allclose(
        scaler.inverse_values(scaler.transform_values(values)), values, rtol=1e-12, atol=tolerance
    )


@pytest.mark.parametrize("value", [0.0, 7.5, 0.1])
def test_a_constant_column_is_refused_by_name_when_scaling(value):
    tr = Trajectories.from_arrays(np.column_stack([T5, np.full(5, value)]), names=["a", "valve"])
    with pytest.raises(DataError, match=r"'valve' is constant.*columns=\['a'\]"):
        tr.standardise()


def test_a_constant_control_is_no_obstacle():
    scaled, scaler = Trajectories.from_arrays(X5, controls=np.full(5, 3.0)).standardise()
    np.testing.assert_array_equal(scaled.controls[0], 0)
    np.testing.assert_array_equal(scaler.control_scale, 1)


def test_a_scaler_refuses_other_columns():
    _, scaler = Trajectories.from_arrays(X5).standardise()
    with pytest.raises(DataError, match=r"1 variables and 0 controls; .* on 2 and 0"):
        scaler.transform(Trajectories.from_arrays(T5))


def test_select_by_number_and_label():
    tr = Trajectories.from_arrays([np.arange(3.0) + i for i in range(3)], labels=["a", "b", "c"])
    assert tr.select(["c", 0]).labels == ("c", "a")
    assert tr.select(-1).values[0][0, 0] == 2
    for wrong in ("d", 3, []):
        with pytest.raises(ParameterError, match=r"'a', .*'c'"):
            tr.select(wrong)


def test_fingerprint_sees_content_and_ignores_notes():
    tr = Trajectories.from_arrays(X5, T5, names=["a", "b"])
    assert len(tr.fingerprint()) == 64
    assert tr.fingerprint() == Trajectories.from_arrays(X5, T5, names=["a", "b"]).fingerprint()
    variants = [
        Trajectories.from_arrays(X5 + 1e-9, T5, names=["a", "b"]),
        Trajectories.from_arrays(X5, T5 + 1e-9, names=["a", "b"]),
        Trajectories.from_arrays(X5, T5, names=["a", "c"]),
        Trajectories.from_arrays(X5, T5, names=["a", "b"], controls=T5),
        Trajectories.from_arrays(X5, T5, names=["a", "b"], mask=X5 > 0),
    ]
    assert len({v.fingerprint() for v in [tr, *variants]}) == 6
