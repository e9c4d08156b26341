"""Whose model request it is, and which credential goes upstream: never one of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from policy.model import Principal
    from proxy.seams.operation import HttpRequest
    from proxy.transport.auth import Authenticator, Visit

OWN: Final = "mnemogate-key"
# Headers in which the APIs take a credential.
CREDENTIALS: Final = ("x-api-key", "authorization", "api-key", "x-goog-api-key")
# What only this hop can say, and what a page's browser says about the page.
_ENDS_HERE: Final = frozenset(
    {
        *("origin", "referer", "forwarded", "via"),
        # A server that heeds these serves another request than the one that was looked at.
        *("x-http-method", "x-http-method-override", "x-method-override"),
        *("x-original-url", "x-original-uri", "x-rewrite-url", "x-forwarded-uri"),
        *("x-forwarded-path", "x-forwarded-prefix"),
    }
)
_OURS: Final = "mnemogate-"


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """A principal, and the headers that go upstream for it."""

    principal: Principal
    headers: dict[str, str]


def admit(
    head: HttpRequest,
    visit: Visit,
    authenticator: Authenticator,
    configured: tuple[tuple[str, str], ...],
) -> Admitted:
    """Who asks, by `Mnemogate-Key`, by a key of ours in the API's own header, or by its socket.

    With a key of ours in the API's own header the configured credential goes upstream. Who is known
    otherwise may bring a credential of the provider's, and keeps it.

    Raises:
        Unauthenticated: Nobody we know.
        MalformedRequest: A key of ours stands where it would be sent upstream or logged.
    """
    headers = {
        name: value
        for name, value in head.headers.items()
        if name not in _ENDS_HERE and not name.startswith(_OURS)
    }
    principal: Principal | None = None
    given = head.headers.get(OWN)
    if given is not None:
        principal = authenticator.require(given, visit)
    # A key of ours is taken out wherever it stands, one that was revoked as well.
    for name in (*CREDENTIALS, *headers):
        value = headers.get(name, "")
        ours = next((one for one in _words(value) if authenticator.is_ours(one)), None)
        if ours is None:
            continue
        del headers[name]
        if name in CREDENTIALS and given is None:
            found = authenticator.require(ours, visit)
            if principal is not None and found != principal:
                # Two that disagree name nobody.
                authenticator.require("", visit)
            principal = found
            for other in CREDENTIALS:
                if not any(authenticator.is_ours(one) for one in _words(headers.get(other, ""))):
                    headers.pop(other, None)
    authenticator.check_sent_on("query", (word for pair in head.query for word in pair))
    authenticator.check_sent_on("path", (head.path,))
    authenticator.check_sent_on("header", (text for pair in headers.items() for text in pair))
    if principal is None:
        principal = authenticator.require(None, visit)
    return Admitted(principal=principal, headers=_completed(headers, configured))


def _completed(headers: dict[str, str], configured: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """With the configured headers; a credential of them only where the agent brings none."""
    brings = any(name in headers for name in CREDENTIALS)
    given = {name.lower(): value for name, value in configured}
    added = {name: value for name, value in given.items() if not (brings and name in CREDENTIALS)}
    return {**headers, **added}


def _words(value: str) -> tuple[str, ...]:
    """The value, and what follows a scheme in it."""
    scheme, _, rest = value.partition(" ")
    return (value, rest.strip()) if scheme and rest else (value,)
