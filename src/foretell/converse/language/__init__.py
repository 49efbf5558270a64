"""Which language is being spoken or written: a convex classifier with certificates, and a detector
that decides while the turn is still going on.

Names load their module on first use.
"""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
