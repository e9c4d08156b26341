"""What the adapter of a memory server behind the gate tells of requests and answers.

The adapter is `proxy.backends.http_backend.HttpBackend`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from policy.model import ForwardStatus, Hiding, Tenant
from proxy.seams.guard import Item, UnsettledItem
from proxy.seams.operation import HttpRequest

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


class RoutedRequest(msgspec.Struct, frozen=True, kw_only=True):
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


class SentMemory(msgspec.Struct, frozen=True, kw_only=True):
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


class ReadPage(msgspec.Struct, frozen=True, kw_only=True):
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


class SendOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one sent memory, and the key that the server gave it; "" if none."""

    state: ForwardStatus
    key: str = ""


class ItemDue(msgspec.Struct, frozen=True, kw_only=True):
    """One act on a server's item that is due because its memory is hidden, or shown again.

    The fields are those of `storage.features.upstream.upstream_hiding.HidingDue`.
    """

    keyed: bytes
    tenant: Tenant
    item: UnsettledItem
    hiding: Hiding
    hides: bool
    kept: bytes


class ListedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """One memory that the server has.

    `item` is what a write of this very memory would be kept as (`SentMemory.item`, a creation), or
    None where no write through the gate could have made it, because of its size or its form.
    """

    # In the words of `Item.key`; as near to them as can be where `item` is None.
    key: str
    item: Item | None


class ListPart(NamedTuple):
    """One page of a list that the server gives in pages, by numbers of entries.

    Entries that are deleted meanwhile move the rest of the list towards its beginning. So a walk
    needs the names of the entries, to see that no page begins behind what it has read.
    """

    # What is in the page, in the server's order.
    names: tuple[str, ...]
    # False: the list ends with this page.
    is_full: bool
    # The read of the page that begins with the entry of this number.
    begin: Callable[[int], HttpRequest]
    # The reads of what stands under some of the names, where they only name it.
    below: Callable[[tuple[str, ...]], tuple[HttpRequest, ...]] | None = None


class WalkedPage(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of a walk: some memories, and the reads that the walk continues with."""

    memories: tuple[ListedMemory, ...] = ()
    further: tuple[HttpRequest, ...] = ()
    # For a page of a list. Where that has memories, their keys are its names.
    part: ListPart | None = None


class Attempts(NamedTuple):
    """Requests by which `doctor` tries whether an agent can go past the gate to a server."""

    # A read without memories that the gate lets every agent make: it shows that the server runs.
    alive: HttpRequest
    read: HttpRequest
    # Of no form that the server takes, so it changes nothing where it is let in.
    write: HttpRequest
