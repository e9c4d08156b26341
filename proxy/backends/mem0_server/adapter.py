"""Mem0's self-hosted server as the driver of guard mode sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from policy.model import CandidateId, Tenant
from proxy.backends.mem0_server import reads, whole_server, writes
from proxy.backends.mem0_server.requests import LISTED_MAX
from proxy.backends.mem0_server.routes import (
    ADD,
    DELETE,
    DELETE_ENTITY,
    SEGMENTS,
    TABLES,
    UPDATE,
    memory_id_of,
    route_of,
    version_told,
)
from proxy.dialects.mem0.answers import phrase, refused, unheard
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.backend_listing import Attempts, WalkedPage
from proxy.seams.guard import Item, ItemVerdict, Unsettled
from proxy.seams.http_backend import HidesItems, Outcome, Page, Routed, Sending, ShownMemory
from proxy.seams.operation import HttpReply, HttpRequest, Refusal

NOBODY: Final = ""  # no principal has this key, so a request with it is refused
_BEARER: Final = "bearer "
_DONE: Final = range(200, 300)
_REFUSED: Final = 422
_MISSING: Final = 404
_ADMIT: Final = "admit"
_HOLD: Final = "hold"
_REFUSALS_MAX: Final = 16
_DONE_WORDS: Final = {
    DELETE.operation: "Memory deleted successfully",
    DELETE_ENTITY.operation: "Entity deleted",
    UPDATE.operation: "Memory updated successfully!",
}
_ALL_DELETED: Final = "All relevant memories deleted"


class Mem0Server:
    """Implements `HttpBackend` for Mem0's self-hosted server."""

    name = "mem0_server"
    segments = SEGMENTS
    versions = frozenset(TABLES)
    unable: Mapping[str, str] = {
        'quarantine = "tag"': "the lists of this server have no filter that would leave a tag out",
        'quarantine = "remove"': "this server would give a memory that is put back another id",
        'collections = "create"': "this server has no collections",
        "reads": f"this server lists {LISTED_MAX} memories at most, so what is below a floor would "
        "take the places of what is above",
    }
    hiding: HidesItems | None = None

    def credential(self, request: HttpRequest) -> str | None:
        """`X-API-Key`, or the key behind `Bearer`; two different keys are nobody's."""
        given = request.headers.get("x-api-key") or None
        header = request.headers.get("authorization", "")
        bearer = header[len(_BEARER) :].strip() if header.lower().startswith(_BEARER) else None
        if given is not None and bearer and given != bearer:
            return NOBODY
        return given or bearer or None

    def classify(self, request: HttpRequest) -> Routed | None:
        """The row of the route table; None for a route that it does not have."""
        return route_of(request)

    def folder(self, request: HttpRequest) -> str:
        """No request is bound to a place: a user's id is a convention among programs."""
        del request
        return ""

    def is_open_to(self, request: HttpRequest, tenant: str) -> bool:
        """Every tenant may use the server: whose a memory is, its key tells."""
        del request, tenant
        return True

    def place(self, request: HttpRequest) -> HttpRequest | None:
        """The server has no places."""
        del request
        return None

    def version_question(self) -> HttpRequest:
        """The read of the server's OpenAPI document."""
        return HttpRequest(method="GET", path="/openapi.json")

    def version_told(self, reply: HttpReply) -> str | None:
        """The version that has these routes."""
        return version_told(reply)

    # ---- writes and deletions --------------------------------------------------------------------

    def first(self, request: HttpRequest) -> HttpRequest | None:
        """The memory that an update is merged with, or those that a deletion finds."""
        return writes.first(request)

    def items(self, request: HttpRequest, known: HttpReply | None) -> tuple[Sending, ...]:
        """One entry for each message of an add, or for each memory that changes."""
        return writes.sendings_of(request, known)

    def named(self, request: HttpRequest) -> tuple[Sending, ...]:
        """The deletion of the memory in the path."""
        return writes.named(request)

    def forward(
        self,
        request: HttpRequest,
        items: tuple[Sending, ...],
        admitted: Mapping[int, CandidateId],
    ) -> HttpRequest | None:
        """The add of one message, the update, or the deletion of one memory by its id."""
        return writes.forwarded(request, items, admitted)

    def outcome(
        self, request: HttpRequest, admitted: tuple[Sending, ...], reply: HttpReply
    ) -> tuple[Outcome, ...]:
        """Done with the id that the server gave, or failed by its word; else unknown."""
        return tuple(writes.outcome_of(request, one, reply) for one in admitted)

    def released(self, item: Unsettled, blob: bytes) -> HttpRequest:
        """The add of one message, the update or the deletion that was kept."""
        del blob
        return writes.released(item)

    def question(self, item: Unsettled) -> HttpRequest | None:
        """The search for the mark of a new memory, or the read of one that changes."""
        return writes.question(item)

    def told(self, item: Unsettled, reply: HttpReply) -> Outcome | None:
        """The outcome that the mark of a memory shows; for a deletion, that its absence shows."""
        return writes.told(item, reply)

    # ---- reads -----------------------------------------------------------------------------------

    def asking(self, request: HttpRequest) -> HttpRequest:
        """The read, checked and encoded anew."""
        return reads.asking(request)

    def shown(self, request: HttpRequest, reply: HttpReply) -> tuple[ShownMemory, ...]:
        """Every memory in the answer to a read."""
        return reads.shown(request, reply)

    def without(self, request: HttpRequest, reply: HttpReply, places: frozenset[int]) -> HttpReply:
        """The answer without these memories, and without the mark of the others."""
        return reads.without(request, reply, places)

    def page(self, request: HttpRequest) -> Page | None:
        """The memories that a search or a list asks for."""
        return reads.page(request)

    def from_start(self, request: HttpRequest, count: int | None) -> HttpRequest:
        """The same search or list for the first memories."""
        return reads.from_start(request, count)

    # ---- what an operator's commands ask ---------------------------------------------------------

    def listing(self, tenant: Tenant) -> HttpRequest:
        """The list of everything: a user's id is nobody's place."""
        del tenant
        return whole_server.everything()

    def listed(self, request: HttpRequest, reply: HttpReply) -> WalkedPage:
        """The memories of a list, or the one of a read by its id."""
        return whole_server.listed(request, reply)

    def reading(self, kept: Unsettled) -> HttpRequest:
        """The read of one memory by its id."""
        return whole_server.reading(kept)

    def says_same(self, kept: Unsettled, found: Item) -> bool:
        """Whether text and metadata on the server have every part that was judged."""
        return whole_server.says_same(kept, found)

    def mark_of(self, found: Item) -> str | None:
        """The id of the candidate with which the gate sent a memory."""
        return whole_server.mark_of(found)

    def attempts(self) -> Attempts:
        """A read of no memory, a list of everything, and an add without its members."""
        return whole_server.attempts()

    # ---- answers of our own ----------------------------------------------------------------------

    def answer(
        self, request: HttpRequest, judged: tuple[ItemVerdict, ...], replies: tuple[HttpReply, ...]
    ) -> HttpReply:
        """What the server says, in our words: nobody has read its own.

        For several memories one answer tells what became of each.
        Where nothing was stored it is a 422, whose reason phrase says why: a client that raises on
        the status shows nothing else.
        """
        failed = [one for one in replies if one.status not in _DONE and one.status != _MISSING]
        if failed:
            return failed[0]
        refusals = [one for one in judged if one.decision != _ADMIT]
        if refusals and not replies:
            return _not_stored(refusals)
        is_missing = [one.status for one in replies] == [_MISSING]
        if is_missing and len(judged) == 1 and route_of(request) in (ADD, UPDATE, DELETE):
            return replies[0]
        return _several(request, judged, replies)

    def refuse(self, request: HttpRequest, refusal: Refusal) -> HttpReply:
        """A failure as `{"detail"}`; for a conversation sent in the background, no results.

        A client pauses a memory that fails often, and nobody reads the answer to what it captures.
        """
        quiet = unheard(request, refusal) if route_of(request) is ADD else None
        return _json(200, quiet) if quiet is not None else refused(refusal, "Bearer")


