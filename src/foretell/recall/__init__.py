"""Remember and find."""

from foretell.recall.decoders import CosineDecoder, QueryPlan
from foretell.recall.likelihood import CosinePrior, Posterior
from foretell.recall.sketch import SignSketch
from foretell.recall.variance import scaled_variance

__all__ = [
    "CosineDecoder",
    "CosinePrior",
    "Posterior",
    "QueryPlan",
    "SignSketch",
    "scaled_variance",
]
