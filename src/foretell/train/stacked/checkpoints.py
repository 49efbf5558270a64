"""Checkpoints with the step in their name, each whole or not there at all.

``FOLDER/step-00000040/`` holds ``model.json`` and ``weights.safetensors``. It is written beside and
renamed, so a full disk or a death while saving leaves the older ones as they were. The last few are
kept. The trajectory of a training depends on its units, not on its workers: a checkpoint may be
gone on with by another number of workers, as long as the units of a step are the same.
"""

from __future__ import annotations

import re
import shutil
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from foretell.core import Artifact, ArtifactError, ForetellWarning
from foretell.train.task import State

_CLASS = "stacked-training"
_NAME = re.compile(r"step-(\d{8,})")
_KEPT = 3


class Checkpoints:
    """The checkpoints of one training.

    Parameters
    ----------
    folder : Path
        Made when the first one is saved.
    identity : dict
        What must agree for a checkpoint to be gone on with: JSON values by name.
    every_s : float
        How often ``due`` says so, in seconds.
    every_steps : int, optional
        Or in steps.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kept = Checkpoints(Path(folder) / "checkpoints", {"units": 8})
    ...     path = kept.save(40, {"x": np.ones(2)}, {"loss": "0.5"})
    ...     path.name, kept.latest()
    ('step-00000040', (40, {'x': array([1., 1.])}, {'loss': '0.5'}))
    """

    def __init__(
        self,
        folder: Path,
        identity: dict[str, Any],
        *,
        every_s: float = 60.0,
        every_steps: int | None = None,
    ) -> None:
        self.folder, self.identity = Path(folder), identity
        self.every_s, self.every_steps = every_s, every_steps
        self._last = time.monotonic()

    def due(self, step: int) -> bool:
        """Whether it is time for one."""
        if self.every_steps is not None:
            return step % self.every_steps == 0
        return time.monotonic() - self._last > self.every_s

    def save(self, step: int, state: State, fields: dict[str, Any]) -> Path:
        """Write one, and remove the oldest beyond the last three.

        Raises
        ------
        ArtifactError
            The disk is full, or the folder cannot be written. Older ones are as they were.
        """
        self._last = time.monotonic()
        target = self.folder / f"step-{step:08d}"
        if not target.exists():
            content = {"step": step, "identity": self.identity, "fields": fields}
            self._remove_halves()
            Artifact(model_class=_CLASS, arrays=state, fields=content).save(target)
        for old in self.found()[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)
        return target

    def found(self) -> list[Path]:
        """Folders of checkpoints, the oldest first."""
        if not self.folder.is_dir():
            return []
        named = [(int(m[1]), p) for p in self.folder.iterdir() if (m := _NAME.fullmatch(p.name))]
        return [path for _, path in sorted(named)]

    def latest(self) -> tuple[int, State, dict[str, Any]] | None:
        """Step, state and fields of the newest that is whole; None without any.

        Raises
        ------
        ArtifactError
            It is of another training, or none is whole.
        """
        paths, broken = self.found(), ""
        for path in reversed(paths):
            try:
                artifact = Artifact.open(path, classes=[_CLASS])
            except ArtifactError as error:
                broken = broken or str(error)
                warnings.warn(f"A checkpoint is skipped: {error}", ForetellWarning, stacklevel=2)
                continue
            fields = dict(artifact.fields)
            self._compare(path, fields["identity"])
            return int(fields["step"]), dict(artifact.arrays), dict(fields["fields"])
        if paths:
            raise ArtifactError(f"none of the checkpoints in {self.folder} is whole: {broken}")
        return None

    def latest_of_any(self) -> State | None:
        """The state of the newest, of whatever training; for who has just written it."""
        paths = self.found()
        return dict(Artifact.open(paths[-1], classes=[_CLASS]).arrays) if paths else None

    def _compare(self, path: Path, saved: dict[str, Any]) -> None:
        for name in sorted({*saved, *self.identity}):
            if saved.get(name) != self.identity.get(name):
                raise ArtifactError(
                    f"{path} was saved by a training with {name} {saved.get(name)!r}; this one has "
                    f"{self.identity.get(name)!r}, and would go on to something else. Use the same "
                    "job, or another folder."
                )

    def _remove_halves(self) -> None:
        """What a death while saving left behind."""
        with suppress(OSError):
            for half in self.folder.glob(".step-*.partial"):
                shutil.rmtree(half, ignore_errors=True)
