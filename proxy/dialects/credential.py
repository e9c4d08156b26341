"""The key of a request, where clients of memory APIs put it. Pure."""

from __future__ import annotations

from typing import Final

from proxy.seams.operation import HttpRequest

NOBODY: Final = ""
"""No principal has this key, so a request with it is refused."""


def key_of(request: HttpRequest, header: str) -> str | None:
    """The key in this header (in lower case), or that of `Authorization: Bearer`.

    Two different keys give an invalid key, not None: with None the peer's uid or certificate would
    give the principal.
    """
    scheme, _, rest = request.headers.get("authorization", "").partition(" ")
    bearer = (rest.strip() or None) if scheme.lower() == "bearer" else None
    given = request.headers.get(header) or None
    if bearer is not None and given is not None and bearer != given:
        return NOBODY
    return given or bearer
