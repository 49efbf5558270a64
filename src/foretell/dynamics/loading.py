"""Open any saved model: the closed table of classes that a model folder may name."""

from __future__ import annotations

import os

from foretell.core import Artifact
from foretell.dynamics.alrnn import ALRNN
from foretell.dynamics.cplrnn import CPLRNN
from foretell.dynamics.neural_ode import ReLUNeuralODE
from foretell.dynamics.sequence_learner import SequenceLearner

LEARNERS: dict[str, type[SequenceLearner]] = {
    learner.__name__: learner for learner in (CPLRNN, ALRNN, ReLUNeuralODE)
}


def load(path: str | os.PathLike[str]) -> SequenceLearner:
    """Open a model folder, whichever learner wrote it.

    Parameters
    ----------
    path : path
        The folder that ``save`` or ``foretell fit`` wrote.

    Raises
    ------
    ArtifactError
        The folder is incomplete, changed, from a newer version, or of an unknown class.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> t = np.arange(200) * 0.1
    >>> model = CPLRNN(latent_dim=2, n_relu=0, sequence_length=20, max_updates=5, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = model.fit(np.sin(t)[:, None], t).save(f"{folder}/wave")
    ...     again = load(path)
    >>> bool((again.theta_ == model.theta_).all())
    True
    """
    artifact = Artifact.open(path, classes=LEARNERS)
    return LEARNERS[artifact.model_class].from_artifact(artifact)
