"""The structs in which the adapter of an upstream memory server describes requests and answers.

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
"""The member of an item's metadata that only the sidecar writes, and that no agent is shown."""


class Does(enum.Enum):
    """What a request to the server does with memories."""

    READ = "read"  # its answer shows memories, or how many there are
    WRITE = "write"
    REMOVE = "remove"
    OTHER = "other"  # concerns no memory; is forwarded, and its answer is not changed
    MAKE = "make"  # creates a collection; is forwarded only to a server of a known version
    ADMIN = "admin"  # administers the server; refused


class RoutedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The row of the adapter's route table that a request falls under."""

    does: Does
    # A word of a closed list, such as "add": it names the request in spans and verdicts, and is
    # the `tool` of every candidate.
    operation: str
    # Whether the answer is always rebuilt by `without`, because the read is forwarded as a read of
    # another kind: a count is forwarded as a list, for example.
    remade: bool = False
    # Whether a write creates nothing, as an update by id does. A memory that its writer may not
    # read is then treated as missing.
    changes_only: bool = False
    # Whether the request concerns the memories of all tenants, and no part of its answer can be
    # left out. It is served only where one tenant has the server for itself.
    whole: bool = False
    # Whether each memory of a write or deletion is forwarded in a request of its own, because no
    # request of the server concerns only some of them, or its answer does not name each.
    singly: bool = False


class SentMemory(msgspec.Struct, frozen=True, kw_only=True):
    """One memory that a request would write or delete.

    `item.arguments` is the canonical JSON of `{method, path, query, body}` for this memory alone,
    without credential and vector (`proxy.backends.kept_request`); `item.pieces` are its strings as
    a read would show them after the write, merged with the stored ones where the server merges.
    """

    item: Item
    # The client's vector, float32 little-endian: encrypted with a held candidate, never trusted.
    blob: bytes = b""


class ShownMemory(msgspec.Struct, frozen=True, kw_only=True):
    """One memory in an answer: its key, the strings shown of it, and its place in the answer.

    Where a memory is left out, the driver fills its place with a further memory of the same
    `group`, such as the answer to one of several queries.
    """

    # The key in the form of `Item.key`; "" for a part of an answer that is no single memory.
    key: str
    strings: tuple[str, ...]
    place: int
    # Whether `key` is the beginning of many keys, as a folder's is. The entry is shown where the
    # reader has a memory whose key begins with it, or where no one is known to have one.
    is_prefix: bool = False
    group: int = 0
    # Whether the item has the mark with which `forward` sends a memory. The item is shown only
    # while the store has a memory under this key: not before its outcome is recorded, for example.
    is_marked: bool = False
    # Whether the server's item has the field of a quarantined memory. It is then shown to no one,
    # whatever the store has for it.
    is_tagged: bool = False
    # Whether the item has a form that the adapter cannot interpret. It is shown to no one either.
    is_withheld: bool = False
    # Whether it is an earlier version of the memory under `key`. It is shown where the reader has a
    # memory under the key now, and live memories under the key have each of its strings.
    is_past: bool = False
    # The ones of `strings` that the server generates itself; no write through the gate has them.
    made_there: tuple[str, ...] = ()

    @property
    def said(self) -> tuple[str, ...]:
        """The strings that came in with some write, without those that the server generates."""
        if not self.made_there:
            return self.strings
        return tuple(one for one in self.strings if one not in self.made_there)


class ReadPage(msgspec.Struct, frozen=True, kw_only=True):
    """The page of a read's memories that is shown, within each of its groups."""

    offset: int
    # None: all memories after `offset`.
    limit: int | None
    # The most memories that the server returns in one answer.
    most: int

    @property
    def end(self) -> int | None:
        """The number of memories up to the end of this page, counted from the first; None: all."""
        return None if self.limit is None else self.offset + self.limit


class SendOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of sending one memory, and the key that the server gave it; "" if none."""

    state: ForwardStatus
    key: str = ""


class ItemDue(msgspec.Struct, frozen=True, kw_only=True):
    """One request about a server's item that is due because its memory is hidden or shown again.

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

    `item` is the `SentMemory.item` of a creation of this memory, or None where no write through the
    gate could have created it, because of its size or its form.
    """

    # The key in the form of `Item.key`, or near to that form where `item` is None.
    key: str
    item: Item | None


class ListPart(NamedTuple):
    """One page of a list that the server returns in pages, addressed by number of entry.

    Entries that are deleted between two pages move the rest of the list towards its beginning. A
    walk compares the names of entries, so that it notices a page that begins past an unread entry.
    """

    # The names of the page's entries, in the server's order.
    names: tuple[str, ...]
    # False: the list ends with this page.
    is_full: bool
    # The read of the page that begins with the entry of this number.
    begin: Callable[[int], HttpRequest]
    # The reads of the memories under some of the names, where the page has only names.
    below: Callable[[tuple[str, ...]], tuple[HttpRequest, ...]] | None = None


class WalkedPage(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of a walk through a server: some memories, and the reads to continue with."""

    memories: tuple[ListedMemory, ...] = ()
    further: tuple[HttpRequest, ...] = ()
    # Set for a page of a list. Where the page has memories, their keys are its names.
    part: ListPart | None = None


class Attempts(NamedTuple):
    """The requests by which `doctor` tries whether an agent can reach a server without the gate."""

    # A read without memories that the gate lets every agent make: it shows that the server runs.
    alive: HttpRequest
    read: HttpRequest
    # A request that the server rejects as malformed, so that it changes nothing if it gets there.
    write: HttpRequest
