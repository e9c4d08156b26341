"""Who may see a page: Basic on loopback, a session's cookie where the console has a host name.

A cookie for 127.0.0.1 is sent to every port of that host, where an agent may listen, so there is
none; a browser sends a Basic credential to the port alone that asked for it.
"""

from __future__ import annotations

import base64
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import msgspec

from policy.bounded import Bounded
from policy.model import CandidateId, Channel, OperatorScope, Principal, PrincipalId, Tenant
from proxy.admin.review_decider import BadLink, ConfirmLinks
from proxy.seams.access import access_of
from proxy.seams.environment import Environment
from proxy.seams.faults import NotOperator, Unauthenticated
from proxy.seams.operation import HttpRequest
from proxy.seams.tenants import DEFAULT_TENANT
from proxy.transport.auth import Authenticator, Visit, operator_of
from proxy.transport.exchange import RequestHead
from storage.ground.errors import UnknownCandidate

LINK: Final = PrincipalId("confirm:link")
"""The principal recorded for a decision made with a link; no other principal has this name."""
COOKIE: Final = "__Host-mnemogate"
IDLE_MS: Final = 15 * 60_000
TOTAL_MS: Final = 8 * 3_600_000
_SESSIONS_MAX: Final = 256
_CHALLENGE: Final = (
    ("WWW-Authenticate", 'Basic realm="Mnemogate: the operator key as the password"'),
)
ASKS_KEY: Final = (
    "Reload this page and give the operator's key as the password. Any name will do. "
    "Without a key: on the gate's machine, `mnemogate key list` names it, and `mnemogate key "
    "rotate KEY_ID` makes and shows a new one; or decide there with `mnemogate review`."
)
NO_PAGE: Final = (
    "The console has no page at this address. Programs ask below /api/v1, with an operator's key "
    "as a Bearer token."
)
GONE: Final = "Nothing waits here any more: it was decided, or the link was used before."


