"""Plan a training that outlives failures: placement, reordering, checkpoints, time to train.

Names load their module on first use: a worker that trains needs the placement, not SciPy.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
