"""The adapter of a memory server that speaks HTTP: its routes, its reads and its writes.

An adapter (`proxy/backends/<name>/`) is pure: it reads requests and answers, and makes others of
them. It has no connection, no credential and no store, and it decides nothing. The driver
(`proxy/fronts/backend.py`) keeps the order: classify, ask what has to be known first, judge, send
what was admitted, settle, answer.

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
# closed its request (nginx): something between may say so of a write that the server has done.
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
        """`rows` by method and path below `root`; a star in a path stands for one segment."""
        self.rows = rows
        self._root = f"{root}/"
        self._shapes: dict[tuple[str, int], list[tuple[list[str], RoutedRequest]]] = {}
        # A row that names its segments wins over one with a star.
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
        """The segments of a path below the root; none for a path elsewhere."""
        path = request.path
        return path.removeprefix(self._root).split("/") if path.startswith(self._root) else []

    def version_of(self, reply: HttpReply, own: str) -> str | None:
        """The version whose routes an OpenAPI document lists; None where this is no document.

        `own` is the version with the routes of this table. Other routes get a name of their own, so
        that an operator is asked about them once.
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

    Each method takes items of one place, at most as many as one request can be about. Each request
    may be sent again: the second time it changes nothing. The defaults are those of a server
    without tags, whose adapter is `unable` to have `quarantine = "tag"`.
    """

    tagged_at_once: int = 1
    removed_at_once: int = 1

    def tagging(self, items: tuple[UnsettledItem, ...], *, tagged: bool) -> HttpRequest:
        """The request that puts `OWN_FIELD` into the items that are there, or takes it out."""
        del items, tagged
        raise InvariantBroken("this server's items cannot be tagged")

    def tagged(self, request: HttpRequest) -> HttpRequest | None:
        """A read that shows an item with `OWN_FIELD` in place of one that is forwarded, if any.

        None where the server has no tags.
        """
        del request
        return None

    def untagged(self, request: HttpRequest) -> HttpRequest:
        """A read that is forwarded, asked for items without `OWN_FIELD` only."""
        return request

    def standing(self, items: tuple[UnsettledItem, ...]) -> HttpRequest:
        """The read of the whole items, with all that putting them back takes."""
        ...

    def kept(self, items: tuple[UnsettledItem, ...], reply: HttpReply) -> tuple[bytes, ...]:
        """What is kept of each item, by the answer to `standing`; b"" where nothing stands."""
        ...

    def removing(self, items: tuple[UnsettledItem, ...]) -> HttpRequest:
        """The deletion of the items by their keys."""
        ...

    def restoring(self, items: tuple[UnsettledItem, ...], kept: tuple[bytes, ...]) -> HttpRequest:
        """The request that puts the items back as they were kept; none of them stands there."""
        ...


class ServerRoutes(Protocol):
    """Which requests a server takes, from whom, and what each does with memories."""

    name: str
    # First path segments that the adapter claims. No dialect and no other adapter may use them.
    segments: frozenset[str]
    table: RouteTable
    # The version of the server that has these routes. Another one gets no write until an operator
    # approves it.
    version: str
    # In lower case.
    key_header: str = "x-api-key"
    # Settings that this kind of server cannot have, such as `collections = "create"`, each with the
    # reason for an operator.
    unable: Mapping[str, str] = _UNABLE

    def credential(self, request: HttpRequest) -> str | None:
        """The agent's key in this client's own header, or behind `Bearer`; None if there is none.

        Two different keys give a key that no principal has.
        """
        return request.key(self.key_header)

    def classify(self, request: HttpRequest) -> RoutedRequest | None:
        """The route of a request; None for a route that the table does not have (refused)."""
        return self.table.route_of(request)

    def folder(self, request: HttpRequest) -> str:
        """The beginning of every key that the request can concern, such as that of a collection.

        "" where it is bound to no one place. Where only another tenant has memories below it, the
        request is answered as if nothing were there.
        """
        del request
        return ""

    def is_open_to(self, request: HttpRequest, tenant: str) -> bool:
        """Whether a principal of this tenant may use the place that the request names."""
        del request, tenant
        return True

    def place(self, request: HttpRequest) -> HttpRequest | None:
        """A read that fails where the server does not know the request's place under its path.

        Its failure is the answer. None where a request names no such place. A place that the server
        knows once stays where it is.
        """
        del request
        return None

    def version_question(self) -> HttpRequest:
        """A read that tells the server's version."""
        return HttpRequest(method="GET", path="/openapi.json")

    def version_told(self, reply: HttpReply) -> str | None:
        """The version in that answer; None where there is none."""
        return self.table.version_of(reply, self.version)

    def refuse(self, request: HttpRequest, refusal: Refusal) -> HttpReply:
        """A failure in the server's own shape, with the headers that its status asks for."""
        del request
        body = msgspec.json.encode({"detail": refusal.detail})
        return HttpReply(status=refusal.status, body=body, headers=refusal_headers(refusal))

    def attempts(self) -> Attempts:
        """The requests by which `doctor` tries to go past the gate."""
        ...


