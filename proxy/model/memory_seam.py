"""The interface for loop coupling: what the model front asks of memory about a request.

The front only transports and edits. TurnBehind this interface it is decided what entered a context,
what is withheld from it and which call may write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from policy.labels.who_writes import SystemText, UserTurns
from proxy.dialects.model.confirm.history import TurnBehind  # noqa: TC001 - msgspec reads it
from proxy.dialects.model.memory_tools import Maps  # noqa: TC001 - msgspec reads it
from proxy.dialects.model.reading import AFRESH, Readings
from proxy.dialects.model.transcript import ModelRequest  # noqa: TC001 - msgspec reads it
from proxy.withhold.asking import NOWHERE, Conversation

if TYPE_CHECKING:
    from policy.model import Principal
    from proxy.dialects.model.api import ModelApi
    from proxy.dialects.model.transcript import ModelCall, ModelReply
    from proxy.dialects.sse import Event
    from proxy.dialects.strict_json.tolerant import Json
    from telemetry.events import TraceContext


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One model request of a principal, as it arrived."""

    principal: Principal
    api: ModelApi
    body: dict[str, Json]
    trace: TraceContext
    # The tools that write memory. `extracts`: a backend asks, and the answer itself is the write.
    maps: Maps
    extracts: bool = False
    # Who writes its user turns, where the operator said so.
    user_turns: UserTurns | None = None
    system_text: SystemText = SystemText.KNOWN
    # The tools that may be offered where a person is asked in the conversation; None: she is not.
    confirm: frozenset[str] | None = None
    # The cache of parts of earlier bodies.
    readings: Readings = AFRESH


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """The request in the form that may go upstream."""

    asked: Asked
    request: ModelRequest
    body: dict[str, Json]
    session: str
    # The conversation: for texts withheld in one conversation alone, and what a person typed in it.
    conversation: Conversation = NOWHERE
    # The last turn of a person, where it stands directly behind a question to her.
    answer: TurnBehind | None = None


class Undecided(Exception):  # noqa: N818 - a state of the principal, not a fault
    """A candidate of this principal is still undecided, so nothing may go upstream."""


class Filter(Protocol):
    """Filters the events of one request's reply: texts without what is withheld."""

    def feed(self, event: Event) -> list[Event]:
        """The events that go on now."""
        ...

    def end(self) -> list[Event]:
        """The remaining events at the end of a stream."""
        ...


class _Everything:
    def feed(self, event: Event) -> list[Event]:
        return [event]

    def end(self) -> list[Event]:
        return []


class Coupling(Protocol):
    """Event loop only; any number of requests at once."""

    async def prepare(self, asked: Asked) -> Prepared:
        """Wait for undecided candidates, note what enters the context, take out what is withheld.

        Raises:
            Undecided: A candidate was not decided in time.
            StorageError: What entered could not be made durable.
        """
        ...

    async def judge(
        self, prepared: Prepared, calls: tuple[ModelCall, ...]
    ) -> tuple[str | None, ...]:
        """For each whole call: None, or the text that the agent gets instead of it."""
        ...

    async def replied(self, prepared: Prepared, reply: ModelReply) -> None:
        """Note what the model said and called, before the agent can act on it."""
        ...

    def filter(self, prepared: Prepared) -> Filter:
        """A filter for the events of one streamed reply."""
        ...

    async def settled(self, principal: Principal) -> None:
        """Wait for undecided candidates; what is sent afterwards respects their verdicts."""
        ...

    def withholds(self, principal: Principal) -> bool:
        """Whether anything is withheld from this principal."""
        ...

    def carries(self, principal: Principal, text: str) -> bool:
        """Whether a text contains something refused."""
        ...

    def sieved(self, principal: Principal, value: Json) -> Json:
        """JSON without refused texts, on routes that ask no model."""
        ...

    def said(self, prepared: Prepared, body: dict[str, Json]) -> dict[str, Json]:
        """A whole reply without what is withheld; its calls were judged before."""
        ...

    def passing(self, principal: Principal) -> Filter:
        """A filter for the events of a stream in an unknown API."""
        ...

    async def closing(self, prepared: Prepared, said: str) -> str | None:
        """What the sidecar adds to a reply that the model ended, behind these words of it."""
        ...


class UnsafeUncoupled:
    """Passes everything: the control of tests that show the attack landing."""

    async def prepare(self, asked: Asked) -> Prepared:
        """The request as it came."""
        request = asked.api.read_request(asked.body, asked.readings)
        return Prepared(asked=asked, request=request, body=asked.body, session="")

    async def judge(
        self, prepared: Prepared, calls: tuple[ModelCall, ...]
    ) -> tuple[str | None, ...]:
        """Every call goes on."""
        del prepared
        return (None,) * len(calls)

    async def replied(self, prepared: Prepared, reply: ModelReply) -> None:
        """Nothing is noted."""
        del prepared, reply

    def filter(self, prepared: Prepared) -> Filter:
        """Nothing is withheld."""
        del prepared
        return _Everything()

    async def settled(self, principal: Principal) -> None:
        """Nothing is waited for."""
        del principal

    def withholds(self, principal: Principal) -> bool:
        """Nothing is withheld."""
        del principal
        return False

    def carries(self, principal: Principal, text: str) -> bool:
        """Nothing is withheld."""
        del principal, text
        return False

    def sieved(self, principal: Principal, value: Json) -> Json:
        """Nothing is withheld."""
        del principal
        return value

    def said(self, prepared: Prepared, body: dict[str, Json]) -> dict[str, Json]:
        """Nothing is withheld."""
        del prepared
        return body

    def passing(self, principal: Principal) -> Filter:
        """Nothing is withheld."""
        del principal
        return _Everything()

    async def closing(self, prepared: Prepared, said: str) -> str | None:
        """Nothing is added."""
        del prepared, said
        return None
