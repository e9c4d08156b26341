"""The questions that a relay asks the sidecar about one message, in guard mode (docs/mcp.md).

A relay holds a connection and no credential; the guard holds the store, and each of its verdicts
is the gate's. Both may live in one process, or talk over the sidecar's own Unix socket: every value
of this module crosses that socket, so each is a bounded struct.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Protocol, TypeAlias

import msgspec
from msgspec import Meta

from policy.labels.effect import Effect
from policy.model import (
    METADATA_LEN_MAX,
    NAME_LEN_MAX,
    TEXT_LEN_MAX,
    CandidateId,
    ChangeKind,
    ForwardStatus,
    MemoryClass,
    Principal,
    SourceKind,
)
from policy.verdict import Reason

__all__ = [
    "ITEMS_MAX",
    "CallIdentity",
    "ForwardStatus",
    "Guard",
    "GuardAhead",
    "GuardedCall",
    "HostCall",
    "Item",
    "ItemVerdict",
    "Join",
    "PinState",
    "PinnedTool",
    "RelayedText",
    "UnsettledItem",
]

ITEMS_MAX = 256
BLOB_BYTES_MAX = 65_536
STRINGS_MAX = 65_536
TOOLS_MAX = 1_024

Name = Annotated[str, Meta(min_length=1, max_length=NAME_LEN_MAX)]


class Join(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ids of a tool call by which another front may recognise the same call.

    The ids are claims until that front has seen a call with one of them.
    """

    # The id of the call in Claude Code: `_meta["claudecode/toolUseId"]`.
    tool_use_id: Name | None = None
    call_id: Name | None = None  # the id of the call in Codex: `_meta.callId`
    session_id: Name | None = None
    thread_id: Name | None = None
    turn_id: Name | None = None


