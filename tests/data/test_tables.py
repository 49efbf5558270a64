from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from foretell.core.errors import DataError, MissingExtraError
from foretell.data import Trajectories, delimited
from foretell.data.header import split_unit


@pytest.fixture
def table(tmp_path):
    def write(content: str | bytes, name: str = "pump.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    return write


def read(path: Path, **options) -> Trajectories:
    return Trajectories.read(path, **options)


PLAIN = "t [s],level [m],flow\n0,1.5,10\n0.5,2.5,11\n2,3.5,12\n"
SAME = {
    "crlf": PLAIN.replace("\n", "\r\n"),
    "carriage returns only": PLAIN.replace("\n", "\r"),
    "byte order mark": "\ufeff" + PLAIN,
    "semicolons and decimal commas": PLAIN.replace(",", ";").replace(".", ","),
    "tabs and decimal commas": PLAIN.replace(",", "\t").replace(".", ","),
    "vertical bars": PLAIN.replace(",", "|"),
    "trailing separator everywhere": PLAIN.replace("\n", ",\n"),
    "trailing separator in rows": PLAIN.replace("\n", ",\n").replace("flow,", "flow"),
    "trailing separator in the header": PLAIN.replace("flow", "flow,"),
    "quoted": '"t [s]","level [m]","flow"\n"0","1.5","10"\n"0.5","2.5","11"\n2,3.5,"12"\n',
    "quoted decimal commas": 't [s],level [m],flow\n0,"1,5",10\n"0,5","2,5",11\n2,"3,5",12\n',
    "blanks around": "t [s] , level [m] , flow\n 0, 1.5, 10\n0.5 ,2.5,11\n2,3.5,12 \n",
    "blank lines": "\n\n" + PLAIN.replace("\n", "\n\n") + "\n,,\n",
    "no line end": PLAIN.rstrip("\n"),
    "comments above": "# made by a logger\n# 2024\n" + PLAIN,
    "header as a comment": "# made by a logger\n# " + PLAIN,
    "separator line of spreadsheets": "sep=;\n" + PLAIN.replace(",", ";"),
    "exponents": PLAIN.replace("10", "1e1").replace("11", "1.1E+1"),
    "index column without a name": ",t [s],level [m],flow\n0,0,1.5,10\n1,0.5,2.5,11\n2,2,3.5,12\n",
}


@pytest.mark.parametrize("case", SAME, ids=str)
def test_one_table_in_many_spellings(table, case):
    expected = read(table(PLAIN, "plain.csv"))
    tr = read(table(SAME[case], "plain2.csv"))
    np.testing.assert_array_equal(tr.times[0], expected.times[0])
    np.testing.assert_array_equal(tr.values[0], expected.values[0])
    assert (tr.names, tr.units, tr.time_name, tr.time_unit) == (
        ("level", "flow"),
        ("m", ""),
        "t",
        "s",
    )


def test_utf16_and_latin1(table):
    text = "t\tdruck [µbar]\n0\t1,5\n1\t2,5\n"
    assert read(table(text.encode("utf-16"))).units == ("µbar",)
    tr = read(table(text.encode("latin-1")))
    assert tr.units == ("µbar",)
    assert "Latin-1" in tr.notes[0]


REFUSED = {
    "empty": ("", {}, r"pump.csv is empty \(0 bytes\)"),
    "blank": ("\n\n", {}, "is empty: it needs a header"),
    "header alone": ("t,x\n", {}, "has a header and no rows"),
    "one row": ("t,x\n0,1\n", {}, r"1 usable row, row 2 of pump.csv, and at least 2"),
    "no header": ("0,1\n1,2\n", {}, r"Row 1 of pump.csv holds '0,1'.*first line such as 't,x1'"),
    "no header, dates": ("2024-01-01;1\n2024-01-02;2\n", {}, "has no header"),
    "spaces": ("t x\n0 1\n1 2\n", {}, r"'0 1' in row 2.*Only one column.*contain spaces"),
    "colons": ("t:x\n0:1\n1:2\n", {}, "Only one column was found, and its rows contain colons"),
    "two separators": ("t;x\n0,1\n1,2\n", {}, r"Row 2 .* 1 cells and the header has 2.*commas"),
    "short row": ("t,x,y\n0,1,2\n1,2\n", {}, r"Row 3 of pump.csv has 2 cells and the header has 3"),
    "comma twice": ("t,x\n0,5,1,5\n1,5,2,5\n", {}, "decimal commas, export with semicolons"),
    "no such time": (PLAIN, {"time": "tt"}, r"no column 'tt'.*'t', 'level', 'flow'.*mean 't'"),
    "no such column": (PLAIN, {"columns": ["Level"]}, r"no column 'Level'.*mean 'level'"),
    "no such group": (PLAIN, {"group": "run"}, "no column 'run'"),
    "column twice": (PLAIN, {"columns": ["t"], "time": "t"}, "'t' is asked for as time and as col"),
    "nothing left": ("t\n1\n2\n", {"time": "t"}, "no column left to learn from"),
    "names twice": ("t,x,x\n0,1,2\n1,2,3\n", {}, r"Columns 2 and 3 .* both named 'x'"),
    "text cell": (
        "t,x\n0,1\n1,broken\n2,3\n",
        {},
        r"'broken' in row 3, column 'x' of pump.csv is not a number.*columns=\[",
    ),
    "text column asked for": (
        "t,who,x\n0,Ada,1\n1,Ada,2\n",
        {"columns": ["who", "x"]},
        "'Ada' in row 2, column 'who'",
    ),
    "only text": ("t,who\n0,Ada\n1,Ada\n", {}, "'Ada' in row 2, column 'who'"),
    "units in row 2": ("t,x,y\n0,m,K\n1,2,3\n2,4,5\n", {}, r"header, as 'x \[m\]'"),
    "underscore": ("t,x\n0,1_000\n1,2\n", {}, "'1_000' in row 2, column 'x'"),
    "infinite": ("t,x\n0,1\n1,inf\n2,2\n", {}, "row 3, column 'x' of pump.csv is inf"),
    "backwards": ("t,x\n0,1\n2,1\n\n1,2\n", {}, r"backwards: row 5, column 't'.*is 1 after 2"),
    "duplicates": (
        "t,x\n0,1\n1,1\n1,2\n",
        {},
        r"row 4, column 't' .* repeats .*--merge-duplicates",
    ),
    "no stamp": ("t,x\n0,1\n,1\n2,2\n", {}, "row 3, column 't' of pump.csv is nan"),
    "no date": ("date,x\n2024-01-01,1\n,1\n", {}, "row 3, column 'date' .* is missing"),
    "no such date": (
        "date,x\n2024-01-01,1\n2024-02-31,1\n",
        {},
        r"'2024-02-31' in row 3.*no.* date",
    ),
    "date then number": ("date,x\n2024-01-01,1\n17,1\n", {}, r"'17' in row 3.*mixed formats"),
    "number then date": ("time,x\n0,1\n2024-01-01,1\n", {}, r"row 3.* among plain numbers"),
    "zone, then none": (
        "date,x\n2024-01-01T00:00:00Z,1\n2024-01-01T00:00:01,2\n",
        {},
        "row 3.* has no time zone",
    ),
    "no zone, then one": (
        "date,x\n2024-01-01T00:00:00,1\n2024-01-01T00:00:01+01:00,2\n",
        {},
        "row 3.* has a time zone",
    ),
    "percent": ("t,x\n0,5%\n1,6%\n", {}, r"'5%' in row 2.*header, as 'x \[%\]'"),
    "units below time": ("time,x\ns,m\n0,1\n1,2\n", {}, "'s' in row 2.*If row 2 holds units"),
    "no such minute": ("t,x\n0:10,1\n0:60,2\n", {}, "'0:60' in row 3.*not a time stamp"),
    "clock, then number": ("t,x\n0:10,1\n12,2\n", {}, "'12' in row 3.*among clock readings"),
    "date apart from the clock": (
        "date,time,x\n2024-01-01,0:10,1\n2024-01-01,0:20,2\n",
        {"time": "time"},
        "only the clock, column 'date' the date.*as '2024-01-01 0:10'",
    ),
    "slashes": ("date,x\n1/2/2024,1\n2/2/2024,2\n", {}, r"day/month or month/day.*2024-05-31T"),
    "other text as time": ("time,x\nnoon,1\nten,2\n", {}, "'noon' in row 2.*not a time stamp"),
    "ambiguous thousands": ("t;x\n0;1,234\n1;2,345\n", {}, r"'1,234' in row 2.*1.234 or 1234"),
    "thousands": ('t,x\n0,"1,234.5"\n1,"2,345.5"\n', {}, "'1,234.5'.*thousands separators"),
    "german thousands": ("t;x\n0;0,5\n1;1.234,5\n", {}, "'1.234,5' in row 3.*thousands|point"),
    "point and comma": ("t;x\n0;0.5\n1;1,25\n", {}, r"'0.5' in row 2.*decimal comma"),
    "comma and point": ("t;x;y\n0;0,5;1\n1;0,5;1.25\n", {}, r"'1.25' in row 3.*decimal comma"),
    "group cell": ("t,g,x\n0,a,1\n1,,2\n", {"group": "g"}, "row 3, column 'g' .* is empty"),
    "first control": (
        "t,u,x\n0,,1\n1,1,2\n",
        {"controls": ["u"]},
        "control 'u' is missing at row 2",
    ),
    "nothing observed": ("t,x\n0,NA\n1,-\n", {}, "all cells are missing"),
    "empty column asked for": ("t,x,y\n0,1,\n1,2,\n", {"columns": ["x", "y"]}, "'y' .* no value"),
    "workbook": (b"PK\x03\x04\0\0\0", {}, "spreadsheet or archive.*CSV"),
    "binary": (b"\x01\0\x02\0", {}, "no text table"),
    "parquet": (b"PAR1\0\0", {}, "ending .parquet"),
    "open quote": ('t,x\n0,"1\n' + "1,2\n" * 50_000, {}, "quotation mark"),
}


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_refusals_name_value_place_and_remedy(table, case):
    content, options, message = REFUSED[case]
    with pytest.raises(DataError, match=f"(?s){message}"):
        read(table(content), **options)


def test_files_that_are_not_there(table, tmp_path):
    path = table(PLAIN)
    with pytest.raises(DataError, match=r"no file .*Did you mean .*pump\.csv"):
        read(path.with_name("pumps.csv"))
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError, match=r"is a folder without tables; .*\.csv"):
        read(empty)
    with pytest.raises(DataError, match=r"'\.xlsx'.*Save a spreadsheet as CSV"):
        read(table(b"PK", "pump.xlsx"))


