"""Remember and find.

`OSCHead` is loaded when it is asked for: it is the only part that needs torch.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any

from foretell.recall.binding import OSCMemory
from foretell.recall.binding_comparators import (
    FHRRMemory,
    HRRMemory,
    KroneckerMAPMemory,
    MAPMemory,
    TPRMemory,
)
from foretell.recall.binding_statistics import MemoryPlan, plan
from foretell.recall.block_scan import BlockedCodes, Ranking
from foretell.recall.decoders import CosineDecoder, QueryPlan
from foretell.recall.likelihood import CosinePrior, Posterior
from foretell.recall.recollection import Candidate, Recollection
from foretell.recall.search import SearchInfo, SearchResult, SketchIndex
from foretell.recall.sketch import SignSketch
from foretell.recall.tree_codec import DecodedTree, decode_tree, encode_tree
from foretell.recall.variance import scaled_variance
from foretell.recall.vocabulary import Vocabulary

__all__ = [
    "BlockedCodes",
    "Candidate",
    "CosineDecoder",
    "CosinePrior",
    "DecodedTree",
    "FHRRMemory",
    "HRRMemory",
    "KroneckerMAPMemory",
    "MAPMemory",
    "MemoryPlan",
    "OSCMemory",
    "Posterior",
    "QueryPlan",
    "Ranking",
    "Recollection",
    "SearchInfo",
    "SearchResult",
    "SignSketch",
    "SketchIndex",
    "TPRMemory",
    "Vocabulary",
    "decode_tree",
    "encode_tree",
    "plan",
    "scaled_variance",
]

if _TYPE_CHECKING:
    from foretell.recall.osc_head import OSCHead as OSCHead, TopLabels as TopLabels


def __getattr__(name: str) -> _Any:
    if name in ("OSCHead", "TopLabels"):
        import foretell.recall.osc_head as _osc_head

        return getattr(_osc_head, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
