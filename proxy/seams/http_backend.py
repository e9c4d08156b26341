"""A memory server behind the gate that speaks HTTP, as its adapter reads it.

An adapter (`proxy/backends/<name>/`) is pure: it reads requests and answers, and makes others of
them. It has no connection, no credential and no store, and it decides nothing. The driver
(`proxy/fronts/backend.py`) keeps the order: classify, ask what has to be known first, judge, send
what was admitted, settle, answer.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from policy.model import (
    CandidateId,
    Forwarded,
    Hiding,
    Tenant,
)
from proxy.seams.backend_listing import ListsAll
from proxy.seams.guard import (
    Item,
    ItemVerdict,
    Unsettled,
)
from proxy.seams.operation import HttpReply, HttpRequest, Refusal

OWN_FIELD: Final = "mnemogate"
"""The member of an item's metadata that is the sidecar's: no agent reads or writes it."""


class Does(enum.Enum):
    """What a request to the server does with memories."""

    READ = "read"  # its answer shows memories, or how many there are
    WRITE = "write"
    REMOVE = "remove"
    OTHER = "other"  # concerns no memory; passes as it is
    MAKE = "make"  # makes a place for memories; is forwarded to a server of a known version
    ADMIN = "admin"  # administers the server; refused


class Routed(msgspec.Struct, frozen=True, kw_only=True):
    """The row of the adapter's route table that a request falls under."""

    does: Does
    # A word of a closed list, such as "add": it names the request in spans and verdicts, and is
    # the `tool` of every candidate.
    operation: str
    # Whether the answer is always made anew by `without`, because the read is forwarded as another
    # one: as a count does, which is made of a list.
    remade: bool = False
    # Whether a write leaves alone what is not there, as an update by id does. What the writer must
    # not see is then not there.
    changes_only: bool = False
    # Whether it concerns all that the server has, whoever's, and no part of its answer can be left
    # out. It is served where one tenant has the server for itself.
    whole: bool = False
    # Whether each memory of a write or deletion is forwarded in a request of its own, because the
    # server has no request for some of them, or no name for each of several.
    singly: bool = False


class Sending(msgspec.Struct, frozen=True, kw_only=True):
    """One memory that a request would write or delete.

    `item.arguments` is the canonical JSON of `{method, path, query, body}` for this memory alone,
    without credential and vector (`proxy.backends.kept_request`); `item.pieces` are its strings as
    a read would show them after the write, merged with what stands there where the server merges.
    """

    item: Item
    # The client's vector, float32 little-endian: sealed with a held candidate, and never believed.
    blob: bytes = b""


class ShownMemory(msgspec.Struct, frozen=True, kw_only=True):
    """One memory in an answer: its key, the strings shown of it, and its place in the answer.

    Where a dropped memory makes room for a further one, the driver refills within its `group`, such
    as the answer to one of several queries.
    """

    # The key in the words of `Item.key`; "" for a part of an answer that is no single memory.
    key: str
    strings: tuple[str, ...]
    place: int
    # Whether `key` is the beginning of many keys, as with a folder. It is shown where the reader
    # has a memory below it, or nobody is known to have one.
    is_prefix: bool = False
    group: int = 0
    # Whether it has the mark with which `forward` sends a memory. It is shown where the gate knows
    # it under this key: neither before its outcome is recorded, nor once the gate forgot it.
    is_marked: bool = False
    # Whether the server's item has the field of a quarantined memory. It is then shown to nobody,
    # whatever the store knows of it.
    is_tagged: bool = False
    # Whether it has a form in which nobody can tell what it is. It is shown to nobody either.
    is_withheld: bool = False
    # Whether it is what the server keeps of the past of the memory under `key`. It is shown where
    # the reader has a memory there now, and live memories under the key have each of its strings.
    is_past: bool = False
    # Those of the strings that the server makes itself; no write through the gate says them.
    made_there: tuple[str, ...] = ()

    @property
    def said(self) -> tuple[str, ...]:
        """The strings that some write said."""
        if not self.made_there:
            return self.strings
        return tuple(one for one in self.strings if one not in self.made_there)


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Which of the memories that a read finds it shows; within each of its groups."""

    offset: int
    # None: all behind `offset`.
    limit: int | None
    # The most memories that the server gives at once.
    most: int

    @property
    def end(self) -> int | None:
        """How many memories a reader has to be shown to have this page; None for all."""
        return None if self.limit is None else self.offset + self.limit


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one sent memory, and the key that the server gave it; "" if none."""

    state: Forwarded
    key: str = ""


