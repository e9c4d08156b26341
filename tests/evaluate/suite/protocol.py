"""The adapter protocol: one JSON object in, one JSON object out, for every operation.

An implementation in any language answers lines on its standard input. It must
answer `hello`, `reset`, `remember`, `recall` and `files`; to anything it cannot express it says
`{"na": "why"}`, which makes a scenario that needs it "n/a", never a pass and never a failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from proxy.dialects.strict_json.strict import JsonValue

ADMITTED: Final = "admitted"
HELD: Final = "held"
REFUSED: Final = "refused"


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operation.

    `actor` says on whose channel the operation comes; labels in other fields are only claims.
    """

    op: str
    # agent: an agent whose labels are only its own claims. harness: an agent whose labels the
    # operator vouches for. person, operator: channels bound to these. vouched-person: a person's
    # channel whose labels are trusted. stranger: another tenant's agent.
    actor: str = msgspec.field(name="as", default="agent")
    text: str | None = None
    memory_class: str | None = msgspec.field(name="class", default=None)
    source: str | None = None
    nonce: str | None = None
    # The id of a memory to change, delete, quarantine or purge, as `remember` returned it.
    id: str | None = None
    derived_from: tuple[str, ...] = ()
    target: str | None = None
    metadata: Mapping[str, JsonValue] | None = None
    promotion_token: str | None = None
    query: str | None = None
    statement: str | None = None


class Item(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One memory that a recall showed, with labels if the implementation has any."""

    text: str
    source: str | None = None
    memory_class: str | None = msgspec.field(name="class", default=None)


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one operation."""

    # Why the implementation cannot express this; None if it can.
    na: str | None = None
    decision: str | None = None
    id: str | None = None
    # Everything that the caller was told, as one text.
    said: str = ""
    items: tuple[Item, ...] = ()
    # Every path at which the implementation stores bytes; a folder stands for all files below it.
    files: tuple[str, ...] = ()
    version: int | None = None
    name: str | None = None


class Adapter(Protocol):
    """One implementation under test."""

    async def do(self, request: Request) -> Reply:
        """Perform one operation."""
        ...

    async def close(self) -> None:
        """Release everything that the adapter holds."""
        ...
