"""What the training asks of a transport: sums over the members of a view, and bytes between two.

A collective is opened for one view and good for nothing else; after a failure it is closed, and the
next view gets fresh connections, so that no late byte of an old sum can reach a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from foretell.train.stacked.membership import View

Buffer = Any  # a NumPy array, or a tensor where gradients are added up on a device


class ViewLostError(Exception):
    """The view ended while its members were adding up; nothing of that sum may be used."""


class Collective(Protocol):
    """A transport between the members of a view."""

    def open(self, view: View) -> None:
        """Connect the members; raises ``ViewLostError``."""
        ...

    def sums(self, buffer: Buffer) -> Iterator[tuple[int, Buffer]]:
        """The sum over members, in parts: (place in the buffer, values), in order, without gaps.

        A part is good until the next one is asked for, and none counts before the last one is
        there. ``buffer`` is unchanged. Raises ``ViewLostError``.
        """
        ...

    def send(self, to: int, data: bytes) -> None:
        """Send bytes to a member, and wait until it has them."""
        ...

    def receive(self, source: int) -> bytes:
        """What a member sends."""
        ...

    def close(self) -> None:
        """Let the connections of the view go."""
        ...


Point = Callable[[str], None]  # a place where a fault can be injected


def no_fault(place: str) -> None:
    """Nothing is injected."""


class Alone:
    """The transport of a single worker."""

    def open(self, view: View) -> None:
        """Nothing to connect."""

    def sums(self, buffer: Buffer) -> Iterator[tuple[int, Buffer]]:
        """What was given."""
        yield 0, buffer

    def send(self, to: int, data: bytes) -> None:
        """There is nobody."""
        raise ViewLostError(f"there is no worker {to}")

    def receive(self, source: int) -> bytes:
        """There is nobody."""
        raise ViewLostError(f"there is no worker {source}")

    def close(self) -> None:
        """Nothing is open."""
