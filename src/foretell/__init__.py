"""foretell learns your system from recordings, answers questions about it, or says that it cannot.

Public names load their module on first use, so that ``import foretell`` costs next to nothing.
"""

import logging

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

logging.getLogger(__name__).addHandler(logging.NullHandler())
