"""Hearing and speaking: sound in, events of a conversation out; text in, sound out.

Names load their module on first use, and nothing here asks for a network.
"""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
