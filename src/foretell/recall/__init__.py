"""Remember and find."""

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
