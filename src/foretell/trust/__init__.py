"""Decide what may be said and shown.

Names load their module on first use: a decision alone needs no scikit-learn.
"""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
