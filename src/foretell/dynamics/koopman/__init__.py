"""Lifted linear (Koopman) models with inputs, learned for control, and their controllers.

Training a network needs torch; everything else, a trained model included, does not.
"""

from foretell.dynamics.koopman.base import KoopmanModel
from foretell.dynamics.koopman.closed_loop import ClosedLoop, Controller, closed_loop
from foretell.dynamics.koopman.control import ControlPlan, KoopmanLQR, KoopmanMPC
from foretell.dynamics.koopman.edmd import EDMDc
from foretell.dynamics.koopman.horizon_errors import HorizonErrors
from foretell.dynamics.koopman.koopman_qp import AlternatingKoopman, JointKoopman, KoopmanQP

__all__ = [
    "AlternatingKoopman",
    "ClosedLoop",
    "ControlPlan",
    "Controller",
    "EDMDc",
    "HorizonErrors",
    "JointKoopman",
    "KoopmanLQR",
    "KoopmanMPC",
    "KoopmanModel",
    "KoopmanQP",
    "closed_loop",
]
