"""The messages between a relay and the gate on the gate's own Unix socket: JSON over HTTP.

Both ends are Mnemogate, perhaps in different versions, so the path contains a version number.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.model import CandidateId
from proxy.seams.guard import (
    STRINGS_MAX,
    TOOLS_MAX,
    ForwardStatus,
    GuardedCall,
    HostCall,
    ItemVerdict,
    Name,
    PinnedTool,
    PinState,
    RefusedCall,
    RelayedText,
    UnsettledItem,
)
from proxy.seams.operation import GraphOperation, GraphResult, Operation, Result

SOCKET: Final = "gate.sock"
API: Final = "/guard/1"
RELAY_HEADER: Final = "Mnemogate-Relay"
REQUEST_BYTES_MAX: Final = 1024 * 1024
"""The most bytes that a client puts into one request, unless a single part is longer."""
UNKNOWN_OUTCOME: Final = "outcome_unknown"

CandidateName = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$")]


class Settlement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of a `settle` request: the outcomes of items that were sent to a server."""

    server: Name
    settled: Annotated[tuple[tuple[CandidateName, ForwardStatus], ...], Meta(max_length=4_096)]

    def pairs(self) -> tuple[tuple[CandidateId, ForwardStatus], ...]:
        """Each item's candidate id with its outcome, as `Guard.settle` takes them."""
        return tuple((CandidateId(name), result) for name, result in self.settled)


class Strings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of a `sift` request: strings that a server's answer would show to the agent."""

    server: Name
    strings: Annotated[tuple[str, ...], Meta(max_length=STRINGS_MAX)]
    # The segment to record if none of the strings is withheld.
    seen: RelayedText | None = None


class ToolList(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of a `pin` request: the tools that a server lists now."""

    server: Name
    tools: Annotated[tuple[PinnedTool, ...], Meta(max_length=TOOLS_MAX)]


class ServerName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of an `unsettled` request: the server whose items are to be sent or looked up."""

    server: Name


class OneCandidate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of a `decided` request: the held candidate whose decision is asked for."""

    candidate_id: CandidateName


class Performance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of a `perform` request: an operation on the gate's own store.

    A relay in store mode sends it, because in that mode the sidecar is the memory server itself.
    """

    operation: Operation | GraphOperation
    traceparent: Annotated[str, Meta(max_length=64)] | None = None


class HostAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The gate's answer to a hook: why the host may not make a call; None if the host may."""

    refused: str | None = None


class EmptyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The gate's answer to a request that returns nothing."""


Asked = (
    GuardedCall
    | Settlement
    | Strings
    | RefusedCall
    | RelayedText
    | ToolList
    | ServerName
    | OneCandidate
)
ASKS: Final[dict[str, type[msgspec.Struct]]] = {
    "judge": GuardedCall,
    "settle": Settlement,
    "sift": Strings,
    "saw": RelayedText,
    "refused": RefusedCall,
    "pin": ToolList,
    "unsettled": ServerName,
    "decided": OneCandidate,
    "perform": Performance,
    "hooked": HostCall,
}

ENCODER: Final = msgspec.json.Encoder()
JUDGED: Final = msgspec.json.Decoder(tuple[ItemVerdict, ...])
ONE_JUDGED: Final = msgspec.json.Decoder(ItemVerdict)
SIFTED: Final = msgspec.json.Decoder(tuple[bool, ...])
HOST_ANSWER: Final = msgspec.json.Decoder(HostAnswer)
PIN_STATE: Final = msgspec.json.Decoder(PinState)
UNSETTLED: Final = msgspec.json.Decoder(tuple[UnsettledItem, ...])
RESULT: Final[msgspec.json.Decoder[Result | GraphResult]] = msgspec.json.Decoder(
    Result | GraphResult
)
