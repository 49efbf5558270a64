"""How often to save: the period that leaves the most time for training.

With a save of T_s in every period T_c, a restart of T_r and a mean time T_f between restarts, the
share of time that trains is A = (1 - T_s / T_c) T_f / (T_f + T_r + T_c / 2). It is largest at
T_c = T_s + sqrt(T_s^2 + 2 T_s (T_f + T_r)), Young's sqrt(2 T_s T_f) where T_s and T_r are small.
"""

from __future__ import annotations

import math

from foretell.core.errors import ParameterError
from foretell.train.plan.checks import positive


class CheckpointPolicy:
    """When to save.

    Parameters
    ----------
    save_s : float
        T_s, seconds that a checkpoint stops the training.
    restart_s : float
        T_r, seconds from a wipe-out to the first step of the restarted run.
    mtbf_s : float
        m, mean seconds between failures of the system.

    Examples
    --------
    >>> policy = CheckpointPolicy(save_s=60.0, restart_s=3600.0, mtbf_s=300.0)
    >>> round(policy.interval(mean_failures=193.0)), round(policy.availability(2821.0, 193.0), 3)
    (2777, 0.901)
    """

    def __init__(self, save_s: float, restart_s: float, mtbf_s: float) -> None:
        self.save_s = positive("save_s", save_s, "seconds")
        self.restart_s = positive("restart_s", restart_s, "seconds")
        self.mtbf_s = positive("mtbf_s", mtbf_s, "seconds")

    def interval(self, mean_failures: float = 1.0, *, uptime_s: float | None = None) -> float:
        """The best period, save included, in seconds.

        Parameters
        ----------
        mean_failures : float
            E[K], failures until a restart; 1 without redundancy.
        uptime_s : float, optional
            T_f, mean seconds until a restart; default ``mean_failures * mtbf_s``. Give it for
            clocks that start anew: ``FailureModel.time_to``.
        """
        T_f = self._uptime(mean_failures, uptime_s)
        return self.save_s + math.sqrt(self.save_s**2 + 2 * self.save_s * (T_f + self.restart_s))

    def availability(
        self, interval_s: float, mean_failures: float = 1.0, *, uptime_s: float | None = None
    ) -> float:
        """A, the share of time that trains, for a period in seconds."""
        T_c = checked_interval(interval_s, self.save_s)
        T_f = self._uptime(mean_failures, uptime_s)
        return (1 - self.save_s / T_c) * T_f / (T_f + self.restart_s + T_c / 2)

    def _uptime(self, mean_failures: float, uptime_s: float | None) -> float:
        if uptime_s is not None:
            return positive("uptime_s", uptime_s, "seconds")
        return positive("mean_failures", mean_failures) * self.mtbf_s

    def __repr__(self) -> str:
        return (
            f"CheckpointPolicy(save {self.save_s:g} s, restart {self.restart_s:g} s, one failure "
            f"in {self.mtbf_s:g} s)"
        )


def young_interval(save_s: float, uptime_s: float) -> float:
    """Young's period between saves, sqrt(2 T_s T_f), in seconds.

    Examples
    --------
    >>> round(young_interval(60.0, 57900.0))
    2636
    """
    save, uptime = positive("save_s", save_s, "seconds"), positive("uptime_s", uptime_s, "seconds")
    return math.sqrt(2 * save * uptime)


def checked_interval(interval_s: float, save_s: float) -> float:
    """The period of checkpoints, longer than the save it contains."""
    T_c = positive("interval_s", interval_s, "seconds")
    if T_c <= save_s:
        raise ParameterError(
            f"interval_s={interval_s!r} is not longer than the save of {save_s:g} s that it "
            "contains, so nothing would be trained. Write for instance "
            f"interval_s={20 * save_s:g}, or ask CheckpointPolicy.interval."
        )
    return T_c
