"""Where a fact sits in a structure: a path of roles, and the 64-bit key that stands for it.

    "user.name"        ("user", "name")
    "orders[0].item"   ("orders", 0, "item")
    ("a.b", 3)         roles that hold dots, or bytes, or tuples, are given as a tuple
    ""  or  ()         the root

Every role enters the hash with its length and its type, so that no two paths share their bytes:
("ab", "c") is not ("a", "bc"), and 1 is not "1". Recursion is in the key alone: a path of any depth
costs one hash and no memory.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from foretell.core.errors import ParameterError

Role = str | int | bytes | tuple["Role", ...]
Path = str | Sequence[Role]

_STEP = re.compile(r"\[(?P<index>\d+)\]|(?P<dot>^|\.)?(?P<name>[^.\[\]]+)")


def parse_path(path: Path) -> tuple[Role, ...]:
    """The roles of a path, checked.

    Parameters
    ----------
    path : str or sequence of roles
        Text is split at dots, ``[3]`` is a position; a sequence is taken role by role.

    Raises
    ------
    ParameterError
        For a role that is not text, a whole number, bytes or a tuple of these, and for text that
        cannot be read.

    Examples
    --------
    >>> parse_path("orders[0].item")
    ('orders', 0, 'item')
    >>> parse_path(("a.b", 7))
    ('a.b', 7)
    """
    if isinstance(path, str):
        return _split(path)
    if isinstance(path, bytes) or not isinstance(path, Sequence):
        raise ParameterError(
            f"The path {path!r} is neither text nor a sequence of roles. "
            f'Write for instance "user.name" or ({path!r},).'
        )
    for role in path:
        encode_role(role)
    return tuple(path)


def path_key(roles: Sequence[Role], seed: int) -> int:
    """The 64-bit key of a path: BLAKE2b over the seed and the roles, little-endian.

    Examples
    --------
    >>> path_key(("ab", "c"), 0) == path_key(("a", "bc"), 0)
    False
    """
    state = hashlib.blake2b(seed.to_bytes(8, "little"), digest_size=64)
    for role in roles:
        state.update(encode_role(role))
    return int.from_bytes(state.digest()[:8], "little")


def key_sign(key: int) -> float:
    """+1 or -1, as random as the key: the lowest bit of another hash of it."""
    digest = hashlib.blake2b(key.to_bytes(8, "little") + b"sign").digest()
    return 1.0 if digest[-1] & 1 else -1.0


def encode_role(role: Role) -> bytes:
    """The bytes of one role: length, type and content."""
    if isinstance(role, str):
        try:
            content = b"s" + role.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ParameterError(
                f"The role {role!r} is no valid Unicode text ({error.reason}). Give bytes instead."
            ) from error
    elif isinstance(role, bytes):
        content = b"b" + role
    elif isinstance(role, int) and not isinstance(role, bool):
        content = b"i" + str(role).encode("ascii")
    elif isinstance(role, tuple):
        content = b"t" + b"".join(encode_role(part) for part in role)
    else:
        raise ParameterError(
            f"The role {role!r} is a {type(role).__name__}; a role is text, a whole number, bytes "
            f"or a tuple of these. Write for instance {str(role)!r}."
        )
    return (len(content) - 1).to_bytes(4, "little") + content


def path_text(roles: Sequence[Role]) -> str:
    """A path as a person would write it, for messages."""
    text = ""
    for role in roles:
        if isinstance(role, int):
            text += f"[{role}]"
        else:
            text += ("." if text else "") + (role if isinstance(role, str) else repr(role))
    return text or "(root)"


def _split(text: str) -> tuple[Role, ...]:
    roles: list[Role] = []
    at = 0
    while at < len(text):
        step = _STEP.match(text, at)
        lost_dot = step is not None and step["name"] and at > 0 and step["dot"] is None
        if step is None or lost_dot:
            raise ParameterError(
                f"The path {text!r} cannot be read at position {at}. Write names with dots and "
                'positions in brackets, as in "orders[0].item", or give a tuple of roles.'
            )
        roles.append(int(step["index"]) if step["index"] else step["name"])
        at = step.end()
    return tuple(roles)
