"""The adapter of a server of cards: a whole one, and as small as one can be.

A client names a card, and a write replaces all of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.model import NAME_LEN_MAX, TEXT_LEN_MAX, CandidateId, ChangeKind, ForwardStatus, Tenant
from proxy.backends.http_backend import ANSWERED, OK, HttpBackend, RouteTable, answer_value
from proxy.backends.kept_request import deletion, json_request, kept_request, request_parts
from proxy.dialects.strict_json.strict import JsonValue, convert, decode_as
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import Item, ItemVerdict, UnsettledItem
from proxy.seams.http_backend import (
    Attempts,
    Does,
    ListedMemory,
    RoutedRequest,
    SendOutcome,
    SentMemory,
    ShownMemory,
    WalkedPage,
)
from proxy.seams.operation import HttpReply, HttpRequest

ROOT: Final = "/cards"
PUT: Final = RoutedRequest(does=Does.WRITE, operation="put")
DELETE: Final = RoutedRequest(does=Does.REMOVE, operation="delete")
GET: Final = RoutedRequest(does=Does.READ, operation="get")
LIST: Final = RoutedRequest(does=Does.READ, operation="list")
_WIPE: Final = RoutedRequest(does=Does.ADMIN, operation="wipe")
_NAME: Final = re.compile(r"/cards/([a-z0-9-]{1,64})")
_TEXTS: Final = ("text", "tags")
_FORBIDDEN: Final = 403
_MISSING: Final = 404
_LIST: Final = HttpRequest(method="GET", path=ROOT)


class Card(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a write."""

    text: Annotated[str, Meta(min_length=1, max_length=TEXT_LEN_MAX)]
    tags: Annotated[
        tuple[Annotated[str, Meta(max_length=NAME_LEN_MAX)], ...], Meta(max_length=16)
    ] = ()


