"""What was already fetched, kept for the conversation by tool, id and version, up to an age."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from foretell.core.errors import ParameterError

Key = tuple[str, str, str]  # tool, id, version


class DocumentStore:
    """Finished work, bounded in number and age; the least recently used goes first.

    Parameters
    ----------
    ttl_s : float
        Seconds for which a result may be used again.
    size : int
        Most results kept.

    Examples
    --------
    >>> store = DocumentStore(ttl_s=60, size=2)
    >>> store.put(("notes", "p7", "v1"), "Radium ...", 0.0)
    >>> store.get(("notes", "p7", "v1"), 59.0), store.get(("notes", "p7", "v1"), 61.0)
    ('Radium ...', None)
    """

    def __init__(self, *, ttl_s: float = 600.0, size: int = 1000) -> None:
        if not ttl_s > 0:
            raise ParameterError(f"ttl_s={ttl_s!r}; needed is a positive number of seconds.")
        if size < 1:
            raise ParameterError(f"size={size!r}; needed is a whole number of at least 1.")
        self.ttl_s, self.size = ttl_s, size
        self._kept: OrderedDict[Key, tuple[float, Any]] = OrderedDict()

    def put(self, key: Key, value: Any, time: float) -> None:
        """Keep a result."""
        self._kept[key] = (time, value)
        self._kept.move_to_end(key)
        while len(self._kept) > self.size:
            self._kept.popitem(last=False)

    def get(self, key: Key, time: float) -> Any | None:
        """A result that is not too old, or None."""
        found = self._kept.get(key)
        if found is None:
            return None
        if time - found[0] > self.ttl_s:
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return found[1]

    def __len__(self) -> int:
        return len(self._kept)