def test_missing_cells_and_empty_rows(table):
    tr = read(table("t,x,y\n0,1,NA\n1,#NV,2\n2,-,null\n3,nan,#N/D\n4,5, \n"))
    np.testing.assert_array_equal(tr.times[0], [0, 1, 4])
    np.testing.assert_array_equal(tr.mask[0], [[1, 0], [0, 1], [1, 0]])
    np.testing.assert_array_equal(tr.values[0], [[1, np.nan], [np.nan, 2], [5, np.nan]])
    assert tr.notes == ("2 rows without a value dropped",)


def test_decimal_commas_with_missing_cells(table):
    tr = read(table("t;x\n0;NA\n0,5;1,5\n1; - \n1,5;2\n"))
    np.testing.assert_array_equal(tr.times[0], [0.5, 1.5])
    np.testing.assert_array_equal(tr.values[0].ravel(), [1.5, 2])


def test_another_column_settles_what_a_comma_means(table):
    tr = read(table("t;x\n0,5;1,234\n1,5;2,345\n"))
    np.testing.assert_array_equal(tr.values[0].ravel(), [1.234, 2.345])


def test_duplicates_merge_when_told(table):
    tr = read(table("t,x\n0,1\n1,1\n1,2\n2,0\n"), merge_duplicates=True)
    np.testing.assert_array_equal(tr.values[0].ravel(), [1, 1.5, 0])
    assert tr.notes == ("1 duplicate stamp merged",)


