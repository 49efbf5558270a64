"""Samplers as model folders."""

from __future__ import annotations

import hashlib
import json
import os
from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from foretell.core import Artifact, ArtifactError
from foretell.dynamics.lifting.scale import Scale

Array = NDArray[np.float64]

_FACTS = (
    "names_", "control_names_", "control_units_", "time_name_", "time_unit_", "seed_", "shape_",
    "step_", "interval_range_", "n_features_in_",
)  # fmt: skip


class Kept(BaseEstimator):
    """A sampler that can be saved; the base of ``TransitionLearner``."""

    citations: ClassVar[tuple[str, ...]] = ()
    scale_: Scale
    names_: tuple[str, ...]
    units_: tuple[str, ...]
    fingerprint_: str

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model folder (``model.json`` and ``weights.safetensors``)."""
        self._check_fitted()
        arrays, facts = self._learned()
        fields = {name: getattr(self, name) for name in _FACTS} | {"learned": facts}
        return Artifact(
            model_class=type(self).__name__,
            arrays={**self.scale_.arrays(), **arrays},
            parameters=self.get_params(deep=False),
            fields=fields,
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
            model = cls(**artifact.parameters)
            fields: dict[str, Any] = dict(artifact.fields)
            for name in _FACTS:
                value = fields[name]
                setattr(model, name, tuple(value) if isinstance(value, list) else value)
            model.units_ = tuple(artifact.units[name] for name in model.names_)
            model.fingerprint_ = artifact.data_fingerprint
            arrays = dict(artifact.arrays)
            model.scale_ = Scale.from_arrays(arrays)
            model._restore(arrays, fields["learned"])
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(
                f"the folder does not describe a {cls.__name__} of this version: {error}. Update "
                "foretell, or fit and save the model again."
            ) from error
        return model

    @abstractmethod
    def _learned(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON values of what was learned."""

    @abstractmethod
    def _restore(self, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> None:
        """Take over what ``_learned`` gave."""

    @abstractmethod
    def _check_fitted(self) -> None:
        """Refuse to answer before ``fit``."""

    def _identity(self) -> str:
        content = json.dumps(
            [type(self).__name__, self.get_params(deep=False), self.fingerprint_],
            sort_keys=True,
            default=str,
        )
        return hashlib.sha256(content.encode()).hexdigest()