class NamedCard(Card, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A card in an answer."""

    name: str

    @property
    def path(self) -> str:
        """The path of this card alone."""
        return f"{ROOT}/{self.name}"

    def shown(self, place: int) -> ShownMemory:
        """The card in an answer, at this place."""
        return ShownMemory(key=self.name, strings=(self.text, *self.tags), place=place)


class CardList(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to a list."""

    cards: tuple[NamedCard, ...]


class Cards(HttpBackend):
    """Pure; one instance serves every request."""

    name = "cards"
    segments = frozenset({"cards"})
    table = RouteTable(
        {
            ("GET", "cards"): LIST,
            ("DELETE", "cards"): _WIPE,
            ("PUT", "cards/*"): PUT,
            ("GET", "cards/*"): GET,
            ("DELETE", "cards/*"): DELETE,
        }
    )
    version = "1"
    key_header = "cards-key"

    def attempts(self) -> Attempts:
        """A read of a card that no one has, the list, and a write without a text."""
        path = f"{ROOT}/no-ones"
        return Attempts(
            alive=HttpRequest(method="GET", path=path),
            read=_LIST,
            write=json_request("PUT", path, {}),
        )

    # ---- reads -----------------------------------------------------------------------------------

    def shown(self, request: HttpRequest, reply: HttpReply) -> tuple[ShownMemory, ...]:
        """Every card in an answer."""
        return tuple(card.shown(place) for place, card in enumerate(_cards_in(request, reply)))

    def without(self, request: HttpRequest, reply: HttpReply, places: frozenset[int]) -> HttpReply:
        """The list without some cards; a card alone is one that is not there."""
        if self.classify(request) is not LIST:
            return HttpReply(status=_MISSING) if places else reply
        cards = _cards_in(request, reply)
        left = CardList(cards=tuple(card for at, card in enumerate(cards) if at not in places))
        return msgspec.structs.replace(reply, body=msgspec.json.encode(left))

    def listing(self, tenant: Tenant) -> HttpRequest:
        """The list: a card has no place of a tenant."""
        del tenant
        return _LIST

    def listed(self, request: HttpRequest, reply: HttpReply) -> WalkedPage:
        """The cards of the list, or the one of a read by its name."""
        if reply.status == _MISSING and request.path != ROOT:
            return WalkedPage()
        if reply.status not in ANSWERED:
            raise MalformedRequest(f"answer: {reply.status} to a read of cards")
        return WalkedPage(memories=tuple(_listed(card) for card in _cards_in(request, reply)))

    # ---- writes ----------------------------------------------------------------------------------

    def first(self, request: HttpRequest) -> HttpRequest | None:
        """The read of the card: a write over one that is there is an update."""
        _name_of(request)
        return HttpRequest(method="GET", path=request.path)

    def items(self, request: HttpRequest, known: HttpReply | None) -> tuple[SentMemory, ...]:
        """The one card of a write or deletion; none for a deletion of what is not there."""
        is_there = known is not None and known.status in ANSWERED
        if self.classify(request) is DELETE:
            return self.named(request) if is_there else ()
        change = ChangeKind.UPDATE if is_there else ChangeKind.CREATE
        name, body = _name_of(request), _body_of(request)
        item = kept_request("PUT", request.path, body, texts=_TEXTS, key=name, change=change)
        return (SentMemory(item=item),)

    def named(self, request: HttpRequest) -> tuple[SentMemory, ...]:
        """The deletion of the card in the path."""
        if self.classify(request) is not DELETE:
            return ()
        return (deletion("DELETE", request.path, {}, _name_of(request)),)

    def forward(
        self,
        request: HttpRequest,
        items: tuple[SentMemory, ...],
        admitted: Mapping[int, CandidateId],
    ) -> HttpRequest | None:
        """The write, encoded anew, or the deletion; None if it was not admitted."""
        del items
        if not admitted:
            return None
        if self.classify(request) is DELETE:
            return HttpRequest(method="DELETE", path=request.path)
        return json_request("PUT", request.path, _body_of(request))

    def reading(self, kept: UnsettledItem) -> HttpRequest:
        """The read of the card."""
        return HttpRequest(method="GET", path=request_parts(kept)[1])

    def told(self, item: UnsettledItem, reply: HttpReply) -> SendOutcome | None:
        """The outcome that the card shows; None where another one has come under its name."""
        if reply.status == _MISSING:
            gone = item.change is ChangeKind.DELETE
            return SendOutcome(state=ForwardStatus.DONE if gone else ForwardStatus.FAILED)
        if reply.status != OK:
            return None
        if item.change is ChangeKind.DELETE:
            return SendOutcome(state=ForwardStatus.FAILED)
        stands = _body(convert(answer_value(reply), NamedCard))
        return SendOutcome(state=ForwardStatus.DONE) if stands == request_parts(item)[2] else None

    def answer(
        self, request: HttpRequest, judged: tuple[ItemVerdict, ...], replies: tuple[HttpReply, ...]
    ) -> HttpReply:
        """204 where it is done; a failure of the server, or why a write was refused."""
        del request
        if replies:
            return replies[0] if replies[0].status not in ANSWERED else HttpReply(status=204)
        if not judged:
            return HttpReply(status=_MISSING, body=b'{"detail":"there is no such card"}')
        body = msgspec.json.encode({"detail": judged[0].observation})
        return HttpReply(status=_FORBIDDEN, body=body)

    def says_same(self, kept: UnsettledItem, found: Item) -> bool:
        """Whether the card has what was sent: a write replaces all of it."""
        return request_parts(kept)[2] == request_parts(found)[2]


def _name_of(request: HttpRequest) -> str:
    found = _NAME.fullmatch(request.path)
    if found is None or request.query:
        raise MalformedRequest("card: not the name of one", status=400)
    return found[1]


def _body_of(request: HttpRequest) -> dict[str, JsonValue]:
    return _body(decode_as(request.body, Card))


def _body(card: Card) -> dict[str, JsonValue]:
    return {"text": card.text, "tags": [*card.tags]}


def _cards_in(request: HttpRequest, reply: HttpReply) -> tuple[NamedCard, ...]:
    if reply.status not in ANSWERED:
        return ()
    value = answer_value(reply)
    if request.path == ROOT:
        return convert(value, CardList).cards
    return (convert(value, NamedCard),)


def _listed(card: NamedCard) -> ListedMemory:
    try:
        item = kept_request("PUT", card.path, _body(card), texts=_TEXTS, key=card.name)
    except MalformedRequest:
        item = None
    return ListedMemory(key=card.name, item=item)