def test_groups_become_recordings_in_the_order_of_the_file(table):
    text = "run,t,x\nsecond,0,1\nfirst,5,2\nsecond,1,3\nfirst,6,4\n"
    tr = read(table(text), group="run")
    assert tr.labels == ("second", "first")
    np.testing.assert_array_equal(tr.values[0].ravel(), [1, 3])
    np.testing.assert_array_equal(tr.times[1], [5, 6])
    with pytest.raises(DataError, match="row 4, column 't'"):
        read(table(text.replace("second,1,3", "second,-1,3")), group="run")


def test_controls_hold_and_are_not_learned(table):
    tr = read(table("t,valve [%],x\n0,10,1\n1,,2\n2,30,3\n"), controls=["valve"])
    assert (tr.names, tr.control_names, tr.control_units) == (("x",), ("valve",), ("%",))
    np.testing.assert_array_equal(tr.controls[0].ravel(), [10, 10, 30])
    assert "repeat the last" in tr.notes[0]


def test_text_and_empty_columns_are_left_out_with_a_note(table):
    tr = read(table("t,who,x,y\n0,Ada,1,\n1,Bo,2,\n"))
    assert tr.names == ("x",)
    assert tr.notes == (
        "column 'who' was left out: 'Ada' in row 2 is text",
        "column 'y' was left out: it is empty",
    )


