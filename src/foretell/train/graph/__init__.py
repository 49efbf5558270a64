"""What one step of reinforcement learning does, as a graph, and the chain that each rank runs.

A `Workflow` is a graph of named nodes; a `Planner` checks it and cuts it into one linear chain for
every rank. Nodes of equal depth get an order, so that all ranks of a branch meet each other at the
same places; branches that share nothing get ranks of their own. The plan is a pure function of the
workflow, the layouts and the number of ranks: every rank makes it for itself, and a hash of it is
compared before the first step.

Source: Wang et al. 2026, "DistFlow" (arXiv 2507.13833). Differences: several successors receive
data; leftover ranks are dealt out by largest remainders; a node that needs whole groups is refused
behind an edge that splits them.
"""

from foretell.train.graph.layout import ParallelLayout
from foretell.train.graph.planner import Branch, Plan, Planner, apportion, place, signature
from foretell.train.graph.workflow import KINDS, Node, Workflow

__all__ = [
    "KINDS",
    "Branch",
    "Node",
    "ParallelLayout",
    "Plan",
    "Planner",
    "Workflow",
    "apportion",
    "place",
    "signature",
]
