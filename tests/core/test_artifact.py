"""A model folder is whole or refused by name; a failed save leaves the old one as it was."""

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import array_shapes, arrays, floating_dtypes

from foretell.core import Artifact, ArtifactError, artifact as artifact_module, files

CLASSES = ("CPLRNN", "ALRNN")


def make(value: float = 1.0, **changes: object) -> Artifact:
    content: dict[str, object] = {
        "model_class": "CPLRNN",
        "arrays": {"W": np.full((2, 3), value), "on": np.array([True, False])},
        "parameters": {"n_relu": 2, "lr": 5e-3},
        "fields": {"names": ["level", "Größe"], "time_scale": 0.1 + 0.2, "none": None},
        "units": {"level": "m", "Größe": ""},
        "data_fingerprint": "ab" * 32,
        "citations": ("cplrnn",),
    }
    return Artifact(**{**content, **changes})


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return make().save(tmp_path / "pump")


def edit(folder: Path, **changes: object) -> None:
    path = folder / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changes}))


def test_everything_comes_back(saved: Path) -> None:
    again = Artifact.open(saved, classes=CLASSES)
    first = make()
    for name in ("parameters", "fields", "units", "data_fingerprint", "citations", "model_class"):
        assert getattr(again, name) == getattr(first, name), name
    assert again.foretell_version == first.foretell_version
    assert again.arrays.keys() == first.arrays.keys()
    for name, array in first.arrays.items():
        assert again.arrays[name].dtype == array.dtype
        assert np.array_equal(again.arrays[name], array)
        assert again.arrays[name].flags.writeable
    assert sorted(p.name for p in saved.iterdir()) == ["model.json", "weights.safetensors"]


@given(arrays(floating_dtypes(sizes=(32, 64)), array_shapes(min_dims=0, min_side=0)))
def test_any_floating_array_comes_back_bit_for_bit(tmp_path_factory, array) -> None:
    folder = make(arrays={"x": array, "fortran": np.array(array, order="F")}).save(
        tmp_path_factory.mktemp("any") / "model"
    )
    again = Artifact.open(folder, classes=CLASSES).arrays
    for copy in again.values():
        assert copy.shape == array.shape
        assert copy.tobytes() == array.astype(array.dtype.newbyteorder("=")).tobytes()


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_in_fields_are_exact(tmp_path_factory, number: float) -> None:
    folder = make(fields={"x": number, "numpy": np.float64(number)}).save(
        tmp_path_factory.mktemp("exact") / "model"
    )
    assert Artifact.open(folder, classes=CLASSES).fields == {"x": number, "numpy": number}


def test_an_older_model_is_replaced_and_its_other_files_are_kept(saved: Path) -> None:
    (saved / "report.html").write_text("kept")
    make(2.0).save(saved)
    assert Artifact.open(saved, classes=CLASSES).arrays["W"][0, 0] == 2.0
    assert (saved / "report.html").read_text() == "kept"
    assert [p.name for p in saved.parent.iterdir()] == ["pump"]


def test_a_symbolic_link_stays_one(saved: Path, tmp_path: Path) -> None:
    link = tmp_path / "latest"
    link.symlink_to(saved)
    make(3.0).save(link)
    assert link.is_symlink()
    assert Artifact.open(saved, classes=CLASSES).arrays["W"][0, 0] == 3.0


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert (make().save(tmp_path / "out") / "model.json").is_file()


