"""Finds the principal of a model request, and the credential that goes to the model API with it.

That is never a key of this sidecar.
"""

from __future__ import annotations

from typing import Final

import msgspec

from policy.model import Principal
from proxy.seams.operation import HttpRequest
from proxy.transport.auth import Authenticator, Visit

OWN: Final = "mnemogate-key"
# The headers in which model APIs take a credential.
CREDENTIALS: Final = ("x-api-key", "authorization", "api-key", "x-goog-api-key")
# These headers are not sent on to the model API: a proxy sets them, or a browser tells about its
# page in them.
_ENDS_HERE: Final = frozenset(
    {
        *("origin", "referer", "forwarded", "via"),
        # These headers name another request than the one that was judged, and a server that honours
        # them would serve that other one. So they are removed.
        *("x-http-method", "x-http-method-override", "x-method-override"),
        *("x-original-url", "x-original-uri", "x-rewrite-url", "x-forwarded-uri"),
        *("x-forwarded-path", "x-forwarded-prefix"),
    }
)
_OURS: Final = "mnemogate-"


class AdmittedPrincipal(msgspec.Struct, frozen=True, kw_only=True):
    """A principal, and the headers that go upstream for it."""

    principal: Principal
    headers: dict[str, str]


def admit(
    head: HttpRequest,
    visit: Visit,
    authenticator: Authenticator,
    configured: tuple[tuple[str, str], ...],
) -> AdmittedPrincipal:
    """The principal, by `Mnemogate-Key`, a key in the API's own header, or the socket.

    If a key of this sidecar stands in the API's own header, the configured credential goes upstream
    in its place. A principal that is known otherwise may send a provider's credential of its own,
    which is kept.

    Raises:
        Unauthenticated: No known principal.
        MalformedRequest: A key of this sidecar stands where it would be sent upstream or logged.
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
    # Keys of this sidecar are removed from every header, revoked ones too.
    for name in (*CREDENTIALS, *headers):
        value = headers.get(name, "")
        ours = next((one for one in _words(value) if authenticator.is_ours(one)), None)
        if ours is None:
            continue
        del headers[name]
        if name in CREDENTIALS and given is None:
            found = authenticator.require(ours, visit)
            if principal is not None and found != principal:
                # A request with two different keys has no principal: nobody could say which key
                # counts.
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
    return AdmittedPrincipal(principal=principal, headers=_completed(headers, configured))


def _completed(headers: dict[str, str], configured: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """The headers with the configured ones added.

    A configured credential is added only if the agent sent none.
    """
    brings = any(name in headers for name in CREDENTIALS)
    given = {name.lower(): value for name, value in configured}
    added = {name: value for name, value in given.items() if not (brings and name in CREDENTIALS)}
    return {**headers, **added}


def _words(value: str) -> tuple[str, ...]:
    """A header's value, and the part of it behind a scheme such as "Bearer"."""
    scheme, _, rest = value.partition(" ")
    return (value, rest.strip()) if scheme and rest else (value,)