def test_without_a_time_column_rows_are_numbered(table):
    tr = read(table("x,y\n1,2\n3,4\n"))
    assert (tr.time_name, tr.n_variables) == ("row", 2)
    np.testing.assert_array_equal(tr.times[0], [0, 1])
    assert "rows are numbered" in tr.notes[0]


@pytest.mark.parametrize("name", ["Time", "TIMESTAMP", "T", "date", "time [ms]", "time (ms)"])
def test_time_column_is_found(table, name):
    tr = read(table(f"x,{name}\n1,0\n2,3\n"))
    np.testing.assert_array_equal(tr.times[0], [0, 3])
    assert tr.time_unit == ("ms" if "ms" in name else "")


STAMPS = {
    "T": ("2024-01-01T00:00:00", "2024-01-01T00:00:01.5"),
    "blank and comma": ("2024-01-01 00:00:00,000", "2024-01-01 00:00:01,500"),
    "Z": ("2024-01-01T00:00:00Z", "2024-01-01T00:00:01.500Z"),
    "offset": ("2024-01-01T00:00:00+00:00", "2024-01-01T02:00:01.5+02:00"),
    "short offset": ("2024-01-01T00:00:00+0000", "2024-01-01T02:00:01.5+0200"),
    "mixed offset forms": ("2024-01-01T00:00:00Z", "2023-12-31T19:00:01.5-05:00"),
    "day first": ("1.1.2024 00:00:00", "01.01.2024 00:00:01,5"),
    "day first, short hour": ("1.1.2024 9:00", "1.1.2024 9:00:01,5"),
    "slashes, year first": ("2024/1/1 9:00:00", "2024/01/01 09:00:01.5"),
    "padded, then not": ("2024-01-01 00:00:00", "2024-01-01 0:00:01.5"),
    "clock": ("00:00:00", "0:00:01.5"),
    "clock past a day": ("30:00", "30:00:01.5"),
}


@pytest.mark.parametrize("case", STAMPS, ids=str)
def test_calendar_stamps_become_seconds(table, case):
    first, second = STAMPS[case]
    tr = read(table(f"when;x\n{first};1\n{second};2\n"), time="when")
    np.testing.assert_allclose(tr.times[0], [0, 1.5], rtol=0, atol=1e-9)
    assert tr.time_unit == "s"


def test_dates_alone(table):
    tr = read(table("date,x\n2024-02-28,1\n2024-03-01,2\n"))
    np.testing.assert_array_equal(tr.times[0], [0, 2 * 86400])


