"""What an operator's commands ask of the adapter of a memory server: all that the server has.

A walk over a server is a chain of reads. Each answer gives some memories, and the reads that the
walk continues with, so that nobody ever holds more than a page of memories.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from policy.model import Tenant
from proxy.seams.guard import (
    Item,
    Unsettled,
)
from proxy.seams.operation import (
    HttpReply,
    HttpRequest,
)


class ListedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """One memory that the server has.

    `item` is what a write of this very memory would be kept as (`Sending.item`, a creation); None
    where no write through the gate could have made it, because of its size or its form.
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


class ListsAll(Protocol):
    """How one kind of server is walked. Pure, as the rest of its adapter is."""

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

    def reading(self, kept: Unsettled) -> HttpRequest:
        """The read of the one memory that stands under the key of a kept item.

        Only the places in the item count: its texts may be left out.
        """
        ...

    def says_same(self, kept: Unsettled, found: Item) -> bool:
        """Whether a memory on the server says what was judged, its texts above all.

        Raises:
            MalformedRequest: One of the two was not made by this adapter.
        """
        ...

    def mark_of(self, found: Item) -> str | None:
        """The mark with which `HttpBackend.forward` sent a listed memory; None if it has none.

        Raises:
            MalformedRequest: It was not made by this adapter.
        """
        ...

    def attempts(self) -> Attempts:
        """The requests by which `doctor` tries to go past the gate."""
        ...
