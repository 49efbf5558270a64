"""Plan a training that outlives failures: placement, reordering, checkpoints, time to train."""

from foretell.train.plan.controller import Assignment, ReorderController
from foretell.train.plan.placement import StackPlacement, default_redundancy

__all__ = ["Assignment", "ReorderController", "StackPlacement", "default_redundancy"]
