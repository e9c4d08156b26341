"""The adapter of a memory server that speaks HTTP: its routes, its reads and its writes.

An adapter (`proxy/backends/<name>/`) is pure: it parses requests and answers, and builds others
from them. It has no connection, no credential and no store, and it decides nothing. The driver
(`proxy/fronts/backend.py`) calls it step by step: classify, read what a verdict needs, judge, send
the admitted items, settle, answer.

A class that implements `HttpBackend` inherits from it, and so has every default.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from policy.model import CandidateId, ForwardStatus, Tenant
from policy.verdict import InvariantBroken
from proxy.backends.kept_request import request_again
from proxy.dialects.problem import refusal_headers
from proxy.dialects.strict_json.strict import JsonValue, decode_object
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import Item, ItemVerdict, UnsettledItem
from proxy.seams.http_backend import (
    Attempts,
    ReadPage,
    RoutedRequest,
    SendOutcome,
    SentMemory,
    ShownMemory,
    WalkedPage,
)
from proxy.seams.operation import HttpReply, HttpRequest, Refusal

OK: Final = 200
ANSWERED: Final = range(200, 300)
_REFUSED: Final = range(400, 500)
# Request Timeout, Conflict, Too Early, Too Many Requests (RFC 9110, 8470, 6585), and a client that
# closed its request (nginx): a proxy may answer so although the server carried out the write.
_SAYS_NOTHING: Final = frozenset({408, 409, 425, 429, 499})
_ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
_PARAMETER: Final = re.compile(r"\{[^/{}]*\}")
_DIGEST_LEN: Final = 16
_UNABLE: Final = {
    'quarantine = "tag"': "nothing is hidden on this server",
    'quarantine = "remove"': "nothing is hidden on this server",
    'collections = "create"': "this server has no collections",
}


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an OpenAPI document that lists the routes."""

    paths: dict[str, dict[str, msgspec.Raw]]


class RouteTable:
    """Every route of one version of a server, and what each does with memories."""

    def __init__(self, rows: Mapping[tuple[str, str], RoutedRequest], root: str = "") -> None:
        """`rows` is keyed by method and path below `root`; `*` in a path matches one segment."""
        self.rows = rows
        self._root = f"{root}/"
        self._shapes: dict[tuple[str, int], list[tuple[list[str], RoutedRequest]]] = {}
        # A row with fewer stars is matched first.
        for method, path in sorted(rows, key=lambda row: row[1].count("*")):
            shape = path.split("/")
            fitting = self._shapes.setdefault((method, len(shape)), [])
            fitting.append((shape, rows[method, path]))

    def route_of(self, request: HttpRequest) -> RoutedRequest | None:
        """The row of a request; None for a route that the table does not have."""
        parts = self.parts_of(request)
        for shape, routed in self._shapes.get((request.method, len(parts)), ()):
            if all(want in ("*", got) and got for want, got in zip(shape, parts, strict=True)):
                return routed
        return None

    def parts_of(self, request: HttpRequest) -> list[str]:
        """The segments of a path below the root; [] for a path that is not below it."""
        path = request.path
        return path.removeprefix(self._root).split("/") if path.startswith(self._root) else []

    def version_of(self, reply: HttpReply, own: str) -> str | None:
        """The version whose routes an OpenAPI document lists; None if the answer is no document.

        `own` is the version with the routes of this table. Any other set of routes is named by its
        hash, so that an operator has to approve it once.
        """
        if reply.status != OK:
            return None
        try:
            document = msgspec.json.decode(reply.body, type=_Document)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None
        listed = {
            (method.upper(), _PARAMETER.sub("*", path).removeprefix(self._root))
            for path, methods in document.paths.items()
            for method in methods
        }
        if listed == set(self.rows):
            return own
        names = "\n".join(f"{method} {path}" for method, path in sorted(listed))
        return f"routes-{hashlib.sha256(names.encode()).hexdigest()[:_DIGEST_LEN]}"


class HidesItems(Protocol):
    """How one kind of server hides quarantined memories itself. Pure; any thread.

    Each method takes items of one collection or key, at most as many as one request can contain.
    Each request is idempotent. The defaults are those of a server without tags, whose adapter
    lists `quarantine = "tag"` as `unable`.
    """

    tagged_at_once: int = 1
    removed_at_once: int = 1

    def tagging(self, items: tuple[UnsettledItem, ...], *, tagged: bool) -> HttpRequest:
        """The request that adds `OWN_FIELD` to the items that exist, or removes it from them."""
        del items, tagged
        raise InvariantBroken("this server's items cannot be tagged")

    def tagged(self, request: HttpRequest) -> HttpRequest | None:
        """A read that shows whether an item with `OWN_FIELD` exists where the request reads.

        None where the server has no tags, or the read takes no filter.
        """
        del request
        return None

    def untagged(self, request: HttpRequest) -> HttpRequest:
        """The read with a filter, so that it shows only items without `OWN_FIELD`."""
        return request

    def standing(self, items: tuple[UnsettledItem, ...]) -> HttpRequest:
        """The read of the whole items, with every part that `restoring` needs."""
        ...

    def kept(self, items: tuple[UnsettledItem, ...], reply: HttpReply) -> tuple[bytes, ...]:
        """The bytes to store of each item in the answer to `standing`; b"" where none exists."""
        ...

    def removing(self, items: tuple[UnsettledItem, ...]) -> HttpRequest:
        """The deletion of the items by their keys."""
        ...

    def restoring(self, items: tuple[UnsettledItem, ...], kept: tuple[bytes, ...]) -> HttpRequest:
        """The request that creates the removed items again from the bytes that `kept` returned."""
        ...