class Refused(Exception):  # noqa: N818 - an answer
    """The request gets this page instead: a status, a sentence, and headers."""

    def __init__(self, status: int, text: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = headers


class Visitor(msgspec.Struct, frozen=True, kw_only=True):
    """An operator who asks for a page, or the holder of a link (`code`) to one candidate."""

    by: Principal
    session: str = ""
    code: str = ""


class _Session(msgspec.Struct, kw_only=True):
    by: Principal
    began_ms: int
    used_ms: int


class Visitors:
    """Finds the visitor of a request, and signs the codes of forms. Event loop only."""

    def __init__(
        self,
        authenticator: Authenticator,
        links: ConfirmLinks,
        surroundings: Environment,
        page_url: str | None,
    ) -> None:
        self._authenticator = authenticator
        self._links = links
        self._out = surroundings
        self._page = urlsplit(page_url or "")
        self._sessions = Bounded[str, _Session](_SESSIONS_MAX)

    def root(self, head: HttpRequest) -> str:
        """The path before every page's own, where people reach the console through `page_url`."""
        return self._page.path.rstrip("/") if self._by_page_url(head) else ""

    def has_sessions(self, head: HttpRequest) -> bool:
        """Whether the request came to an https host of the console's own, with a cookie."""
        own = self._page.scheme == "https" and not _is_address(self._page.hostname or "")
        return own and self._page.path in {"", "/"} and self._by_page_url(head)

    def _by_page_url(self, head: HttpRequest) -> bool:
        return head.headers.get("host", "").lower() == self._page.netloc.lower()

    def of(self, incoming: RequestHead, candidate_id: str, code: str | None) -> Visitor | None:
        """The visitor; None if a sign-in is needed first.

        A link's `code` replaces the key on the page of its candidate; "" where there is none.

        Raises:
            Refused: The credential is missing or wrong; a browser asks for it then.
        """
        head = incoming.head
        header = head.headers.get("authorization")
        if self.has_sessions(head) and (code is None or _cookie(head)):
            return self._signed_in(incoming)
        if header is None and candidate_id and code is not None:
            return self._linked(code, candidate_id)
        if header is None:
            raise Refused(401, ASKS_KEY, _CHALLENGE)
        scheme, _, credential = header.partition(" ")
        try:
            said = base64.b64decode(credential.strip(" "), validate=True).decode()
        except ValueError:
            raise Refused(401, "That is no key.", _CHALLENGE) from None
        key = said.partition(":")[2] if scheme.lower() == "basic" else ""
        return Visitor(by=self.holder(key, incoming, _CHALLENGE))

    def _linked(self, code: str, candidate_id: str) -> Visitor:
        try:
            self._links.open(code, CandidateId(candidate_id))
        except BadLink as bad:
            raise Refused(403, bad.detail) from None
        except UnknownCandidate:
            raise Refused(410, GONE) from None
        return Visitor(by=_LINKED, code=code)

    def holder(
        self, key: str, visit: Visit, challenge: tuple[tuple[str, str], ...] = ()
    ) -> Principal:
        """The operator whose key this is; `challenge` is for a key that the browser asked for.

        With a challenge to a key that was typed into a form, the browser would ask for one itself,
        and send that from then on.

        Raises:
            Refused: It is not an operator's key, or too many wrong ones were tried.
        """
        status = 401 if challenge else 403
        try:
            return operator_of(self._authenticator.require(key, visit, OperatorScope.VIEW))
        except Unauthenticated as failure:
            if failure.throttled:
                raise Refused(429, "Too many attempts. Wait a minute.") from None
            raise Refused(status, "That key is wrong.", challenge) from None
        except NotOperator:
            raise Refused(status, "That key is not an operator's.", challenge) from None

    def _signed_in(self, incoming: RequestHead) -> Visitor | None:
        token = _cookie(incoming.head)
        session = self._sessions.get(token)
        if session is None or not self.lives(token):
            self._sessions.pop(token, None)
            return None
        session.used_ms = self._out.now_ms()
        incoming.stands_on(access_of(session.by))
        return Visitor(by=session.by, session=token)

    def lives(self, token: str) -> bool:
        """Whether a session is neither ended nor idle for too long, and its key is valid."""
        session, now_ms = self._sessions.get(token), self._out.now_ms()
        return (
            session is not None
            and access_of(session.by).stands()
            and now_ms - session.used_ms < IDLE_MS
            and now_ms - session.began_ms < TOTAL_MS
        )

    def sign_in(self, key: str, visit: Visit) -> tuple[str, str]:
        """Begin a session; return the header that gives the browser its cookie."""
        by, token, now_ms = self.holder(key, visit), self._out.random_hex(32), self._out.now_ms()
        self._sessions[token] = _Session(by=by, began_ms=now_ms, used_ms=now_ms)
        return ("Set-Cookie", f"{COOKIE}={token}; Path=/; Secure; HttpOnly; SameSite=Strict")

    def sign_out(self, head: HttpRequest) -> tuple[str, str]:
        """End the session of a request; return the header that removes its cookie."""
        self._sessions.pop(_cookie(head), None)
        return ("Set-Cookie", f"{COOKIE}=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0")

    def code(self, path: str, visitor: Visitor) -> str:
        """The code for a form of this visitor that is sent to this path."""
        return visitor.code or self._links.code_for(_subject(path, visitor))

    def check_form(self, head: HttpRequest) -> None:
        """Refuse a form that a page of another origin may have sent.

        Raises:
            Refused: The browser does not say that the form is this console's own.
        """
        # A foreign `Origin` was refused with the head of the request.
        site = head.headers.get("sec-fetch-site", "same-origin")
        if site != "same-origin" or head.headers.keys().isdisjoint({"origin", "sec-fetch-site"}):
            raise Refused(403, "This form was not sent from a page of this console.")
        kind = head.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            raise Refused(415, "A form is sent as application/x-www-form-urlencoded.")

    def check_code(self, code: str, path: str, visitor: Visitor) -> None:
        """Refuse a form without the code that its own page has.

        Raises:
            Refused: The code is of another form or visitor, or has expired.
        """
        try:
            if visitor.code != code or not code:
                self._links.check(code, _subject(path, visitor))
        except BadLink as bad:
            raise Refused(403, bad.detail) from None


_LINKED: Final = Principal(
    principal_id=LINK,
    tenant=Tenant(DEFAULT_TENANT),
    channel=Channel.OPERATOR,
    may=OperatorScope.REVIEW,
)


def _subject(path: str, visitor: Visitor) -> str:
    return f"{path}\n{visitor.by.principal_id}\n{visitor.session}"


def _cookie(head: HttpRequest) -> str:
    for part in head.headers.get("cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