@given(
    values=st.lists(
        st.tuples(*[st.none() | st.floats(-1e9, 1e9, allow_nan=False) for _ in range(2)]).filter(
            any
        ),
        min_size=2,
        max_size=20,
    ),
    locale=st.sampled_from([(",", "."), (";", ","), ("\t", "."), ("\t", ","), ("|", ".")]),
    line_end=st.sampled_from(["\n", "\r\n"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_round_trip_in_any_locale(tmp_path_factory, values, locale, line_end, encoding):
    separator, decimal = locale

    def cell(x):
        return "" if x is None else repr(float(x)).replace(".", decimal)

    rows = [["t", "a [µm]", "b"], *([cell(i / 2), *map(cell, v)] for i, v in enumerate(values))]
    path = tmp_path_factory.mktemp("trip") / "trip.csv"
    path.write_bytes(line_end.join(separator.join(r) for r in rows).encode(encoding))
    tr = read(path, columns=["a", "b"]) if _both_seen(values) else None
    if tr is not None:
        expected = np.array(values, dtype=np.float64)
        np.testing.assert_array_equal(tr.values[0], expected)
        np.testing.assert_array_equal(tr.times[0], np.arange(len(values)) / 2)
        assert tr.units == ("µm", "")


def _both_seen(values):
    return all(any(v[k] is not None for v in values) for k in range(2))


@pytest.mark.parametrize(
    ("title", "expected"),
    [("x", ("x", "")), ("x[m]", ("x", "m")), ("x y [m/s^2]", ("x y", "m/s^2")), ("x []", ("x", "")),
     ("f(x)", ("f(x)", "")), ("a (K)", ("a", "K")), ("pulse(t-0.1)", ("pulse(t-0.1)", ""))],
)  # fmt: skip
def test_units_in_headers(title, expected):
    assert split_unit(title) == expected


def test_chunks_join_without_a_seam(table, monkeypatch):
    monkeypatch.setattr(delimited, "CHUNK_ROWS", 7)
    n = 50
    text = "t,g,x\n" + "".join(f"{i},{'ab'[i % 2]},{'' if i == 20 else i / 8}\n" for i in range(n))
    tr = read(table(text), group="g")
    np.testing.assert_array_equal(tr.times[0], [i for i in range(0, n, 2) if i != 20])
    np.testing.assert_array_equal(tr.values[1].ravel(), np.arange(1, n, 2) / 8)
    with pytest.raises(DataError, match="'oops' in row 32, column 'x'"):
        read(table(text.replace("30,a,3.75", "30,a,oops")), group="g")


def test_a_file_too_large_for_the_memory_is_refused_at_once(table, monkeypatch):
    monkeypatch.setattr(delimited, "available_memory", lambda: 100)
    with pytest.raises(DataError, match=r"about 5 rows; .*GB of memory .*columns=\[\.\.\.\]"):
        read(table(PLAIN))


def test_a_million_rows_load_in_seconds(tmp_path):
    rng = np.random.default_rng(0)
    block = np.round(rng.standard_normal((10_000, 3)), 6)
    lines = [",".join(map(repr, row)) for row in block.tolist()]
    path = tmp_path / "long.csv"
    with path.open("w") as stream:
        stream.write("t [s],a,b,c\n")
        for k in range(100):
            stream.writelines(f"{k}.{i:04d},{line}\n" for i, line in enumerate(lines))
    start = time.process_time()
    tr = read(path)
    assert time.process_time() - start < 10
    assert tr.n_samples == 1_000_000
    np.testing.assert_array_equal(tr.values[0][-10_000:], block)


def test_frames_parquet_and_npz_agree_with_text(table, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    expected = read(table(PLAIN))
    frame = pandas.read_csv(table(PLAIN))
    frame.to_parquet(tmp_path / "pump.parquet")
    np.savez(tmp_path / "pump.npz", **{c: frame[c].to_numpy() for c in frame.columns})
    for tr in (read(tmp_path / "pump.parquet"), read(tmp_path / "pump.npz")):
        assert tr.fingerprint() == expected.fingerprint()
    from_frame = Trajectories.from_frame(frame)
    np.testing.assert_array_equal(from_frame.values[0], expected.values[0])


def test_frames_with_stamps_groups_text_and_missing_cells():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "when": pandas.to_datetime(["2024-01-01 01:00", "2024-01-01 01:01"] * 2).tz_localize(
                "Europe/Berlin"
            ),
            "run": ["a", "a", "b", "b"],
            "who": ["Ada", "Bo", "Cy", "Di"],
            "n": pandas.array([1, None, 3, 4], dtype="Int64"),
            "x": [1.0, 2.0, np.nan, 4.0],
        }
    )
    tr = Trajectories.from_frame(frame, time="when", group="run")
    assert (tr.names, tr.labels, tr.time_unit) == (("n", "x"), ("a", "b"), "s")
    np.testing.assert_array_equal(tr.times[1], [0, 60])
    np.testing.assert_array_equal(tr.mask[0], [[True, True], [False, True]])
    assert "'who' was left out" in tr.notes[0]
    with pytest.raises(DataError, match="'Ada' in row 0, column 'who' of the frame"):
        Trajectories.from_frame(frame, time="when", columns=["who"])
    frame.loc[1, "when"] = pandas.NaT
    with pytest.raises(DataError, match="Row 1, column 'when'"):
        Trajectories.from_frame(frame, time="when", group="run")
    frame.columns = ["when", "x", "x", "n", "y"]
    with pytest.raises(DataError, match="both named 'x'"):
        Trajectories.from_frame(frame)


def test_from_frame_wants_a_frame():
    with pytest.raises(DataError, match=r"ndarray .*from_arrays"):
        Trajectories.from_frame(np.zeros((3, 2)))


def test_parquet_without_pandas_names_the_extra(tmp_path, monkeypatch):
    (tmp_path / "pump.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"foretell\[tables\]"):
        read(tmp_path / "pump.parquet")


def test_npz_refusals(tmp_path):
    path = tmp_path / "pump.npz"
    np.savez(path, t=np.arange(3.0), x=np.zeros((3, 2)))
    assert read(path).names == ("x_0", "x_1")
    np.savez(path, t=np.arange(3.0), x=np.zeros(4))
    with pytest.raises(DataError, match="'x' has 4 rows and 't' has 3"):
        read(path)
    np.savez(path, x=np.zeros((3, 2, 2)))
    with pytest.raises(DataError, match=r"'x' .* shape \(3, 2, 2\)"):
        read(path)
    np.savez(path, x=np.array([{}, {}], dtype=object))
    with pytest.raises(DataError, match="cannot be read as NPZ"):
        read(path)
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(DataError, match="cannot be read as NPZ"):
        read(path)


SHEET = (
    "\ufeffZeit;Temperatur [°C];Feuchte [%]\r\n01.03.2024 00:00;17,76;58\r\n"
    "01.03.2024 00:15;17,86;56,2\r\n01.03.2024 00:30;18;55,1\r\n"
)


def test_the_only_column_of_dates_is_the_time_whatever_its_name(table):
    weather = read(table(SHEET))
    assert (weather.names, weather.time_name) == (("Temperatur", "Feuchte"), "Zeit")
    assert np.array_equal(weather.times[0], [0, 900, 1800])
    assert weather.notes == ("column 'Zeit' was taken for the time: it holds dates",)
    assert np.array_equal(weather.values[0][:, 0], [17.76, 17.86, 18])
    same = read(table(SHEET), time="Zeit")
    assert same.notes == ()
    assert same.fingerprint() == weather.fingerprint()


def test_two_columns_of_dates_or_one_with_another_role_are_not_guessed(table):
    two = read(table("von,bis,x\n2024-01-01,2024-01-02,1\n2024-01-02,2024-01-03,2.5\n"))
    assert two.time_name == "row"
    assert "rows are numbered" in two.notes[0]
    days = read(
        table("Tag,x\n2024-01-01,1\n2024-01-01,2\n2024-01-02,1\n2024-01-02,3\n"), group="Tag"
    )
    assert (days.n_recordings, days.time_name) == (2, "row")


def test_dates_of_a_frame_are_found_as_well():
    pandas = pytest.importorskip("pandas")
    stamps = pandas.date_range("2024-03-01", periods=4, freq="h")
    frame = pandas.DataFrame({"wann": stamps, "x": [1.0, 2.0, 4.0, 3.0]})
    found = Trajectories.from_frame(frame)
    assert (found.time_name, found.times[0][-1]) == ("wann", 3 * 3600)


@pytest.mark.parametrize(
    ("stamps", "unit", "second"),
    [
        (["20231230", "20231231", *(str(d) for d in range(20240101, 20240111))], "d", 1),
        ([f"2024010100{m:02d}" for m in range(12)], "min", 1),
        ([f"20240101{h:02d}0030" for h in range(12)], "h", 1),
        ([str(1704067200 + 60 * m) for m in range(12)], "min", 1),
        ([f"{1704067200 + s / 4:.2f}" for s in range(12)], "s", 0.25),
        ([str(1704067200000 + 250 * s) for s in range(12)], "s", 0.25),
        ([str(1704067200 * 10**9 + 10**9 * s) for s in range(12)], "s", 1),
    ],
)
def test_dates_that_look_like_numbers(table, stamps, unit, second):
    text = "date,x\n" + "".join(f"{s},{n}\n" for n, s in enumerate(stamps))
    found = read(table(text), calendar_unit="auto")
    assert found.time_unit == unit
    np.testing.assert_array_equal(found.times[0], second * np.arange(12))
    day = "2023-12-30" if stamps[0] == "20231230" else "2024-01-01"
    assert re.search(rf"read as dates: {stamps[0].partition('.')[0]} is {day}", found.notes[0])


@pytest.mark.parametrize("first", [20240525, 58190101, 20241305, 900_000_000, 4_102_444_795])
def test_numbers_that_are_no_dates_stay_numbers(table, first):
    text = "date,x\n" + "".join(f"{first + n},{n}\n" for n in range(12))
    found = read(table(text))
    assert (found.time_unit, found.times[0][0]) == ("", first)


def test_a_unit_that_is_asked_for(table):
    text = "date,x\n2024-02-28,1\n2024-03-01,2\n"
    assert read(table(text), calendar_unit="h").times[0][1] == 48
    with pytest.raises(DataError, match="counted in s, min, h or d"):
        read(table(text), calendar_unit="week")


def test_a_column_called_year_is_the_time_in_years(table):
    found = read(table("YEAR,x\n1700,5\n1701,11\n"))
    assert (found.time_name, found.time_unit, found.names) == ("YEAR", "yr", ("x",))


def test_tables_of_a_folder_are_recordings(tmp_path):
    rows = ["2024-01-01 0:00,{},0", "2024-01-01 0:05,2,1", "2024-01-01 0:10,4,0"]
    for name, first in (("run2", 3), ("run1", 1)):
        text = "\n".join(["when,level [m],pump", *rows]).format(first)
        (tmp_path / f"{name}.csv").write_text(text)
    (tmp_path / "readme.txt").write_text("not a table")
    (tmp_path / "more").mkdir()
    found = read(tmp_path, controls="pump", calendar_unit="auto")
    assert found.labels == ("run1", "run2")
    assert (found.time_unit, found.units, found.control_names) == ("min", ("m",), ("pump",))
    np.testing.assert_array_equal(found.times[0], [0, 5, 10])
    assert [v[0, 0] for v in found.values] == [1, 3]
    assert found.notes[0].startswith("readme.txt was left out")
    assert len(found.controls) == 2


def test_groups_within_the_tables_of_a_folder(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("t,dish,x\n0,1,1\n1,1,2\n0,2,3\n1,2,4\n")
    assert read(tmp_path, group="dish").labels == ("a: 1", "a: 2", "b: 1", "b: 2")


def test_tables_of_a_folder_need_the_same_columns(tmp_path):
    (tmp_path / "a.csv").write_text("t,x,y\n0,1,1\n1,1,2\n")
    (tmp_path / "b.csv").write_text("t,x,z\n0,1,1\n1,1,2\n")
    with pytest.raises(DataError, match=r"columns of a\.csv are 'x, y' and those of b\.csv 'x, z'"):
        read(tmp_path)
    assert read(tmp_path, columns="x").n_recordings == 2
    (tmp_path / "b.csv").write_text("t [s],x,y\n0,1,1\n1,1,2\n")
    with pytest.raises(
        DataError, match=r"unit of time of a\.csv are 'none' and those of b\.csv 's'"
    ):
        read(tmp_path)
