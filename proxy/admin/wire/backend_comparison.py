"""Requests and answers about memory servers behind the gate that speak HTTP.

No answer has a text of a memory.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from proxy.admin.wire.route import INDEX_MAX, get, post
from proxy.admin.wire.upkeep import AdoptRequest, AdoptView
from proxy.seams.guard import Item

COMPARED_AT_ONCE = 64


class CompareRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Memories that a server has, as its adapter lists them."""

    items: Annotated[tuple[Item, ...], Meta(min_length=1, max_length=COMPARED_AT_ONCE)]


class ComparedView(msgspec.Struct, frozen=True, kw_only=True):
    """How one of them stands here."""

    # "same"; "different": its text is not the one that was sent; "foreign": no verdict let it in;
    # "hidden": under quarantine, or erased here; "unsettled": a change of it is on its way;
    # "marked": sent by a gate, and no record here says that it arrived, so nobody is shown it.
    state: str
    tenant: str | None = None
    memory_id: str | None = None
    # The number of the row here, by which a caller can tick it off.
    number: int | None = None


class CompareView(msgspec.Struct, frozen=True, kw_only=True):
    """The results, in the order in which the memories were given."""

    compared: tuple[ComparedView, ...]


class KeptQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From which row on."""

    after: Annotated[int, Meta(ge=0, le=INDEX_MAX)] = 0


class KeptView(msgspec.Struct, frozen=True, kw_only=True):
    """One memory that the server should have, and where: `arguments` has no text of it."""

    number: int
    tenant: str
    memory_id: str
    candidate_id: str
    tool: str
    key: str
    arguments: str
    piece_count: int


class KeptList(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the live memories that the server should have, in the order of their rows."""

    kept: tuple[KeptView, ...]
    # What to ask on with; None at the end.
    next: int | None


COMPARE: Final = post(
    "/backends/{backend}/compare",
    CompareRequest,
    CompareView,
    "How memories that a server has stand here: the same, different, or let in by no verdict.",
    slow=True,
)
KEPT: Final = get(
    "/backends/{backend}/kept",
    KeptQuery,
    KeptList,
    "Live memories that a server should have, without their texts.",
    slow=True,
)
ADOPT_FOUND: Final = post(
    "/backends/{backend}/adopt",
    AdoptRequest,
    AdoptView,
    "Take in, as of unknown origin, what a server has and no verdict let in.",
    slow=True,
)