class Item(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that a tool call would write, delete or change.

    `pieces` are the strings a later read would show, in the order of the call; the candidate's
    `text` is the pieces joined by newlines. `arguments` is the canonical JSON (RFC 8785) of the
    call's arguments, with this item alone and each piece replaced by its index. Together with
    `pieces` it gives back the very call (`mcp.pieces.arguments_of`), so that a released candidate
    can be sent. The last pieces may be derived strings without a place in the call: decoded JSON in
    a string, joined names.
    """

    change: ChangeKind
    arguments: Annotated[str, Meta(max_length=METADATA_LEN_MAX)]
    pieces: Annotated[
        tuple[Annotated[str, Meta(max_length=TEXT_LEN_MAX)], ...], Meta(max_length=1_024)
    ]
    # Indexes of the pieces that only name something shared (an entity, a type, a tag). They are
    # judged like the others, but a read that shows such a word is not withheld for it.
    labels: Annotated[tuple[int, ...], Meta(max_length=1_024)] = ()
    # The key under which the server files the item, in the server's own words (an entity's name, a
    # path, an id).
    key: Annotated[str, Meta(max_length=1_024)] = ""
    memory_class: MemoryClass = MemoryClass.L3
    class_named: bool = False
    # Whether the call goes into a place that a host reads as instructions (`policy.places`).
    instructions: bool = False
    # What the call does to the text under the key; None where the tool map does not name it.
    effect: Effect | None = None
    scope_user: Name | None = None
    # Bytes without text that belong to the item, such as the client's vector. They are stored with
    # a held item, so that a release sends the call as it was made, and they are never parsed.
    blob: Annotated[bytes, Meta(max_length=BLOB_BYTES_MAX)] = b""
    # The path or block of a host that the call changes, and how many of the first pieces are lines
    # that it adds; it removes the others (`policy.labels.forwarded_call.ForwardedCall`).
    place: Annotated[str, Meta(max_length=1_024)] = ""
    came: int = -1


class GuardedCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call that would change the memories of one upstream server."""

    server: Name
    tool: Name
    items: Annotated[tuple[Item, ...], Meta(min_length=1, max_length=ITEMS_MAX)]
    join: Join = Join()
    # W3C traceparent of the call (`_meta.traceparent`), where the host sent one.
    traceparent: Annotated[str, Meta(max_length=64)] | None = None


class RefusedCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call that was refused before its items were judged; it has no leaf and no verdict.

    It has no name of a tool or server: its caller chose them, and may have spelled a text there.
    """

    reason: Reason
    traceparent: Annotated[str, Meta(max_length=64)] | None = None


class HostCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that an agent's host is about to make, as the host reports it to its hook.

    `arguments` is a JSON object. `call_id` is "" where the host gives no id; `folder` is the
    working directory in which relative paths begin.
    """

    tool: Name
    arguments: str
    call_id: Annotated[str, Meta(max_length=NAME_LEN_MAX)] = ""
    folder: Annotated[str, Meta(max_length=4_096)] = ""


class CallIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What identifies a model's call for a front and for the hook of the agent's host.

    `digest` covers what the call does, without what was known of its files before. `unnamed`: the
    host gave the hook no id, so `call_id` is a random one and the digest alone identifies the call.
    """

    call_id: str
    digest: str
    unnamed: bool = False


class ItemVerdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The verdict on one item, without any content of the item."""

    decision: str  # "admit", "hold", "reject" or "error", as in `WrittenItem`
    candidate_id: CandidateId | None
    memory_class: MemoryClass
    observation: Annotated[str, Meta(max_length=1_024)]
    reason: Reason | None = None
    step: int | None = None
    # The page where a person may confirm a held candidate; None where no listener serves it. A
    # relay of the sidecar's own uid gets a link that decides, others a page that asks for a key.
    confirm_url: Annotated[str, Meta(max_length=2_048)] | None = None


class RelayedText(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A text that a relayed tool, resource or prompt put into the agent's context."""

    server: Name
    tool: Name
    call_id: Name
    texts: Annotated[tuple[str, ...], Meta(max_length=STRINGS_MAX)]
    join: Join = Join()
    # The label of the segment: `tool_result`, or `unknown` where a server returns memories. A more
    # trusted label is refused.
    kind: SourceKind = SourceKind.TOOL_RESULT


class PinnedTool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool: its name, and the SHA-256 (hex) of canonical name, description and schemas."""

    name: Name
    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]


class PinState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether a server's tools are the approved ones; `changed` names those that are not."""

    approved: bool
    changed: Annotated[tuple[Name, ...], Meta(max_length=TOOLS_MAX)] = ()


class UnsettledItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An admitted item that the upstream server may lack.

    `sent` False: a person released the item, and it is to be sent now. True: the item was sent
    once, and the answer was lost.
    """

    candidate_id: CandidateId
    tool: Name
    change: ChangeKind
    arguments: str
    pieces: tuple[str, ...]
    key: str
    sent: bool
    # The item's blob, for a released item that has one.
    blob: bytes = b""


# Deletes a memory on a server, if it is unchanged; see `BackendWrites.erase`.
DeletesUpstream: TypeAlias = Callable[
    [Principal, UnsettledItem, Callable[[], Awaitable[bool]]], Awaitable[bool]
]


class RecordsOutcomes(Protocol):
    """Records what became of calls. Event loop only; raises as `Guard` does."""

    async def settle(
        self,
        principal: Principal,
        server: str,
        settled: tuple[tuple[CandidateId, ForwardStatus], ...],
    ) -> None:
        """Record the outcome of sent items: one result leaf each.

        A repeated report counts once.
        """
        ...

    async def refused(self, principal: Principal, call: RefusedCall) -> None:
        """Record a call that was refused unjudged, for telemetry alone."""
        ...


class Guard(RecordsOutcomes, Protocol):
    """Everything a relay may ask. Any number of calls at once; event loop only.

    Every method raises `StorageError` where the sidecar cannot answer, so that a relay refuses
    writes and withholds unsifted strings, and `MalformedRequest` where a value is out of bounds.
    """

    async def judge(self, principal: Principal, call: GuardedCall) -> tuple[ItemVerdict, ...]:
        """Judge a call; return one verdict per item, in order.

        The intent of an admitted item is durable when this returns. The relay must send the item
        and settle it, or settle it as FAILED.
        """
        ...

    async def sift(
        self,
        principal: Principal,
        server: str,
        strings: tuple[str, ...],
        seen: RelayedText | None = None,
    ) -> tuple[bool, ...]:
        """Check the strings of a read's answer; return True for each that must be withheld.

        If that is none, the segment `seen` is recorded as by `saw`, or not where it cannot be.
        """
        ...

    async def saw(self, principal: Principal, segment: RelayedText) -> None:
        """Record a segment that entered the agent's context, to name it as culprit later."""
        ...

    async def pin(
        self, principal: Principal, server: str, tools: tuple[PinnedTool, ...]
    ) -> PinState:
        """Compare a server's tools with those approved; the first list seen is approved."""
        ...

    async def unsettled(self, principal: Principal, server: str) -> tuple[UnsettledItem, ...]:
        """Items of this server to send (a person released them) or to look up (answer lost)."""
        ...

    async def decided(self, principal: Principal, candidate_id: CandidateId) -> ItemVerdict:
        """The decision on a held candidate: still "hold", or a person's decision."""
        ...


class GuardAhead(RecordsOutcomes, Protocol):
    """What a model front asks of the guard about a model's calls before the agent makes them.

    Event loop only; raises as `Guard` does.

    It is unknown whether a relay, the server itself, or no one will receive such a call.
    """

    async def judge_ahead(self, principal: Principal, call: GuardedCall) -> tuple[ItemVerdict, ...]:
        """Judge as `Guard.judge` does, but never reuse the verdicts of an earlier, equal call."""
        ...

    def server_of(self, principal: Principal, host_name: str) -> str | None:
        """The name under which this principal's relays know a server; None if no relay serves it.

        `host_name` is the name that the agent's host gives to the server.
        """
        ...

    def joined(self, principal: Principal, made: CallIdentity) -> bool:
        """Whether a call that a host's hook reports was admitted before the agent got it.

        An admission joins one call without an id, and any number of calls with its id.
        """
        ...

    async def hand_over(
        self,
        principal: Principal,
        made: CallIdentity,
        call: GuardedCall,
        judged: tuple[ItemVerdict, ...],
    ) -> None:
        """Record that the agent is about to get this call, whose items are all admitted.

        The first relay that gets the same call of this principal takes the verdicts over, and from
        then on it alone settles the items. Until a relay does, the front has to settle them.
        """
        ...

    def handed_over(self, principal: Principal) -> frozenset[str]:
        """The ids of this principal's handed-over calls that still wait for a relay or a result."""
        ...

    async def ended(self, principal: Principal, call_id: str, state: ForwardStatus) -> None:
        """Record the outcome of a call that was handed over, unless a relay has taken it over."""
        ...
