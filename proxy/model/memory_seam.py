"""A model request as the model front gives it to memory, and as it gets it back.

The front only transports and edits. `LedgerCoupling` decides what entered a context, what is
withheld from the context, and which tool call may write.
"""

from __future__ import annotations

import msgspec

from policy.model import Principal
from proxy.dialects.mcp.maps import ToolMap
from proxy.dialects.model.api import ModelApi
from proxy.dialects.model.memory_tools import Maps
from proxy.dialects.model.reading import AFRESH, Readings
from proxy.dialects.model.transcript import ModelRequest
from proxy.dialects.model.withheld import LeftUnchanged
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