class HidesItems(Protocol):
    """How one kind of server hides quarantined memories itself. Pure; any thread.

    Each method takes items of one place, at most as many as one request can be about. Each request
    may be sent again: the second time it changes nothing.
    """

    tagged_at_once: int
    removed_at_once: int

    def tagging(self, items: tuple[Unsettled, ...], *, tagged: bool) -> HttpRequest:
        """The request that puts `OWN_FIELD` into the items that are there, or takes it out."""
        ...

    def tagged(self, request: HttpRequest) -> HttpRequest | None:
        """A read that shows an item with `OWN_FIELD` in place of one that is forwarded, if any.

        None where the server has no tags.
        """
        ...

    def untagged(self, request: HttpRequest) -> HttpRequest:
        """A read that is forwarded, asked for items without `OWN_FIELD` only."""
        ...

    def standing(self, items: tuple[Unsettled, ...]) -> HttpRequest:
        """The read of the whole items, with all that putting them back takes."""
        ...

    def kept(self, items: tuple[Unsettled, ...], reply: HttpReply) -> tuple[bytes, ...]:
        """What is kept of each item, by the answer to `standing`; b"" where nothing stands."""
        ...

    def removing(self, items: tuple[Unsettled, ...]) -> HttpRequest:
        """The deletion of the items by their keys."""
        ...

    def restoring(self, items: tuple[Unsettled, ...], kept: tuple[bytes, ...]) -> HttpRequest:
        """The request that puts the items back as they were kept; none of them stands there."""
        ...