class ServerRoutes(Protocol):
    """The requests that a server accepts, from whom, and what each does with memories."""

    name: str
    # First path segments that the adapter claims. No dialect and no other adapter may use them.
    segments: frozenset[str]
    table: RouteTable
    # The version of the server that has these routes. No write is sent to another version until an
    # operator approves it.
    version: str
    # The name of the header with the agent's key, in lower case.
    key_header: str = "x-api-key"
    # Settings that this kind of server cannot have, such as `collections = "create"`, each with the
    # reason for an operator.
    unable: Mapping[str, str] = _UNABLE

    def credential(self, request: HttpRequest) -> str | None:
        """The agent's key in `key_header` or in `Authorization: Bearer`; None if there is none.

        Two different keys give a key that no principal has.
        """
        return request.key(self.key_header)

    def classify(self, request: HttpRequest) -> RoutedRequest | None:
        """The route of a request; None for a route that the table does not have (refused)."""
        return self.table.route_of(request)

    def folder(self, request: HttpRequest) -> str:
        """The common beginning of the keys that the request can concern, as a collection's.

        "" where they have none in common. Where only another tenant has memories whose keys begin
        so, the request is answered as if there were no memories.
        """
        del request
        return ""

    def is_open_to(self, request: HttpRequest, tenant: str) -> bool:
        """Whether a principal of this tenant may use the database or collection in the request."""
        del request, tenant
        return True

    def place(self, request: HttpRequest) -> HttpRequest | None:
        """A read that fails where the server has no such collection under the request's path.

        The failure is then the answer. None where the request names no collection. A collection
        that was read once never moves, so the read is not repeated.
        """
        del request
        return None

    def version_question(self) -> HttpRequest:
        """The read from whose answer `version_told` takes the server's version."""
        return HttpRequest(method="GET", path="/openapi.json")

    def version_told(self, reply: HttpReply) -> str | None:
        """The version in the answer to `version_question`; None where there is none."""
        return self.table.version_of(reply, self.version)

    def refuse(self, request: HttpRequest, refusal: Refusal) -> HttpReply:
        """A failure in the server's own shape, with the headers that its status asks for."""
        del request
        body = msgspec.json.encode({"detail": refusal.detail})
        return HttpReply(status=refusal.status, body=body, headers=refusal_headers(refusal))

    def attempts(self) -> Attempts:
        """The requests by which `doctor` tries to reach the server without the gate."""
        ...


class ServerReads(Protocol):
    """The memories that a server's answers show, and the answers without some of them.

    Every method that parses a client's request raises `MalformedRequest` for a request that the
    server could interpret differently. A method that parses an answer raises it for an answer that
    it cannot parse; nothing of such an answer is shown.
    """

    # How the server hides items itself; None where it cannot.
    hiding: HidesItems | None = None

    def page(self, request: HttpRequest) -> ReadPage | None:
        """The page that a read asks for; None for a read that is not paged."""
        del request
        return None

    def asking(self, request: HttpRequest, count: int | None = None) -> HttpRequest:
        """A read, or a request that concerns no memory, as it is forwarded: checked, re-encoded.

        A paged read asks for the first `count` memories, or for as many as the client did, without
        an offset, because the server's offsets count hidden memories too. The only header is the
        content type.
        """
        del count
        if request.body:
            raise MalformedRequest("body: this route takes none", status=400)
        return HttpRequest(method=request.method, path=request.path, query=request.query)

    def shown(self, request: HttpRequest, reply: HttpReply) -> tuple[ShownMemory, ...]:
        """Every memory in the answer to a read that `asking` built."""
        ...

    def without(self, request: HttpRequest, reply: HttpReply, places: frozenset[int]) -> HttpReply:
        """The answer without these memories, in every column, count and cursor.

        Raises:
            MalformedRequest: An answer of which no part can be left out; it is refused whole.
        """
        ...

    def listing(self, tenant: Tenant) -> HttpRequest:
        """The first read of a walk over all memories that the server has for a tenant.

        On a server that does not separate tenants, the walk is the same for each tenant.
        """
        ...

    def listed(self, request: HttpRequest, reply: HttpReply) -> WalkedPage:
        """The memories in the answer to a read of a walk, or to one of `ServerWrites.reading`.

        Raises:
            MalformedRequest: The answer cannot be parsed, so it is unknown what the server has.
        """
        ...


