"""The limit of each user, and which settings of a regulator are possible."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.core import ParameterError
from foretell.trust.boundary import check_level
from foretell.trust.diversify import Diversifier
from foretell.trust.event_log import EventLog
from foretell.trust.saturation import SaturationState

Array = NDArray[np.float64]

MODES = ("dual", "barrier", "penalty")
_GROUP_EVENTS = 500  # fewer, and a group's limit is everyone's


def limits_of_users(
    limit: float | Mapping[str, float] | None, D_N: Array, log: EventLog
) -> tuple[Array, float]:
    """L of each user, shape (U,), and L of users that come later."""
    if limit is not None and not isinstance(limit, Mapping):
        return np.full(log.n_users, float(limit)), float(limit)
    q = 0.9 if limit is None else limit["quantile"]
    common = float(np.quantile(D_N, q))
    if common <= 0:
        raise ParameterError(
            f"the {q:.6g} quantile of saturation over the log is 0: so few events are above rho "
            "times the usual that this limit would bar everything. Raise the quantile, lower rho "
            "towards 1, or give limit=... as a number."
        )
    each = np.full(log.n_users, common)
    if log.groups is not None:
        for name in np.unique(log.groups):
            members = log.groups == name
            own = D_N[members[log.user_of_row]]
            if own.size >= _GROUP_EVENTS and np.quantile(own, q) > 0:
                each[members] = np.quantile(own, q)
    return each, common


def refuse_infeasible(state: SaturationState, limit: Array) -> None:
    """A barrier whose limit some state under it cannot keep is refused, with one that can be."""
    least = state.smallest_limit()
    short = least > limit
    if short.any():
        raise ParameterError(
            f"limit {limit[int(np.argmax(short))]:.6g} cannot be kept from every state for "
            f"{int(short.sum())} of {short.size} users: even the category of the smallest jump may "
            f"lead from under the limit to above it. The smallest feasible limit is "
            f"{least.max():.6g}; write limit={float(np.ceil(least.max() * 1e4) / 1e4)!r}. Or "
            "write allow_infeasible=True, which shows the least saturating category there."
        )


def checked_settings(regulator: Any) -> None:
    """Refuse impossible constructor arguments."""
    if regulator.mode not in MODES:
        raise ParameterError(f"mode={regulator.mode!r} is not known; use {', '.join(MODES)}.")
    if regulator.risk not in ("lookahead", "cells"):
        raise ParameterError(f'risk={regulator.risk!r} is not known; use "lookahead" or "cells".')
    if regulator.cold_start not in (None, "prior"):
        raise ParameterError(f'cold_start={regulator.cold_start!r}; use "prior" or None.')
    _check_limit(regulator.limit)
    target = regulator.target_violation
    if not (isinstance(target, Real) and 0 <= float(target) < 1):
        raise ParameterError(
            f"target_violation={target!r}; needed is a share in [0, 1), for instance 0.05."
        )
    check_level("delta", regulator.delta)
    for name, positive in (("caution", False), ("start_weight", False), ("step", True)):
        value = getattr(regulator, name)
        if not (isinstance(value, Real) and 0 <= float(value) < np.inf and (value or not positive)):
            kind = "positive number" if positive else "number >= 0"
            raise ParameterError(f"{name}={value!r}; needed is a {kind}.")
    if not (isinstance(regulator.pool, (int, np.integer)) and regulator.pool >= 1):
        raise ParameterError(f"pool={regulator.pool!r}; needed is a whole number >= 1.")
    factors = list(regulator.also_decays)
    if not all(isinstance(f, Real) and 0 < float(f) < np.inf for f in factors):
        raise ParameterError(f"also_decays={factors!r}; needed are positive factors: (0.5, 2.0).")
    if factors and (
        regulator.mode != "barrier"
        or not (regulator.limit is None or isinstance(regulator.limit, Mapping))
    ):
        raise ParameterError(
            'also_decays needs mode="barrier" and a quantile as the limit, since D of another '
            'decay is on another scale. Write limit={"quantile": 0.9}.'
        )
    if regulator.diversifier is not None and not isinstance(regulator.diversifier, Diversifier):
        raise ParameterError(
            f"diversifier={regulator.diversifier!r}; use MMR(0.7), SteckCalibration(0.7), DPP(), "
            "CategoryCap(2), None, or an object with score_weight and begin."
        )


def _check_limit(limit: Any) -> None:
    if limit is None:
        return
    if isinstance(limit, Mapping):
        q = limit.get("quantile")
        if set(limit) != {"quantile"} or not (isinstance(q, Real) and 0 < float(q) < 1):
            raise ParameterError(
                f'limit={dict(limit)!r}; write limit={{"quantile": 0.9}} with a number in (0, 1).'
            )
    elif not (isinstance(limit, Real) and 0 < float(limit) < np.inf):
        raise ParameterError(
            f'limit={limit!r}; needed is a positive number, or {{"quantile": 0.9}}.'
        )