def _several(
    request: HttpRequest, judged: tuple[ItemVerdict, ...], replies: tuple[HttpReply, ...]
) -> HttpReply:
    """The answer where some memories, or none, were concerned."""
    routed = route_of(request)
    refusals = [one for one in judged if one.decision != _ADMIT]
    beside: dict[str, JsonValue] = {}
    if refusals:
        done = len(judged) - len(refusals)
        message = f"Done for {done} of {len(judged)} memories, see refused"
        beside = {"message": message, "refused": _told(refusals)}
    if routed is ADD:
        admitted = (at for at, one in enumerate(judged) if one.decision == _ADMIT)
        stored = (pair for pair in zip(admitted, replies, strict=True) if pair[1].status in _DONE)
        results = [writes.added(request, at, reply) for at, reply in stored]
        return _json(200, {"results": results, **beside})
    if not judged and routed in (UPDATE, DELETE):
        detail = f"Memory with id {memory_id_of(request.path)} not found"
        if routed is UPDATE:
            detail += ". Please provide a valid 'memory_id'"
        return _json(_MISSING, {"detail": detail})
    words = _ALL_DELETED if routed is None else _DONE_WORDS.get(routed.operation, _ALL_DELETED)
    return _json(200, {"message": words, **beside})


def _not_stored(refusals: list[ItemVerdict]) -> HttpReply:
    held = all(one.decision == _HOLD for one in refusals)
    shown = refusals[0]
    why = shown.decision if shown.reason is None else shown.reason.value
    head = f"memory write {'held for review' if held else 'rejected'}: {why}"
    body: dict[str, JsonValue] = {
        "detail": f"{head}. {shown.observation}",
        "error": "memory_write_held" if held else "memory_write_rejected",
        "refused": _told(refusals),
    }
    tail = "not stored yet" if held else "nothing stored"
    answer = _json(_REFUSED, body)
    return msgspec.structs.replace(answer, phrase=phrase(f"{head}; {tail}; do not retry"))


def _told(refusals: list[ItemVerdict]) -> list[JsonValue]:
    return [
        {
            "decision": one.decision,
            "reason": None if one.reason is None else one.reason.value,
            "observation": one.observation,
            "candidate_id": one.candidate_id,
        }
        for one in refusals[:_REFUSALS_MAX]
    ]


def _json(status: int, value: object) -> HttpReply:
    return HttpReply(status=status, body=msgspec.json.encode(value))
