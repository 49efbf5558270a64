from .checkpoints import Checkpoints
from .exact import UnitSum
from .faults import Fault, FaultInjector, parse_faults
from .loop import MinorityError, StackedLoop
from .membership import Membership, View
from .module import MaskedDataParallel, Unit
from .supervisor import Outcome, Supervisor
from .worker import Worker, WorkerSpec, placement_for

__all__ = [
    "Checkpoints",
    "Fault",
    "FaultInjector",
    "MaskedDataParallel",
    "Membership",
    "MinorityError",
    "Outcome",
    "StackedLoop",
    "Supervisor",
    "Unit",
    "UnitSum",
    "View",
    "Worker",
    "WorkerSpec",
    "parse_faults",
    "placement_for",
]
