"""Accept, pass on or withhold by a score, with a guarantee that is named exactly.

Names load their module on first use.
"""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
