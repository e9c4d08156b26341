"""A Chroma server as the driver of guard mode sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from policy.model import CandidateId, Tenant
from proxy.backends.chroma import collections, reads, whole_server, writes
from proxy.backends.chroma.hiding import ChromaHiding
from proxy.backends.chroma.records import found_in, invalid
from proxy.backends.chroma.routes import (
    ADD,
    CREATE,
    DELETE,
    GET_OR_CREATE,
    MAKE,
    SEGMENTS,
    TABLES,
    place_of,
    route_of,
    tenant_of,
    version_told,
)
from proxy.seams.backend_listing import Attempts, WalkedPage
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import Item, ItemVerdict, Unsettled
from proxy.seams.http_backend import Does, Outcome, Page, Routed, Sending, ShownMemory
from proxy.seams.operation import HttpReply, HttpRequest, Refusal

NOBODY: Final = ""  # no principal has this key, so a request with it is refused
_BEARER: Final = "bearer "
_OK: Final = 200
_CREATED: Final = 201
_FORBIDDEN: Final = 403
_UNAUTHORIZED: Final = 401
_NOT_FOUND: Final = 404
_DONE: Final = range(200, 300)
_OBSERVATIONS_MAX: Final = 3
# Only names that the client knows become exceptions of their own; it shows others as bare text.
_ERRORS: Final = {
    _UNAUTHORIZED: "AuthorizationError",
    _FORBIDDEN: "AuthorizationError",
    _NOT_FOUND: "NotFoundError",
    429: "RateLimitError",
}
_INVALID: Final = "InvalidArgumentError"
_INTERNAL: Final = "InternalError"
_SERVER_ERRORS: Final = 500
_ADMIT: Final = "admit"
_DEFAULT: Final = "default"
_DEFAULT_THERE: Final = "default_tenant"
_OF_COLLECTION: Final = frozenset({Does.READ, Does.WRITE, Does.REMOVE})


class Chroma:
    """Implements `HttpBackend` for a Chroma server."""

    name = "chroma"
    segments = SEGMENTS
    versions = frozenset(TABLES)
    unable: Mapping[str, str] = {}
    hiding = ChromaHiding()

    def __init__(self, *, creates: bool = False) -> None:
        """`creates`: agents may make collections, each below the path of its own tenant."""
        self._creates = creates

    def credential(self, request: HttpRequest) -> str | None:
        """`X-Chroma-Token`, or the key behind `Bearer`; two different keys are nobody's."""
        token = request.headers.get("x-chroma-token") or None
        given = request.headers.get("authorization", "")
        bearer = given[len(_BEARER) :].strip() if given.lower().startswith(_BEARER) else None
        if token is not None and bearer and token != bearer:
            return NOBODY
        return token or bearer or None

    def classify(self, request: HttpRequest) -> Routed | None:
        """The row of the route table; None for a route that it does not have.

        A request for a collection that may be there already is a read of its name, unless agents
        may make collections.
        """
        routed = route_of(request)
        if routed is not CREATE:
            return routed
        if self._creates:
            return MAKE
        return routed if collections.wanted(request) is None else GET_OR_CREATE

    def folder(self, request: HttpRequest) -> str:
        """The collection; "" for a request that is about no one collection."""
        routed = route_of(request)
        about_one = routed is not None and routed.does in _OF_COLLECTION
        return place_of(request.path).folder if about_one else ""

    def is_open_to(self, request: HttpRequest, tenant: str) -> bool:
        """Whether the server's tenant in the path is the principal's own, by the same name.

        The tenant `default` is the server's `default_tenant`, so another one of that name has none.
        """
        named = tenant_of(request)
        if tenant == _DEFAULT_THERE:
            return False
        return named is None or named == _there(tenant)

    def place(self, request: HttpRequest) -> HttpRequest | None:
        """The read of the collection by its uuid.

        The server looks at tenant and database of a path in this read alone. In every other one a
        collection's uuid opens it through the path of any tenant.
        """
        routed = route_of(request)
        if routed is None or routed.does not in _OF_COLLECTION:
            return None
        return HttpRequest(method="GET", path=place_of(request.path).by_id)

    def version_question(self) -> HttpRequest:
        """The read of the server's OpenAPI document: it says `1.0.0` of itself in every release."""
        return HttpRequest(method="GET", path="/openapi.json")

    def version_told(self, reply: HttpReply) -> str | None:
        """The version that has these routes."""
        return version_told(reply)

    # ---- writes and deletions --------------------------------------------------------------------

    def first(self, request: HttpRequest) -> HttpRequest | None:
        """The records that a write is merged with, or that a deletion names."""
        return writes.standing_records(request, place_of(request.path))

    def items(self, request: HttpRequest, known: HttpReply | None) -> tuple[Sending, ...]:
        """One entry for each record that the request would write or delete."""
        if known is None or known.status != _OK:
            raise MalformedRequest("ids: what stands there has to be known first")
        return writes.sendings_of(request, place_of(request.path), found_in(known))

    def named(self, request: HttpRequest) -> tuple[Sending, ...]:
        """The deletions of records by their ids, where no filter chooses among these."""
        return writes.named(request, place_of(request.path))

    def forward(
        self,
        request: HttpRequest,
        items: tuple[Sending, ...],
        admitted: Mapping[int, CandidateId],
    ) -> HttpRequest | None:
        """The write of the admitted records alone, or the deletion by their ids."""
        return writes.forwarded(request, place_of(request.path), items, frozenset(admitted))

    def outcome(
        self, request: HttpRequest, admitted: tuple[Sending, ...], reply: HttpReply
    ) -> tuple[Outcome, ...]:
        """Done, or failed by the server's word; unknown where the server failed on its side."""
        del request
        return writes.outcomes_of(admitted, reply)

    def released(self, item: Unsettled, blob: bytes) -> HttpRequest:
        """The write or the deletion of one record that was kept."""
        return writes.released(item, blob)

    def question(self, item: Unsettled) -> HttpRequest | None:
        """The read of the record."""
        return writes.question(item)

    def told(self, item: Unsettled, reply: HttpReply) -> Outcome | None:
        """The outcome that a record shows: it has what was sent, or was deleted."""
        return writes.told(item, reply)

    # ---- reads -----------------------------------------------------------------------------------

    def asking(self, request: HttpRequest) -> HttpRequest:
        """The read, or the request that concerns no record, checked and encoded anew."""
        routed = self.classify(request)
        if routed is not None and routed.does is Does.READ:
            return reads.asking(request)
        if routed is GET_OR_CREATE:
            return collections.reading(request)
        if routed is MAKE:
            return collections.making(request)
        if request.body:
            raise invalid("body: this route takes none")
        return HttpRequest(method=request.method, path=request.path, query=request.query)

    def shown(self, request: HttpRequest, reply: HttpReply) -> tuple[ShownMemory, ...]:
        """Every record in the answer to a read."""
        if reply.status != _OK:
            return ()
        return reads.shown(request, place_of(request.path), reply)

    def without(self, request: HttpRequest, reply: HttpReply, places: frozenset[int]) -> HttpReply:
        """The answer without these records, in every column; for a count, how many are left."""
        return reads.without(request, reply, places)

    def page(self, request: HttpRequest) -> Page | None:
        """The records that a `get` asks for, or a `query` for each question."""
        return reads.page(request)

    def from_start(self, request: HttpRequest, count: int | None) -> HttpRequest:
        """The same read for the first records."""
        return reads.from_start(request, count)

    # ---- what an operator's commands ask ---------------------------------------------------------

    def listing(self, tenant: Tenant) -> HttpRequest:
        """The tenant's databases: the server names no tenants."""
        return whole_server.databases_of(_there(tenant))

    def listed(self, request: HttpRequest, reply: HttpReply) -> WalkedPage:
        """The records of a page of a collection; further databases, collections and pages."""
        return whole_server.listed(request, reply)

    def reading(self, kept: Unsettled) -> HttpRequest:
        """The read of the record."""
        return writes.question(kept)

    def says_same(self, kept: Unsettled, found: Item) -> bool:
        """Whether the record has what was sent, and shows no text that was not judged with it."""
        return writes.says_same(kept, found)

    def mark_of(self, found: Item) -> str | None:
        """None: a key is its client's word here, so nothing is marked."""
        del found
        return None

    def attempts(self) -> Attempts:
        """A read of the server's databases, and an `add` without its columns."""
        return whole_server.attempts(_DEFAULT_THERE)

    # ---- answers of our own ----------------------------------------------------------------------

    def answer(
        self, request: HttpRequest, judged: tuple[ItemVerdict, ...], replies: tuple[HttpReply, ...]
    ) -> HttpReply:
        """What the server says where it got everything; else which places it did not get.

        A request that concerns no record gets the answer that the server gives to one.
        """
        reply = replies[0] if replies else None
        if reply is not None and reply.status not in _DONE:
            return reply
        refused = [one.observation for one in judged if one.decision != _ADMIT]
        if refused:
            said = " ".join([*dict.fromkeys(refused)][:_OBSERVATIONS_MAX])
            message = f"{len(refused)} of {len(judged)} records: {said}"
            return _error(_FORBIDDEN, _ERRORS[_FORBIDDEN], message)
        routed = route_of(request)
        status = _CREATED if routed is ADD else _OK
        # In our words: nobody has read those of the server.
        body = b'{"deleted":%d}' % len(judged) if routed is DELETE else b"{}"
        return HttpReply(status=status, body=body)

    def refuse(self, request: HttpRequest, refusal: Refusal) -> HttpReply:
        """A failure as `{"error", "message"}`, with the headers that its status asks for."""
        del request
        headers: tuple[tuple[str, str], ...] = ()
        if refusal.retry_after_s is not None:
            headers += (("Retry-After", str(refusal.retry_after_s)),)
        if refusal.allowed:
            headers += (("Allow", ", ".join(refusal.allowed)),)
        if refusal.status == _UNAUTHORIZED:
            headers += (("WWW-Authenticate", 'Bearer realm="mnemogate"'),)
        other = _INTERNAL if refusal.status >= _SERVER_ERRORS else _INVALID
        return _error(refusal.status, _ERRORS.get(refusal.status, other), refusal.detail, headers)


def _there(tenant: str) -> str:
    """The name that a tenant of Mnemogate has on the server."""
    return {_DEFAULT: _DEFAULT_THERE}.get(tenant, tenant)


def _error(
    status: int, name: str, message: str, headers: tuple[tuple[str, str], ...] = ()
) -> HttpReply:
    body = msgspec.json.encode({"error": name, "message": message})
    return HttpReply(status=status, body=body, headers=headers)