class ServerReads(Protocol):
    """What the answers of a server show, and how some of it is left out.

    Every method that reads a client's request raises `MalformedRequest` for what the server would
    read otherwise than this adapter does. A method that reads an answer raises it for an answer
    that it cannot read; nothing of such an answer is shown.
    """

    # How the server hides items itself; None where it cannot.
    hiding: HidesItems | None = None

    def page(self, request: HttpRequest) -> ReadPage | None:
        """The page that a read asks for; None for a read that is not paged."""
        del request
        return None

    def asking(self, request: HttpRequest, count: int | None = None) -> HttpRequest:
        """A read, or a request that concerns no memory, as it is forwarded: checked, encoded anew.

        A paged one is for the first `count` memories that it finds, or as many as it asks for, and
        never has an offset: offsets of the server count what must not be shown. It has no header
        but the content type.
        """
        del count
        if request.body:
            raise MalformedRequest("body: this route takes none", status=400)
        return HttpRequest(method=request.method, path=request.path, query=request.query)

    def shown(self, request: HttpRequest, reply: HttpReply) -> tuple[ShownMemory, ...]:
        """Every memory in the answer to a read, which `asking` let through."""
        ...

    def without(self, request: HttpRequest, reply: HttpReply, places: frozenset[int]) -> HttpReply:
        """The answer without these memories, in every column, count and cursor.

        Raises:
            MalformedRequest: An answer of which no part can be left out; it is refused whole.
        """
        ...

    def listing(self, tenant: Tenant) -> HttpRequest:
        """The first read of a walk over all that the server has for a tenant.

        A server that has no places of tenants has one walk, the same for each of them.
        """
        ...

    def listed(self, request: HttpRequest, reply: HttpReply) -> WalkedPage:
        """What the answer to a read of a walk shows; also to one that `reading` made.

        Raises:
            MalformedRequest: The answer cannot be read, so nobody knows what the server has.
        """
        ...


class ServerWrites(Protocol):
    """The memories that a write or deletion concerns, and what became of each.

    The methods raise `MalformedRequest` as those of `ServerReads` do.
    """

    def first(self, request: HttpRequest) -> HttpRequest | None:
        """A read without whose answer a write or deletion cannot be judged; None if none is needed.

        It finds the keys under a filter, or what an update is merged with.
        """
        del request
        return None

    def items(self, request: HttpRequest, known: HttpReply | None) -> tuple[SentMemory, ...]:
        """One entry for each memory that a write or deletion concerns; `known` answers `first`.

        () where it concerns none, such as a filter that nothing matches: nothing is sent.
        """
        ...

    def named(self, request: HttpRequest) -> tuple[SentMemory, ...]:
        """The deletions of the keys that a deletion names by themselves, whatever stands there.

        () for a filter, which tells what it finds, and for a write.
        """
        del request
        return ()

    def forward(
        self,
        request: HttpRequest,
        items: tuple[SentMemory, ...],
        admitted: Mapping[int, CandidateId],
    ) -> HttpRequest | None:
        """The request for the admitted items alone, a deletion by keys; None if nothing is left.

        Its bytes are encoded anew from what was judged. It has no header but the content type. An
        adapter of a server that assigns the keys itself marks each memory with its candidate's id:
        a look-up finds it by that mark, and `without` takes the mark out of every read.
        """
        ...

    def outcome(
        self, request: HttpRequest, admitted: tuple[SentMemory, ...], reply: HttpReply
    ) -> tuple[SendOutcome, ...]:
        """What became of each sent item: DONE, FAILED, or UNKNOWN where the answer does not say.

        By default the server takes a request whole, or refuses it whole.
        """
        del request
        return tuple(SendOutcome(state=state_of(reply.status)) for _ in admitted)

    def released(self, item: UnsettledItem, blob: bytes) -> HttpRequest:
        """The client's request for one released item, made of what was kept; `forward` sends it."""
        del blob
        return request_again(item)

    def reading(self, kept: UnsettledItem) -> HttpRequest:
        """The read of the one memory that stands under the key of a kept item.

        Only the places in the item count: its texts may be left out.
        """
        ...

    def question(self, item: UnsettledItem) -> HttpRequest | None:
        """A read that shows whether a sent item arrived; None where no read tells."""
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
        """Whether a memory on the server says what was judged, its texts above all.

        Raises:
            MalformedRequest: One of the two was not made by this adapter.
        """
        ...

    def mark_of(self, found: Item) -> str | None:
        """The mark with which `forward` sent a listed memory; None if it has none.

        Raises:
            MalformedRequest: It was not made by this adapter.
        """
        del found
        return None


class HttpBackend(ServerRoutes, ServerReads, ServerWrites, Protocol):
    """The whole adapter of one kind of server. Pure; all decoding is strict; any thread."""


def state_of(status: int) -> ForwardStatus:
    """Done or failed by the server's word; unknown where its status does not say."""
    if status in ANSWERED:
        return ForwardStatus.DONE
    if status in _REFUSED and status not in _SAYS_NOTHING:
        return ForwardStatus.FAILED
    return ForwardStatus.UNKNOWN


def answer_value(reply: HttpReply) -> JsonValue:
    """The JSON value of an answer.

    Raises:
        MalformedRequest: It is none, or two readers could read it differently.
    """
    return decode_object(reply.body, bytes_max=_ANSWER_BYTES_MAX, any_text=True)


def not_understood() -> MalformedRequest:
    """The failure of an answer of the server that cannot be read."""
    return MalformedRequest("answer: not of the form that this route has")