class HttpBackend(ListsAll, Protocol):
    """The adapter of one kind of server. Pure; all decoding is strict; any thread.

    Every method that reads a client's request raises `MalformedRequest` for what the server would
    read otherwise than this adapter does. A method that reads an answer raises it for an answer
    that it cannot read; nothing of such an answer is shown.
    """

    name: str
    # First path segments that the adapter claims. No dialect and no other adapter may use them.
    segments: frozenset[str]
    # The versions of the server whose routes the table has.
    versions: frozenset[str]
    # Settings that this kind of server cannot have, such as `collections = "create"`, each with the
    # reason for an operator.
    unable: Mapping[str, str]

    @property
    def hiding(self) -> HidesItems | None:
        """How the server hides items itself; None where it cannot."""
        ...

    def credential(self, request: HttpRequest) -> str | None:
        """The agent's key in this client's own header; None if there is none."""
        ...

    def classify(self, request: HttpRequest) -> Routed | None:
        """The route of a request; None for a route that the table does not have (refused)."""
        ...

    def folder(self, request: HttpRequest) -> str:
        """The beginning of every key that the request can concern, such as that of a collection.

        "" where it is bound to no one place. Where only another tenant has memories below it, the
        request is answered as if nothing were there.
        """
        ...

    def is_open_to(self, request: HttpRequest, tenant: str) -> bool:
        """Whether a principal of this tenant may use the place that the request names."""
        ...

    def place(self, request: HttpRequest) -> HttpRequest | None:
        """A read that fails where the server does not know the request's place under its path.

        Its failure is the answer. None where a request names no such place. A place that the server
        knows once stays where it is.
        """
        ...

    def version_question(self) -> HttpRequest:
        """A read that tells the server's version."""
        ...

    def version_told(self, reply: HttpReply) -> str | None:
        """The version in that answer; None where there is none."""
        ...

    def first(self, request: HttpRequest) -> HttpRequest | None:
        """A read without whose answer a write or deletion cannot be judged; None if none is needed.

        It finds the keys under a filter, or what an update is merged with.
        """
        ...

    def items(self, request: HttpRequest, known: HttpReply | None) -> tuple[Sending, ...]:
        """One entry for each memory that a write or deletion concerns; `known` answers `first`.

        () where it concerns none, such as a filter that nothing matches: nothing is sent.
        """
        ...

    def named(self, request: HttpRequest) -> tuple[Sending, ...]:
        """The deletions of the keys that a deletion names by themselves, whatever stands there.

        () for a filter, which tells what it finds, and for a write.
        """
        ...

    def forward(
        self,
        request: HttpRequest,
        items: tuple[Sending, ...],
        admitted: Mapping[int, CandidateId],
    ) -> HttpRequest | None:
        """The request for the admitted items alone, a deletion by keys; None if nothing is left.

        Its bytes are encoded anew from what was judged. It has no header but the content type. An
        adapter of a server that assigns the keys itself marks each memory with its candidate's id:
        a look-up finds it by that mark, and `without` takes the mark out of every read.
        """
        ...

    def outcome(
        self, request: HttpRequest, admitted: tuple[Sending, ...], reply: HttpReply
    ) -> tuple[Outcome, ...]:
        """What became of each sent item: DONE, FAILED, or UNKNOWN where the answer does not say."""
        ...

    def released(self, item: Unsettled, blob: bytes) -> HttpRequest:
        """The client's request for one released item, made of what was kept; `forward` sends it."""
        ...

    def question(self, item: Unsettled) -> HttpRequest | None:
        """A read that shows whether a sent item arrived; None where no read tells."""
        ...

    def told(self, item: Unsettled, reply: HttpReply) -> Outcome | None:
        """The outcome that the answer to `question` shows; None if it shows none."""
        ...

    def asking(self, request: HttpRequest) -> HttpRequest:
        """A read, or a request that concerns no memory, as it is forwarded: checked, encoded anew.

        It is called before anything is sent, so a client's mistake is told apart from an answer of
        the server that cannot be read. It has no header but the content type.
        """
        ...

    def shown(self, request: HttpRequest, reply: HttpReply) -> tuple[ShownMemory, ...]:
        """Every memory in the answer to a read, which `asking` let through."""
        ...

    def without(self, request: HttpRequest, reply: HttpReply, places: frozenset[int]) -> HttpReply:
        """The answer without these memories, in every column, count and cursor.

        Raises:
            MalformedRequest: An answer of which no part can be left out; it is refused whole.
        """
        ...

    def page(self, request: HttpRequest) -> Page | None:
        """The page that a read asks for; None for a read that is not paged."""
        ...

    def from_start(self, request: HttpRequest, count: int | None) -> HttpRequest:
        """The same paged read for the first `count` memories that it finds; None: for all.

        Offsets of the server count what must not be shown, so the server is never given one.
        """
        ...

    def answer(
        self, request: HttpRequest, judged: tuple[ItemVerdict, ...], replies: tuple[HttpReply, ...]
    ) -> HttpReply:
        """The client's answer to a write or deletion, in the server's own shape.

        `judged` has one entry per item; `replies` are the server's answers, () if nothing was sent.
        """
        ...

    def refuse(self, request: HttpRequest, refusal: Refusal) -> HttpReply:
        """A failure in the server's own shape."""
        ...


class ItemDue(msgspec.Struct, frozen=True, kw_only=True):
    """One act on a server's item that is due because its memory is hidden, or shown again.

    The fields are those of `storage.features.upstream.upstream_hiding.HidingDue`.
    """

    keyed: bytes
    tenant: Tenant
    item: Unsettled
    hiding: Hiding
    hides: bool
    kept: bytes
