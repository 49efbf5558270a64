"""What the long-run measures give between stretches of the truth itself."""

from __future__ import annotations

from dataclasses import dataclass

from foretell.core.errors import ParameterError
from foretell.dynamics.longrun.divergence import state_space_divergence
from foretell.dynamics.longrun.spectra import power_spectrum_hellinger
from foretell.dynamics.longrun.stretches import (
    Recordings,
    Stretch,
    as_stretches,
    true_points,
)


@dataclass(frozen=True)
class NoiseFloor:
    """Long-run measures between true stretches: a perfect model does no better.

    Attributes
    ----------
    state_space_divergence, power_spectrum_hellinger : float
        The largest over the comparisons of the first stretch with each other one.
    n_comparisons : int
    false_alarm_rate : float
        Each measure of a run that has the law of the other stretches, is independent of them and
        as long, exceeds its floor with at most this probability: 1 / (n_comparisons + 1).
    """

    state_space_divergence: float
    power_spectrum_hellinger: float
    n_comparisons: int
    false_alarm_rate: float

    def __repr__(self) -> str:
        return (
            f"<NoiseFloor: state_space_divergence {self.state_space_divergence:.3g}, "
            f"power_spectrum_hellinger {self.power_spectrum_hellinger:.3g}, largest of "
            f"{self.n_comparisons}>"
        )


def noise_floor(
    *stretches: Recordings,
    parts: int = 2,
    bins: int = 30,
    alpha: float = 1e-5,
    smoothing: float = 20.0,
    reference: bool = False,
) -> NoiseFloor:
    """State-space divergence and spectral distance between independent stretches of the truth.

    The first stretch plays the truth, every other one a generated run. Where the stretches are
    exchangeable (independent, one law, equally long), a generated run of that law exceeds the
    largest of m values with probability at most 1 / (m + 1).

    Parameters
    ----------
    *stretches : Trajectories or arrays of shape (T, N), or lists of them
        Two or more, equally long for a fair floor. One alone is cut in time.
    parts : int
        Into how many equal parts a single argument is cut, every recording in time order.
    bins, alpha, smoothing, reference
        As in `state_space_divergence` and `power_spectrum_hellinger`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> noise_floor(rng.normal(size=(40_000, 1)), parts=3)
    <NoiseFloor: state_space_divergence 0.0..., power_spectrum_hellinger 0.0..., largest of 2>
    """
    if not stretches or (len(stretches) == 1 and parts < 2):
        raise ParameterError(
            f"noise_floor got {len(stretches)} stretches and parts={parts}; needed are two "
            "stretches, or one and parts of at least 2."
        )
    if len(stretches) > 1:
        pieces = [as_stretches(given, f"stretch {i}") for i, given in enumerate(stretches)]
    else:
        whole = as_stretches(stretches[0], "stretch 0")
        pieces = [[s.part(i, parts) for s in whole] for i in range(parts)]
    truth, others = pieces[0], pieces[1:]
    return NoiseFloor(
        state_space_divergence=max(
            state_space_divergence(
                truth, true_points(other), bins=bins, alpha=alpha, reference=reference
            )
            for other in others
        ),
        power_spectrum_hellinger=max(
            power_spectrum_hellinger(_stamped(truth), _stamped(other), smoothing=smoothing)
            for other in others
        ),
        n_comparisons=len(others),
        false_alarm_rate=1.0 / (len(others) + 1),
    )


def _stamped(stretches: list[Stretch]) -> list[Stretch]:
    """Stretches with stamps: missing cells then count as missing, and not as an escaped run."""
    return [Stretch(s.values, s.stamps(1.0)) for s in stretches]