class ServerWrites(Protocol):
    """The memories that a write or deletion concerns, and the outcome of each.

    The methods raise `MalformedRequest` as those of `ServerReads` do.
    """

    def first(self, request: HttpRequest) -> HttpRequest | None:
        """The read whose answer is needed to judge a write or deletion; None if none is needed.

        The answer has the keys that a filter matches, or the memory that an update is merged with.
        """
        del request
        return None

    def items(self, request: HttpRequest, known: HttpReply | None) -> tuple[SentMemory, ...]:
        """One entry for each memory that a write or deletion concerns; `known` answers `first`.

        () where it concerns no memory, such as a filter without a match: nothing is sent then.
        """
        ...

    def named(self, request: HttpRequest) -> tuple[SentMemory, ...]:
        """The deletions of the keys that a deletion lists, whether or not they exist.

        () for a write, and for a deletion by a filter.
        """
        del request
        return ()

    def forward(
        self,
        request: HttpRequest,
        items: tuple[SentMemory, ...],
        admitted: Mapping[int, CandidateId],
    ) -> HttpRequest | None:
        """The request for the admitted items alone, a deletion by keys; None if none is admitted.

        The request is encoded again from what was judged, and its only header is the content type.
        Where the server assigns the keys, the adapter marks each memory with its candidate's id: a
        look-up finds the memory by that mark, and `without` removes the mark from every answer.
        """
        ...

    def outcome(
        self, request: HttpRequest, admitted: tuple[SentMemory, ...], reply: HttpReply
    ) -> tuple[SendOutcome, ...]:
        """The outcome of each sent item: DONE, FAILED, or UNKNOWN where the answer is ambiguous.

        By default all items share one outcome, that of the request's status.
        """
        del request
        return tuple(SendOutcome(state=state_of(reply.status)) for _ in admitted)

    def released(self, item: UnsettledItem, blob: bytes) -> HttpRequest:
        """The client's request for one released item, rebuilt from it; `forward` then takes it."""
        del blob
        return request_again(item)

    def reading(self, kept: UnsettledItem) -> HttpRequest:
        """The read of the memory under the key of a stored item.

        Only the item's path, ids and key are used; its texts may be missing.
        """
        ...

    def question(self, item: UnsettledItem) -> HttpRequest | None:
        """A read that shows whether a sent item arrived; None where no read can show it."""
        return self.reading(item)

    def told(self, item: UnsettledItem, reply: HttpReply) -> SendOutcome | None:
        """The outcome that the answer to `question` shows; None if it shows none."""
        ...

    def answer(
        self, request: HttpRequest, judged: tuple[ItemVerdict, ...], replies: tuple[HttpReply, ...]
    ) -> HttpReply:
        """The client's answer to a write or deletion, in the server's own shape.

        `judged` has one entry per item; `replies` are the server's answers, () if nothing was sent.
        """
        ...

    def says_same(self, kept: UnsettledItem, found: Item) -> bool:
        """Whether a memory on the server (`found`) has the content that was judged (`kept`).

        Raises:
            MalformedRequest: One of the two items was not made by this adapter.
        """
        ...

    def mark_of(self, found: Item) -> str | None:
        """The mark with which `forward` sent a listed memory; None if it has none.

        Raises:
            MalformedRequest: The item was not made by this adapter.
        """
        del found
        return None


class HttpBackend(ServerRoutes, ServerReads, ServerWrites, Protocol):
    """The whole adapter of one kind of server. No I/O; all decoding is strict; any thread."""

    def removal(self, kept: UnsettledItem) -> HttpRequest:
        """The deletion of the memory under the key of a stored item, and of no other."""
        if self.hiding is None:
            raise MalformedRequest("removal: this adapter builds no deletion of one memory")
        return self.hiding.removing((kept,))


def state_of(status: int) -> ForwardStatus:
    """The outcome that an answer's status proves; UNKNOWN for a status that proves neither."""
    if status in ANSWERED:
        return ForwardStatus.DONE
    if status in _REFUSED and status not in _SAYS_NOTHING:
        return ForwardStatus.FAILED
    return ForwardStatus.UNKNOWN


def answer_value(reply: HttpReply) -> JsonValue:
    """The JSON value of an answer.

    Raises:
        MalformedRequest: The body is not JSON, or two parsers could interpret it differently.
    """
    return decode_object(reply.body, bytes_max=_ANSWER_BYTES_MAX, any_text=True)


def not_understood() -> MalformedRequest:
    """The exception for an answer of the server that cannot be parsed."""
    return MalformedRequest("answer: not of the form that this route has")
