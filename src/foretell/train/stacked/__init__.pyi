from .checkpoints import Checkpoints
from .every import Every
from .exact import UnitSum
from .faults import Fault, FaultInjector, parse_faults
from .loop import MinorityError, StackedLoop
from .members import Outcome
from .membership import Membership, View
from .module import MaskedDataParallel, Unit
from .spec import WorkerSpec, placement_for
from .supervisor import Supervisor
from .worker import Worker

__all__ = [
    "Checkpoints",
    "Every",
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
