"""Open any saved model: the closed table of classes that a model folder may name."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from foretell.core import Artifact

# Class -> module, imported when a folder names it: some need torch.
LEARNERS = {
    "CPLRNN": "foretell.dynamics.cplrnn",
    "ALRNN": "foretell.dynamics.alrnn",
    "ReLUNeuralODE": "foretell.dynamics.neural_ode",
    "HybridLatentODE": "foretell.dynamics.hybrid",
    "EDMDc": "foretell.dynamics.koopman",
    "KoopmanQP": "foretell.dynamics.koopman",
    "JointKoopman": "foretell.dynamics.koopman",
    "AlternatingKoopman": "foretell.dynamics.koopman",
    "StochasticLifting": "foretell.dynamics.lifting",
    "GaussianTransition": "foretell.dynamics.lifting",
    "EngressionTransition": "foretell.dynamics.lifting",
    "FlowMatchingTransition": "foretell.dynamics.lifting",
    "AnalogueTransition": "foretell.dynamics.lifting",
}


def load(path: str | os.PathLike[str]) -> Any:
    """Open a model folder, whichever learner wrote it.

    Parameters
    ----------
    path : path
        The folder that ``save`` or ``foretell fit`` wrote.

    Raises
    ------
    ArtifactError
        The folder is incomplete, changed, from a newer version, or of an unknown class.
    MissingExtraError
        The learner needs torch, which is not installed.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from foretell.dynamics import CPLRNN
    >>> t = np.arange(200) * 0.1
    >>> model = CPLRNN(latent_dim=2, n_relu=0, sequence_length=20, max_updates=5, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = model.fit(np.sin(t)[:, None], t).save(f"{folder}/wave")
    ...     again = load(path)
    >>> bool((again.theta_ == model.theta_).all())
    True
    """
    artifact = Artifact.open(path, classes=LEARNERS)
    learner = getattr(import_module(LEARNERS[artifact.model_class]), artifact.model_class)
    return learner.from_artifact(artifact)
