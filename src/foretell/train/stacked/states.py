"""The state of a task as one run of bytes, and its SHA-256."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from foretell.core.errors import ArtifactError
from foretell.train.task import State


def pack(state: State, fields: dict[str, Any]) -> bytes:
    """Arrays and JSON values as bytes.

    Examples
    --------
    >>> import numpy as np
    >>> state, fields = unpack(pack({"x": np.arange(3.0)}, {"step": 4}))
    >>> state["x"], fields
    (array([0., 1., 2.]), {'step': 4})
    """
    arrays = {name: np.asarray(state[name], order="C") for name in sorted(state)}
    head = {
        "fields": fields,
        "arrays": [[name, a.dtype.str, list(a.shape)] for name, a in arrays.items()],
    }
    text = json.dumps(head).encode()
    parts = [len(text).to_bytes(8, "big"), text, *(a.tobytes() for a in arrays.values())]
    return b"".join(parts)


def unpack(data: bytes) -> tuple[State, dict[str, Any]]:
    """What ``pack`` made bytes of."""
    try:
        size = int.from_bytes(data[:8], "big")
        head = json.loads(data[8 : 8 + size])
        state, at = {}, 8 + size
        for name, dtype, shape in head["arrays"]:
            kind = np.dtype(dtype)
            n = int(np.prod(shape, dtype=np.int64))
            state[name] = np.frombuffer(data, kind, n, at).reshape(shape).copy()
            at += n * kind.itemsize
    except (ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"these bytes are not a packed state: {error}.") from error
    return state, head["fields"]


def digest(state: State, step: int) -> str:
    """SHA-256 of a state at a step: names, types, shapes and every bit.

    Examples
    --------
    >>> import numpy as np
    >>> digest({"x": np.zeros(2)}, 3)[:12]
    '48c0bab6395c'
    """
    found = hashlib.sha256(str(step).encode())
    for name in sorted(state):
        array = np.asarray(state[name], order="C")
        found.update(f"|{name}|{array.dtype.str}|{array.shape}|".encode())
        found.update(memoryview(array.reshape(-1).data).cast("B") if array.size else b"")
    return found.hexdigest()
