"""Who may come in: host, origin and token of each request, before anything else looks at it.

On this machine alone no token is needed, but a page of another site must not reach the server
through the browser: its origin is another, and a name that was bent to this machine is refused by
the host. Reachable from outside, a token is needed for everything but `/health`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from foretell.core.errors import ParameterError

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_SHORTEST = 16  # characters of a token


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not: a status of HTTP and a sentence."""

    status: int
    reason: str


@dataclass(frozen=True, slots=True)
class Gate:
    """The check of one server.

    Parameters
    ----------
    host : str
        Where it listens.
    token : str
        Empty for none; then the host must be this machine.

    Raises
    ------
    ParameterError
        For a server that is reachable from outside without a good token.

    Examples
    --------
    >>> gate = Gate("127.0.0.1")
    >>> gate.refusal("/", {"host": "localhost:8321"})
    >>> gate.refusal("/", {"host": "localhost:8321", "origin": "http://evil.example"}).status
    403
    """

    host: str
    token: str = ""

    def __post_init__(self) -> None:
        if not self.local and len(self.token) < _SHORTEST:
            raise ParameterError(
                f"A server at {self.host} can be reached from outside, so it needs a token of at "
                f"least {_SHORTEST} characters. Set FORETELL_TOKEN, for instance: "
                "export FORETELL_TOKEN=$(python3 -c 'import secrets; "
                "print(secrets.token_urlsafe(24))')"
            )
        if self.token and not self.token.isascii():
            raise ParameterError("The token has letters beyond ASCII; use letters and digits.")

    @property
    def local(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in LOOPBACK

    def refusal(
        self, path: str, headers: Mapping[str, str], query: str = "", *, tokenless: bool = False
    ) -> Refusal | None:
        """None for a request that may pass; headers have lower-case names."""
        name = _hostname(headers.get("host", ""))
        if self.local and name not in LOOPBACK:
            return Refusal(421, f"This server is localhost, not {name or 'nothing'!r:.80}.")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            return Refusal(403, f"A page from {origin!r:.80} may not use this server.")
        if path == "/health" or tokenless or not self.token or self._known(headers, query):
            return None
        return Refusal(
            401, "This server needs its token: open /?token=..., or send Authorization: Bearer ..."
        )

    def asks_for_cookie(self, path: str, query: str) -> bool:
        """Whether the right token came with the address of the page, where it should not stay."""
        given = parse_qs(query).get("token", [""])[0]
        return path == "/" and bool(self.token) and self._equal(given)

    def cookie(self) -> str:
        """The header that lets the browser keep the token out of sight of scripts and pages."""
        return f"{self._name}={self.token}; Path=/; HttpOnly; SameSite=Strict"

    @property
    def _name(self) -> str:
        return "foretell-token"

    def _known(self, headers: Mapping[str, str], query: str) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._equal(given.strip()):
            return True
        try:
            kept = SimpleCookie(headers.get("cookie", "")).get(self._name)
        except CookieError:
            return False
        return kept is not None and self._equal(kept.value)

    def _equal(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self.token.encode())


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