def test_a_folder_with_something_else_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(ArtifactError, match="not a model that could be replaced"):
        make().save(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "precious"


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pump").write_text("a file")
    with pytest.raises(ArtifactError, match="is a file"):
        make().save(tmp_path / "pump")
    with pytest.raises(ArtifactError, match="was not written: "):
        make().save(tmp_path / "pump" / "model")
    with pytest.raises(ArtifactError, match="is a file; a model is a folder"):
        Artifact.open(tmp_path / "pump", classes=CLASSES)


@pytest.mark.parametrize("call", [1, 2])
@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_a_full_disk_or_ctrl_c_leaves_the_old_model(saved, monkeypatch, call, failure) -> None:
    calls: list[int] = []

    def failing(handle: int) -> None:
        calls.append(handle)
        if len(calls) == call:
            raise failure

    monkeypatch.setattr(os, "fsync", failing)
    if isinstance(failure, OSError):
        with pytest.raises(ArtifactError, match=r"no space left.*unchanged.*Free some space"):
            make(2.0).save(saved)
    else:
        with pytest.raises(KeyboardInterrupt):
            make(2.0).save(saved)
    assert Artifact.open(saved, classes=CLASSES).arrays["W"][0, 0] == 1.0
    assert [p.name for p in saved.parent.iterdir()] == ["pump"]


def test_a_failed_swap_puts_the_old_model_back(saved, monkeypatch) -> None:
    rename, calls = os.rename, []

    def failing(source: object, target: object) -> None:
        calls.append(source)
        if len(calls) == 2:
            raise OSError(errno.EACCES, "Permission denied")
        rename(source, target)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(ArtifactError, match=r"permission denied.*Choose another place"):
        make(2.0).save(saved)
    assert Artifact.open(saved, classes=CLASSES).arrays["W"][0, 0] == 1.0


def test_a_power_cut_between_the_two_renames_loses_nothing(saved: Path) -> None:
    os.rename(saved, saved.parent / ".pump.previous")
    assert Artifact.open(saved, classes=CLASSES).arrays["W"][0, 0] == 1.0
    assert saved.is_dir()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fields": {"score": float("nan")}}, "cannot hold these fields"),
        ({"fields": {"object": object()}}, "object is not a JSON value"),
        ({"arrays": {"names": np.array(["a"])}}, "array 'names' has the type <U1"),
        ({"arrays": {"things": np.array([object()])}}, "has the type object"),
    ],
)
def test_what_cannot_be_saved_is_named(tmp_path: Path, changes, message: str) -> None:
    with pytest.raises(ArtifactError, match=message):
        make(**changes).save(tmp_path / "pump")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"class": "Spectre"}, r"class 'Spectre'.*known: ALRNN, CPLRNN.*pip install --upgrade"),
        ({"schema": artifact_module.SCHEMA + 1, "foretell": "9.1"}, r"newer foretell \(9\.1\)"),
        ({"schema": "one"}, "no usable 'schema'"),
        ({"weights": None}, "no usable 'weights'"),
        ({"format": "other"}, "was not written by foretell"),
    ],
)
def test_a_strange_model_file_is_refused_by_name(saved: Path, changes, message: str) -> None:
    edit(saved, **changes)
    with pytest.raises(ArtifactError, match=message):
        Artifact.open(saved, classes=CLASSES)


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", "\x80"])
def test_a_damaged_model_file_is_refused(saved: Path, text: str) -> None:
    (saved / "model.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ArtifactError, match=r"is damaged|was not written by foretell"):
        Artifact.open(saved, classes=CLASSES)


def test_truncated_weights_are_refused(saved: Path) -> None:
    path = saved / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ArtifactError, match="cut off or replaced"):
        Artifact.open(saved, classes=CLASSES)


def test_one_changed_bit_is_refused(saved: Path) -> None:
    path = saved / "weights.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(ArtifactError, match="SHA-256"):
        Artifact.open(saved, classes=CLASSES)


@pytest.mark.parametrize("name", ["model.json", "weights.safetensors"])
def test_a_missing_file_is_named(saved: Path, name: str) -> None:
    (saved / name).unlink()
    with pytest.raises(ArtifactError, match=f"has no {name}"):
        Artifact.open(saved, classes=CLASSES)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="nowhere does not exist"):
        Artifact.open(tmp_path / "nowhere", classes=CLASSES)


def test_pickle_is_never_read(saved: Path) -> None:
    import pickle

    data = pickle.dumps({"W": [1.0]})
    (saved / "weights.safetensors").write_bytes(data)
    import hashlib

    edit(saved, weights={"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()})
    with pytest.raises(ArtifactError, match="no safetensors file"):
        Artifact.open(saved, classes=CLASSES)


def test_a_file_is_old_or_new_never_half(tmp_path: Path, monkeypatch) -> None:
    path = files.write_text_atomic(tmp_path / "a" / "report.html", "old")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ArtifactError, match=r"report\.html was not written: no space left"):
        files.write_text_atomic(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]


def test_a_folder_in_the_way_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="it is a folder, not a file"):
        files.write_bytes_atomic(tmp_path, b"")
