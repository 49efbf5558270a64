from .binding import OSCMemory
from .binding_comparators import (
    FHRRMemory,
    HRRMemory,
    KroneckerMAPMemory,
    MAPMemory,
    TPRMemory,
)
from .binding_statistics import MemoryPlan, plan
from .block_scan import BlockedCodes, Ranking
from .decoders import CosineDecoder, QueryPlan
from .likelihood import CosinePrior, Posterior
from .osc_head import OSCHead as OSCHead, TopLabels as TopLabels
from .recollection import Candidate, Recollection
from .search import SketchIndex
from .search_results import SearchInfo, SearchResult
from .sketch import SignSketch
from .tree_codec import DecodedTree, decode_tree, encode_tree
from .variance import scaled_variance
from .vocabulary import Vocabulary

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
