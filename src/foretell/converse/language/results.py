"""What a fit along a path and a decision about a language say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class RegularizationPath:
    """Models for several prices of the weights, each started from the one before.

    Parameters
    ----------
    betas : tuple of float
    models : tuple
        Fitted models, in the same order.
    objectives, gaps, violations : tuple of float
        Of each; see `foretell.solve.admm.Solution`.
    n_neurons : tuple of int
    """

    betas: tuple[float, ...]
    models: tuple[Any, ...]
    objectives: tuple[float, ...]
    gaps: tuple[float, ...]
    violations: tuple[float, ...]
    n_neurons: tuple[int, ...]

    def __repr__(self) -> str:
        ends = f"beta {self.betas[0]:.3g} to {self.betas[-1]:.3g}"
        return f"RegularizationPath({len(self.betas)} models, {ends}, neurons {self.n_neurons})"


@dataclass(frozen=True)
class LanguageDecision:
    """What is said about a turn, once.

    Parameters
    ----------
    label : str or None
        The language; for "withhold" the one to fall back to, if there is any.
    proba : float
        Of the most probable language when the decision fell.
    after : float
        How much had been heard (since the first sound) or read, in ``unit``.
    unit : str
        "s" or "characters".
    action : {"accept", "switch", "withhold"}
        The first decision, a later change of it, or no decision within the time allowed.
    certified_radius : float or None
        How far the features may move without changing the most probable language, in units of
        the encoder's features; it is no statement about noise in the sound. None where the model
        gives no such radius.
    """

    label: Any
    proba: float
    after: float
    unit: str
    action: Literal["accept", "switch", "withhold"]
    certified_radius: float | None = None

    @property
    def accepted(self) -> bool:
        """Whether the label may be used."""
        return self.action != "withhold"

    def __repr__(self) -> str:
        unit = "" if self.unit == "s" else " "
        return (
            f"LanguageDecision({self.action} {self.label!r}, proba {self.proba:.3g}, after "
            f"{self.after:.3g}{unit}{self.unit})"
        )
