"""The folder of one fit, and whether it may be written, resumed or shown.

OUT/fit.json        the request and how far it got
OUT/progress/       what --resume needs; removed when the fit is done
OUT/comparison.json the learners that were tried before the fit
OUT/model/          model.json and weights.safetensors
OUT/report.html     the report
OUT/summary.json    the same findings as numbers, for programs
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foretell.core.errors import ArtifactError
from foretell.core.files import write_text_atomic

FORMAT = "foretell-fit"
SCHEMA = 1


@dataclass(frozen=True)
class FitFolder:
    """Paths inside the output folder of one fit.

    Examples
    --------
    >>> FitFolder(Path("pump")).report.as_posix()
    'pump/report.html'
    """

    path: Path

    @property
    def record(self) -> Path:
        """The request and the state of the fit."""
        return self.path / "fit.json"

    @property
    def progress(self) -> Path:
        """The resumable state."""
        return self.path / "progress"

    @property
    def comparison(self) -> Path:
        """The learners that were tried before the fit."""
        return self.path / "comparison.json"

    @property
    def model(self) -> Path:
        """The model folder."""
        return self.path / "model"

    @property
    def report(self) -> Path:
        """The report."""
        return self.path / "report.html"

    @property
    def summary(self) -> Path:
        """The findings as JSON."""
        return self.path / "summary.json"

    def claim(self, request: dict[str, Any], *, resume: bool) -> None:
        """Make the folder, or check that an earlier fit in it can be continued.

        Raises
        ------
        ArtifactError
            When the folder holds something else, a finished fit, or a different request.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ArtifactError(f"{self.path} is a file. Give a new folder with --out.")
        if resume:
            self._check_resumable(request)
            return
        if self.path.is_dir() and any(self.path.iterdir()):
            if not self.record.exists():
                raise ArtifactError(
                    f"{self.path} exists and holds files that are not a foretell fit; nothing was "
                    "touched. Give a new folder with --out."
                )
            done = self.read()["state"] == "done"
            raise ArtifactError(
                f"{self.path} already holds a finished fit. Look at it with: foretell show "
                f"{self.path}"
                "; or give a new folder with --out."
                if done
                else f"{self.path} holds an interrupted fit. Continue it by adding --resume, or "
                "give a "
                "new folder with --out."
            )
        self.write(request, "running")

    def _check_resumable(self, request: dict[str, Any]) -> None:
        if not self.record.exists():
            raise ArtifactError(
                f"There is no fit to resume in {self.path}. Start one by leaving --resume out."
            )
        found = self.read()
        if found["state"] == "done":
            raise ArtifactError(
                f"The fit in {self.path} is finished; there is nothing to resume. Look at it with: "
                f"foretell show {self.path}"
            )
        for key, value in request.items():
            before = found["request"].get(key)
            if before != value:
                raise ArtifactError(
                    f"The fit in {self.path} was started with {key}={before!r}, not {value!r}. "
                    "Give the "
                    "same options as before to resume it, or a new folder with --out."
                )

    def read(self) -> dict[str, Any]:
        """The record of the fit in this folder."""
        if not self.record.exists():
            raise ArtifactError(
                f"{self.path} is not the folder of a foretell fit: it has no fit.json. Make one "
                "with: "
                "foretell fit FILE --time COLUMN --out FOLDER"
            )
        try:
            content = json.loads(self.record.read_text(encoding="utf-8"))
            kind, schema = content["format"], int(content["schema"])
            content["state"], content["request"]
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise ArtifactError(
                f"{self.record} is damaged ({error}). Fit again into a new folder."
            ) from error
        if kind != FORMAT:
            raise ArtifactError(f"{self.record} is not the record of a foretell fit.")
        if schema > SCHEMA:
            raise ArtifactError(
                f"{self.record} was written by a newer foretell (schema {schema}, known here "
                f"{SCHEMA}). "
                "Update with: pip install --upgrade foretell"
            )
        record: dict[str, Any] = content
        return record

    def write(self, request: dict[str, Any], state: str) -> None:
        """Write the record."""
        content = {"format": FORMAT, "schema": SCHEMA, "state": state, "request": request}
        write_text_atomic(self.record, json.dumps(content, indent=2, ensure_ascii=False) + "\n")

    def release(self) -> None:
        """Give up a claim from which there is nothing to resume."""
        own = {self.record, self.comparison}
        if self.path.is_dir() and set(self.path.iterdir()) <= own:
            for file in own:
                file.unlink(missing_ok=True)
            self.path.rmdir()

    def finish(self, request: dict[str, Any]) -> None:
        """Mark the fit as done and drop the resumable state."""
        self.write(request, "done")
        if self.progress.is_dir():
            shutil.rmtree(self.progress, ignore_errors=True)
        elif self.progress.exists():
            self.progress.unlink()
