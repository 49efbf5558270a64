"""Remember and find.

Names load their module on first use: asking an index a question needs neither the compiler nor
scikit-learn, and only `OSCHead` (with `TopLabels`) needs torch.
"""

import lazy_loader as _lazy_loader

__getattr__, __dir__, _names = _lazy_loader.attach_stub(__name__, __file__)
__all__ = sorted(set(_names) - {"OSCHead", "TopLabels"})  # so that import * works without torch
