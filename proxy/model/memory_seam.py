"""The interface through which the model front asks memory what to do with a request.

The front only transports and edits. An implementation of this interface decides what entered a
context, what is withheld from the context, and which tool call may write.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from policy.model import Principal
from proxy.dialects.mcp.maps import ToolMap
from proxy.dialects.model.api import ModelApi
from proxy.dialects.model.memory_tools import Maps
from proxy.dialects.model.reading import AFRESH, Readings
from proxy.dialects.model.transcript import (
    ModelCall,
    ModelReply,
    ModelRequest,
)
from proxy.dialects.model.withheld import LeftUnchanged
from proxy.dialects.sse import Event
from proxy.dialects.strict_json.tolerant import Json
from proxy.seams.guard import HostCall
from proxy.withhold.request_withholding import NOWHERE, Conversation
from storage.features.recalls import InContext
from telemetry.events import TraceContext


class PrincipalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One model request of a principal, as it arrived."""

    principal: Principal
    api: ModelApi
    body: dict[str, Json]
    trace: TraceContext
    upstream: str = ""  # the name of the upstream's [[model]] table
    # What the request is sent with besides its body, without any credential.
    target: str = ""
    headers: dict[str, str] = {}
    # Tool maps of the tools that write memory. `extracts`: the client is a memory backend, and the
    # model's answer itself is the write.
    maps: Maps
    extracts: bool = False
    # The map by which the model's answer is judged as a write, because the request's schema asks
    # for that map's form; the answer is then edited like any other.
    answers: ToolMap | None = None
    # Whether the operator declared that user turns contain texts of others than the user.
    reads_foreign: bool = False
    # A cache of values that were read from parts of earlier bodies.
    readings: Readings = AFRESH


class PreparedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One model request without withheld texts, with its session and its conversation."""

    asked: PrincipalRequest
    request: ModelRequest
    body: dict[str, Json]
    session: str
    # The served memories that the request contains.
    memories: tuple[InContext, ...] = ()
    # The conversation, with the words that a person typed in it; some texts are withheld in one
    # conversation only.
    conversation: Conversation = NOWHERE
    # Parts of the request that withholding leaves unchanged; empty unless the request may be
    # replayed or the principal has a floor for reads.
    leave: LeftUnchanged = LeftUnchanged()
    # The call that a hook of the agent's host reports; no other part of the conversation is known.
    hooked: HostCall | None = None


class Filter(Protocol):
    """Removes withheld texts from the events of one reply."""

    def feed(self, event: Event) -> list[Event]:
        """Take the next event; return the events to forward now."""
        ...

    def end(self) -> list[Event]:
        """Return the events that still wait, at the end of a stream."""
        ...


class Coupling(Protocol):
    """Connects the model front to memory. Event loop only; any number of requests at once."""

    async def prepare(self, asked: PrincipalRequest) -> PreparedRequest:
        """Wait for undecided candidates, note what enters the context, remove withheld texts.

        Raises:
            StorageError: The note of what entered could not be made durable.
        """
        ...

    async def judge(
        self, prepared: PreparedRequest, calls: tuple[ModelCall, ...]
    ) -> tuple[str | None, ...]:
        """For each complete call: None to forward it, or the text that the agent gets instead."""
        ...

    async def replied(self, prepared: PreparedRequest, reply: ModelReply) -> None:
        """Note the model's words and calls, before the agent can act on them."""
        ...

    def filter(self, prepared: PreparedRequest) -> Filter:
        """A filter that removes withheld texts from the events of one streamed reply."""
        ...

    async def settled(self, principal: Principal) -> None:
        """Wait for undecided candidates, so that what is sent later respects their verdicts."""
        ...

    def withholds(self, principal: Principal) -> bool:
        """Whether any text is withheld from this principal."""
        ...

    def carries(self, principal: Principal, text: str) -> bool:
        """Whether a text contains a text that is withheld from this principal."""
        ...

    def sieved(self, principal: Principal, value: Json) -> Json:
        """A JSON value without refused texts, for routes that ask no model."""
        ...

    def said(self, prepared: PreparedRequest, body: dict[str, Json]) -> dict[str, Json]:
        """A whole reply with its withheld texts removed; its calls have been judged already."""
        ...

    def passing(self, principal: Principal) -> Filter:
        """A filter that removes withheld texts from a stream of an unknown API's events."""
        ...
