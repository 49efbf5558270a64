"""What all learners of dynamics share: checks of questions, the frame of a run, saving, identity.

A learner says how it learns and how it runs (``_free_runs``); this is what surrounds that.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import (
    Artifact,
    ArtifactError,
    DataError,
    ForetellWarning,
    NotFittedError,
    NumericalError,
    ParameterError,
)
from foretell.core.estimator import Estimator
from foretell.data import Trajectories
from foretell.dynamics.checks import whole

Array = NDArray[np.float64]

_TOLD = ("names", "control_names", "control_units", "time_name", "time_unit")


class Learner(Estimator):
    """Base of every learner; use one of those in `foretell.dynamics`."""

    citations: ClassVar[tuple[str, ...]] = ()
    fitted_mark: ClassVar[str]  # the attribute that only a fitted model has
    # What to do about a run that leaves the range of the model at once, and about one that does
    # so later.
    when_lost_at_once: ClassVar[str]
    when_lost: ClassVar[str]

    names_: tuple[str, ...]
    units_: tuple[str, ...]
    control_names_: tuple[str, ...]
    control_units_: tuple[str, ...]
    time_name_: str
    time_unit_: str
    fingerprint_: str

    # ------------------------------------------------------------------ using
    def simulate(
        self,
        x0: ArrayLike | Trajectories,
        times: ArrayLike,
        *,
        controls: ArrayLike | None = None,
        n_samples: int = 1,
        random_state: int | np.random.Generator | None = None,
    ) -> Trajectories:
        """Run freely, without data, from one or several starts.

        Parameters
        ----------
        x0 : array (N,) or (B, N), or Trajectories
            Observed state at ``times[0]``, in data units; or recordings that end there, along which
            a model with hidden units runs them up.
        times : array (T,)
            Increasing stamps, in data time.
        controls : array (T, K), optional
            Inputs; row k holds from ``times[k]`` to ``times[k + 1]``. Needed when the model was
            fitted with controls.
        n_samples : int
            Copies of each start; they are equal, since the model has no noise.
        random_state : int, Generator or None
            Accepted for the interface; there is nothing random.

        Returns
        -------
        Trajectories
            B * n_samples recordings. One that leaves the range of the model ends there, with a
            warning.

        Raises
        ------
        ParameterError
            The start, the times or the controls do not fit the model.
        NumericalError
            A run leaves the range of the model at once.
        """
        self._check_samples(n_samples)
        stamps, u, runs = self._free_runs(x0, times, controls)
        return self._recorded(runs, stamps, u, int(n_samples))

    @abstractmethod
    def _free_runs(
        self, x0: ArrayLike | Trajectories, times: ArrayLike, controls: ArrayLike | None
    ) -> tuple[Array, Array | None, Array]:
        """Checked stamps and controls, and values (B, T, N) in data units, NaN from an escape."""

    def _recorded(
        self, runs: Iterable[Array], stamps: Array, u: Array | None, copies: int = 1
    ) -> Trajectories:
        """Runs (T, N) as recordings, each up to its first row with a NaN; for ``simulate``."""
        kept: list[Array] = []
        for run in runs:
            fine = np.isfinite(run).all(axis=1)
            reached = len(run) if fine.all() else int(fine.argmin())
            if reached < 2:
                raise NumericalError(
                    "a free run leaves the range of the model before the second of the times "
                    f"({stamps[1]:.6g}), so there is nothing to return. {self.when_lost_at_once}"
                )
            if reached < len(run):
                warnings.warn(
                    f"a free run left the range of the model at {stamps[reached]:.6g} and ends "
                    f"there. {self.when_lost}",
                    ForetellWarning,
                    stacklevel=3,
                )
            kept += [run[:reached]] * copies
        return Trajectories.from_arrays(
            kept,
            [stamps[: len(run)] for run in kept],
            controls=None if u is None else [u[: len(run)] for run in kept],
            names=self.names_,
            units=self.units_,
            control_names=self.control_names_ if u is not None else None,
            control_units=self.control_units_ if u is not None else None,
            time_name=self.time_name_,
            time_unit=self.time_unit_,
        )

    # ------------------------------------------------------------------ checks
    def _check_fitted(self) -> None:
        if not hasattr(self, self.fitted_mark):
            raise NotFittedError(
                f"this {type(self).__name__} has not learned anything yet. "
                "Call fit(recordings) first, or open a saved one with load(path)."
            )

    @staticmethod
    def _check_samples(n_samples: Any) -> None:
        if not whole(n_samples, 1):
            raise ParameterError(f"n_samples={n_samples!r}; needed is 1 or more.")

    def _check_columns(self, recordings: Trajectories) -> None:
        """Refuse recordings of other variables or inputs than those of the fit."""
        if recordings.n_variables != len(self.names_):
            raise DataError(
                f"the recordings have {recordings.n_variables} variables "
                f"({', '.join(recordings.names)}); the model knows {len(self.names_)} "
                f"({', '.join(self.names_)})."
            )
        if recordings.n_controls != len(self.control_names_):
            raise DataError(
                f"the recordings have {recordings.n_controls} controls; the model was fitted "
                f"with {len(self.control_names_)}."
            )

    # ------------------------------------------------------------------ what it was fitted to
    def _note(self, recordings: Trajectories, fingerprint: str | None = None) -> None:
        """Remember names, units and fingerprint of the recordings of a fit.

        ``fingerprint`` is that of what the user gave, where it is not these recordings.
        """
        self.names_, self.units_ = recordings.names, recordings.units
        self.control_names_ = recordings.control_names
        self.control_units_ = recordings.control_units
        self.time_name_, self.time_unit_ = recordings.time_name, recordings.time_unit
        self.fingerprint_ = fingerprint or recordings.fingerprint()

    # ------------------------------------------------------------------ keeping
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model folder (``model.json`` and ``weights.safetensors``)."""
        self._check_fitted()
        arrays, fields = self._kept()
        return Artifact(
            model_class=type(self).__name__,
            arrays=arrays,
            parameters={k: _listed(v) for k, v in self.get_params(deep=False).items()},
            fields={**{k: _listed(getattr(self, f"{k}_")) for k in _TOLD}, **fields},
            units=dict(zip(self.names_, self.units_, strict=True)),
            data_fingerprint=self.fingerprint_,
            citations=self.citations,
        ).save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Open a folder that ``save`` wrote."""
        return cls.from_artifact(Artifact.open(path, classes=[cls.__name__]))

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        """The model that an opened artefact describes."""
        try:
            model = cls(**cls._arguments(artifact.parameters))
            fields = dict(artifact.fields)
            for name in _TOLD:
                value = fields[name] if name in fields else fields[f"{name}_"]  # samplers, once
                setattr(model, f"{name}_", tuple(value) if isinstance(value, list) else value)
            model.units_ = tuple(artifact.units[name] for name in model.names_)
            model.fingerprint_ = artifact.data_fingerprint
            model._take_over(dict(artifact.arrays), fields)
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(
                f"the folder does not describe a {cls.__name__} of this version: {error}. Update "
                "foretell, or fit and save the model again."
            ) from error
        return model

    @classmethod
    def _arguments(cls, parameters: Any) -> dict[str, Any]:
        """Constructor arguments from their JSON form."""
        return dict(parameters)

    @abstractmethod
    def _kept(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON values of what was learned, beside names and units."""

    @abstractmethod
    def _take_over(self, arrays: dict[str, NDArray[Any]], fields: dict[str, Any]) -> None:
        """Take over what ``_kept`` gave."""

    def _identity(self, *content: Any, arrays: Sequence[NDArray[Any]] = ()) -> str:
        """A hash of the learner with its arguments and of what else decides about a training."""
        text = json.dumps(
            [type(self).__name__, self.get_params(deep=False), *content],
            sort_keys=True,
            default=str,
        )
        digest = hashlib.sha256(text.encode())
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def _listed(value: Any) -> Any:
    """Tuples as lists, as JSON has them."""
    return list(value) if isinstance(value, tuple) else value
